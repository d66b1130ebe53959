package isrtest

import (
	"errors"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

func testLeaseIsExclusive(t *testing.T, f *fleet) {
	start := f.clock.Now()
	l := f.acquire(f.a, testPK)
	if l.PK() != testPK || l.Duration() != testLease || l.Failures() != 0 {
		t.Errorf("lease of %s for %v after %d failures, want %s, %v, 0", l.PK(), l.Duration(), l.Failures(), testPK, testLease)
	}
	lock := f.held(f.b, testPK)
	if lock.Owner != "node-a" || lock.Failures != 0 {
		t.Errorf("held by %q after %d failures, want node-a, 0", lock.Owner, lock.Failures)
	}
	if left := lock.ExpiresAt.Sub(start); left < testLease || left > testLease+time.Second {
		t.Errorf("held for %v, want %v and at most one second more", left, testLease)
	}
	seen := f.read(f.b, testPK).Lock
	if seen == nil || seen.Owner != "node-a" || !seen.ExpiresAt.Equal(lock.ExpiresAt) {
		t.Errorf("Read shows the lease as %+v, want %+v", seen, lock)
	}
}

// testLeaseOfOneOwner: a second acquisition by the same node is refused too.
func testLeaseOfOneOwner(t *testing.T, f *fleet) {
	f.acquire(f.a, testPK)
	f.held(f.a, testPK)
	twin := f.open("node-a", f.clock.Now)
	f.held(twin, testPK)
}

func testLeaseRoundsUp(t *testing.T, f *fleet) {
	start := f.clock.Now()
	l, err := f.a.Acquire(t.Context(), testPK, 1200*time.Millisecond, nil)
	if err != nil {
		t.Fatal(err)
	}
	if l.Duration() != 2*time.Second {
		t.Errorf("a lease of 1.2s lasts %v, want 2s", l.Duration())
	}
	f.clock.Advance(2*time.Second - time.Millisecond)
	lock := f.held(f.b, testPK)
	if lock.ExpiresAt.Before(start.Add(2 * time.Second)) {
		t.Errorf("the lease ends %v after it began, want 2s", lock.ExpiresAt.Sub(start))
	}
}

func testLeaseExpires(_ *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	end := f.held(f.b, testPK).ExpiresAt
	f.clock.Set(end.Add(-time.Millisecond))
	f.held(f.b, testPK)
	f.clock.Set(end)
	stolen := f.acquire(f.b, testPK)
	f.lost(f.a, l)
	f.held(f.a, testPK)
	f.refresh(f.b, stolen)
}

func testLeasesOfOtherPages(_ *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	f.release(f.b, f.acquire(f.b, testPK+"0"))
	f.release(f.b, f.acquire(f.b, "TENANT#t1#"+testPK))
	f.held(f.b, testPK)
	f.refresh(f.a, l)
}

func testRefreshExtends(t *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	for range 5 {
		f.clock.Advance(testLease * 2 / 3)
		f.refresh(f.a, l)
	}
	f.clock.Advance(testLease - time.Millisecond)
	if lock := f.held(f.b, testPK); lock.Owner != "node-a" {
		t.Errorf("a refreshed lease is held by %q, want node-a", lock.Owner)
	}
	f.refresh(f.a, l)
}

// testRefreshTooLate: an expired lease is lost even if no other node took it, and
// stays lost if the clock goes back.
func testRefreshTooLate(t *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	f.clock.Set(f.held(f.b, testPK).ExpiresAt)
	if err := f.a.Refresh(t.Context(), l); !errors.Is(err, store.ErrLeaseLost) {
		t.Fatalf("Refresh after expiry: %v, want ErrLeaseLost", err)
	}
	f.clock.Advance(-10 * time.Second)
	f.lost(f.a, l)
}

func testRelease(_ *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	f.release(f.a, l)
	f.lost(f.a, l)
	second := f.acquire(f.b, testPK)
	f.release(f.a, l) // repeated, while another holder has it
	f.held(f.a, testPK)
	f.release(f.b, second)
	f.release(f.b, second) // repeated, while it is free
	f.acquire(f.a, testPK)
}

func testBackOff(t *testing.T, f *fleet) {
	start := f.clock.Now()
	l := f.acquire(f.a, testPK)
	f.backOff(f.a, l, 10*time.Second)
	f.lost(f.a, l)
	for _, store := range []store.MetaStore{f.a, f.b} {
		lock := f.held(store, testPK)
		if lock.Owner != "" || lock.Failures != 1 {
			t.Errorf("back-off of %q after %d failures, want no owner, 1", lock.Owner, lock.Failures)
		}
		if left := lock.ExpiresAt.Sub(start); left < 10*time.Second || left > 11*time.Second {
			t.Errorf("back-off for %v, want 10s and at most a second more", left)
		}
	}
	if seen := f.read(f.b, testPK).Lock; seen == nil || seen.Failures != 1 || seen.Owner != "" {
		t.Errorf("Read shows the back-off as %+v", seen)
	}
	f.clock.Advance(10*time.Second - time.Millisecond)
	f.held(f.b, testPK)
	f.clock.Advance(time.Second)
	f.acquire(f.b, testPK)
}

// testBackOffCountsFailures: consecutive failures are counted across nodes; a
// success resets the count.
func testBackOffCountsFailures(t *testing.T, f *fleet) {
	nodes := []store.MetaStore{f.a, f.b}
	for failures := range 5 {
		store := nodes[failures%2]
		l := f.acquire(store, testPK)
		if l.Failures() != failures {
			t.Errorf("acquired after %d failures, want %d", l.Failures(), failures)
		}
		f.backOff(store, l, 0)
		f.clock.Advance(time.Second)
	}
	f.publish(f.a, testPK, f.entry("1"))
	l := f.acquire(f.b, testPK)
	if l.Failures() != 0 {
		t.Errorf("acquired after a success: %d failures, want 0", l.Failures())
	}
}

// testLostLeaseIsHarmless: calls with a lost lease do not affect the next holder's
// lease.
func testLostLeaseIsHarmless(t *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	f.clock.Set(f.held(f.b, testPK).ExpiresAt)
	next := f.acquire(f.b, testPK)
	f.release(f.a, l)
	f.held(f.a, testPK)
	f.backOff(f.a, l, time.Hour)
	if lock := f.held(f.a, testPK); lock.Owner != "node-b" || lock.Failures != 0 {
		t.Errorf("the next holder's lease became %+v", lock)
	}
	f.refresh(f.b, next)
}

// imposter is a lease that no store returned.
type imposter struct{ store.Lease }

func testForeignLease(t *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	read := f.read(f.b, testPK)
	for name, foreign := range map[string]store.Lease{
		"another store's": l, "invented": imposter{l}, "nil": nil,
	} {
		_, publish := f.b.Publish(t.Context(), foreign, read, f.entry("1"), store.PublishOptions{})
		for method, err := range map[string]error{
			"Refresh": f.b.Refresh(t.Context(), foreign),
			"Release": f.b.Release(t.Context(), foreign),
			"BackOff": f.b.BackOff(t.Context(), foreign, time.Second),
			"Publish": publish,
		} {
			if !errors.Is(err, store.ErrForeignLease) {
				t.Errorf("%s with %s lease: %v, want ErrForeignLease", method, name, err)
			}
		}
	}
	if lock := f.held(f.b, testPK); lock.Owner != "node-a" {
		t.Errorf("the lease became %+v", lock)
	}
	if record := f.read(f.b, testPK); record.Entry != nil {
		t.Errorf("an entry was published without the lease: %+v", record.Entry)
	}
	f.refresh(f.a, l)
}
