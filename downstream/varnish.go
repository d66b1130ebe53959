package downstream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Bounds of a request to Varnish: the tags of one request, of which Varnish reads 8 KB a
// header line, and the length of a tag.
const (
	varnishTags      = 64
	varnishTagBytes  = 4096
	varnishTagLength = 1024
	varnishTargets   = 200
)

// varnishPurged is a header of the responses of the VCL in docs/cdn.md. Without it, the
// request may have been answered by the site behind Varnish.
const varnishPurged = "X-Purged"

// Varnish is a Varnish server with the VCL in docs/cdn.md:
//
//	PURGE <path>, Host: <host>              a page; Soft-Purge: 1
//	PURGE /, xkey-purge: a b                tags, with vmod xkey; xkey-softpurge: a b
//	BAN /, X-Ban-Url: ^example\.com/blog/   prefixes, as a regular expression of host
//	                                        and path; always hard
//
// The response has status 200 and the header X-Purged, whatever the number of objects.
type Varnish struct {
	api *caller
}

// NewVarnish returns the server at endpoint, a URL without a path. The token, which may be
// nil, is sent as "Authorization: Bearer".
func NewVarnish(endpoint string, token Token) *Varnish {
	return &Varnish{api: newCaller(endpoint, token, bearer)}
}

// Limits implements [Destination].
func (v *Varnish) Limits() Limits {
	return Limits{Targets: varnishTargets, Debounce: 50 * time.Millisecond}
}

// Deliver implements [Destination].
func (v *Varnish) Deliver(ctx context.Context, b Batch) error {
	s := selectionOf(b.Targets)
	if s.all || !allPrintable(s.tags, varnishTagLength, ",") {
		return v.ban(ctx, ".")
	}
	for _, host := range s.hosts {
		if err := v.ban(ctx, "^"+banPattern(host+"/")); err != nil {
			return err
		}
	}
	for _, p := range s.prefixes {
		if err := v.ban(ctx, "^"+banPattern(p.String())); err != nil {
			return err
		}
	}
	name := "xkey-softpurge"
	if b.Hard {
		name = "xkey-purge"
	}
	for tags := range slices.Chunk(s.tags, varnishTags) {
		for _, line := range lines(tags, varnishTagBytes) {
			if err := v.request(ctx, "PURGE", "/", "", http.Header{http.CanonicalHeaderKey(name): {line}}); err != nil {
				return err
			}
		}
	}
	for _, page := range s.pages {
		header := make(http.Header)
		if !b.Hard {
			header.Set("Soft-Purge", "1")
		}
		if err := v.request(ctx, "PURGE", page.path, page.host, header); err != nil {
			return err
		}
	}
	return nil
}

// lines joins texts by spaces into lines of at most limit bytes, or of one text.
func lines(texts []string, limit int) []string {
	var all []string
	for _, text := range texts {
		if n := len(all); n > 0 && len(all[n-1])+1+len(text) <= limit {
			all[n-1] += " " + text
			continue
		}
		all = append(all, text)
	}
	return all
}

func (v *Varnish) ban(ctx context.Context, pattern string) error {
	return v.request(ctx, "BAN", "/", "", http.Header{"X-Ban-Url": {pattern}})
}

// banPattern returns the regular expression of a text. Expressions of bans are split at
// spaces and quotes, and lines of a header end at control characters: those are
// percent-encoded, as they are in URLs.
func banPattern(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c <= ' ' || c > '~' || c == '"' || c == '\'' || c == '\\' {
			b.WriteString(url.QueryEscape(string([]byte{c})))
			continue
		}
		b.WriteByte(c)
	}
	return regexp.QuoteMeta(strings.ReplaceAll(b.String(), "+", "%20"))
}

func (v *Varnish) request(ctx context.Context, method, path, host string, header http.Header) error {
	answer, err := v.api.send(ctx, method, path, host, header, nil)
	if err == nil && answer.header.Get(varnishPurged) == "" {
		return &RetryError{After: configurationRetry, Err: errors.New("the response of Varnish has no header X-Purged: install the VCL of docs/cdn.md, and allow the address of this server to purge")}
	}
	return err
}
