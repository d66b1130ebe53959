package isr

import (
	"fmt"
	"math"
	"net/http"
	"time"
)

// A Policy decides what a visitor gets while a page is not fresh.
//
//	                      ServeStale              Wait                     Fail
//
//	fresh                 the page                the page                 the page
//
//	stale:
//	  not rendered yet    the stale page, and     waits for the new page   as ServeStale
//	                      a new one is rendered
//	                      in the background
//	  held                the stale page          waits for the new page;  as ServeStale
//	                                              after Config.Wait, the
//	                                              stale one
//	  in back-off         the stale page          the stale page, at once  as ServeStale
//	  the origin fails    the stale page          the stale page, when     as ServeStale
//	                                              the render has failed
//
//	missing:
//	  not rendered yet    waits for the page      as ServeStale            as ServeStale
//	  held                waits for the page;     as ServeStale            503 at once
//	                      after Config.Wait, 503
//	  in back-off         the failure, at once    as ServeStale            as ServeStale
//	  the origin fails    the failure             as ServeStale            as ServeStale
//
// Stale: within its stale window. Missing: not stored, purged hard, or expired; an expired
// page is still served in place of a failure if its stale-if-error allows that. Held: a
// flight of this process is rendering the page, or another process has its lease. A route
// that must never show a stale page has no stale window (a negative Route.Stale), under
// each policy.
//
// Cache-Status is:
//
//	hit; detail=stale        a stale page, while a new one is rendered
//	hit; detail=rejected     a stale page, whose last rendering was rejected (see Reject)
//	hit; detail=REASON       a stale page, because waiting for a new one was or would
//	                         have been useless (Wait only): timeout, render-failed,
//	                         back-off, origin-busy, origin-failing, store-error,
//	                         closing
//	fwd=stale; stored        the new page, in place of a stale or expired one; and
//	                         "collapsed" if another request had started the render
//	fwd=miss; detail=held    the 503 of Fail
//
// Every 503 has a Retry-After.
type Policy int

const (
	// ServeStale serves a stale page at once, and regenerates it in the background. It
	// is the zero value.
	ServeStale Policy = iota
	// Wait makes the visitors of a stale page wait for the new one, for at most
	// Config.Wait.
	Wait
	// Fail answers with 503 and Retry-After instead of waiting for a missing page that
	// another request or process is rendering.
	Fail
)

func (p Policy) String() string {
	switch p {
	case ServeStale:
		return "serve-stale"
	case Wait:
		return "wait"
	case Fail:
		return "fail"
	}
	return fmt.Sprintf("Policy(%d)", int(p))
}

// MarshalText implements [encoding.TextMarshaler].
func (p Policy) MarshalText() ([]byte, error) {
	if !p.valid() {
		return nil, fmt.Errorf("%s is not a policy", p)
	}
	return []byte(p.String()), nil
}

// UnmarshalText parses the result of [Policy.String].
func (p *Policy) UnmarshalText(text []byte) error {
	for _, known := range []Policy{ServeStale, Wait, Fail} {
		if string(text) == known.String() {
			*p = known
			return nil
		}
	}
	return fmt.Errorf("%q is not a policy; expected serve-stale, wait or fail", text)
}

func (p Policy) valid() bool { return p >= ServeStale && p <= Fail }

// maxEarlyRefresh bounds [Route.EarlyRefresh].
const maxEarlyRefresh = 10

// refreshEarly starts the regeneration of a fresh page, if this request draws it.
func (h *handler) refreshEarly(r *http.Request, p *page, now time.Time) {
	if !p.dueEarly(now, h.route.EarlyRefresh, h.c.cfg.Random) || !p.nextEarly.claim(p) {
		return
	}
	if h.c.negative.get(p.key, time.Now()) != nil {
		return // the last attempt failed, or the page became uncacheable
	}
	if h.c.storeDown() != nil {
		return // the new page could not be stored
	}
	s := h.search(r, p.key)
	s.early = p
	h.c.join(s)
}

// dueEarly decides at random whether a fresh page is regenerated before it expires
// (XFetch: Vattani, Chierichetti and Lowenstein, Optimal Probabilistic Cache
// Stampede Prevention, 2015): if now - delta*beta*ln(rand) >= expiry, where delta is
// the duration of the last render. Draws are independent: the more visitors a page
// has, the earlier one of them starts, and a page without visitors expires. It is on
// the hit path: it takes no lock and allocates nothing, and most hits are too far from
// expiry to draw.
func (p *page) dueEarly(now time.Time, beta float64, random func() uint64) bool {
	spread := beta * float64(p.entry.RenderTime)
	left := float64(p.entry.FreshUntil().Sub(now))
	if spread <= 0 || left > maxExponential*spread || p.entry.PinnedUntil.After(now) {
		return false // a pinned page is fresh beyond its window, and is not replaced
	}
	return spread*exponential(random()) >= left
}

// maxExponential is the largest value of [exponential]: -ln(2^-53).
const maxExponential = 53 * math.Ln2

// exponential turns uniformly random bits into an exponentially distributed number with
// mean 1.
func exponential(bits uint64) float64 {
	const steps = 1 << 53 // the number of float64 values in (0, 1] that are equally spaced
	return -math.Log((float64(bits>>(64-53)) + 1) / steps)
}
