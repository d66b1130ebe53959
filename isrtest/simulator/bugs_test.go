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

// revealing are seeds that reveal a bug which one world in twenty or fewer reveals: the search for the bug
// begins there.
func revealing() map[string]uint64 {
	return map[string]uint64{
		"a back-off does not check the token":                 192,
		"a denied body is reported as missing":                2613,
		"a lost reply means that nothing was purged":          1246,
		"a node skips all marks of a log row but the first":   452,
		"a page that has just changed is read by a query":     416,
		"a process starts without the newest rows of the log": 1936,
		"a publish over a pin is not logged":                  830,
		"a request is ended without its attempt token":        65,
		"a rollback does not update its version row":          238,
		"a withdrawal is ignored":                             48,
		"a withdrawal is not logged":                          48,
		"bodies that request records name are collected":      3683,
		"bodies that versions name are collected":             2923,
		"garbage is collected without the lease":              24,
		"marks in the log are applied without their hard_seq": 414,
		"the cursor advances over a gap":                      3185,
	}
}

// maxBugSeeds is the number of seeds of its profile within which a bug must be caught.
const maxBugSeeds = 800

// TestBugs: an invariant catches every seeded bug. A simulation that no bug can fail would prove
// nothing.
func TestBugs(t *testing.T) {
	first := revealing()
	for _, bug := range bugs() {
		from := max(*startFlag, first[bug.Name])
		delete(first, bug.Name)
		t.Run(bug.Name, func(t *testing.T) {
			t.Parallel()
			worlds := 0
			for seed := range simulator.Seeds(bug.Profile, from) {
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
	for name := range first {
		t.Errorf("no bug is named %q", name)
	}
}
