package isrtest

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// newClaim returns a claim whose hash derives from inputs.
func newClaim(key, inputs string) *store.Claim {
	return &store.Claim{Key: key, Hash: strings.Repeat(inputs, 64/len(inputs)), Keep: time.Hour}
}

func (f *fleet) claim(store store.MetaStore, key string) store.Lease {
	f.t.Helper()
	l, err := store.Acquire(f.t.Context(), testPK, testLease, newClaim(key, "a"))
	if err != nil {
		f.t.Fatalf("Acquire for the request %s: %v", key, err)
	}
	return l
}

// refused checks that a claim is refused with want, and returns the request record.
func (f *fleet) refused(meta store.MetaStore, c *store.Claim, want error) store.RequestRecord {
	f.t.Helper()
	_, err := meta.Acquire(f.t.Context(), testPK, testLease, c)
	refused, ok := errors.AsType[*store.RequestError](err)
	if !ok || !errors.Is(err, want) {
		f.t.Fatalf("Acquire for the request %s: %v, want a *RequestError that wraps %q", c.Key, err, want)
	}
	return refused.Record
}

// recorded returns a request record, which must exist.
func (f *fleet) recorded(key string) store.RequestRecord {
	f.t.Helper()
	r, ok, err := f.b.RequestRecord(f.t.Context(), testPK, key)
	if err != nil || !ok {
		f.t.Fatalf("Request %s: %t, %v", key, ok, err)
	}
	return r
}

func (f *fleet) notRecorded(key string) {
	f.t.Helper()
	if r, ok, err := f.b.RequestRecord(f.t.Context(), testPK, key); err != nil || ok {
		f.t.Fatalf("Request %s: %+v, %t, %v; want none", key, r, ok, err)
	}
}

func (f *fleet) endRequest(store store.MetaStore, l store.Lease, end store.RequestEnd) {
	f.t.Helper()
	if err := store.EndRequest(f.t.Context(), l, end); err != nil {
		f.t.Fatalf("EndRequest: %v", err)
	}
}

func testRequest(t *testing.T, f *fleet) {
	f.notRecorded("r1")
	l := f.claim(f.a, "r1")
	got := f.recorded("r1")
	if got.Key != "r1" || got.Hash != newClaim("r1", "a").Hash || got.State != store.RequestStarted || got.BodyKey != "" || got.Failure != "" {
		t.Errorf("a started request: %+v", got)
	}
	if lock := f.read(f.a, testPK).Lock; lock == nil || lock.Owner != "node-a" || !lock.ExpiresAt.Equal(got.InProgressUntil) {
		t.Errorf("in progress until %v under the lease %+v", got.InProgressUntil, lock)
	}
	f.refused(f.b, newClaim("r1", "a"), store.ErrRequestInProgress)
	f.refused(f.b, newClaim("r1", "b"), store.ErrRequestMismatch)

	next, err := f.a.Publish(t.Context(), l, f.read(f.a, testPK), f.entry("1"), store.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.holds(testPK, next)
	for _, done := range []store.RequestRecord{f.recorded("r1"), f.refused(f.b, newClaim("r1", "a"), store.ErrRequestCompleted)} {
		if done.State != store.RequestCompleted || done.BodyKey != next.BodyKey || done.GenerationID != "1" || !done.InProgressUntil.IsZero() {
			t.Errorf("a completed request: %+v", done)
		}
	}
	f.refused(f.b, newClaim("r1", "b"), store.ErrRequestMismatch)
	f.endRequest(f.a, l, store.RequestEnd{Failure: "too late"})
	f.refused(f.b, newClaim("r1", "a"), store.ErrRequestCompleted)
	f.release(f.b, f.claim(f.b, "r2"))
}

// testRequestWithoutLease: an Acquire that does not get the lease writes no request
// record.
func testRequestWithoutLease(_ *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	for _, key := range []string{"r1", "r2"} {
		_, err := f.b.Acquire(f.t.Context(), testPK, testLease, newClaim(key, "a"))
		if _, held := errors.AsType[*store.HeldError](err); !held {
			f.t.Fatalf("Acquire of a held lease for a request: %v, want a *HeldError", err)
		}
		f.notRecorded(key)
	}
	f.refresh(f.a, l)
	f.release(f.a, l)
	f.claim(f.b, "r1")
	f.notRecorded("r2")
	f.held(f.a, testPK)
}

func testRequestKeys(t *testing.T, f *fleet) {
	for _, key := range []string{"", " ", "a b", "é", "a\n", strings.Repeat("x", 257)} {
		if _, err := f.a.Acquire(t.Context(), testPK, testLease, newClaim(key, "a")); !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("Acquire for the request %q: %v, want ErrInvalidKey", key, err)
		}
		if _, _, err := f.a.RequestRecord(t.Context(), testPK, key); !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("Request %q: %v, want ErrInvalidKey", key, err)
		}
	}
	if _, err := f.a.Acquire(t.Context(), testPK, testLease, &store.Claim{Key: "r1"}); err == nil {
		t.Error("Acquire for a request without a hash: no error")
	}
	for _, key := range []string{"!", "~#/?&", strings.Repeat("x", 256)} {
		f.release(f.a, f.claim(f.a, key))
		f.recorded(key)
	}
}

// testRequestFails: a failed request may be retried by any node.
func testRequestFails(t *testing.T, f *fleet) {
	l := f.claim(f.a, "r1")
	f.endRequest(f.a, l, store.RequestEnd{Failure: "the origin said 500 " + strings.Repeat("é", 1024) + "\xff"})
	f.endRequest(f.a, l, store.RequestEnd{Failure: "again"})
	got := f.recorded("r1")
	if got.State != store.RequestFailed || !strings.HasPrefix(got.Failure, "the origin said 500 éé") || len(got.Failure) != 1024 {
		t.Errorf("a failed request: %s, %q of %d bytes", got.State, got.Failure, len(got.Failure))
	}
	f.refresh(f.a, l) // the lease outlives the request
	f.backOff(f.a, l, 0)
	f.clock.Advance(time.Second)
	f.refused(f.b, newClaim("r1", "b"), store.ErrRequestMismatch)
	l = f.claim(f.b, "r1")
	if l.Failures() != 1 {
		t.Errorf("acquired for a request after %d failures, want 1", l.Failures())
	}
	if again := f.recorded("r1"); again.State != store.RequestStarted || again.Failure != "" {
		t.Errorf("a request that is tried again: %+v", again)
	}
}

// testRequestAnswered: a request that needs no regeneration is completed with the
// entry that answers it.
func testRequestAnswered(t *testing.T, f *fleet) {
	e := f.publish(f.a, testPK, f.entry("1"))
	l := f.claim(f.a, "r1")
	f.endRequest(f.a, l, store.RequestEnd{Result: &e, Failure: "none"})
	f.release(f.a, l)
	if got := f.recorded("r1"); got.State != store.RequestCompleted || got.BodyKey != e.BodyKey || got.GenerationID != "1" || got.Failure != "" {
		t.Errorf("an answered request: %+v", got)
	}
	f.holds(testPK, e)
	f.endRequest(f.a, f.acquire(f.a, testPK), store.RequestEnd{}) // a lease without a request
	for name, foreign := range map[string]store.Lease{"another store's": l, "nil": nil} {
		if err := f.b.EndRequest(t.Context(), foreign, store.RequestEnd{}); !errors.Is(err, store.ErrForeignLease) {
			t.Errorf("EndRequest with %s lease: %v, want ErrForeignLease", name, err)
		}
	}
}

// testRequestIsKept: a record is kept for Claim.Keep, and while it is in progress.
// After that, its key is free.
func testRequestIsKept(_ *testing.T, f *fleet) {
	c := newClaim("r1", "a")
	c.Keep = 20 * time.Minute
	l, err := f.a.Acquire(f.t.Context(), testPK, testLease, c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.endRequest(f.a, l, store.RequestEnd{Failure: "no"})
	f.release(f.a, l)
	f.clock.Advance(20 * time.Minute)
	f.refused(f.b, newClaim("r1", "b"), store.ErrRequestMismatch)
	f.clock.Advance(3 * time.Hour)
	f.notRecorded("r1")
	const long = 30 * time.Minute
	l, err = f.b.Acquire(f.t.Context(), testPK, long, newClaim("r1", "b"))
	if err != nil {
		f.t.Fatalf("Acquire for a request whose record is over: %v", err)
	}
	for range 10 { // longer than Claim.Keep
		f.clock.Advance(long / 2)
		f.refresh(f.b, l)
	}
	f.refused(f.a, newClaim("r1", "b"), store.ErrRequestInProgress)
}

// testRequestTakenOver: when a lease expires, another node can take its request
// over, and the first node can no longer change it.
func testRequestTakenOver(t *testing.T, f *fleet) {
	l := f.claim(f.a, "r1")
	f.clock.Advance(testLease / 2)
	f.refresh(f.a, l)
	f.clock.Advance(testLease - time.Second)
	f.refused(f.b, newClaim("r1", "a"), store.ErrRequestInProgress)
	f.clock.Set(f.recorded("r1").InProgressUntil)
	next := f.claim(f.b, "r1")
	f.lost(f.a, l)
	f.endRequest(f.a, l, store.RequestEnd{Failure: "I was dead"})
	f.refused(f.a, newClaim("r1", "a"), store.ErrRequestInProgress)
	f.refresh(f.b, next)
	got, err := f.b.Publish(t.Context(), next, f.read(f.b, testPK), f.entry("1"), store.PublishOptions{History: true})
	if err != nil {
		t.Fatal(err)
	}
	if done := f.refused(f.a, newClaim("r1", "a"), store.ErrRequestCompleted); done.BodyKey != got.BodyKey {
		t.Errorf("completed: %+v", done)
	}
}

// testRequestOfReleasedLease: releasing the lease does not end the request.
func testRequestOfReleasedLease(_ *testing.T, f *fleet) {
	l := f.claim(f.a, "r1")
	f.release(f.a, l)
	f.refused(f.b, newClaim("r1", "a"), store.ErrRequestInProgress)
	f.backOff(f.b, f.claim(f.b, "r2"), time.Second)
	f.refused(f.b, newClaim("r2", "a"), store.ErrRequestInProgress)
	f.endRequest(f.a, l, store.RequestEnd{Failure: "afterwards"})
	f.clock.Advance(3 * time.Second)
	f.claim(f.b, "r1")
}

// testRaceForRequest: many nodes make the same request, some die during it, and
// exactly one completes it.
func testRaceForRequest(t *testing.T, f *fleet) {
	for round := range raceRounds / 2 {
		key := fmt.Sprintf("r%d", round)
		var completed atomic.Int64
		var group errgroup.Group
		for node := range raceNodes {
			meta := f.open(fmt.Sprintf("racer-%d", node), f.clock.Now)
			group.Go(func() error {
				for attempt := 0; ; attempt++ {
					done, err := f.tryRequest(meta, key, fmt.Sprintf("%d-%d-%d", round, node, attempt), attempt%2 == 0 && node%2 == 0)
					if done {
						completed.Add(1)
					}
					switch {
					case errors.Is(err, store.ErrRequestCompleted):
						return nil
					case err != nil:
						return err
					}
				}
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		if completed.Load() != 1 {
			t.Fatalf("request %s was completed %d times", key, completed.Load())
		}
		if r, e := f.recorded(key), f.read(f.a, testPK).Entry; e.GenerationID != r.GenerationID || e.BodyKey != r.BodyKey {
			t.Errorf("request %s was completed with %s, current is %s", key, r.GenerationID, e.GenerationID)
		}
	}
}

// tryRequest makes the request once; if dies is set, it stops after Acquire. The
// error is ErrRequestCompleted once the request is completed.
func (f *fleet) tryRequest(meta store.MetaStore, key, id string, dies bool) (done bool, err error) {
	l, err := meta.Acquire(f.t.Context(), testPK, testLease, newClaim(key, "a"))
	_, held := errors.AsType[*store.HeldError](err)
	switch {
	case held, errors.Is(err, store.ErrRequestInProgress):
		f.clock.Advance(testLease / 10) // waiting makes time pass
		return false, nil
	case err != nil, dies:
		return false, err
	}
	read, err := meta.Read(f.t.Context(), testPK)
	if err != nil {
		return false, err
	}
	_, err = meta.Publish(f.t.Context(), l, read, entryAt(id, f.clock.Now()), store.PublishOptions{})
	if errors.Is(err, store.ErrLeaseLost) || errors.Is(err, store.ErrMoved) {
		return false, nil
	}
	return err == nil, err
}
