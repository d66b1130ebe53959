package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// A rig has a node with planned faults, and one without.
type rig struct {
	*fixture // the node without faults, as node-a

	api    *faultyAPI
	faulty *dynamostore.Store
}

func newRig(t *testing.T, db engine) *rig {
	f := newFixture(t, db)
	api := &faultyAPI{API: db}
	return &rig{fixture: f, api: api, faulty: newStore(t, api, f.raw.name, dynamostore.Config{
		Owner: "node-f", Now: f.clock.Now, RetryDelay: time.Microsecond, SettleTimeout: time.Minute,
	})}
}

// plans returns all sequences of n of the given faults.
func plans(n int, of []fault) [][]fault {
	if n == 0 {
		return [][]fault{nil}
	}
	var all [][]fault
	for _, head := range plans(n-1, of) {
		for _, f := range of {
			all = append(all, append(append([]fault(nil), head...), f))
		}
	}
	return all
}

// A planTest is run once per plan, each time on another page.
type planTest func(t *testing.T, r *rig, pk string, plan []fault)

// onPlans runs a test on every engine under allPlans.
func onPlans(t *testing.T, test planTest) {
	onEngines(t, func(t *testing.T, db engine) { allPlans(t, db, test) })
}

// onCalls runs a test on every engine for each of the calls at which something happens,
// under the plans of allPlans or fewPlans.
func onCalls(t *testing.T, first, last int, plans func(*testing.T, engine, planTest), test func(t *testing.T, r *rig, pk string, plan []fault, call int)) {
	onEngines(t, func(t *testing.T, db engine) {
		for call := first; call <= last; call++ {
			t.Run(fmt.Sprint(call), func(t *testing.T) {
				plans(t, db, func(t *testing.T, r *rig, pk string, plan []fault) { test(t, r, pk, plan, call) })
			})
		}
	})
}

// allPlans runs a test under every single fault; in process, where calls are cheap,
// under every pair of faults and every triple of those that differ in kind. The
// faults are injected above the engine, so the engine does not affect combinations.
func allPlans(t *testing.T, db engine, test planTest) {
	every := []fault{none, lostRequest, lostReply, lateRequest, conflict, lastRequest, throttled, serverError, serverErrorApplied, inProgress}
	all := plans(1, every)
	if _, inProcess := db.(*localdynamo.DB); inProcess {
		all = plans(2, every)
		if !testing.Short() {
			all = append(all, plans(3, every[:5])...)
		}
	}
	r := newRig(t, db)
	for i, plan := range all {
		test(t, r, fmt.Sprintf("CACHE#%d", i), plan)
		r.api.arm(nil, false, nil)
		r.api.deliver()
		if t.Failed() {
			t.Fatalf("under the plan %v", plan)
		}
	}
}

// current returns the current generation of a page and its version.
func (r *rig) current(t *testing.T, pk string) (string, int64) {
	t.Helper()
	record, err := r.store.Read(t.Context(), pk)
	if err != nil {
		t.Fatal(err)
	}
	if record.Entry == nil {
		return "", 0
	}
	return record.Entry.GenerationID, record.Entry.Version
}

// begin acquires and reads without faults.
func begin(t *testing.T, store *dynamostore.Store, pk string) (store.Lease, store.Record) {
	t.Helper()
	l, err := store.Acquire(t.Context(), pk, 30*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	read, err := store.Read(t.Context(), pk)
	if err != nil {
		t.Fatal(err)
	}
	return l, read
}

// TestPublishUnderFaults: a publish succeeds as long as the lease lasts.
func TestPublishUnderFaults(t *testing.T) {
	t.Parallel()
	onPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		for _, id := range []string{"g1", "g2"} {
			l, read := begin(t, r.faulty, pk)
			r.api.arm(plan, false, nil)
			if _, err := r.faulty.Publish(t.Context(), l, read, r.entry(id), store.PublishOptions{}); err != nil {
				t.Errorf("Publish %s: %v", id, err)
			}
			r.api.deliver()
			if got, _ := r.current(t, pk); got != id {
				t.Errorf("current is %q, want %s", got, id)
			}
		}
	})
}

// TestPublishCancelled: the caller's context ends during the k-th call. The returned
// outcome is the actual one, and final.
func TestPublishCancelled(t *testing.T) {
	t.Parallel()
	onCalls(t, 1, 3, allPlans, func(t *testing.T, r *rig, pk string, plan []fault, leaves int) {
		l, read := begin(t, r.faulty, pk)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r.api.arm(plan, false, func(n int) {
			if n == leaves {
				leave()
			}
		})
		_, err := r.faulty.Publish(ctx, l, read, r.entry("g1"), store.PublishOptions{})
		if errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrMoved) {
			t.Errorf("Publish: %v, which is not so", err)
		}
		r.api.deliver()
		if got, _ := r.current(t, pk); (got == "g1") != (err == nil) {
			t.Errorf("Publish: %v, current is %q", err, got)
		}
		// The lease is gone in either case.
		if _, err := r.store.Acquire(t.Context(), pk, time.Second, nil); err != nil {
			t.Errorf("Acquire afterwards: %v", err)
		}
	})
}

// TestPublishOvertaken: while the publisher waits for a reply its lease expires, and
// another node publishes. Whether that node read the publisher's generation decides
// the outcome.
func TestPublishOvertaken(t *testing.T) {
	t.Parallel()
	onCalls(t, 2, 4, allPlans, func(t *testing.T, r *rig, pk string, plan []fault, when int) {
		l, read := begin(t, r.faulty, pk)
		seen, overtaken := "", false
		r.api.arm(plan, false, func(n int) {
			if n != when {
				return
			}
			r.clock.Advance(31 * time.Second)
			other, found := begin(t, r.store, pk)
			overtaken = true
			if found.Entry != nil {
				seen = found.Entry.GenerationID
			}
			if _, err := r.store.Publish(t.Context(), other, found, r.entry("other"), store.PublishOptions{}); err != nil {
				t.Errorf("Publish of the other: %v", err)
			}
		})
		_, err := r.faulty.Publish(t.Context(), l, read, r.entry("g1"), store.PublishOptions{})
		if errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Publish: %v", err)
		}
		r.api.deliver()
		got, _ := r.current(t, pk)
		committed := got == "g1" || seen == "g1"
		if committed != (err == nil) {
			t.Errorf("Publish: %v, current is %q, overtaken=%t by one who saw %q", err, got, overtaken, seen)
		}
	})
}

// TestPublishLosesLease: while the publisher waits for a reply, another node acquires
// its lease, and has not published yet.
func TestPublishLosesLease(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		l, read := begin(t, r.faulty, pk)
		r.api.arm([]fault{lostRequest, lostRequest}, false, func(n int) {
			if n == 2 {
				r.clock.Advance(31 * time.Second)
				begin(t, r.store, pk)
			}
		})
		if _, err := r.faulty.Publish(t.Context(), l, read, r.entry("g1"), store.PublishOptions{}); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("Publish: %v, want ErrLeaseLost", err)
		}
		if got, _ := r.current(t, pk); got != "" {
			t.Errorf("current is %q, want nothing", got)
		}
	})
}

// TestDeniedLater: a definite refusal does not tell the outcome of the attempt before
// it.
func TestDeniedLater(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		for i, first := range []fault{lostReply, lateRequest} {
			pk := fmt.Sprintf("CACHE#%d", i)
			l, read := begin(t, r.faulty, pk)
			r.api.arm([]fault{first, denied}, false, nil)
			if _, err := r.faulty.Publish(t.Context(), l, read, r.entry("g1"), store.PublishOptions{}); err != nil {
				t.Errorf("Publish, %v: %v, although it was committed", first, err)
			}
			r.api.arm([]fault{first, denied}, false, nil)
			if _, err := r.faulty.Acquire(t.Context(), pk, time.Minute, nil); err == nil {
				t.Errorf("Acquire, %v: no error", first)
			}
			if _, err := r.store.Acquire(t.Context(), pk, time.Minute, nil); err != nil {
				t.Errorf("Acquire by another: %v", err)
			}
		}
	})
}

// TestPublishInOutage: the outcome is unknown only if the store never replies again.
// It is returned in time.
func TestPublishInOutage(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for f := range faults {
			t.Run(f.String(), func(t *testing.T) {
				r := newRig(t, db)
				r.faulty = newStore(t, r.api, r.raw.name, dynamostore.Config{
					Now: r.clock.Now, RetryDelay: time.Microsecond, SettleTimeout: 20 * time.Millisecond,
				})
				l, read := begin(t, r.faulty, pk)
				r.api.arm([]fault{f}, true, func(int) { r.clock.Advance(time.Second) })
				_, err := r.faulty.Publish(t.Context(), l, read, r.entry("g1"), store.PublishOptions{})
				if f == none || f == denied {
					if (err == nil) != (f == none) || errors.Is(err, store.ErrUnknownOutcome) {
						t.Errorf("Publish: %v, and the first answer was definite", err)
					}
					return
				}
				if !errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrLeaseLost) || errors.Is(err, store.ErrMoved) {
					t.Errorf("Publish: %v, want ErrUnknownOutcome alone", err)
				}
			})
		}
	})
}

// TestAcquireUnderFaults: Acquire returns a lease if and only if the table has it.
func TestAcquireUnderFaults(t *testing.T) {
	t.Parallel()
	onPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		r.api.arm(plan, false, nil)
		l, err := r.faulty.Acquire(t.Context(), pk, 30*time.Second, nil)
		if err != nil {
			t.Fatalf("Acquire: %v", err)
		}
		r.api.deliver()
		if err := r.faulty.Refresh(t.Context(), l); err != nil {
			t.Errorf("Refresh: %v", err)
		}
		if _, err := r.store.Acquire(t.Context(), pk, time.Second, nil); !isHeld(err) {
			t.Errorf("Acquire by another: %v, want a HeldError", err)
		}
	})
}

func TestAcquireByCallerWhoLeaves(t *testing.T) {
	t.Parallel()
	onCalls(t, 1, 2, allPlans, func(t *testing.T, r *rig, pk string, plan []fault, leaves int) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r.api.arm(plan, false, func(n int) {
			if n == leaves {
				leave()
			}
		})
		l, err := r.faulty.Acquire(ctx, pk, 30*time.Second, nil)
		if errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Acquire: %v", err)
		}
		if err == nil {
			if err := r.faulty.Release(t.Context(), l); err != nil {
				t.Errorf("Release: %v", err)
			}
		}
		if _, err := r.store.Acquire(t.Context(), pk, time.Second, nil); err != nil {
			t.Errorf("Acquire by another: %v, want the lease", err)
		}
	})
}

// TestHeldUnderFaults: a lease that is held by another process stays unchanged.
func TestHeldUnderFaults(t *testing.T) {
	t.Parallel()
	onPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		l, _ := begin(t, r.store, pk)
		r.api.arm(plan, false, nil)
		if _, err := r.faulty.Acquire(t.Context(), pk, 30*time.Second, nil); !isHeld(err) {
			t.Errorf("Acquire: %v, want a HeldError", err)
		}
		r.api.deliver()
		if err := r.store.Refresh(t.Context(), l); err != nil {
			t.Errorf("Refresh by the holder: %v", err)
		}
	})
}

func isHeld(err error) bool {
	_, held := errors.AsType[*store.HeldError](err)
	return held
}

// TestRefreshBackOffReleaseUnderFaults: a refresh, a back-off and a release whose
// replies are lost are repeated, and take effect once.
func TestRefreshBackOffReleaseUnderFaults(t *testing.T) {
	t.Parallel()
	onPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		l, _ := begin(t, r.faulty, pk)
		r.clock.Advance(20 * time.Second)
		r.api.arm(plan, false, nil)
		if err := r.faulty.Refresh(t.Context(), l); err != nil {
			t.Errorf("Refresh: %v", err)
		}
		r.api.deliver()
		r.clock.Advance(20 * time.Second)
		r.api.arm(plan, false, nil)
		if err := r.faulty.BackOff(t.Context(), l, 10*time.Second); err != nil {
			t.Errorf("BackOff: %v", err)
		}
		r.api.deliver()
		r.clock.Advance(11 * time.Second)
		r.api.arm(nil, false, nil) // a lost reply would lose the count
		l, err := r.faulty.Acquire(t.Context(), pk, time.Second, nil)
		if err != nil {
			t.Fatal(err)
		}
		if l.Failures() != 1 {
			t.Errorf("%d failures, want 1", l.Failures())
		}
		r.api.arm(plan, false, nil)
		if err := r.faulty.Release(t.Context(), l); err != nil {
			t.Errorf("Release: %v", err)
		}
		r.api.deliver()
		if _, err := r.store.Acquire(t.Context(), pk, time.Second, nil); err != nil {
			t.Errorf("Acquire after the release: %v", err)
		}
	})
}

// TestAcquireInOutage: the outcome is unknown, and the lease expires.
func TestAcquireInOutage(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		r.faulty = newStore(t, r.api, r.raw.name, dynamostore.Config{
			Owner: "node-f", Now: r.clock.Now, RetryDelay: time.Microsecond, CallTimeout: 100 * time.Millisecond,
		})
		r.api.arm([]fault{lostReply}, true, nil)
		if _, err := r.faulty.Acquire(t.Context(), pk, 30*time.Second, nil); !errors.Is(err, store.ErrUnknownOutcome) || isHeld(err) {
			t.Errorf("Acquire: %v, want ErrUnknownOutcome", err)
		}
		if _, err := r.store.Acquire(t.Context(), pk, time.Second, nil); !isHeld(err) {
			t.Errorf("Acquire by another: %v, want a HeldError", err)
		}
		r.clock.Advance(31 * time.Second)
		if _, err := r.store.Acquire(t.Context(), pk, time.Second, nil); err != nil {
			t.Errorf("Acquire after expiry: %v", err)
		}
	})
}

// TestRepetitions: an attempt without a reply is repeated unchanged. After a definite
// cancellation a new one follows, with a new client token and a new :now.
func TestRepetitions(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		l, read := begin(t, r.faulty, pk)
		r.api.arm([]fault{lostRequest, conflict, throttled}, false, func(int) { r.clock.Advance(time.Second) })
		if _, err := r.faulty.Publish(t.Context(), l, read, r.entry("g1"), store.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		if len(r.api.sent) != 4 {
			t.Fatalf("%d requests were sent, want 4", len(r.api.sent))
		}
		first, second, third, fourth := r.api.sent[0], r.api.sent[1], r.api.sent[2], r.api.sent[3]
		if d := diff(first, second); d != "" {
			t.Errorf("the request changed after a lost one:\n%s", d)
		}
		if d := diff(third, fourth); d != "" {
			t.Errorf("the request changed after throttling:\n%s", d)
		}
		if aws.ToString(second.ClientRequestToken) == aws.ToString(third.ClientRequestToken) {
			t.Error("the client token survived a conflict")
		}
		now := func(i int) types.AttributeValue {
			return r.api.sent[i].TransactItems[1].Delete.ExpressionAttributeValues[":now"]
		}
		if diff(now(1), now(2)) == "" {
			t.Error(":now survived a conflict")
		}
		for _, request := range r.api.sent {
			if n := len(aws.ToString(request.ClientRequestToken)); n < 26 || n > 36 {
				t.Errorf("a client token of %d characters", n)
			}
		}
	})
}

// A forgetfulAPI executes every transaction twice, as if DynamoDB had forgotten its
// client token between two attempts of the SDK within one call.
type forgetfulAPI struct{ dynamostore.API }

func (f forgetfulAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	first := *in
	first.ClientRequestToken = aws.String(rand.Text())
	if _, err := f.API.TransactWriteItems(ctx, &first); err != nil {
		return nil, err
	}
	return f.API.TransactWriteItems(ctx, in)
}

// TestExpiredToken: META shows that a refused publish had been committed.
func TestExpiredToken(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.store = newStore(t, forgetfulAPI{db}, f.raw.name, dynamostore.Config{Now: f.clock.Now})
		want := f.publish(f.entry("g1"))
		if d := diff(&want, f.read().Entry); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}
