package dynamostore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// quarantined returns a generation that is rejected.
func (r *rig) quarantined(id string) store.Quarantined {
	e := r.entry(id)
	e.PinnedUntil, e.AssertedAt = time.Time{}, time.Time{}
	return store.Quarantined{Entry: e, Reason: "too small", RejectedAt: r.clock.Now()}
}

// inQuarantine returns the id of the generation in quarantine; empty if there is none.
func (r *rig) inQuarantine(t *testing.T, pk string) string {
	t.Helper()
	q, err := r.store.Quarantined(t.Context(), pk)
	if err != nil && !errors.Is(err, store.ErrNotQuarantined) {
		t.Fatal(err)
	}
	return q.Entry.GenerationID
}

// TestQuarantineUnderFaults: a rejected generation is kept as long as the lease lasts, which
// stays held; and it is deleted, unless there is another one.
func TestQuarantineUnderFaults(t *testing.T) {
	t.Parallel()
	onPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		for _, id := range []string{"g1", "g2"} {
			l, read := begin(t, r.faulty, pk)
			r.api.arm(plan, false, nil)
			if err := r.faulty.Quarantine(t.Context(), l, r.quarantined(id)); err != nil {
				t.Errorf("Quarantine %s: %v", id, err)
			}
			r.api.deliver()
			if got := r.inQuarantine(t, pk); got != id {
				t.Errorf("in quarantine is %q, want %s", got, id)
			}
			r.api.arm(nil, false, nil)
			if _, err := r.faulty.Publish(t.Context(), l, read, r.entry("c"+id), store.PublishOptions{}); err != nil {
				t.Errorf("Publish under the same lease: %v", err)
			}
		}
		for _, drop := range []struct{ id, left string }{{"g1", "g2"}, {"g2", ""}, {"g2", ""}} {
			r.api.arm(plan, false, nil)
			err := r.faulty.DropQuarantined(t.Context(), pk, drop.id)
			r.api.deliver()
			if got := r.inQuarantine(t, pk); err != nil || got != drop.left {
				t.Errorf("DropQuarantined %s: %v; in quarantine is %q, want %q", drop.id, err, got, drop.left)
			}
		}
	})
}

// TestQuarantineCancelled: the caller's context ends during the k-th call. What was reported
// as kept is kept; what arrives after the lease has ended does not replace the generation of
// another node.
func TestQuarantineCancelled(t *testing.T) {
	t.Parallel()
	onCalls(t, 1, 3, allPlans, func(t *testing.T, r *rig, pk string, plan []fault, leaves int) {
		l, _ := begin(t, r.faulty, pk)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r.api.arm(plan, false, func(n int) {
			if n == leaves {
				leave()
			}
		})
		err := r.faulty.Quarantine(ctx, l, r.quarantined("g1"))
		if got := r.inQuarantine(t, pk); err == nil && got != "g1" {
			t.Errorf("Quarantine: no error, in quarantine is %q", got)
		}
		r.clock.Advance(time.Minute) // the lease ends
		other, _ := begin(t, r.store, pk)
		if err := r.store.Quarantine(t.Context(), other, r.quarantined("g2")); err != nil {
			t.Errorf("Quarantine by another node: %v", err)
		}
		r.api.deliver()
		if got := r.inQuarantine(t, pk); got != "g2" {
			t.Errorf("in quarantine is %q, want g2", got)
		}
	})
}
