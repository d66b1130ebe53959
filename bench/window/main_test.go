package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/facetheory/isr"
)

// Windows that follow the content cost hardly more than the largest for pages that do not
// change, and show changes almost as soon as the least for pages that do.
func TestAutoWindowFollowsTheContent(t *testing.T) {
	const least, most = 30 * time.Second, time.Hour
	auto := isr.AutoWindow{Min: least, Max: most}
	run := func(p pattern, first time.Duration, next func(window, since time.Duration, changed bool) time.Duration) result {
		r := rand.New(rand.NewPCG(1, 0))
		return simulate(r, p.changes(r), 5*time.Second, first, next)
	}
	for _, p := range patterns() {
		short, long, got := run(p, least, fixed), run(p, most, fixed), run(p, least, auto.Next)
		switch p.name {
		case "never changes", "each night at 03:00", "every 2 days on average":
			if got.renders > 1.25*long.renders {
				t.Errorf("%s: %.0f renders a day, %.0f with the largest window", p.name, got.renders, long.renders)
			}
		case "every minute", "differs at every render":
			if got.behind > short.behind+10*time.Second {
				t.Errorf("%s: outdated for %v, %v with the least window", p.name, got.behind, short.behind)
			}
		default:
			if got.outdated > 0.6*long.outdated || got.renders > short.renders/10 {
				t.Errorf("%s: %.4f outdated with %.0f renders a day; %.4f with the largest window, %.0f with the least",
					p.name, got.outdated, got.renders, long.outdated, short.renders)
			}
		}
	}
}
