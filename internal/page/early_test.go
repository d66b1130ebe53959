package page

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

func TestExponential(t *testing.T) {
	if lo, hi := exponential(math.MaxUint64), exponential(0); lo != 0 || math.Abs(hi-maxExponential) > 1e-9 {
		t.Errorf("from %v to %v, want from 0 to %v", lo, hi, maxExponential)
	}
}

// The probability of an early refresh follows the formula of the paper: exp(-left/(beta*delta)).
func TestEarlyRefreshProbability(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)).Uint64
	now := time.Unix(1e9, 0)
	const draws = 100_000
	for _, c := range []struct {
		left, delta time.Duration
		beta        float64
	}{
		{time.Second, time.Second, 1},
		{time.Second, time.Second, 0.5},
		{3 * time.Second, time.Second, 2},
		{10 * time.Second, time.Second, 1},
		{37 * time.Second, time.Second, 1},
		{-time.Second, time.Second, 1}, // the window ended a moment ago
		{time.Second, 0, 1},            // the render time is not known
		{time.Second, time.Second, 0},
	} {
		p := &Page{Entry: store.Entry{GeneratedAt: now.Add(c.left - time.Minute), Revalidate: time.Minute, RenderTime: c.delta}}
		due := 0
		for range draws {
			if p.DueEarly(now, c.beta, random) {
				due++
			}
		}
		want := min(1, math.Exp(-float64(c.left)/(c.beta*float64(c.delta))))
		if c.delta == 0 || c.beta == 0 {
			want = 0
		}
		if got := float64(due) / draws; math.Abs(got-want) > 0.01 || want == 0 && due > 0 {
			t.Errorf("%+v: %v of the draws, want %v", c, got, want)
		}
	}
}

// A pinned page is not refreshed, even long after its window.
func TestPinnedPagesAreNotRefreshedEarly(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := &Page{Entry: store.Entry{GeneratedAt: now.Add(-time.Hour), Revalidate: time.Minute, RenderTime: time.Second, PinnedUntil: now.Add(time.Hour)}}
	if p.DueEarly(now, 1, rand.Uint64) {
		t.Error("a pinned page is refreshed early")
	}
}
