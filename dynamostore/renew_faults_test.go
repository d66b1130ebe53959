package dynamostore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// renewed returns the renewal of an entry at the time of the clock.
func (r *rig) renewed(e store.Entry) store.Entry {
	e.GeneratedAt = r.clock.Now().Truncate(time.Millisecond).UTC()
	return e
}

var renews = store.PublishOptions{Renew: true}

// seed publishes a generation and lets a second pass.
func (r *rig) seed(t *testing.T, pk string, history bool) {
	t.Helper()
	l, read := begin(t, r.store, pk)
	if _, err := r.store.Publish(t.Context(), l, read, r.entry("g1"), store.PublishOptions{History: history}); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(1250 * time.Millisecond)
}

// began returns when the current generation began to render.
func (r *rig) began(t *testing.T, pk string) time.Time {
	t.Helper()
	record, err := r.store.Read(t.Context(), pk)
	if err != nil || record.Entry == nil {
		t.Fatalf("Read: %+v, %v", record.Entry, err)
	}
	return record.Entry.GeneratedAt
}

// TestRenewUnderFaults: the caller's context ends during the k-th call of a renewal, or not. The
// returned outcome is the actual one, and final, although the generation is the same before and
// after.
func TestRenewUnderFaults(t *testing.T) {
	t.Parallel()
	onCalls(t, 1, 4, allPlans, func(t *testing.T, r *rig, pk string, plan []fault, leaves int) {
		r.seed(t, pk, leaves%2 == 0)
		l, read := begin(t, r.faulty, pk)
		next := r.renewed(*read.Entry)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r.api.arm(plan, false, func(n int) {
			if n == leaves && leaves < 4 {
				leave()
			}
		})
		_, err := r.faulty.Publish(ctx, l, read, next, renews)
		if errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrMoved) || leaves == 4 && err != nil {
			t.Errorf("a renewal: %v", err)
		}
		r.api.deliver()
		if renewed := r.began(t, pk).Equal(next.GeneratedAt); renewed != (err == nil) {
			t.Errorf("a renewal: %v, and it is in the table: %t", err, renewed)
		}
	})
}

// TestRenewOvertaken: while a renewal waits for a reply, its lease expires, and another node renews
// the same generation; or an operator pins it, without a lease. Whether they read this renewal
// decides its outcome.
func TestRenewOvertaken(t *testing.T) {
	t.Parallel()
	for name, overtake := range map[string]func(t *testing.T, r *rig, pk string) (seen time.Time){
		"by a renewal": func(t *testing.T, r *rig, pk string) time.Time {
			r.clock.Advance(31 * time.Second)
			l, read := begin(t, r.store, pk)
			if _, err := r.store.Publish(t.Context(), l, read, r.renewed(*read.Entry), renews); err != nil {
				t.Errorf("the other renewal: %v", err)
			}
			return read.Entry.GeneratedAt
		},
		"by a pin": func(t *testing.T, r *rig, pk string) time.Time {
			read, err := r.store.Read(t.Context(), pk)
			if err == nil {
				_, err = r.store.Pin(t.Context(), read, store.Assertion{Key: store.Key{Text: "example.com/"}, PinnedUntil: store.Forever()})
			}
			if err != nil {
				t.Errorf("the pin: %v", err)
			}
			return read.Entry.GeneratedAt
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onCalls(t, 2, 4, allPlans, func(t *testing.T, r *rig, pk string, plan []fault, when int) {
				r.seed(t, pk, when%2 == 0)
				l, read := begin(t, r.faulty, pk)
				next := r.renewed(*read.Entry)
				var seen time.Time
				r.api.arm(plan, false, func(n int) {
					if n == when {
						seen = overtake(t, r, pk)
					}
				})
				_, err := r.faulty.Publish(t.Context(), l, read, next, renews)
				if errors.Is(err, store.ErrUnknownOutcome) {
					t.Errorf("a renewal: %v", err)
				}
				r.api.deliver()
				committed := r.began(t, pk).Equal(next.GeneratedAt) || seen.Equal(next.GeneratedAt)
				if committed != (err == nil) {
					t.Errorf("a renewal: %v, and it was committed: %t", err, committed)
				}
			})
		})
	}
}

// TestRenewWithExpiredToken: META shows that a refused renewal had been committed.
func TestRenewWithExpiredToken(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		r.seed(t, pk, false)
		forgetful := newStore(t, forgetfulAPI{db}, r.raw.name, dynamostore.Config{Now: r.clock.Now})
		l, read := begin(t, forgetful, pk)
		next := r.renewed(*read.Entry)
		if _, err := forgetful.Publish(t.Context(), l, read, next, renews); err != nil || !r.began(t, pk).Equal(next.GeneratedAt) {
			t.Errorf("a renewal: %v", err)
		}
	})
}
