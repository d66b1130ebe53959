package simulator_test

import (
	"testing"

	"github.com/facetheory/isr/isrtest/simulator"
)

// bugs are the seeded bugs of TestBugs. Each breaks one thing that a promise depends on. A new
// operation of the fleet comes with bugs of its own.
func bugs() []simulator.Bug {
	return concat(lockBugs(), publishBugs(), answerBugs(), sequenceBugs(), bodyBugs(), historyBugs(), requestBugs(), collectBugs(), withdrawalBugs(), purgeBugs(), tornBugs())
}

func concat(lists ...[]simulator.Bug) (all []simulator.Bug) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// maxBugSeeds is the number of seeds of its profile within which a bug must be caught.
const maxBugSeeds = 800

// TestBugs: an invariant catches every seeded bug. A simulation that no bug can fail would prove
// nothing.
func TestBugs(t *testing.T) {
	for _, bug := range bugs() {
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			worlds := 0
			for seed := range simulator.Seeds(bug.Profile, *startFlag) {
				if worlds++; worlds > maxBugSeeds {
					break
				}
				r := simulator.Run(t, simulator.Config{Seed: seed, Bug: &bug})
				if v := r.Violation; v != nil {
					t.Logf("caught by seed %d (%s), the %d. of its kind, step %d: %s: %s", v.Seed, v.Profile, worlds, v.Step, v.Invariant, v.Detail)
					return
				}
			}
			t.Errorf("no invariant caught it within %d seeds", maxBugSeeds)
		})
	}
}
