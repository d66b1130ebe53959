// Package survey looks at a site before isr is in front of it, and writes a configuration for it.
//
//	URL ──► first page ──► redirects to the public host? then with that Host
//	    ──► robots.txt ──► sitemap
//	    ──► up to ten pages of different sections ──► framework, freshness, cookies, parameters
//	    ──► a commented isr.yaml
//
// It sends at most [MaxRequests] GET requests, one at a time, at four a second, all of them to the address that it
// was given, whatever hosts pages and sitemaps name. What a site sends is bounded: bodies, links, sitemaps.
package survey

// The files:
//
//	survey.go     requests pages
//	framework.go  recognises software by its traces
//	page.go       what one page declares about caching
//	crawl.go      visits more pages, to judge which can be cached
//	robots.go     which of them may be visited
//	config.go     the configuration file

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/sitemap"
	"github.com/facetheory/isr/internal/visit"
)

// Bounds of a survey.
const (
	MaxRequests = 30
	MaxPages    = 10
	rate        = 4.0 // requests a second
	timeout     = 15 * time.Second
	maxListed   = 5000 // URLs of a sitemap that are counted, and different links that are followed
	longestPath = 2048 // of a page that is visited, in bytes
	maxHops     = 4
)

const agent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36 isr-init"

// A Site is what was found.
type Site struct {
	// Origin is the address that was examined, without a path.
	Origin *url.URL
	// Host is the public host of the site, to which it redirects or which its pages and its sitemap name; empty if
	// it names none. HTTPS: its public URLs begin with https.
	Host  string
	HTTPS bool
	// Redirects: the site answers requests for other hosts by redirects to Host.
	Redirects bool
	// Framework is the software that renders the pages; zero if none was recognised.
	Framework Framework
	Pages     []Page
	// Sitemap is the URL of the sitemap, and Listed the number of its pages on this host, at most 5,000; empty and 0
	// if there is none.
	Sitemap string
	Listed  int
	// Parameters are the query parameters in links to this host, sorted by name.
	Parameters []string
	Requests   int
}

// Run looks at the site at an address, such as http://127.0.0.1:3000/. It returns an error if the first page has no
// response, or none that is a page. Transport may be nil.
func Run(ctx context.Context, at *url.URL, transport http.RoundTripper) (*Site, error) {
	s := newSurvey(at, visit.Config{Agent: agent, Rate: rate, Timeout: timeout, Requests: MaxRequests, Transport: transport})
	first, err := s.first(ctx, target(at))
	if err != nil {
		return nil, err
	}
	s.look(first.path, first.answer)
	listed := s.readSitemap(ctx)
	s.visit(ctx, chosen(append(listed, s.links...), MaxPages))
	s.probe(ctx)
	s.finish()
	return s.site, ctx.Err()
}

func newSurvey(at *url.URL, cfg visit.Config) *survey {
	s := &survey{client: visit.New(cfg), site: &Site{Origin: &url.URL{Scheme: at.Scheme, Host: at.Host}}, parameters: map[string]bool{}, linked: map[string]bool{}, seen: map[string]bool{}}
	if !isAddress(at.Hostname()) {
		s.site.Host, s.site.HTTPS = at.Host, at.Scheme == "https"
	}
	return s
}

// target returns the path and the query of a URL.
func target(at *url.URL) string {
	if at.RawQuery != "" {
		return at.Path + "?" + at.RawQuery
	}
	return at.Path
}

// finish sets what follows from all pages.
func (s *survey) finish() {
	s.site.Framework = recognise(s.traces)
	for name := range s.parameters {
		s.site.Parameters = append(s.site.Parameters, name)
	}
	slices.Sort(s.site.Parameters)
	s.site.Requests = s.client.Requests()
}

// isAddress reports whether a host names a machine, not a site: an IP address or localhost.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost") || !strings.Contains(host, ".")
}

// A survey is a run.
type survey struct {
	client     *visit.Client
	site       *Site
	traces     traces
	links      []string        // paths on this site that its pages link to, each once
	linked     map[string]bool // the same
	seen       map[string]bool // paths that were requested
	parameters map[string]bool
	rules      string // robots.txt; empty if there is none
}

// A visited page is a response and its path with the query.
type visited struct {
	path   string
	answer *visit.Answer
}

// get requests a path of the site as a visitor of its public URL.
func (s *survey) get(ctx context.Context, target string) (*visit.Answer, error) {
	u, err := s.site.Origin.Parse(target)
	if err != nil {
		return nil, err
	}
	s.seen[u.RequestURI()] = true
	header, host := http.Header{}, ""
	if s.site.Host != "" && s.site.Host != s.site.Origin.Host {
		host = s.site.Host
		if s.site.HTTPS {
			header.Set("X-Forwarded-Proto", "https")
		}
	}
	return s.client.Get(ctx, u, host, header)
}

// first requests the first page. A redirect to another host names the public host, with which the page is
// requested again.
func (s *survey) first(ctx context.Context, path string) (visited, error) {
	for hops := 0; ; hops++ {
		a, err := s.get(ctx, path)
		if err != nil {
			return visited{}, fmt.Errorf("%s does not answer: %w; start the site, or give its address", s.site.Origin, err)
		}
		to := a.Header.Get("Location")
		if a.Status < 300 || a.Status > 399 || to == "" {
			if a.Status >= 400 {
				return visited{}, fmt.Errorf("%s answers %d %s at %s; give the URL of a page that works", s.site.Origin, a.Status, http.StatusText(a.Status), path)
			}
			return visited{path, a}, nil
		}
		next, err := s.site.Origin.Parse(to)
		if err != nil || hops == maxHops {
			return visited{}, fmt.Errorf("%s redirects %d times, at last to %.200q; give the URL of a page", s.site.Origin, hops+1, to)
		}
		if isPublic := next.Host != s.site.Origin.Host || next.Scheme != s.site.Origin.Scheme; isPublic {
			s.site.Host, s.site.HTTPS, s.site.Redirects = next.Host, next.Scheme == "https", true
		}
		path = next.RequestURI()
	}
}

// ours reports whether a host is the host of this site.
func (s *survey) ours(host string) bool {
	return host == s.site.Origin.Host || host == s.site.Host
}

// look reads a page.
func (s *survey) look(path string, a *visit.Answer) {
	s.site.Pages = append(s.site.Pages, pageOf(path, a))
	s.traces.add(a)
	if s.site.Host == "" {
		s.site.Host, s.site.HTTPS = canonicalHost(a)
	}
	from, err := s.site.Origin.Parse(path)
	if err != nil {
		return
	}
	for _, link := range a.Links() {
		to, err := from.Parse(link)
		if err != nil || (to.Scheme != "http" && to.Scheme != "https") || !s.ours(to.Host) {
			continue
		}
		for name := range to.Query() {
			if len(s.parameters) < 100 && len(name) <= 64 {
				s.parameters[name] = true
			}
		}
		if isPage(to) {
			s.link(to.RequestURI())
		}
	}
}

// link notes a path that may be visited.
func (s *survey) link(path string) {
	if s.seen[path] || s.linked[path] || len(s.linked) >= maxListed || len(path) > longestPath {
		return
	}
	s.linked[path] = true
	s.links = append(s.links, path)
}

// readSitemap returns paths of the sitemap, if there is one.
func (s *survey) readSitemap(ctx context.Context) (paths []string) {
	for _, at := range s.sitemaps(ctx) {
		if paths, _ = s.listed(ctx, at); len(paths) > 0 { // as far as it could be read
			s.site.Sitemap, s.site.Listed = at, len(paths)
			return paths
		}
	}
	return nil
}

// listed returns the paths of a sitemap, at most 5,000. After an error it returns those before it too.
func (s *survey) listed(ctx context.Context, at string) (paths []string, err error) {
	in := sitemap.Reader{Serves: s.ours, Transport: &toOrigin{s}}
	for text, err := range in.URLs(ctx, at) {
		if err != nil {
			return paths, err
		}
		if u, err := url.Parse(text); err == nil {
			paths = append(paths, u.RequestURI())
		}
		if len(paths) >= maxListed {
			break
		}
	}
	return paths, nil
}

// sitemaps returns where the sitemap may be: what robots.txt names, else the usual place.
func (s *survey) sitemaps(ctx context.Context) (all []string) {
	usual := s.site.Origin.JoinPath("/sitemap.xml").String()
	robots, err := s.get(ctx, "/robots.txt")
	if err != nil || robots.Status != http.StatusOK {
		return []string{usual}
	}
	s.rules = string(robots.Body)
	for line := range strings.Lines(s.rules) {
		name, value, found := strings.Cut(line, ":")
		if !found || !strings.EqualFold(strings.TrimSpace(name), "Sitemap") || len(all) == 2 {
			continue
		}
		if u, err := s.site.Origin.Parse(strings.TrimSpace(value)); err == nil && s.ours(u.Host) {
			all = append(all, u.String())
		}
	}
	if len(all) == 0 {
		return []string{usual}
	}
	return all
}

// visit requests pages, until there are enough.
func (s *survey) visit(ctx context.Context, paths []string) {
	for _, path := range paths {
		if len(s.site.Pages) >= MaxPages || ctx.Err() != nil || s.client.Requests() >= MaxRequests-1 {
			return
		}
		if s.seen[path] {
			continue
		}
		if a, err := s.get(ctx, path); err == nil {
			s.look(path, a)
		}
	}
}

// probe requests a page that one framework has, if the visited ones do not show which it is.
func (s *survey) probe(ctx context.Context) {
	if recognise(s.traces).Name != "" {
		return
	}
	if a, err := s.get(ctx, "/admin/login/"); err == nil {
		s.traces.add(a)
	}
}

// toOrigin sends requests for public URLs to the address that is examined.
type toOrigin struct{ s *survey }

func (t *toOrigin) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.s.ours(r.URL.Host) {
		return nil, errors.New("another host")
	}
	r = r.Clone(r.Context())
	r.Host = r.URL.Host
	if t.s.site.HTTPS {
		r.Header.Set("X-Forwarded-Proto", "https")
	}
	r.URL.Scheme, r.URL.Host = t.s.site.Origin.Scheme, t.s.site.Origin.Host
	return t.s.client.Transport().RoundTrip(r)
}

// chosen returns paths to visit: of each section (the first segment) in turns, first without a query.
func chosen(paths []string, limit int) (all []string) {
	sections, order := map[string][]string{}, []string{}
	known := map[string]bool{}
	for _, path := range paths {
		if known[path] || len(path) > longestPath {
			continue
		}
		known[path] = true
		section, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		section, _, _ = strings.Cut(section, "?")
		if sections[section] == nil {
			order = append(order, section)
		}
		sections[section] = append(sections[section], path)
	}
	for round := 0; len(all) < 2*limit; round++ {
		before := len(all)
		for _, section := range order {
			if list := sections[section]; round < len(list) && len(all) < 2*limit {
				all = append(all, list[round])
			}
		}
		if len(all) == before {
			break
		}
	}
	return all
}

// isPage reports whether a link leads to a page that may be visited: to no file, such as a picture, and to nothing
// that changes the site or that only its operators see.
func isPage(u *url.URL) bool {
	name := path.Base(u.Path)
	return !visit.MayChange(u) && (!strings.Contains(name, ".") || strings.HasSuffix(name, ".html")) && !strings.Contains(u.Path, "/wp-") && !strings.Contains(u.Path, "/admin")
}
