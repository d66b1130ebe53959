// Package site is the demonstration site: The Daily Crumb, a small newspaper
// about bread, whose pages are slow to render on purpose.
//
// It is an ordinary origin and knows nothing of the cache in front of it: it
// says by Cache-Control how long each page stays fresh, and leaves the rest,
// ETag and Cache-Status among it, to the cache. Its windows are short, so that
// MISS, HIT and STALE all pass by within a minute. Each page prints when it was
// rendered and which render of it that is; a panel at its foot asks for the page
// again and puts the answer's Cache-Status into plain words.
//
//	/                 the front page
//	/stories?page=2   the section, one of QueryParameters
//	/stories/{slug}   a story
//	/latest           a redirect to the newest story
//	/order            personal: sets a cookie, never to be cached
//	/unreliable       answers 500 while the oven is broken
//	/oven             breaks and repairs it
//	/about            the same, explained to visitors
//	/assets/...       style, script and pictures; immutable, without delay
//
// The site is served by the program in the folder above, and in process by
// isr serve --demo:
//
//	h := site.Handler(site.Config{})
package site

import (
	"net/http"
	"time"
)

// pageParameter is the one query parameter that the site reads.
const pageParameter = "page"

// QueryParameters returns the names of the query parameters that the site
// reads. A cache in front of it has to be told of them: isr serve --query page.
func QueryParameters() []string {
	return []string{pageParameter}
}

const (
	// DefaultDelay is how long a page takes to render unless Config says otherwise.
	DefaultDelay = time.Second
	// NoDelay makes pages render as fast as they can.
	NoDelay = time.Duration(-1)
)

// Config says how the site behaves. The zero value is the demonstration.
type Config struct {
	// Delay is how long a page takes to render; 0 means DefaultDelay, a
	// negative value (NoDelay) none. Assets, redirects and "not found" never
	// take it.
	Delay time.Duration
	// Now is the clock that pages print; nil means time.Now.
	Now func() time.Time
}

// Handler returns the site. Each call makes a site with counters and an oven of
// its own; it is safe for concurrent use, and a render ends early when its
// request's context does.
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
