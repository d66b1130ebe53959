// Package leak examines a site through its cache, as its visitors see it: it requests pages
// without an identity and with two, A and B, in turns, with different headers, and reports what
// is cached, what is shared wrongly, and which header or cookie would have to be in the key.
//
//	pages ──► plain URL:   A, anonymous, B, twice     what the cache gives to whom
//	          probe URL:   anonymous, A, B, twice     what the site itself gives (a query
//	                                                    parameter that bypasses the cache, or
//	                                                    the origin directly)
//	          both:        with other headers           what the site and the key depend on
//	      ──► findings
//
// It sends GET requests only, to one host, at a bounded rate.
package leak

// The files:
//
//	examine.go  requests pages as different visitors, and compares
//	client.go   the bounded client
//	advice.go   which setting to change

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/facetheory/isr/internal/visit"
)

// Bounds of a run, and their defaults.
const (
	DefaultMaxPages = 50
	MaxPages        = 1000
	DefaultRate     = 5.0 // requests a second
	MaxRate         = 100.0
	DefaultTimeout  = 10 * time.Second
)

// A Severity is how bad a finding is.
type Severity string

// The severities. Only the first two are faults.
const (
	Leak  Severity = "leak"  // visitors get what is meant for others, or can decide what others get
	Wrong Severity = "wrong" // visitors share a page that differs for them
	Note  Severity = "note"  // a page that is not cached, or could not be examined
)

// A Finding is something to do.
type Finding struct {
	Severity Severity `json:"severity"`
	// Kind names the check: "canary", "set-cookie", "private", "personal", "injected",
	// "forwarded-host", "form-token", "nonce", "key", "query", "not-cached", "unstable", "failed".
	Kind string `json:"kind"`
	URL  string `json:"url"`
	// Subject is what the finding is about: the name of a header or cookie, or the detail of
	// Cache-Status; empty if there is none.
	Subject string `json:"subject,omitempty"`
	Problem string `json:"problem"`
	Do      string `json:"do"`
}

// A Page is what was found of a URL.
type Page struct {
	URL    string `json:"url"`
	Status int    `json:"status"`
	// Cache is the Cache-Status of the last request without an identity.
	Cache  string `json:"cache_status"`
	Cached bool   `json:"cached"`
}

// A Report is the result of a run.
type Report struct {
	Pages    []Page    `json:"pages"`
	Findings []Finding `json:"findings"`
	Requests int       `json:"requests"`
	// More is how many URLs were not examined, because of the bound of pages.
	More int `json:"more"`
}

// Count is the number of findings of a severity.
func (r *Report) Count(s Severity) (n int) {
	for _, f := range r.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// A Config declares what to examine.
type Config struct {
	// URL is a page of the site, where links are followed from. Required.
	URL *url.URL
	// Pages are further pages: paths, or URLs of the same host. If there are any, links are
	// not followed.
	Pages []string
	// Hosts are the hosts that the cache serves, as gateway.ParseHosts takes them; empty if they are
	// not known. The first three others than the host of URL are tried in forwarding fields.
	Hosts []string
	// Origin is the address of the site behind the cache; nil if it cannot be reached.
	Origin *url.URL
	// A and B are the headers of two identities, such as Cookie. Without any, headers are
	// made up.
	A, B http.Header
	// CanaryA and CanaryB are texts that only A's, or B's, pages have, such as their names.
	CanaryA, CanaryB string
	// MaxPages, Rate (requests a second) and Timeout (of a request) bound the run. Zero means
	// the default.
	MaxPages int
	Rate     float64
	Timeout  time.Duration
	// Transport sends the requests. Nil means the transport of a new client.
	Transport http.RoundTripper
	// Examined is called after each page with the number of pages that were examined. It may be nil.
	Examined func(pages int)
}

// ErrNoCache is returned for a site whose responses do not have isr's Cache-Status.
var ErrNoCache = errors.New("the response has no Cache-Status of isr: the URL does not lead through isr")

// Validate returns an error if [Run] would not accept the configuration.
func (c Config) Validate() error {
	_, err := c.withDefaults()
	return err
}

func (c Config) withDefaults() (Config, error) {
	c.MaxPages = cmp.Or(c.MaxPages, DefaultMaxPages)
	c.Rate = cmp.Or(c.Rate, DefaultRate)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	switch {
	case c.URL == nil || c.URL.Host == "" || c.URL.Scheme != "http" && c.URL.Scheme != "https":
		return c, errors.New("the URL must be the URL of a page, such as https://example.com/")
	case c.MaxPages < 1 || c.MaxPages > MaxPages:
		return c, fmt.Errorf("there must be 1 to %d pages (got %d)", MaxPages, c.MaxPages)
	case !(c.Rate > 0 && c.Rate <= MaxRate):
		return c, fmt.Errorf("the rate must be above 0 and at most %v requests a second (got %v)", MaxRate, c.Rate)
	case c.Timeout < 0:
		return c, fmt.Errorf("the timeout must not be negative (got %s)", c.Timeout)
	case (len(c.A) == 0) != (len(c.B) == 0):
		return c, errors.New("both identities are needed, or none")
	case c.CanaryA != "" && c.CanaryA == c.CanaryB:
		return c, errors.New("the texts of A and B must differ")
	}
	if len(c.A) == 0 {
		a, b := "isrdoctora"+rand.Text(), "isrdoctorb"+rand.Text()
		c.A, c.B, c.CanaryA, c.CanaryB = madeUp(a), madeUp(b), cmp.Or(c.CanaryA, a), cmp.Or(c.CanaryB, b)
	}
	return c, nil
}

// madeUp are headers that sites and proxies commonly take an identity from.
func madeUp(canary string) http.Header {
	return http.Header{
		"Cookie": {"session=" + canary + "; sessionid=" + canary + "; user=" + canary},
		"X-User": {canary}, "X-Forwarded-User": {canary}, "X-Auth-Request-User": {canary},
	}
}

// Run examines a site. It returns an error if it could not: the first page has no response, or
// none of isr. If ctx ends, it returns what it has found, and the error of ctx.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &examination{Config: cfg, client: newClient(cfg), report: &Report{Pages: []Page{}, Findings: []Finding{}}, seen: make(map[string]bool)}
	if e.URL.Path == "" {
		e.URL = e.URL.JoinPath("/")
	}
	e.add(e.URL)
	for _, text := range cfg.Pages {
		u, err := e.URL.Parse(text)
		if err != nil || u.Host != e.URL.Host {
			return nil, fmt.Errorf("%q is not a page of %s", text, e.URL.Host)
		}
		e.add(u)
	}
	for len(e.queue) > 0 && err == nil {
		next := e.queue[0]
		e.queue = e.queue[1:]
		if err = e.examine(ctx, next); err == nil && e.Examined != nil {
			e.Examined(len(e.report.Pages))
		}
	}
	e.report.More += len(e.queue)
	e.report.Requests = e.client.Requests()
	slices.SortStableFunc(e.report.Findings, func(a, b Finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	return e.report, err
}

func rank(s Severity) int { return slices.Index([]Severity{Leak, Wrong, Note}, s) }

// An examination is a run.
type examination struct {
	Config
	client *client
	report *Report
	queue  []*url.URL
	seen   map[string]bool
}

// add queues a page, once.
func (e *examination) add(u *url.URL) {
	page := *u
	page.Fragment, page.RawFragment, page.User = "", "", nil
	if text := page.String(); !e.seen[text] {
		if len(e.seen) >= e.MaxPages {
			e.report.More++
			return
		}
		e.seen[text] = true
		e.queue = append(e.queue, &page)
	}
}

func (e *examination) find(s Severity, kind string, u *url.URL, subject, problem, do string) {
	e.report.Findings = append(e.report.Findings, Finding{s, kind, u.String(), subject, problem, do})
}

// follow queues the links of a page, and the page that it redirects to, if they are of the
// same host and do not look like they change something.
func (e *examination) follow(u *url.URL, a *answer) {
	if len(e.Pages) > 0 {
		return
	}
	targets := a.links()
	if location := a.header.Get("Location"); location != "" {
		targets = append(targets, location)
	}
	for _, text := range targets {
		link, err := u.Parse(text)
		if err == nil && link.Host == e.URL.Host && link.Scheme == e.URL.Scheme && !visit.MayChange(link) {
			e.add(link)
		}
	}
}
