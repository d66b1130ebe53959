package isr

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A DownstreamControl is what fresh pages of a route, with a status below 400, tell the
// caches behind this one: the visitors' browsers and the proxies between, and CDNs in front. It
// replaces Cache-Control, CDN-Cache-Control and Expires of the renderer, which decide for this
// cache alone. Lifetimes count from when a page is served, so these pages have "Age: 0" and the
// current Date.
//
// Instead of a number of seconds, max-age and s-maxage may have "remaining": for how much
// longer the page is fresh here, in whole seconds, like "max-age=remaining". A cache then has no
// copy for longer than this one.
//
// Pages that are not fresh get "Cache-Control: max-age=0, must-revalidate" alone, so that no
// cache keeps one for longer than this one, and pages that are pinned beyond their freshness
// "max-age=10". Responses that pass through are not changed.
//
// A cache that purges do not reach, such as a browser, serves its copy for the whole
// lifetime after a purge.
type DownstreamControl struct {
	// CacheControl is the field Cache-Control, such as "max-age=60" or "no-cache". Empty:
	// the page has the renderer's fields.
	CacheControl string
	// CDN is the field CDN-Cache-Control (RFC 9213), for caches that purges do reach.
	// Empty: the page has none. It needs CacheControl.
	CDN string
	// Surrogate is the field Surrogate-Control (the W3C note "Edge Architecture"), for
	// CDNs that do not know CDN-Cache-Control. Empty: the page has none. It needs
	// CacheControl.
	Surrogate string
}

// maxControlBytes bounds each field of [DownstreamControl].
const maxControlBytes = 256

// remaining stands for the remaining freshness in a field of [DownstreamControl].
const remaining = "remaining"

func (d DownstreamControl) validate() error {
	if d.CDN+d.Surrogate != "" && d.CacheControl == "" {
		return configErrorf("Downstream", "must have CacheControl if it has CDN or Surrogate")
	}
	var errs []error
	for _, v := range []string{d.CacheControl, d.CDN, d.Surrogate} {
		if v == "" {
			continue
		}
		if !validFieldValue(v) || len(v) > maxControlBytes || httpcache.ParseDirectives([]string{v}).Malformed() {
			errs = append(errs, configErrorf("Downstream", "must have valid fields of at most %d bytes (got %.100q)", maxControlBytes, v))
		} else if !validRemaining(v) {
			errs = append(errs, configErrorf("Downstream", "must have %q once, as the argument of max-age or s-maxage (got %.100q)", remaining, v))
		}
	}
	return errors.Join(errs...)
}

// validRemaining reports whether a field has "remaining" at most once, and where a number of
// seconds belongs.
func validRemaining(field string) bool {
	switch strings.Count(field, remaining) {
	case 0:
		return true
	case 1:
		d := httpcache.ParseDirectives([]string{field})
		return d["max-age"] == remaining || d["s-maxage"] == remaining
	}
	return false
}

// A lifetimeField is the value of a field of [DownstreamControl].
type lifetimeField struct {
	fixed         []string // nil: there is no such field, or it has the remaining freshness
	before, after string   // it, between these texts; both are empty if fixed is set
}

func newLifetimeField(value string) lifetimeField {
	before, after, found := strings.Cut(value, remaining)
	switch {
	case value == "":
		return lifetimeField{}
	case !found:
		return lifetimeField{fixed: []string{value}}
	}
	return lifetimeField{before: before, after: after}
}

// at returns the field with this remaining freshness; nil if there is none.
func (f *lifetimeField) at(left time.Duration) []string {
	if f.before == "" {
		return f.fixed
	}
	return []string{f.before + strconv.FormatInt(int64(max(left, 0)/time.Second), 10) + f.after}
}

// lifetimes are the fields that state how long downstream caches may keep a page. They replace
// the page's own fields. They are shared by responses: nothing may append to them.
type lifetimes struct {
	browsers, cdn, surrogate []string
	ageless                  bool // lifetimes count from when the page is served
}

// purgedControl is the Cache-Control of a page that is stale although its freshness window
// has not ended, because of a purge. With the page's own, a cache in front, which has just
// dropped its copy for the same purge, would take this one as fresh.
const purgedControl = "max-age=0, must-revalidate"

// pinnedControl is the Cache-Control of a page that is pinned beyond its freshness
// window. With the page's own, downstream caches would treat it as stale, or, without its
// age, keep it long after it was unpinned.
const pinnedControl = "max-age=10"

var (
	noAge        = []string{"0"}
	outdated     = &lifetimes{browsers: []string{purgedControl}}
	beyondWindow = &lifetimes{browsers: []string{pinnedControl}, ageless: true}
)

// lifetimes returns what replaces the fields of a page in a state; nil for nothing. pinned: it is
// fresh because of a pin. What this cache tells of a page that is pinned or purged takes
// precedence over what the route says.
func (p *page) lifetimes(as *presentation, now time.Time, state store.State, pinned bool) *lifetimes {
	left := p.entry.FreshUntil().Sub(now)
	controlled := as.controls() && p.status() < http.StatusBadRequest
	switch {
	case pinned:
		return beyondWindow
	case state != store.Fresh && (left > 0 || controlled):
		return outdated
	case controlled:
		return &lifetimes{browsers: as.browsers.at(left), cdn: as.cdn.at(left), surrogate: as.surrogate.at(left), ageless: true}
	}
	return p.brief
}

// briefly returns what replaces the fields of an error response whose lifetime is meant for a file
// (see [httpcache.BriefError]); nil if nothing does.
func briefly(status int, h http.Header) *lifetimes {
	control := httpcache.BriefError(status, h)
	if control == nil {
		return nil
	}
	return &lifetimes{browsers: control, cdn: h["Cdn-Cache-Control"], surrogate: h["Surrogate-Control"]}
}

// limitError replaces the fields of an error response whose lifetime is meant for a file.
func limitError(status int, h http.Header) {
	if instead := briefly(status, h); instead != nil {
		instead.set(h)
	}
}

// controls reports whether the route states the lifetimes of its pages.
func (a *presentation) controls() bool { return a.browsers.fixed != nil || a.browsers.before != "" }

// set sets the fields in a header. A page whose lifetimes count from now has no age: neither Age nor
// its Date, which the server replaces by the current one.
func (l *lifetimes) set(h http.Header) {
	h["Cache-Control"] = l.browsers
	delete(h, "Expires")
	setOrDelete(h, "Cdn-Cache-Control", l.cdn)
	setOrDelete(h, "Surrogate-Control", l.surrogate)
	if l.ageless {
		h["Age"] = noAge
		delete(h, "Date")
	}
}

func setOrDelete(h http.Header, name string, values []string) {
	if values == nil {
		delete(h, name)
		return
	}
	h[name] = values
}
