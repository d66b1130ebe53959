// Package visit requests pages of a site as a polite visitor: GET only, one request at a time, at a bounded rate,
// with bounded bodies. It follows no redirects and keeps no cookies.
package visit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"
)

// MaxBody is how many bytes of a body are read; the rest is left.
const MaxBody = 2 << 20

// maxLinks bounds the links that are taken from a page.
const maxLinks = 1000

// ErrSpent is returned once a client has sent as many requests as it may.
var ErrSpent = errors.New("all requests are spent")

// A Config bounds a client.
type Config struct {
	// Agent is the User-Agent of the requests.
	Agent string
	// Rate is the largest number of requests a second. Required.
	Rate float64
	// Timeout bounds a request with its body. Required.
	Timeout time.Duration
	// Requests is how many requests may be sent; 0 if there is no bound.
	Requests int
	// Transport sends the requests. Nil means a transport of its own.
	Transport http.RoundTripper
}

// A Client requests pages. It is used by one goroutine.
type Client struct {
	agent string
	http  *http.Client
	paced *paced
}

// New returns a client.
func New(cfg Config) *Client {
	transport := cfg.Transport
	if transport == nil {
		transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableCompression: true, MaxResponseHeaderBytes: 256 << 10, ForceAttemptHTTP2: true}
	}
	p := &paced{next: transport, interval: time.Duration(float64(time.Second) / cfg.Rate), limit: cfg.Requests}
	return &Client{agent: cfg.Agent, paced: p, http: &http.Client{
		Transport: p, Timeout: p.interval + cfg.Timeout, // the wait is part of a request
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Requests returns how many requests were sent.
func (c *Client) Requests() int { return c.paced.sent }

// Transport returns the transport of the client, so that other readers send their requests at its rate and within
// its bound.
func (c *Client) Transport() http.RoundTripper { return c.paced }

// A paced transport waits before a request, and counts.
type paced struct {
	next     http.RoundTripper
	interval time.Duration
	limit    int
	last     time.Time
	sent     int
}

func (p *paced) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.limit > 0 && p.sent >= p.limit {
		return nil, fmt.Errorf("%w: %d", ErrSpent, p.limit)
	}
	select {
	case <-time.After(time.Until(p.last.Add(p.interval))):
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	p.last = time.Now()
	p.sent++
	return p.next.RoundTrip(r)
}

// An Answer is a response, with the first [MaxBody] bytes of its body.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Took   time.Duration // from the request to the end of the body
}

// Get requests a URL. host is the Host of the request if it is not empty.
func (c *Client) Get(ctx context.Context, u *url.URL, host string, header http.Header) (*Answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", c.agent)
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
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxBody))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", u, err)
	}
	return &Answer{res.StatusCode, res.Header, body, time.Since(c.paced.last)}, nil
}

// IsHTML reports whether the content is HTML.
func (a *Answer) IsHTML() bool { return strings.Contains(a.Header.Get("Content-Type"), "html") }

// Links returns the references of the links of an HTML page, at most 1,000.
func (a *Answer) Links() (links []string) {
	if !a.IsHTML() {
		return nil
	}
	for z := html.NewTokenizer(bytes.NewReader(a.Body)); len(links) < maxLinks; {
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

// MayChange reports whether a GET request for a URL may end a session, buy or delete something, on sites that do so
// against RFC 9110, section 9.2.1.
func MayChange(u *url.URL) bool {
	text := strings.ToLower(u.Path + "?" + u.RawQuery)
	return slices.ContainsFunc([]string{
		"logout", "log-out", "log_out", "signout", "sign-out", "sign_out", "logoff", "delete", "remove", "unsubscribe", "add-to-cart", "isr-draft",
	}, func(word string) bool { return strings.Contains(text, word) })
}
