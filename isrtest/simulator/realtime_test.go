package simulator_test

import (
	"flag"
	"strings"
	"sync"
	"testing"

	"github.com/facetheory/isr/isrtest/simulator"
)

var worldsFlag = flag.Int("worlds", 20, "how many worlds TestRealTime runs, all at the same time")

// TestRealTime: no promise is broken where time passes by itself and goroutines run
// as they are scheduled, on AWS's own engine.
func TestRealTime(t *testing.T) {
	engine := newDisposable(t)
	if *seedFlag >= 0 {
		r := simulator.RunInRealTime(simulator.Config{Seed: uint64(*seedFlag), Engine: engine})
		t.Logf("seed %d (%s): %d steps, %s\n%s", r.Seed, r.Profile, r.Steps, counts(r.Counts), strings.Join(r.Trace, "\n"))
		if r.Violation != nil {
			t.Error(r.Violation)
		}
		return
	}
	total := make(map[string]int)
	for r := range inRealTime(simulator.Config{Engine: engine}, *startFlag, *worldsFlag) {
		total["steps"] += r.Steps
		for name, n := range r.Counts {
			total[name] += n
		}
		if r.Violation != nil {
			t.Error(r.Violation)
		}
	}
	t.Logf("%d worlds: %s", *worldsFlag, counts(total))
	for _, name := range []string{
		"publish", "heartbeat", "takeover", "assertion", "collected", "fault", "late", "crash", "freeze", "external", "purge", "regenerate", "demand",
	} {
		if total[name] == 0 && *worldsFlag >= 20 {
			t.Errorf("in no world there was what is counted as %q: they prove less than they should", name)
		}
	}
}

// inRealTime runs worlds, all at the same time, and yields what came of them as they
// end. It waits for all, whatever the loop does.
func inRealTime(cfg simulator.Config, start uint64, worlds int) func(yield func(simulator.Report) bool) {
	return func(yield func(simulator.Report) bool) {
		reports := make(chan simulator.Report, worlds)
		var running sync.WaitGroup
		for i := range worlds {
			running.Go(func() {
				world := cfg
				world.Seed = start + uint64(i)
				reports <- simulator.RunInRealTime(world)
			})
		}
		defer running.Wait()
		for range worlds {
			if !yield(<-reports) {
				return
			}
		}
	}
}
