package simulator_test

import (
	"flag"
	"strings"
	"sync"
	"testing"

	"github.com/facetheory/isr/isrtest/simulator"
)

var worldsFlag = flag.Int("worlds", 20, "how many worlds TestRealTime runs, all at the same time")

// TestRealTime: no invariant is violated in real time on AWS's own engine, with goroutines scheduled by
// the runtime.
func TestRealTime(t *testing.T) {
	t.Parallel() // mostly waits
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
	for r := range inRealTime(simulator.Config{Engine: engine}, *startFlag, 1, *worldsFlag) {
		total["steps"] += r.Steps
		for name, n := range r.Counts {
			total[name] += n
		}
		if r.Violation != nil {
			t.Error(r.Violation)
		}
	}
	t.Logf("%d worlds: %s", *worldsFlag, counts(total))
	if total["deliver"] < fewCalls**worldsFlag {
		t.Logf("this machine was too slow for a meaningful run: %d calls", total["deliver"])
		return
	}
	for _, name := range []string{
		"publish", "heartbeat", "takeover", "assertion", "collected", "fault", "late", "crash", "freeze", "external", "purge", "regenerate", "demand",
	} {
		if total[name] == 0 && *worldsFlag >= 20 {
			t.Errorf("no world counted %q: the run proves less than it should", name)
		}
	}
}

// fewCalls are too few calls for a world to see much. On an idle machine there are 500, of which some 10 of the
// calls of all worlds are purges, the rarest event above.
const fewCalls = 300

// inRealTime runs worlds concurrently, whose seeds are stride apart, and yields their reports as they end.
// It waits for all, even if the loop breaks.
func inRealTime(cfg simulator.Config, start, stride uint64, worlds int) func(yield func(simulator.Report) bool) {
	return func(yield func(simulator.Report) bool) {
		reports := make(chan simulator.Report, worlds)
		var running sync.WaitGroup
		for i := range worlds {
			running.Go(func() {
				world := cfg
				world.Seed = start + stride*uint64(i)
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

// A bug must be caught in real time within this many rounds of this many worlds. On an idle machine, nine of
// ten worlds catch each of the bugs below; on a busy one, less happens in a world, and more rounds are needed.
const (
	bugRounds = 40
	bugWorlds = 4
)

// TestBugsInRealTime: invariants catch bugs in real time too. These are some bugs of TestBugs, each with a
// profile that reveals it.
func TestBugsInRealTime(t *testing.T) {
	t.Parallel() // mostly waits
	engine := newDisposable(t)
	shownBy := map[string]uint64{ // bug to the number of its profile, which is the profile's first seed
		"a lease is taken without the check of its expiry": 0,
		"a lease is released after a publish":              1,
		"a publish without the fence":                      5,
		"garbage is collected without the lease":           6,
		"a rollback does not update its version row":       6,
		"a request is not recorded":                        7,
	}
	var running sync.WaitGroup
	for _, bug := range bugs() {
		start, shown := shownBy[bug.Name]
		if !shown {
			continue
		}
		delete(shownBy, bug.Name)
		running.Go(func() {
			v := caughtInRealTime(simulator.Config{Engine: engine, Bug: &bug}, start)
			if v == nil {
				t.Errorf("%s: no invariant caught it in %d worlds", bug.Name, bugRounds*bugWorlds)
				return
			}
			t.Logf("%s: caught by seed %d (%s), step %d: %s: %s", bug.Name, v.Seed, v.Profile, v.Step, v.Invariant, v.Detail)
		})
	}
	running.Wait()
	for name := range shownBy {
		t.Errorf("no bug is named %q", name)
	}
}

// caughtInRealTime returns the first violation in the worlds of a seed's profile; nil if there is none.
func caughtInRealTime(cfg simulator.Config, start uint64) (caught *simulator.Violation) {
	for round := range uint64(bugRounds) {
		for r := range inRealTime(cfg, start+round*bugWorlds*simulator.Profiles(), simulator.Profiles(), bugWorlds) {
			if caught == nil {
				caught = r.Violation
			}
		}
		if caught != nil {
			break
		}
	}
	return caught
}
