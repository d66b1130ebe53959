package isr

import (
	"math"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		window time.Duration
		share  float64
		least  time.Duration
	}{
		{time.Second, DefaultJitter, time.Second},
		{19 * time.Second, DefaultJitter, 19 * time.Second},
		{20 * time.Second, DefaultJitter, 19 * time.Second},
		{time.Minute, DefaultJitter, 57 * time.Second},
		{time.Hour, DefaultJitter, 57 * time.Minute},
		{time.Minute, 0, time.Minute},
		{time.Minute, maxJitter, 30 * time.Second},
		{store.MaxInterval, maxJitter, store.MaxInterval / 2},
	} {
		for bits, want := range map[uint64]time.Duration{0: c.window, math.MaxUint64: c.least} {
			cache := &Cache{cfg: Config{Random: func() uint64 { return bits }}}
			if got := cache.shorten(c.window, c.share); got != want {
				t.Errorf("%v by %v, with the bits %x: %v, want %v", c.window, c.share, bits, got, want)
			}
		}
	}
}
