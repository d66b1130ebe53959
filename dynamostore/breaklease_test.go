package dynamostore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// TestBreakForeignLease: BreakLease deletes LOCK rows of other services, and
// malformed ones.
func TestBreakForeignLease(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		for name, test := range map[string]struct {
			before, after attrs
			free          bool
		}{
			"of the reference": {attrs{"lease_token": str("t"), "lease_expires_at": num("9999999999")}, attrs{"lease_token": str("t"), "lease_expires_at": num("9999999999")}, true},
			"refreshed":        {attrs{"lease_token": str("t"), "lease_expires_at": num("9999999998")}, attrs{"lease_token": str("t"), "lease_expires_at": num("9999999999")}, true},
			"another's":        {attrs{"lease_token": str("t")}, attrs{"lease_token": str("u")}, false},
			"no token":         {attrs{"lease_expires_at": num("9999999999")}, attrs{"lease_expires_at": num("9999999999")}, true},
			"no token, moved":  {attrs{"lease_expires_at": num("9999999998")}, attrs{"lease_expires_at": num("9999999999")}, false},
			"token came":       {attrs{"lease_expires_at": num("9999999999")}, attrs{"lease_expires_at": num("9999999999"), "lease_token": str("t")}, false},
			"nothing in it":    {attrs{}, attrs{}, true},
			"odd types":        {attrs{"lease_token": num("1"), "lease_expires_at": str("x")}, attrs{"lease_token": num("1"), "lease_expires_at": str("x")}, true},
			"gone":             {attrs{"lease_token": str("t")}, nil, false},
		} {
			f.raw.put(pk, "LOCK", test.before)
			read := f.read()
			f.raw.set(pk, "LOCK", test.after)
			err := f.store.BreakLease(t.Context(), read)
			if test.free && err != nil || !test.free && !errors.Is(err, store.ErrMoved) {
				t.Errorf("%s: BreakLease: %v, want it freed=%t", name, err, test.free)
			}
			if gone := f.raw.get(pk, "LOCK") == nil; gone != (test.free || test.after == nil) {
				t.Errorf("%s: the row is gone=%t", name, gone)
			}
		}
	})
}

// TestBreakLeaseUnderFaults: BreakLease repeats a lost call, which is no failure.
func TestBreakLeaseUnderFaults(t *testing.T) {
	t.Parallel()
	onFewPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		l, _ := begin(t, r.store, pk)
		read := r.readPage(t, pk)
		r.api.arm(plan, false, nil)
		if err := r.faulty.BreakLease(t.Context(), read); err != nil {
			t.Errorf("BreakLease: %v", err)
		}
		r.api.deliver()
		if err := r.store.Refresh(t.Context(), l); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("Refresh by the holder: %v, want ErrLeaseLost", err)
		}
	})
}

// TestBreakLeaseTakenMeanwhile: the lease is deleted and acquired by another process
// before the reply arrives. The new lease stays.
func TestBreakLeaseTakenMeanwhile(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		begin(t, r.store, pk)
		read := r.readPage(t, pk)
		var next store.Lease
		r.api.arm([]fault{lostReply}, false, func(n int) {
			if n == 2 {
				next, _ = begin(t, r.store, pk)
			}
		})
		if err := r.faulty.BreakLease(t.Context(), read); err != nil {
			t.Errorf("BreakLease: %v", err)
		}
		if err := r.store.Refresh(t.Context(), next); err != nil {
			t.Errorf("Refresh by the next holder: %v", err)
		}
	})
}

// An eagerAPI sends every write twice and returns the second reply, like the SDK when it
// repeats a call whose reply was lost.
type eagerAPI struct{ dynamostore.API }

func (a eagerAPI) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	_, _ = a.API.DeleteItem(ctx, in)
	return a.API.DeleteItem(ctx, in)
}

func (a eagerAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	_, _ = a.API.TransactWriteItems(ctx, in)
	return a.API.TransactWriteItems(ctx, in)
}

// TestBreakLeaseRepeatedBySDK: a deletion that the SDK repeats is a success.
func TestBreakLeaseRepeatedBySDK(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.acquire()
		meta := newStore(t, eagerAPI{db}, f.raw.name, dynamostore.Config{Now: f.clock.Now})
		read, err := meta.Read(t.Context(), pk)
		if err != nil {
			t.Fatal(err)
		}
		if err := meta.BreakLease(t.Context(), read); err != nil {
			t.Errorf("BreakLease: %v", err)
		}
		if err := meta.BreakLease(t.Context(), read); !errors.Is(err, store.ErrMoved) {
			t.Errorf("BreakLease of what is gone: %v, want ErrMoved", err)
		}
	})
}
