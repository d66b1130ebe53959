package dynamostore_test

import (
	"strconv"
	"testing"
	"time"
)

// TestClaimCountsFailuresOfReplacedRow: a worker freezes between its read and its
// claim. Its failure count is the count of the row that the claim replaces.
func TestClaimCountsFailuresOfReplacedRow(t *testing.T) {
	t.Parallel()
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

// TestImpossibleExpiryIsFree: an expiry that no lease can have, such as one in
// milliseconds, blocks neither the page nor the request record.
func TestImpossibleExpiryIsFree(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		milliseconds := num(strconv.FormatInt(f.clock.Now().UnixMilli()+30_000, 10))
		lock := attrs{"lease_token": str("theirs"), "lease_expires_at": milliseconds}
		f.raw.set(pk, "LOCK", lock)
		if read := f.read().Lock; read == nil || read.HeldAt(f.clock.Now()) {
			t.Errorf("Read shows %+v, want a lease that is free", read)
		}
		f.acquire()

		f.raw.set(pk, "LOCK", lock)
		f.raw.set(pk, "REQ#r1", attrs{
			"request_hash": str(newClaim("r1").Hash), "status": str("STARTED"), "attempt_token": str("theirs"),
			"in_progress_until": milliseconds, "ttl": num(seconds(f.clock.Now().Add(time.Hour))),
		})
		if _, err := f.store.Acquire(t.Context(), pk, 30*time.Second, newClaim("r1")); err != nil {
			t.Errorf("Acquire with a claim: %v", err)
		}
	})
}
