package isr

import (
	"math"
	"net/http"
	"time"
)

// maxEarlyRefresh bounds [Route.EarlyRefresh].
const maxEarlyRefresh = 10

// maxExponential is the largest value that [exponential] takes: -ln(2^-53).
const maxExponential = 53 * math.Ln2

// exponential makes a random number with the mean 1 of uniformly random bits.
func exponential(bits uint64) float64 {
	const steps = 1 << 53 // all that a float64 in (0, 1] can tell apart
	return -math.Log((float64(bits>>(64-53)) + 1) / steps)
}

// dueEarly decides by lot whether a fresh page is regenerated before it expires
// (XFetch: Vattani, Chierichetti and Lowenstein, Optimal Probabilistic Cache
// Stampede Prevention, 2015): if now - delta*beta*ln(rand) >= expiry, where delta is
// what the last render took. Draws are independent, so that the more visitors
// a page has, the earlier one of them begins, and a page that nobody asks for is
// left to expire. It is on the hit path: it takes no lock and allocates nothing,
// and most hits are too far from expiry for a lot to be drawn.
func (p *page) dueEarly(now time.Time, beta float64, random func() uint64) bool {
	spread := beta * float64(p.entry.RenderTime)
	left := float64(p.entry.FreshUntil().Sub(now))
	if spread <= 0 || left > maxExponential*spread || p.entry.PinnedUntil.After(now) {
		return false // a pinned page is fresh beyond its window, and not to be replaced
	}
	return spread*exponential(random()) >= left
}

// refreshEarly has a fresh page regenerated if the lot falls on this request.
func (h *handler) refreshEarly(r *http.Request, p *page, now time.Time) {
	if !p.dueEarly(now, h.route.EarlyRefresh, h.c.cfg.Random) || !p.nextEarly.claim(p) {
		return
	}
	if h.c.negative.get(p.key, time.Now()) != nil {
		return // the last attempt failed, or the page became uncacheable
	}
	if h.c.storeDown() != nil {
		return // it could not be stored
	}
	h.c.join(&search{route: h.route, key: p.key, early: p, clients: h.clients(r)})
}
