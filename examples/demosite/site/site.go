// Package site is the demonstration site: The Daily Crumb, a small newspaper about bread
// whose pages are deliberately slow to render.
//
// It is an ordinary origin that does not depend on the cache in front of it. It sets
// Cache-Control and leaves the rest, such as ETag and Cache-Status, to the cache. Its
// freshness and stale windows are short, so that MISS, HIT and STALE all occur within a
// minute. Each page shows the time and number of its render. A panel at its foot
// requests the page again and explains the Cache-Status of the response.
//
//	/                 the front page
//	/stories?page=2   the list of stories, paginated
//	/stories/{slug}   a story
//	/latest           a redirect to the newest story
//	/order            personal: sets a cookie, must not be cached
//	/unreliable       returns 500 while the oven is broken
//	/oven             breaks and repairs the oven
//	/about            explains the site to visitors
//	/assets/...       style, script and pictures; immutable, without delay
//
// The program in the parent folder serves the site, and isr serve --demo serves it in
// process:
//
//	h := site.Handler(site.Config{})
package site

import (
	"net/http"
	"time"
)

// pageParameter is the only query parameter that the site reads.
const pageParameter = "page"

// QueryParameters returns the names of the query parameters that the site reads. They
// must be declared to the cache: isr serve --query page.
func QueryParameters() []string {
	return []string{pageParameter}
}

const (
	// DefaultDelay is the default render time of a page.
	DefaultDelay = time.Second
	// NoDelay disables the delay.
	NoDelay = time.Duration(-1)
)

// Config configures the site. The zero value is the demonstration.
type Config struct {
	// Delay is the render time of a page. 0 means DefaultDelay, a negative value
	// (NoDelay) no delay. Assets, redirects and 404 responses have no delay.
	Delay time.Duration
	// Now is the clock shown on the pages; nil means time.Now.
	Now func() time.Time
}

// Handler returns a new site with its own counters and oven. It is safe for concurrent
// use. A render stops when its request's context is done.
func Handler(cfg Config) http.Handler {
	s := newSite(cfg)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.front)
	mux.HandleFunc("GET /stories", s.section)
	mux.HandleFunc("GET /stories/{slug}", s.story)
	mux.HandleFunc("GET /latest", s.latest)
	mux.HandleFunc("GET /order", s.order)
	mux.HandleFunc("GET /unreliable", s.unreliable)
	mux.HandleFunc("GET /oven", s.oven)
	mux.HandleFunc("POST /oven", s.switchOven)
	mux.HandleFunc("GET /about", s.about)
	mux.HandleFunc("GET /assets/{version}/{file}", s.asset)
	mux.HandleFunc("/", s.notFound)
	return mux
}
