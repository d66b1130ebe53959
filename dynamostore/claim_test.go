package dynamostore_test

import (
	"testing"
	"time"
)

// A claim whose worker freezes after it has looked: failures that others have made
// up for meanwhile are not its own, and those that they have left are.
func TestClaimCountsFailuresOfWhatItReplaces(t *testing.T) {
	onEngines(t, func(t *testing.T, db engine) {
		for _, c := range []struct {
			name           string
			before, during bool // whether a regeneration fails then
			want           int
		}{
			{"made up for", true, false, 0},
			{"left", false, true, 1},
			{"made up for, and left", true, true, 1},
		} {
			t.Run(c.name, func(t *testing.T) {
				r := newRig(t, db)
				regenerate := func(fails bool) {
					l := r.acquire()
					if !fails {
						if err := r.store.Release(t.Context(), l); err != nil {
							t.Fatal(err)
						}
						return
					}
					if err := r.store.BackOff(t.Context(), l, time.Second); err != nil {
						t.Fatal(err)
					}
					r.clock.Advance(3 * time.Second)
				}
				regenerate(c.before)
				r.api.arm(nil, false, func(n int) {
					if n == 3 { // after the reads of REQ# and LOCK
						regenerate(false)
						regenerate(c.during)
					}
				})
				l, err := r.faulty.Acquire(t.Context(), pk, 30*time.Second, newClaim("r1"))
				if err != nil {
					t.Fatal(err)
				}
				if l.Failures() != c.want {
					t.Errorf("acquired after %d failures, want %d", l.Failures(), c.want)
				}
			})
		}
	})
}
