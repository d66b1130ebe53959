package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/draft"
)

// DraftCommand is isr draft: it prints a link with which an editor sees drafts.
type DraftCommand struct {
	URL    string   `arg:"" name:"url" help:"URL of the page, like https://example.com/post/1."`
	For    cli.Span `env:"-" default:"1h" placeholder:"TIME" help:"How long the link and what it opens are valid, 1s to 30d (${default})."`
	Scope  string   `env:"-" default:"/" placeholder:"PATH" help:"Path below which drafts are shown (${default}, all of the host)."`
	Config string   `default:"isr.yaml" placeholder:"FILE" help:"Configuration file of the server, which names the secret (${default})."`
}

// Help returns the text below the usage line.
func (c *DraftCommand) Help() string {
	return `Prints a URL with a token. A browser that opens it gets a cookie, with which its requests bypass the cache and reach
the origin with the header X-Isr-Draft: 1, so that it shows unpublished content. The URL with ?isr-draft=off ends that.

The file needs a secret: draft: {secrets: [{file: /run/secrets/isr-draft}]}. See docs/drafts.md.`
}

// Run executes the command. Invalid flags are a [cli.UsageError].
func (c *DraftCommand) Run(s *cli.Streams) error {
	u, ok := cli.ParsePageURL(c.URL)
	if !ok {
		return cli.Usagef("%q is not the URL of a page; expected one like https://example.com/post/1", canonical.Shown(c.URL))
	}
	host, ok := canonical.Host(u.Host)
	if !ok {
		return cli.Usagef("%q is not a host name", u.Host)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	life := time.Duration(c.For)
	if life < time.Second || life > draft.MaxLife {
		return cli.Usagef("--for must be between 1s and 30d (got %s)", life)
	}
	f, err := ReadConfig(c.Config)
	if err != nil {
		return err
	}
	secrets, err := draftSecrets(f)
	switch {
	case err != nil:
		return err
	case len(secrets) == 0:
		return fmt.Errorf("%s has no secret for drafts; add draft: {secrets: [{file: PATH}]}, with a file made by: openssl rand -base64 32", c.Config)
	}
	token, err := draft.Sign(secrets[0], draft.Grant{Host: host, Scope: c.Scope, Expires: time.Now().Add(life)})
	if err != nil {
		return cli.Usagef("--scope: %v", err)
	}
	if _, err := draft.Verify(secrets, token, host, u.EscapedPath(), time.Now()); err != nil {
		return cli.Usagef("%s is not below --scope %s, so that the link would not open it", u.EscapedPath(), c.Scope)
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += draft.Name + "=" + token
	_, err = fmt.Fprintln(s.Out, u.String())
	return err
}

// draftSecrets reads the secrets for drafts; none if the file names none.
func draftSecrets(f *config.File) ([]string, error) {
	var secrets []string
	for _, s := range f.Draft.Secrets {
		text, err := s.Read()
		if err != nil {
			return nil, fmt.Errorf("draft.secrets: %w", err)
		}
		secrets = append(secrets, text)
	}
	if len(secrets) == 0 {
		return nil, nil
	}
	if err := draft.CheckSecrets(secrets); err != nil {
		return nil, fmt.Errorf("draft.secrets: %w", err)
	}
	return secrets, nil
}

// withDrafts adds draft mode to a handler of the site, if there are secrets.
func withDrafts(secrets []string, site *gateway.Site, next http.Handler) http.Handler {
	if len(secrets) == 0 {
		return next
	}
	return gateway.Drafts(secrets, site, next)
}
