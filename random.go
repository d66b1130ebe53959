package isr

import (
	"math/bits"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

// below draws a number in [0, n).
func (c *Cache) below(n uint64) uint64 {
	high, _ := bits.Mul64(c.cfg.Random(), n)
	return high
}

// jitter spreads d over half to one and a half of it.
func (c *Cache) jitter(d time.Duration) time.Duration {
	return backoff.Jitter(d, c.cfg.Random())
}

// shorten takes a random part of at most share off a freshness window, in whole
// seconds, so that pages published together do not expire together. What it
// returns is stored, and all promises to clients follow from it.
func (c *Cache) shorten(window time.Duration, share float64) time.Duration {
	most := uint64(window.Seconds() * share)
	return window - time.Duration(c.below(most+1))*time.Second
}

// newGenerationID is unique, and sorts by time: those of one page by the order in
// which they are published, since a publish takes longer than a microsecond.
func (c *Cache) newGenerationID() string {
	return c.now().UTC().Format("20060102T150405.000000Z") + "-" + strings.ToLower(c.cfg.NewToken())
}
