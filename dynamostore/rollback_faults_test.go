package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// onFewPlans runs a test on every engine under fewPlans.
func onFewPlans(t *testing.T, test planTest) {
	onEngines(t, func(t *testing.T, db engine) { fewPlans(t, db, test) })
}

// fewPlans runs a test on pages with two kept generations, under each of the faults
// that differ in kind, and in process, where calls are cheap, under every pair of them.
func fewPlans(t *testing.T, db engine, test planTest) {
	faults, length := []fault{none, lostRequest, lostReply, lateRequest, lastRequest, conflict}, 1
	if _, inProcess := db.(*localdynamo.DB); inProcess {
		length = 2
	}
	r := newRig(t, db)
	for i, plan := range plans(length, faults) {
		pk := fmt.Sprintf("CACHE#%d", i)
		for _, id := range []string{"g1", "g2"} {
			l, read := begin(t, r.store, pk)
			if _, err := r.store.Publish(t.Context(), l, read, r.entry(id), store.PublishOptions{History: true}); err != nil {
				t.Fatal(err)
			}
		}
		test(t, r, pk, plan)
		r.api.arm(nil, false, nil)
		r.api.deliver()
		if t.Failed() {
			t.Fatalf("under the plan %v", plan)
		}
	}
}

// readPage reads without faults.
func (r *rig) readPage(t *testing.T, pk string) store.Record {
	t.Helper()
	record, err := r.store.Read(t.Context(), pk)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// logged returns how often the log has this rig's page after a sequence.
func (r *rig) logged(t *testing.T, after int64) (times int) {
	t.Helper()
	_, changes, err := r.store.Changes(t.Context(), after)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		if after++; change.Seq != after {
			t.Errorf("the log has a gap before %d", change.Seq)
		}
		times += len(change.Reload)
	}
	return times
}

func (r *rig) sequence(t *testing.T) int64 {
	t.Helper()
	sequence, err := r.store.Sequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return sequence.Seq
}

// TestHistoryUnderFaults: a publish with history and a rollback succeed, once, if the
// store replies in the end.
func TestHistoryUnderFaults(t *testing.T) {
	t.Parallel()
	onFewPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		l, read := begin(t, r.faulty, pk)
		r.api.arm(plan, false, nil)
		if _, err := r.faulty.Publish(t.Context(), l, read, r.entry("g3"), store.PublishOptions{History: true}); err != nil {
			t.Errorf("Publish: %v", err)
		}
		r.api.deliver()
		read, from := r.readPage(t, pk), r.sequence(t)
		for skip := range rollbackReads + 1 { // reads, then the transaction
			r.api.arm(append(make([]fault, skip), plan...), false, nil)
			back, err := r.faulty.Rollback(t.Context(), read, []string{"g1", "g2"}[skip%2], r.assertion())
			if err != nil {
				t.Errorf("Rollback under faults after %d calls: %v", skip, err)
			}
			r.api.deliver()
			read = r.readPage(t, pk)
			if d := diff(&back, read.Entry); d != "" {
				t.Errorf("after %d calls (-want +got):\n%s", skip, d)
			}
		}
		if n := r.logged(t, from); n != rollbackReads+1 {
			t.Errorf("the log tells of %d rollbacks, want %d", n, rollbackReads+1)
		}
	})
}

// TestRollbackCancelled: the returned outcome is the actual one and final, and a
// rollback is in the log if and only if it was committed.
func TestRollbackCancelled(t *testing.T) {
	t.Parallel()
	onCalls(t, rollbackReads+1, rollbackReads+3, fewPlans, func(t *testing.T, r *rig, pk string, plan []fault, leaves int) {
		read, from := r.readPage(t, pk), r.sequence(t)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r.api.arm(append(make([]fault, rollbackReads), plan...), false, func(n int) {
			if n == leaves {
				leave()
			}
		})
		_, err := r.faulty.Rollback(ctx, read, "g1", r.assertion())
		if errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrMoved) {
			t.Errorf("Rollback: %v, which is not so", err)
		}
		r.api.deliver()
		got, _ := r.current(t, pk)
		if n := r.logged(t, from); (got == "g1") != (err == nil) || (n == 1) != (err == nil) {
			t.Errorf("Rollback: %v, current is %q, and the log tells of %d", err, got, n)
		}
	})
}

// TestRollbackOvertaken: while a rollback waits for a reply, another one to the same
// generation at the same time commits. Only the log distinguishes them.
func TestRollbackOvertaken(t *testing.T) {
	t.Parallel()
	onCalls(t, rollbackReads+1, rollbackReads+4, fewPlans, func(t *testing.T, r *rig, pk string, plan []fault, when int) {
		read, from := r.readPage(t, pk), r.sequence(t)
		other := error(nil)
		r.api.arm(append(make([]fault, rollbackReads), plan...), false, func(n int) {
			if n == when {
				_, other = r.store.Rollback(t.Context(), read, "g1", r.assertion())
			}
		})
		_, err := r.faulty.Rollback(t.Context(), read, "g1", r.assertion())
		if errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Rollback: %v", err)
		}
		made := r.api.made() >= when
		r.api.deliver()
		won := 0
		for _, e := range []error{err, other} {
			if e == nil {
				won++
			} else if !errors.Is(e, store.ErrMoved) {
				t.Errorf("Rollback: %v, want ErrMoved", e)
			}
		}
		if !made {
			won-- // there was no other rollback
		}
		if n := r.logged(t, from); won != 1 || n != 1 {
			t.Errorf("%d of two rollbacks returned success (%v, %v), and the log has %d", won, err, other, n)
		}
	})
}

// TestRollbackInOutage: without a reply the outcome is unknown, within the documented
// time.
func TestRollbackInOutage(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for _, f := range []fault{lostRequest, lostReply, lateRequest, serverError} {
			r := newRig(t, db)
			r.keep("g1")
			r.keep("g2")
			r.faulty = newStore(t, r.api, r.raw.name, dynamostore.Config{
				Now: r.clock.Now, RetryDelay: time.Millisecond, SettleTimeout: settleInOutage,
			})
			r.api.arm(append(make([]fault, rollbackReads), f), true, nil)
			_, err := r.faulty.Rollback(t.Context(), r.read(), "g1", r.assertion())
			if !errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrMoved) {
				t.Errorf("Rollback, %v: %v, want ErrUnknownOutcome alone", f, err)
			}
			r.api.arm([]fault{none, lostRequest}, true, nil)
			other := map[string]string{"g1": "g2", "g2": "g1"}
			read := r.read()
			if _, err := r.faulty.Rollback(t.Context(), read, other[read.Entry.GenerationID], r.assertion()); err == nil || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("Rollback before anything was sent: %v, want a plain error", err)
			}
		}
	})
}

// TestUnsettled: unchanged rows do not prove that a transaction will not commit,
// unless it was made impossible.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		r.keep("g1")
		r.keep("g2")
		r.api.arm(append(make([]fault, rollbackReads), lastRequest, denied, denied), false, nil)
		if _, err := r.faulty.Rollback(t.Context(), r.read(), "g1", r.assertion()); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Rollback: %v, want ErrUnknownOutcome", err)
		}
		r.api.deliver()
		l, read := begin(t, r.faulty, pk)
		r.api.arm([]fault{lastRequest, denied, denied}, false, nil)
		if _, err := r.faulty.Publish(t.Context(), l, read, r.entry("g3"), store.PublishOptions{}); !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Publish: %v, want ErrUnknownOutcome", err)
		}
		r.api.deliver()
		if got, _ := r.current(t, pk); got != "g3" || read.Entry.GenerationID != "g1" {
			t.Errorf("current was %q, and is %q: want both to have come after all", read.Entry.GenerationID, got)
		}
	})
}

// TestExpiredTokenOfRollback: the log shows that a refused rollback had been
// committed.
func TestExpiredTokenOfRollback(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.keep("g1")
		f.keep("g2")
		f.store = newStore(t, forgetfulAPI{db}, f.raw.name, dynamostore.Config{Now: f.clock.Now})
		want := f.rollback("g1", f.assertion())
		if d := diff(&want, f.read().Entry); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		want = f.publishAs(f.entry("g3"), store.PublishOptions{History: true})
		if d := diff(&want, f.read().Entry); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}
