package isr

import (
	"net/http"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// A policy is what fills use of the route of their page. It does not change; its functions are safe
// for concurrent use.
type policy struct {
	name     string // of the route, which entries tell; empty if it has none
	label    string // of the route, for logs and observers
	keys     *cachekey.Mapper
	present  *page.View
	renderer http.Handler
	budget   *budget.Budget // of the origin; never nil

	renderTimeout time.Duration
	// wait is how long visitors wait for a page that another process renders.
	wait time.Duration
	// waits: visitors of a stale page wait for the new one.
	waits   bool
	maxBody int64

	// jitter is the largest part of a freshness window that is taken off it at random.
	jitter float64
	// A freshness window of the route's own follows how often the page changes, within bounds, by
	// nextWindow. Both bounds are 0 if windows are fixed.
	minWindow, maxWindow time.Duration
	nextWindow           func(window, since time.Duration, changed bool) time.Duration

	foreignStale  time.Duration // the stale window of entries of other services
	history       int           // how many earlier generations are kept
	maxVariants   int           // how many variants that were learned a page may have
	storeNegative bool          // negative answers are stored, also of pages that were not
	rejectsText   bool          // the text of a body decides whether a generation is rejected

	// tags returns the tags that the route gives to a page; nil if it gives none.
	tags func(*http.Request) []string
	// judge decides by the header whether a response may be stored and shared. tags are the tags of
	// the route, and requested is when the response was requested.
	judge func(k store.Key, status int, h http.Header, tags []string, requested time.Time) httpcache.Verdict
	// rejects returns why a response is suspicious as the next generation; empty if it is not. current
	// is the generation that it is compared with, whose body stored reads; nil if there is none.
	rejects func(res *render.Response, current *store.Entry, stored func() ([]byte, error)) string
	// servableOnError reports whether an entry in a state may be served while the origin or the
	// store fails.
	servableOnError func(e *store.Entry, state store.State, purges store.PurgeState, now time.Time) bool
	// cacheable and refused record what was learned of a page: that it is stored, or may be; that its
	// response must not be stored, for a reason.
	cacheable func(store.Key)
	refused   func(k store.Key, reason string)

	renders *recentTimes // of the pages of the route that this process has made, or found in the table
}
