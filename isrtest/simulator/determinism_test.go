package simulator_test

import (
	"fmt"
	"testing"

	"github.com/facetheory/isr/isrtest/simulator"
)

// TestDeterminism: the same seed produces the same history, byte for byte. It runs half of the seeds,
// twice each.
func TestDeterminism(t *testing.T) {
	all := seeds(t)
	each(t, all[:(len(all)+1)/2], func(t *testing.T, seed uint64) bool {
		first := simulator.Run(t, simulator.Config{Seed: seed})
		second := simulator.Run(t, simulator.Config{Seed: seed})
		if first.Hash == second.Hash {
			return true
		}
		t.Errorf("seed %d: the histories diverge at %s", seed, parting(first, second))
		return false
	})
}

// parting describes the first difference of two histories.
func parting(a, b simulator.Report) string {
	for i, line := range a.Trace {
		if i >= len(b.Trace) {
			return fmt.Sprintf("line %d: the second ends before:\n%s", i, line)
		}
		if b.Trace[i] != line {
			return fmt.Sprintf("line %d:\n%s\n%s", i, line, b.Trace[i])
		}
	}
	return fmt.Sprintf("line %d: the first ends", len(a.Trace))
}
