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
	t.Parallel() // it waits most of the time
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
		t.Logf("this machine was so slow that little happened: %d calls", total["deliver"])
		return
	}
	for _, name := range []string{
		"publish", "heartbeat", "takeover", "assertion", "collected", "fault", "late", "crash", "freeze", "external", "purge", "regenerate", "demand",
	} {
		if total[name] == 0 && *worldsFlag >= 20 {
			t.Errorf("in no world there was what is counted as %q: they prove less than they should", name)
		}
	}
}

// fewCalls are too few for a world to see much; it is some hundreds on a machine that
// is not busy.
const fewCalls = 100

// inRealTime runs worlds, all at the same time, whose seeds lie stride apart, and
// yields what came of them as they end. It waits for all, whatever the loop does.
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

// A bug has to be caught in real time within so many rounds of so many worlds. On
// a machine that is not busy, nine of ten worlds catch each of those below; on one
// that is, less happens in a world.
const (
	bugRounds = 5
	bugWorlds = 4
)

// TestBugsInRealTime: in real time, too, invariants notice what is broken. These are
// some bugs of TestBugs, each with a profile that shows it.
func TestBugsInRealTime(t *testing.T) {
	t.Parallel() // it waits most of the time
	engine := newDisposable(t)
	shownBy := map[string]uint64{ // the number of a profile, which is its first seed
		"a lease is taken without the check of its expiry": 0,
		"a lease is released after a publish":              1,
		"a publish without the fence":                      5,
		"garbage is collected without the lease":           6,
		"a rollback does not touch its version row":        6,
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
				t.Errorf("%s: no invariant noticed it in %d worlds", bug.Name, bugRounds*bugWorlds)
				return
			}
			t.Logf("%s: caught by seed %d (%s), step %d: %s: %s", bug.Name, v.Seed, v.Profile, v.Step, v.Invariant, v.Detail)
		})
	}
	running.Wait()
	for name := range shownBy {
		t.Errorf("there is no bug named %q", name)
	}
}

// caughtInRealTime is the first that notices a bug, of the worlds with the profile of
// a seed; nil if none does.
func caughtInRealTime(cfg simulator.Config, start uint64) (caught *simulator.Violation) {
	for round := range uint64(bugRounds) {
		for r := range inRealTime(cfg, start+round*bugWorlds*profiles, profiles, bugWorlds) {
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

// profiles is how many there are: seeds that far apart have the same.
const profiles = 16
