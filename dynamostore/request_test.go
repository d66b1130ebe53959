package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

func newClaim(key string) *store.Claim {
	return &store.Claim{Key: key, Hash: strings.Repeat("a", 64), Keep: time.Hour}
}

func (f *fixture) claim(key string) store.Lease {
	f.t.Helper()
	l, err := f.store.Acquire(f.t.Context(), pk, 30*time.Second, newClaim(key))
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

// requestRow returns the REQ# row without its token, which it must have.
func (f *fixture) requestRow(key string) attrs {
	f.t.Helper()
	row := f.raw.get(pk, "REQ#"+key)
	if row["attempt_token"] == nil {
		f.t.Errorf("REQ#%s has no token: %v", key, row)
	}
	delete(row, "attempt_token")
	return row
}

// TestRequestRows: the stored attributes of a request record, which other services
// read.
func TestRequestRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		hash, now := str(strings.Repeat("a", 64)), f.clock.Now()
		l := f.claim("r1")
		end := num(seconds(now.Add(30*time.Second + 400*time.Millisecond)))
		if d := diff(end, f.raw.get(pk, "LOCK")["lease_expires_at"]); d != "" {
			t.Errorf("LOCK (-want +got):\n%s", d)
		}
		kept := num(seconds(now.Add(time.Hour + 30*time.Second + 400*time.Millisecond)))
		want := attrs{"pk": str(pk), "sk": str("REQ#r1"), "request_hash": hash, "status": str("STARTED"), "in_progress_until": end, "ttl": kept}
		if d := diff(want, f.requestRow("r1")); d != "" {
			t.Errorf("REQ# (-want +got):\n%s", d)
		}
		if err := f.store.EndRequest(t.Context(), l, store.RequestEnd{Failure: "the origin said 500"}); err != nil {
			t.Fatal(err)
		}
		want = attrs{"pk": str(pk), "sk": str("REQ#r1"), "request_hash": hash, "status": str("FAILED"), "error": str("the origin said 500"), "ttl": kept}
		if d := diff(want, f.requestRow("r1")); d != "" {
			t.Errorf("REQ# after a failure (-want +got):\n%s", d)
		}
		if err := f.store.Release(t.Context(), l); err != nil {
			t.Fatal(err)
		}

		c := newClaim("r1")
		c.Keep = 48 * time.Hour
		row := f.raw.get(pk, "REQ#r1")
		row["x_custom"] = str("kept")
		f.raw.put(pk, "REQ#r1", row)
		l, err := f.store.Acquire(t.Context(), pk, 30*time.Second, c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.store.Publish(t.Context(), l, f.read(), f.entry("g1"), store.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		want = attrs{
			"pk": str(pk), "sk": str("REQ#r1"), "request_hash": hash, "status": str("COMPLETED"), "ttl": num(seconds(now.Add(48*time.Hour + time.Second))),
			"result_s3_key": str("bodies/5f1c/g1"), "generation_id": str("g1"), "x_custom": str("kept"),
		}
		if d := diff(want, f.requestRow("r1")); d != "" {
			t.Errorf("REQ# after a publish (-want +got):\n%s", d)
		}
	})
}

// TestReferenceRequests: rows of services that know only the reference schema.
func TestReferenceRequests(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		hash, now := str(strings.Repeat("a", 64)), f.clock.Now()
		later, earlier := num(seconds(now.Add(time.Hour))), num(seconds(now.Add(-time.Second)))
		for name, test := range map[string]struct {
			row   attrs
			want  error // nil: it may be claimed
			found bool
		}{
			"started":          {attrs{"request_hash": hash, "status": str("STARTED"), "ttl": later}, nil, true},
			"started, no ttl":  {attrs{"request_hash": hash, "status": str("STARTED")}, nil, true},
			"started, mid":     {attrs{"request_hash": hash, "status": str("STARTED"), "in_progress_until": num(seconds(now) + ".7"), "ttl": later}, store.ErrRequestInProgress, true},
			"started, odd end": {attrs{"request_hash": hash, "status": str("STARTED"), "in_progress_until": str("soon"), "attempt_token": num("1"), "ttl": later}, nil, true},
			"failed":           {attrs{"request_hash": hash, "status": str("FAILED"), "ttl": later}, nil, true},
			"completed":        {attrs{"request_hash": hash, "status": str("COMPLETED"), "result_s3_key": str("pages/a.html"), "ttl": later}, store.ErrRequestCompleted, true},
			"of other inputs":  {attrs{"request_hash": str("b"), "status": str("FAILED"), "ttl": later}, store.ErrRequestMismatch, true},
			"over":             {attrs{"request_hash": str("b"), "status": str("COMPLETED"), "ttl": earlier}, nil, false},
			"over and odd":     {attrs{"ttl": earlier}, nil, false},
		} {
			f.raw.set(pk, "LOCK", nil)
			f.raw.put(pk, "REQ#r1", test.row)
			request, found, err := f.store.RequestRecord(t.Context(), pk, "r1")
			if err != nil || found != test.found {
				t.Errorf("%s: Request: %+v, %t, %v", name, request, found, err)
			}
			l, err := f.store.Acquire(t.Context(), pk, 30*time.Second, newClaim("r1"))
			if !errors.Is(err, test.want) {
				t.Errorf("%s: Acquire: %v, want %v", name, err, test.want)
			}
			if err == nil {
				if err := f.store.Refresh(t.Context(), l); err != nil {
					t.Errorf("%s: Refresh: %v", name, err)
				}
				f.requestRow("r1")
			}
		}
	})
}

// TestMalformedRequests: a malformed request record is an error, because its request
// may have been executed.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		hash := str(strings.Repeat("a", 64))
		for attribute, row := range map[string]attrs{
			"request_hash":  {"status": str("FAILED")},
			"status":        {"request_hash": hash, "status": str("DONE")},
			"result_s3_key": {"request_hash": hash, "status": str("COMPLETED"), "result_s3_key": num("1")},
		} {
			f.raw.put(pk, "REQ#r1", row)
			_, err := f.store.Acquire(t.Context(), pk, 30*time.Second, newClaim("r1"))
			_, _, looked := f.store.RequestRecord(t.Context(), pk, "r1")
			for _, err := range []error{err, looked} {
				malformed, ok := errors.AsType[*dynamostore.MalformedError](err)
				if !ok || malformed.SK != "REQ#r1" || malformed.Attribute != attribute {
					t.Errorf("%v, want a MalformedError of %s", err, attribute)
				}
			}
			if f.raw.get(pk, "LOCK") != nil {
				t.Errorf("%s: the lease was taken", attribute)
			}
		}
	})
}

// TestClaimChangedMeanwhile: a claim detects any change of the request record since
// it was read.
func TestClaimChangedMeanwhile(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		hash, later := str(strings.Repeat("a", 64)), num(seconds(time.Now().Add(time.Hour)))
		for name, test := range map[string]struct {
			before, after attrs
			want          error
		}{
			"completed by another service": {
				attrs{"request_hash": hash, "status": str("STARTED")}, attrs{"request_hash": hash, "status": str("COMPLETED")}, store.ErrRequestCompleted,
			},
			"made by another": {nil, attrs{"request_hash": hash, "status": str("COMPLETED")}, store.ErrRequestCompleted},
			"taken over": {
				attrs{"request_hash": hash, "status": str("FAILED"), "attempt_token": str("t1")},
				attrs{"request_hash": hash, "status": str("STARTED"), "attempt_token": str("t2"), "in_progress_until": later},
				store.ErrRequestInProgress,
			},
			"extended after all": {
				attrs{"request_hash": hash, "status": str("STARTED"), "attempt_token": str("t1"), "in_progress_until": num("1")},
				attrs{"request_hash": hash, "status": str("STARTED"), "attempt_token": str("t1"), "in_progress_until": later},
				store.ErrRequestInProgress,
			},
			"another's after its time": {
				attrs{"request_hash": str("b"), "status": str("COMPLETED"), "ttl": num("1")}, attrs{"request_hash": str("c"), "status": str("STARTED"), "ttl": num("4000000000")}, store.ErrRequestMismatch,
			},
			"collected": {attrs{"request_hash": hash, "status": str("FAILED")}, nil, nil},
		} {
			t.Run(name, func(t *testing.T) {
				r := newRig(t, db)
				r.raw.t = t
				r.raw.set(pk, "REQ#r1", test.before)
				r.api.arm(nil, false, func(n int) {
					if n == 3 { // after both reads
						r.raw.set(pk, "REQ#r1", test.after)
					}
				})
				_, err := r.faulty.Acquire(t.Context(), pk, 30*time.Second, newClaim("r1"))
				if !errors.Is(err, test.want) {
					t.Errorf("Acquire: %v, want %v", err, test.want)
				}
				if taken := r.raw.get(pk, "LOCK") != nil; taken != (test.want == nil) {
					t.Errorf("the lease was taken: %t", taken)
				}
			})
		}
	})
}

// TestLostClaim: a holder whose claim was taken over cannot publish, even if its
// lease has not expired.
func TestLostClaim(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		for name, spoil := range map[string]func(row attrs){
			"taken over": func(row attrs) { row["attempt_token"] = str("another's") },
			"finished":   func(row attrs) { row["status"] = str("COMPLETED") },
		} {
			for method, try := range map[string]func(store.Lease) error{
				"Refresh": func(l store.Lease) error { return f.store.Refresh(t.Context(), l) },
				"Publish": func(l store.Lease) error {
					_, err := f.store.Publish(t.Context(), l, f.read(), f.entry("g1"), store.PublishOptions{History: true})
					return err
				},
			} {
				l := f.claim("r-" + strings.ReplaceAll(name, " ", "-") + method)
				sk := "REQ#r-" + strings.ReplaceAll(name, " ", "-") + method
				row := f.raw.get(pk, sk)
				spoil(row)
				f.raw.put(pk, sk, row)
				if err := try(l); !errors.Is(err, store.ErrLeaseLost) || !strings.Contains(err.Error(), "request") {
					t.Errorf("%s, %s: %v, want ErrLeaseLost, for the request", method, name, err)
				}
				if err := f.store.EndRequest(t.Context(), l, store.RequestEnd{}); err != nil {
					t.Errorf("EndRequest: %v", err)
				}
				if d := diff(row, f.raw.get(pk, sk)); d != "" {
					t.Errorf("the row changed:\n%s", d)
				}
				if err := f.store.Release(t.Context(), l); err != nil {
					t.Fatal(err)
				}
			}
		}
		if f.read().Entry != nil {
			t.Error("something was published")
		}
	})
}

// TestClaimUnderFaults: a caller that gets the lease has the claim as well, executes
// the request once, and gets that outcome.
func TestClaimUnderFaults(t *testing.T) {
	t.Parallel()
	onFewPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		for skip := range 3 { // reads, then the transaction
			c := newClaim(fmt.Sprint(skip))
			r.api.arm(append(make([]fault, skip), plan...), false, nil)
			l, err := r.faulty.Acquire(t.Context(), pk, 30*time.Second, c)
			if err != nil {
				t.Fatalf("Acquire: %v", err)
			}
			r.api.deliver()
			if _, err := r.store.Acquire(t.Context(), pk, time.Second, c); !errors.Is(err, store.ErrRequestInProgress) {
				t.Errorf("Acquire by another: %v, want ErrRequestInProgress", err)
			}
			r.clock.Advance(20 * time.Second)
			r.api.arm(plan, false, nil)
			if err := r.faulty.Refresh(t.Context(), l); err != nil {
				t.Errorf("Refresh: %v", err)
			}
			r.api.deliver()
			r.clock.Advance(20 * time.Second)
			if _, err := r.store.Acquire(t.Context(), pk, time.Second, c); !errors.Is(err, store.ErrRequestInProgress) {
				t.Errorf("Acquire by another after a refresh: %v, want ErrRequestInProgress", err)
			}
			id, read := "c"+c.Key, r.readPage(t, pk)
			r.api.arm(plan, false, nil)
			if skip == 2 {
				err = r.faulty.EndRequest(t.Context(), l, store.RequestEnd{Result: read.Entry})
				id = read.Entry.GenerationID
			} else {
				_, err = r.faulty.Publish(t.Context(), l, read, r.entry(id), store.PublishOptions{History: true})
			}
			if err != nil {
				t.Errorf("finishing it: %v", err)
			}
			r.api.deliver()
			done, _, err := r.store.RequestRecord(t.Context(), pk, c.Key)
			if err != nil || done.State != store.RequestCompleted || done.GenerationID != id {
				t.Errorf("Request: %+v, %v; want it completed with %s", done, err, id)
			}
		}
	})
}

// TestClaimCancelled: an abandoned claim can be made again at once, whatever replies
// were lost.
func TestClaimCancelled(t *testing.T) {
	t.Parallel()
	onCalls(t, 1, 5, fewPlans, func(t *testing.T, r *rig, pk string, plan []fault, leaves int) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r.api.arm(append(make([]fault, 2), plan...), false, func(n int) {
			if n == leaves {
				leave()
			}
		})
		l, err := r.faulty.Acquire(ctx, pk, 30*time.Second, newClaim("r1"))
		if errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Acquire: %v", err)
		}
		r.api.arm(nil, false, nil)
		if err == nil {
			err = errors.Join(r.faulty.EndRequest(t.Context(), l, store.RequestEnd{Failure: "no"}), r.faulty.Release(t.Context(), l))
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := r.store.Acquire(t.Context(), pk, time.Second, newClaim("r1")); err != nil {
			t.Errorf("Acquire by another: %v, want the lease", err)
		}
	})
}

// TestConcurrentClaims: exactly one of two concurrent claims succeeds.
func TestConcurrentClaims(t *testing.T) {
	t.Parallel()
	onCalls(t, 1, 5, fewPlans, func(t *testing.T, r *rig, pk string, plan []fault, when int) {
		var other store.Lease
		r.api.arm(append(make([]fault, 2), plan...), false, func(n int) {
			if n == when {
				other, _ = r.store.Acquire(t.Context(), pk, 30*time.Second, newClaim("r1"))
			}
		})
		l, err := r.faulty.Acquire(t.Context(), pk, 30*time.Second, newClaim("r1"))
		made := r.api.made()
		r.api.deliver()
		if (err == nil) == (other != nil) && made >= when {
			t.Fatalf("Acquire: %v, and of the other: %v", err, other)
		}
		if err != nil && !errors.Is(err, store.ErrRequestInProgress) && !isHeld(err) {
			t.Errorf("Acquire: %v", err)
		}
		if err == nil {
			err = r.faulty.Refresh(t.Context(), l)
		} else {
			err = r.store.Refresh(t.Context(), other)
		}
		if err != nil {
			t.Errorf("Refresh by the one who has it: %v", err)
		}
	})
}
