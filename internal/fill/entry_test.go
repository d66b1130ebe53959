package fill

import (
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
		{time.Second, 0.05, time.Second},
		{19 * time.Second, 0.05, 19 * time.Second},
		{20 * time.Second, 0.05, 19 * time.Second},
		{time.Minute, 0.05, 57 * time.Second},
		{time.Hour, 0.05, 57 * time.Minute},
		{time.Minute, 0, time.Minute},
		{time.Minute, 0.5, 30 * time.Second},
		{store.MaxInterval, 0.5, store.MaxInterval / 2},
	} {
		most := func(n uint64) uint64 { return n - 1 }
		least := func(uint64) uint64 { return 0 }
		for _, draw := range []struct {
			below func(uint64) uint64
			want  time.Duration
		}{{least, c.window}, {most, c.least}} {
			e := &Engine{Options: Options{Below: draw.below}}
			if got := e.shorten(c.window, c.share); got != draw.want {
				t.Errorf("%v by %v: %v, want %v", c.window, c.share, got, draw.want)
			}
		}
	}
}
