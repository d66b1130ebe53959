package survey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/facetheory/isr/internal/units"
	"github.com/facetheory/isr/internal/visit"
)

// Bounds of a crawl.
const (
	// MaxCrawl is the largest number of pages of a crawl.
	MaxCrawl = 5000

	crawlTime     = time.Hour
	crawlBytes    = 1 << 30
	crawlFailures = 10  // in a row
	otherRequests = 100 // for robots.txt, sitemaps and redirects
)

const crawlAgent = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36 isr-assess"

// A CrawlConfig says which pages are visited.
type CrawlConfig struct {
	// Sitemap is the URL of the sitemap with the pages. If it is empty, the site's own sitemap lists them, and the
	// links of the pages.
	Sitemap string
	// Pages is the largest number of pages, and Rate of requests a second. Required.
	Pages int
	Rate  float64
	// Visited is called after each page with the number of pages so far. Nil means not.
	Visited func(pages int)
	// Transport sends the requests. Nil means a transport of its own.
	Transport http.RoundTripper
}

// A Crawled is what a crawl has found.
type Crawled struct {
	*Site
	// Failed are the pages that have not answered, and Disallowed those that robots.txt excludes.
	Failed, Disallowed int
	// Stopped is why the crawl ended before all pages were visited: a clause. Empty if it did not.
	Stopped string
}

// Crawl visits the pages of the site at an address as [Run] does, but more of them: politely, by the rules of
// robots.txt, and at most an hour and a gibibyte. It returns an error if there is no page.
func Crawl(ctx context.Context, at *url.URL, cfg CrawlConfig) (*Crawled, error) {
	s := newSurvey(at, visit.Config{Agent: crawlAgent, Rate: cfg.Rate, Timeout: timeout, Requests: cfg.Pages + otherRequests, Transport: cfg.Transport})
	c := &crawl{survey: s, cfg: cfg, found: &Crawled{Site: s.site}, began: time.Now()}
	listed, err := c.begin(ctx, at)
	if err != nil {
		return nil, err
	}
	if cfg.Visited != nil {
		cfg.Visited(len(s.site.Pages))
	}
	for c.found.Stopped == "" && len(s.site.Pages) < cfg.Pages {
		next := chosen(c.unseen(listed), cfg.Pages)
		if len(next) == 0 {
			break
		}
		if err := c.visit(ctx, next); err != nil {
			return nil, err
		}
	}
	s.finish()
	if len(s.site.Pages) == 0 {
		return nil, fmt.Errorf("%s: no page could be visited: %s", s.site.Origin, c.why())
	}
	return c.found, nil
}

// A crawl is in progress.
type crawl struct {
	*survey
	cfg      CrawlConfig
	found    *Crawled
	began    time.Time
	robots   robots
	bytes    int64
	failures int // in a row
}

// begin returns the pages of the sitemap. Without a sitemap of the caller it visits the first page before.
func (c *crawl) begin(ctx context.Context, at *url.URL) (listed []string, err error) {
	if c.cfg.Sitemap == "" {
		first, err := c.first(ctx, target(at))
		if err != nil {
			return nil, err
		}
		c.look(first.path, first.answer)
		c.bytes += int64(len(first.answer.Body))
		listed = c.readSitemap(ctx)
		c.robots = parseRobots(c.rules)
		return listed, ctx.Err()
	}
	c.sitemaps(ctx) // for the rules of robots.txt
	c.robots = parseRobots(c.rules)
	listed, err = c.survey.listed(ctx, c.cfg.Sitemap)
	if err != nil && len(listed) == 0 {
		return nil, err
	}
	if len(listed) == 0 {
		return nil, fmt.Errorf("sitemap %s names no page of %s: give the URL at which visitors find it, or a page of the site (--url)", c.cfg.Sitemap, at.Host)
	}
	c.site.Sitemap, c.site.Listed = c.cfg.Sitemap, len(listed)
	return listed, nil
}

// unseen returns paths that were not visited yet: those of the sitemap, and links unless the caller has named it.
func (c *crawl) unseen(listed []string) (all []string) {
	paths := listed
	if c.cfg.Sitemap == "" {
		paths = append(listed[:len(listed):len(listed)], c.links...)
	}
	for _, path := range paths {
		if !c.seen[path] {
			all = append(all, path)
		}
	}
	return all
}

// visit visits pages, until there are enough, or it is to stop.
func (c *crawl) visit(ctx context.Context, paths []string) error {
	for _, path := range paths {
		if c.found.Stopped = c.stop(); c.found.Stopped != "" || len(c.site.Pages) >= c.cfg.Pages {
			return nil
		}
		if c.seen[path] {
			continue
		}
		c.seen[path] = true
		if u, err := url.Parse(path); err != nil || visit.MayChange(u) || !c.robots.allows(path) {
			c.found.Disallowed++
			continue
		}
		a, err := c.get(ctx, path)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, visit.ErrSpent):
			c.found.Stopped = "too many requests were redirects and sitemaps"
			return nil
		case err != nil:
			c.found.Failed++
			c.failures++
			continue
		}
		c.failures = 0
		c.bytes += int64(len(a.Body))
		c.look(path, a)
		if to, err := c.site.Origin.Parse(a.Header.Get("Location")); err == nil && a.Status > 299 && a.Status < 400 && c.ours(to.Host) && isPage(to) {
			c.link(to.RequestURI())
		}
		if c.cfg.Visited != nil {
			c.cfg.Visited(len(c.site.Pages))
		}
		if a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable {
			c.found.Stopped = fmt.Sprintf("the site answers %d %s at %s: a lower rate is easier on it", a.Status, http.StatusText(a.Status), path)
		}
	}
	return nil
}

// stop returns why the crawl is to end; empty if it is not.
func (c *crawl) stop() string {
	switch {
	case c.found.Stopped != "":
		return c.found.Stopped
	case c.failures >= crawlFailures:
		return fmt.Sprintf("%d pages in a row have not answered", c.failures)
	case time.Since(c.began) > crawlTime:
		return "it takes longer than " + units.Duration(crawlTime)
	case c.bytes > crawlBytes:
		return fmt.Sprintf("the pages have more than %d MiB", crawlBytes>>20)
	}
	return ""
}

// why returns why no page was visited.
func (c *crawl) why() string {
	switch {
	case c.found.Stopped != "":
		return c.found.Stopped
	case c.found.Failed > 0:
		return "none answers"
	}
	return "robots.txt excludes all"
}
