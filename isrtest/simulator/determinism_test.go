package simulator_test

import (
	"slices"
	"testing"

	"github.com/facetheory/isr/isrtest/simulator"
)

// TestDeterminism: the same seed gives the same history, to the byte.
func TestDeterminism(t *testing.T) {
	each(t, 0, 64, func(t *testing.T, seed uint64) bool {
		first := simulator.Run(t, simulator.Config{Seed: seed})
		second := simulator.Run(t, simulator.Config{Seed: seed})
		if first.Hash == second.Hash {
			return true
		}
		for i, line := range first.Trace {
			if i >= len(second.Trace) || second.Trace[i] != line {
				t.Errorf("seed %d: the histories part at line %d:\n%s\n%s", seed, i,
					line, slices.Concat(second.Trace, []string{"(its end)"})[min(i, len(second.Trace))])
				break
			}
		}
		return false
	})
}
