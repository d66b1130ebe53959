package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/doctor/leak"
)

// leakFlags are the flags of the leak test of isr doctor.
type leakFlags struct {
	URL      string   `name:"url" env:"-" placeholder:"URL" help:"Also test the site for leaks: page of the site, through isr; links of the same host are followed from here."`
	Origin   string   `env:"-" placeholder:"URL" help:"URL of the site behind isr. It is examined if neither a server nor a file names it, and the leak test compares pages with it. Without it, the test compares with requests that bypass the cache by an unknown query parameter."`
	Path     []string `sep:"none" env:"-" placeholder:"PATH" help:"Test this page, and follow no links; repeatable."`
	Sitemap  string   `env:"-" placeholder:"URL" help:"Test the pages of this sitemap, and follow no links."`
	From     string   `env:"-" placeholder:"FILE" help:"Test the pages of this file, one path or URL per line, and follow no links; - is standard input."`
	CookieA  []string `sep:"none" env:"-" placeholder:"NAME=VALUE" help:"Cookie of the identity A, such as a session cookie; repeatable. Without identities, the test invents some."`
	CookieB  []string `sep:"none" env:"-" placeholder:"NAME=VALUE" help:"Cookie of the identity B; repeatable."`
	HeaderA  []string `sep:"none" env:"-" placeholder:"NAME: VALUE" help:"Request header of the identity A, such as Authorization; repeatable."`
	HeaderB  []string `sep:"none" env:"-" placeholder:"NAME: VALUE" help:"Request header of the identity B; repeatable."`
	CanaryA  string   `env:"-" placeholder:"TEXT" help:"Text that only A's pages have, such as A's name."`
	CanaryB  string   `env:"-" placeholder:"TEXT" help:"Text that only B's pages have."`
	MaxPages int      `env:"-" default:"50" placeholder:"N" help:"Pages to test, at most 1000 (${default})."`
	Rate     float64  `env:"-" default:"5" placeholder:"N" help:"Requests a second, at most 100 (${default})."`
	Timeout  cli.Span `env:"-" default:"10s" placeholder:"TIME" help:"Time limit of a request of the leak test (${default})."`
}

// leakTest returns the configuration of the leak test; nil if there is no --url.
func (c *leakFlags) leakTest(ctx context.Context, in io.Reader) (*leak.Config, error) {
	if c.URL == "" {
		if alone := len(c.Path) + len(c.CookieA) + len(c.CookieB) + len(c.HeaderA) + len(c.HeaderB) + len(c.Sitemap+c.From+c.CanaryA+c.CanaryB); alone > 0 {
			return nil, errors.New("pages, identities and canaries are for the leak test; give the site with --url URL")
		}
		return nil, nil
	}
	cfg, err := c.config(ctx, in)
	if err == nil {
		err = cfg.Validate()
	}
	return &cfg, err
}

func (c *leakFlags) config(ctx context.Context, in io.Reader) (cfg leak.Config, err error) {
	cfg = leak.Config{
		Pages: c.Path, CanaryA: c.CanaryA, CanaryB: c.CanaryB,
		MaxPages: c.MaxPages, Rate: c.Rate, Timeout: time.Duration(c.Timeout),
	}
	if cfg.URL, err = siteURL("--url", c.URL); err != nil {
		return cfg, err
	}
	if c.Origin != "" {
		if cfg.Origin, err = siteURL("--origin", c.Origin); err != nil {
			return cfg, err
		}
	}
	if cfg.A, err = identity("a", c.CookieA, c.HeaderA); err != nil {
		return cfg, err
	}
	if cfg.B, err = identity("b", c.CookieB, c.HeaderB); err != nil {
		return cfg, err
	}
	if c.From != "" {
		listed, err := pagesFrom(c.From, in)
		if err != nil {
			return cfg, err
		}
		cfg.Pages = append(cfg.Pages, listed...)
	}
	if c.Sitemap != "" {
		at, err := siteURL("--sitemap", c.Sitemap)
		if err != nil {
			return cfg, err
		}
		listed, err := leak.Sitemap(ctx, cfg, at, leak.MaxPages)
		if err != nil {
			return cfg, err
		}
		cfg.Pages = append(cfg.Pages, listed...)
	}
	return cfg, nil
}

func siteURL(flag, text string) (*url.URL, error) {
	u, ok := cli.ParsePageURL(text)
	if !ok {
		return nil, fmt.Errorf("%s %q is not a URL; expected one like https://example.com/", flag, canonical.Shown(text))
	}
	return u, nil
}

// identity returns the headers of an identity; nil if there is none.
func identity(name string, cookies, headers []string) (http.Header, error) {
	var h http.Header
	add := func(name, value string) {
		if h == nil {
			h = make(http.Header)
		}
		h.Add(name, value)
	}
	for _, text := range cookies {
		if cookie, _, found := strings.Cut(text, "="); !found || cookie == "" || strings.ContainsAny(text, ";\r\n") {
			return nil, fmt.Errorf("--cookie-%s must be NAME=VALUE, one cookie each time", name)
		}
	}
	if len(cookies) > 0 {
		add("Cookie", strings.Join(cookies, "; "))
	}
	for _, text := range headers {
		header, value, found := strings.Cut(text, ":")
		if !found || strings.TrimSpace(header) == "" || strings.ContainsAny(text, "\r\n") {
			return nil, fmt.Errorf("--header-%s must be NAME: VALUE", name)
		}
		add(strings.TrimSpace(header), strings.TrimSpace(value))
	}
	return h, nil
}

// pagesFrom reads paths or URLs, one per line. Empty lines and those that begin with '#' are
// skipped.
func pagesFrom(path string, in io.Reader) (pages []string, err error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if pages = append(pages, line); len(pages) > leak.MaxPages {
			return nil, fmt.Errorf("%s has more than %d pages", path, leak.MaxPages)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(pages) == 0 {
		return nil, fmt.Errorf("%s names no pages", path)
	}
	return pages, nil
}
