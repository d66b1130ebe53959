package gateway

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr"
)

// A schemeWatch compares the scheme that trusted peers state with the scheme that renders get, and
// warns if they contradict each other. Behind a TLS terminator without PublicScheme a site that
// insists on https redirects every render, so that nothing is cached, and another site writes links
// to http into pages for https. It is safe for concurrent use.
type schemeWatch struct {
	public string // of renders
	log    *slog.Logger

	agreed       atomic.Bool  // a peer has stated the scheme of renders
	contradicted atomic.Int64 // requests
	last         atomic.Int64 // when the last of them counted, in Unix nanoseconds
	nextLine     atomic.Int64 // when the next line may be logged, in Unix nanoseconds
}

const (
	// schemePause is the least time between two lines of the log.
	schemePause = time.Minute
	// schemeMemory is how long a contradiction counts as a problem.
	schemeMemory = 10 * time.Minute
	// enoughPlain is how many requests must state http, and none https, before that contradicts a
	// site of https: its visitors may use http before they are redirected.
	enoughPlain = 100
)

// note compares the scheme that a trusted peer states of a request; empty if it states none.
func (w *schemeWatch) note(r *http.Request, stated string) {
	switch stated {
	case "":
		return
	case w.public:
		if !w.agreed.Load() {
			w.agreed.Store(true)
		}
		return
	}
	if n := w.contradicted.Add(1); w.public == "https" && (w.agreed.Load() || n < enoughPlain) {
		return
	}
	now := time.Now()
	w.last.Store(now.UnixNano())
	next := w.nextLine.Load()
	if now.UnixNano() >= next && w.nextLine.CompareAndSwap(next, now.Add(schemePause).UnixNano()) {
		w.log.Warn(w.contradiction().String(), "host", r.Host, "path", r.URL.Path, "requests", w.contradicted.Load())
	}
}

// problem describes the contradiction, if there was one lately.
func (w *schemeWatch) problem() SchemeProblem {
	last := w.last.Load()
	if last == 0 || time.Since(time.Unix(0, last)) > schemeMemory || w.public == "https" && w.agreed.Load() {
		return SchemeProblem{}
	}
	return w.contradiction()
}

func (w *schemeWatch) contradiction() SchemeProblem {
	if w.public == "https" {
		return SchemeProblem{
			What: "trusted proxies state X-Forwarded-Proto: http of all requests, but renders state https",
			Do:   "let the proxy that ends TLS send X-Forwarded-Proto: https, or set public_scheme: http (--public-scheme http) if the site has no TLS",
		}
	}
	return SchemeProblem{
		What: "trusted proxies state X-Forwarded-Proto: https, but renders state http: the site may redirect them, so that no page is cached, or write links to http into pages",
		Do:   "set public_scheme: https (--public-scheme https)",
	}
}

// A SchemeProblem is how the scheme that trusted peers state of requests contradicts the scheme
// that renders state. It is zero if there is no contradiction.
type SchemeProblem struct {
	What string // one clause
	Do   string // what to change
}

// String returns both; empty if there is no problem.
func (p SchemeProblem) String() string {
	if p.What == "" {
		return ""
	}
	return p.What + "; " + p.Do
}

// SchemeProblem compares the scheme that trusted peers have stated of requests in the last ten
// minutes, by X-Forwarded-Proto or Forwarded, with SiteConfig.PublicScheme. It is safe for
// concurrent use.
func (s *Site) SchemeProblem() SchemeProblem { return s.tree.Load().schemes.problem() }

// mindsScheme reports whether the renders of a route get the public scheme: it caches pages, and the
// scheme of the visitor is not in their keys.
func mindsScheme(rt isr.Route) bool {
	is := func(name string) bool { return strings.EqualFold(name, "X-Forwarded-Proto") }
	return !rt.Off && !slices.ContainsFunc(rt.Vary, is) && !slices.ContainsFunc(rt.KeyClasses, func(c isr.KeyClass) bool { return is(c.Header) })
}
