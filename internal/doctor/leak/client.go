package leak

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
	"golang.org/x/net/html"
)

// A client sends GET requests at a bounded rate. It follows no redirects and keeps no cookies.
type client struct {
	http     *http.Client
	interval time.Duration
	last     time.Time
	requests int
}

func newClient(cfg Config) *client {
	transport := cfg.Transport
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxResponseHeaderBytes: 256 << 10, ForceAttemptHTTP2: true}
	}
	return &client{
		http: &http.Client{
			Transport: transport, Timeout: cfg.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		interval: time.Duration(float64(time.Second) / cfg.Rate),
	}
}

// An answer is a response, with the first 2 MiB of its body.
type answer struct {
	status int
	header http.Header
	body   []byte
	cache  cacheStatus
}

// pause waits. It returns an error if ctx ends first.
func (c *client) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// get requests a URL. host, if not empty, is the Host of the request.
func (c *client) get(ctx context.Context, u *url.URL, host string, header http.Header) (*answer, error) {
	if err := c.pause(ctx, time.Until(c.last.Add(c.interval))); err != nil {
		return nil, err
	}
	c.last = time.Now()
	c.requests++
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", desktop)
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	r.Header.Set("Accept-Language", "en")
	for name, values := range header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	r.Host = host
	res, err := c.http.Do(r)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", u, err)
	}
	return &answer{res.StatusCode, res.Header, body, parseCacheStatus(res.Header["Cache-Status"])}, nil
}

const (
	desktop = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36 isr-doctor"
	mobile  = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1 isr-doctor"
)

// A cacheStatus is what isr says of a response (RFC 9211).
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

// links returns the references of the links of an HTML page, at most 1,000.
func (a *answer) links() (links []string) {
	if !strings.Contains(a.header.Get("Content-Type"), "html") {
		return nil
	}
	for z := html.NewTokenizer(bytes.NewReader(a.body)); len(links) < 1000; {
		switch z.Next() {
		case html.ErrorToken:
			return links
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			isLink := string(name) == "a"
			for more {
				var key, value []byte
				if key, value, more = z.TagAttr(); isLink && string(key) == "href" {
					links = append(links, string(value))
				}
			}
		}
	}
	return links
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

// maxSitemaps bounds the files of a sitemap index that are read.
const maxSitemaps = 10

// Sitemap returns the pages of a sitemap, or of the first ten of a sitemap index, on the host
// of u, at most limit.
func Sitemap(ctx context.Context, cfg Config, u *url.URL, limit int) ([]string, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := newClient(cfg)
	queue, pages := []*url.URL{u}, []string{}
	for read := 0; len(queue) > 0 && read < maxSitemaps && len(pages) < limit; read++ {
		at := queue[0]
		queue = queue[1:]
		if at.Host != cfg.URL.Host {
			return nil, fmt.Errorf("the sitemap %s is on another host than %s", at, cfg.URL.Host)
		}
		a, err := c.get(ctx, at, "", nil)
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("status %d", a.status)
		}
		var found struct {
			Pages []string `xml:"url>loc"`
			Maps  []string `xml:"sitemap>loc"`
		}
		if err == nil {
			err = xml.Unmarshal(a.body, &found)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the sitemap %s: %w", at, err)
		}
		for _, text := range found.Maps {
			if next, err := u.Parse(strings.TrimSpace(text)); err == nil && next.Host == cfg.URL.Host {
				queue = append(queue, next)
			}
		}
		for _, text := range found.Pages {
			if page, err := u.Parse(strings.TrimSpace(text)); err == nil && page.Host == cfg.URL.Host && len(pages) < limit {
				pages = append(pages, page.String())
			}
		}
	}
	if len(pages) == 0 {
		return nil, errors.New("the sitemap names no page of " + cfg.URL.Host)
	}
	return pages, nil
}
