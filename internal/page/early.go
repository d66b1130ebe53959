package page

import (
	"math"
	"time"
)

// DueEarly decides at random whether a fresh page is regenerated before it expires
// (XFetch: Vattani, Chierichetti and Lowenstein, Optimal Probabilistic Cache
// Stampede Prevention, 2015): if now - delta*beta*ln(rand) >= expiry, where delta is
// the duration of the last render. Draws are independent: the more visitors a page
// has, the earlier one of them starts, and a page without visitors expires. It is on
// the hit path: it takes no lock and allocates nothing, and most hits are too far from
// expiry to draw.
func (p *Page) DueEarly(now time.Time, beta float64, random func() uint64) bool {
	return p.MayBeDueEarly(now, beta) &&
		beta*float64(p.Entry.RenderTime)*exponential(random()) >= float64(p.Entry.FreshUntil().Sub(now))
}

// MayBeDueEarly reports whether a fresh page is close enough to its expiry to draw. A pinned page is
// fresh beyond its window, and is not replaced.
func (p *Page) MayBeDueEarly(now time.Time, beta float64) bool {
	spread := beta * float64(p.Entry.RenderTime)
	return spread > 0 && float64(p.Entry.FreshUntil().Sub(now)) <= maxExponential*spread && !p.Entry.PinnedUntil.After(now)
}

// maxExponential is the largest value of [exponential]: -ln(2^-53).
const maxExponential = 53 * math.Ln2

// exponential turns uniformly random bits into an exponentially distributed number with
// mean 1.
func exponential(bits uint64) float64 {
	const steps = 1 << 53 // the number of float64 values in (0, 1] that are equally spaced
	return -math.Log((float64(bits>>(64-53)) + 1) / steps)
}
