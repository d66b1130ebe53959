package leak

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/facetheory/isr/internal/sitemap"
	"github.com/facetheory/isr/internal/visit"
)

// A client visits pages, and reads their Cache-Status.
type client struct{ *visit.Client }

func newClient(cfg Config) *client {
	return &client{visit.New(visit.Config{Agent: desktop, Rate: cfg.Rate, Timeout: cfg.Timeout, Transport: cfg.Transport})}
}

// An answer is a response, with the first 2 MiB of its body.
type answer struct {
	status int
	header http.Header
	body   []byte
	cache  cacheStatus
	links  func() []string
}

// get requests a URL. host, if not empty, is the Host of the request.
func (c *client) get(ctx context.Context, u *url.URL, host string, header http.Header) (*answer, error) {
	a, err := c.Get(ctx, u, host, header)
	if err != nil {
		return nil, err
	}
	return &answer{a.Status, a.Header, a.Body, parseCacheStatus(a.Header["Cache-Status"]), a.Links}, nil
}

const (
	desktop = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36 isr-doctor"
	mobile  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1 isr-doctor"
)

// A cacheStatus is isr's member of Cache-Status in a response (RFC 9211).
type cacheStatus struct {
	text   string // of the member of isr; empty if there is none
	hit    bool   // some cache had the response
	bypass bool   // isr passed the request to the origin
	detail string
}

func parseCacheStatus(lines []string) (s cacheStatus) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return s
	}
	for _, member := range list {
		item, ok := member.(httpsfv.Item)
		if !ok {
			continue
		}
		if hit, _ := item.Params.Get("hit"); hit == true {
			s.hit = true
		}
		if fmt.Sprint(item.Value) != "isr" {
			continue
		}
		s.text, _ = httpsfv.Marshal(item)
		fwd, _ := item.Params.Get("fwd")
		s.bypass = fmt.Sprint(fwd) == "bypass"
		if detail, ok := item.Params.Get("detail"); ok {
			s.detail = fmt.Sprint(detail)
		}
	}
	return s
}

// mentions reports whether a response has a text, in its body or in a header.
func (a *answer) mentions(text string) bool {
	if text == "" {
		return false
	}
	for _, values := range a.header {
		for _, v := range values {
			if strings.Contains(v, text) {
				return true
			}
		}
	}
	return bytes.Contains(a.body, []byte(text))
}

// changing matches what often differs between two renders of one page: nonces, hashes, times.
var changing = regexp.MustCompile(`[A-Za-z0-9+/_-]{16,}|\d+`)

// content is what is compared of a response. rough leaves out numbers and long tokens.
func (a *answer) content(rough bool) string {
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		if telling(name) {
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(a.header[name], ", "))
		}
	}
	b.Write(a.body)
	text := b.String()
	if rough {
		text = changing.ReplaceAllString(text, "#")
	}
	return text
}

// telling reports whether a response field, given in canonical form, decides what a visitor or a
// script gets of a page, so that responses with other values of it are other pages. It is no list
// of all fields: many are about one response, or are set by proxies, such as Date and ETag.
func telling(name string) bool {
	switch name {
	case "Content-Disposition", "Content-Language", "Content-Location", "Content-Type", "Cross-Origin-Embedder-Policy", "Cross-Origin-Opener-Policy",
		"Cross-Origin-Resource-Policy", "Link", "Location", "Refresh", "Timing-Allow-Origin", "X-Frame-Options", "X-Robots-Tag":
		return true
	}
	for _, prefix := range []string{"Access-Control-", "Hx-", "X-Inertia", "Turbo-", "X-Up-"} { // the last four are read by scripts of pages
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Sitemap returns the pages of a sitemap, or of a sitemap index, on the host of u, at most limit.
func Sitemap(ctx context.Context, cfg Config, u *url.URL, limit int) ([]string, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if u.Host != cfg.URL.Host {
		return nil, fmt.Errorf("the sitemap %s is on another host than %s", u, cfg.URL.Host)
	}
	in := sitemap.Reader{Serves: func(host string) bool { return host == cfg.URL.Host }, Transport: newClient(cfg).Transport()}
	pages := []string{}
	for page, err := range in.URLs(ctx, u.String()) {
		if err != nil {
			return nil, err
		}
		if pages = append(pages, page); len(pages) == limit {
			break
		}
	}
	if len(pages) == 0 {
		return nil, errors.New("the sitemap names no page of " + cfg.URL.Host)
	}
	return pages, nil
}
