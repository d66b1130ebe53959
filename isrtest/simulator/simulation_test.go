package simulator_test

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/facetheory/isr/isrtest/simulator"
)

// Flags of the simulation. -seeds takes numbers such as 1e6.
var (
	seedsFlag = flag.Float64("seeds", 200, "how many seeds TestSimulation runs")
	startFlag = flag.Uint64("start", 0, "the first of them")
	seedFlag  = flag.Int64("seed", -1, "the one seed that TestSimulation runs instead")
	kindFlag  = flag.String("kind", "", "the profile whose worlds TestSimulation runs; empty for all")
	stepsFlag = flag.Int("steps", simulator.DefaultSteps, "how many steps each takes before the recovery")
)

// TestSimulation: no invariant is violated.
func TestSimulation(t *testing.T) {
	if *seedFlag >= 0 {
		r := simulator.Run(t, simulator.Config{Seed: uint64(*seedFlag), Steps: *stepsFlag})
		t.Logf("seed %d (%s): %d steps, %s, trace %s\n%s", r.Seed, r.Profile, r.Steps, counts(r.Counts), r.Hash, strings.Join(r.Trace, "\n"))
		if r.Violation != nil {
			t.Error(r.Violation)
		}
		return
	}
	total, worlds := make(map[string]int), make(map[string]int)
	var mu sync.Mutex
	each(t, seeds(t), func(t *testing.T, seed uint64) bool {
		r := simulator.Run(t, simulator.Config{Seed: seed, Steps: *stepsFlag})
		mu.Lock()
		defer mu.Unlock()
		total["steps"] += r.Steps
		for name, n := range r.Counts {
			total[name] += n
			worlds[name] += min(n, 1)
		}
		if r.Violation != nil {
			t.Error(r.Violation)
		}
		return r.Violation == nil
	})
	t.Logf("%v seeds: %s", *seedsFlag, counts(total))
	reportInterleavings(t, total, worlds)
}

// demandedFrom is the number of seeds from which every interleaving must occur: the rarest occurs in
// two worlds of a thousand.
const demandedFrom = 4000

// reportInterleavings reports how often each interleaving occurred, and fails if one never did.
func reportInterleavings(t *testing.T, total, worlds map[string]int) {
	t.Helper()
	var report strings.Builder
	for _, name := range simulator.Interleavings() {
		fmt.Fprintf(&report, "%8d in %5d worlds  %s\n", total[name], worlds[name], name)
		if total[name] == 0 && *seedsFlag >= demandedFrom && *kindFlag == "" && !t.Failed() {
			defer t.Errorf("none of %v worlds counted %q: the run proves less than it should", *seedsFlag, name)
		}
	}
	t.Logf("interleavings:\n%s", report.String())
}

// seeds returns the seeds that the flags select.
func seeds(t *testing.T) (all []uint64) {
	t.Helper()
	for seed := range simulator.Seeds(*kindFlag, *startFlag) {
		if len(all) >= int(*seedsFlag) {
			break
		}
		all = append(all, seed)
	}
	if len(all) == 0 {
		t.Fatalf("no worlds: -kind %q is unknown, or -seeds is 0", *kindFlag)
	}
	return all
}

// each runs seeds on all processors until one run returns false.
func each(t *testing.T, seeds []uint64, run func(*testing.T, uint64) bool) {
	t.Helper()
	n := uint64(len(seeds))
	var next atomic.Uint64
	var over atomic.Bool
	t.Run("seeds", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for i := next.Add(1) - 1; i < n && !over.Load(); i = next.Add(1) - 1 {
					if !run(t, seeds[i]) {
						over.Store(true)
					}
				}
			})
		}
	})
}

// counts formats counters.
func counts(of map[string]int) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(parts, ", ")
}
