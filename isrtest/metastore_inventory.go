package isrtest

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// testBreakLease: BreakLease frees the lease that was read, whichever node holds
// it, and no later one.
func testBreakLease(t *testing.T, f *fleet) {
	if err := f.a.BreakLease(t.Context(), f.read(f.a, testPK)); err != nil {
		t.Errorf("BreakLease without a lease: %v", err)
	}
	if err := f.a.BreakLease(t.Context(), store.Record{}); err == nil {
		t.Error("BreakLease without a record: no error")
	}
	l := f.acquire(f.a, testPK)
	seen := f.read(f.b, testPK)
	f.clock.Advance(testLease / 2)
	f.refresh(f.a, l) // still the same lease
	if err := f.b.BreakLease(t.Context(), seen); err != nil {
		t.Fatalf("BreakLease: %v", err)
	}
	f.lost(f.a, l)
	if err := f.b.BreakLease(t.Context(), seen); !errors.Is(err, store.ErrMoved) {
		t.Errorf("BreakLease of a released lease: %v, want ErrMoved", err)
	}
	next := f.acquire(f.a, testPK)
	if err := f.b.BreakLease(t.Context(), seen); !errors.Is(err, store.ErrMoved) {
		t.Errorf("BreakLease of an earlier lease: %v, want ErrMoved", err)
	}
	f.refresh(f.a, next)

	f.backOff(f.a, next, time.Hour)
	if err := f.b.BreakLease(t.Context(), f.read(f.b, testPK)); err != nil {
		t.Fatalf("BreakLease of a back-off: %v", err)
	}
	f.acquire(f.b, testPK)
}

// testNamedBodies: the inventory lists every page that has a row which names a
// body or may come to name one, with the bodies that its rows name.
func testNamedBodies(t *testing.T, f *fleet) {
	const other = "TENANT#t1#" + testPK
	f.wantNamedBodies(nil)
	f.keep(f.a, f.entry("1"))
	f.keep(f.a, f.entry("2"))
	f.acquire(f.a, testPK+"leased")
	f.publish(f.b, other, f.entry("3"))
	l, err := f.a.Acquire(t.Context(), testPK+"requested", testLease, newClaim("r1", "a"))
	if err != nil {
		t.Fatal(err)
	}
	f.release(f.a, l)
	f.rollback(f.a, "1", f.assertion()) // writes log rows, which are not pages
	f.wantNamedBodies(map[string][]string{
		testPK: {"bodies/5f1c/1", "bodies/5f1c/2"}, other: {"bodies/5f1c/3"},
		testPK + "leased": nil, testPK + "requested": nil,
	})
	for range f.a.ReferencedBodies(t.Context()) {
		break // callers may stop early
	}
}

func (f *fleet) wantNamedBodies(want map[string][]string) {
	f.t.Helper()
	got := make(map[string][]string)
	for page, err := range f.b.ReferencedBodies(f.t.Context()) {
		if err != nil {
			f.t.Fatalf("NamedBodies: %v", err)
		}
		keys := append(got[page.PK], page.Keys...)
		slices.Sort(keys)
		got[page.PK] = slices.Compact(keys)
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		f.t.Errorf("NamedBodies: %q, want %q", got, want)
	}
}

// testBodyKeys: the entry, versions and request records name bodies.
func testBodyKeys(t *testing.T, f *fleet) {
	f.wantBodyKeys()
	l := f.claim(f.a, "r1")
	if _, err := f.a.Publish(t.Context(), l, f.read(f.a, testPK), f.entry("1"), store.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	f.wantBodyKeys("1")
	f.keep(f.a, f.entry("2"))
	f.wantBodyKeys("1", "2")
	f.claim(f.a, "r2")
	f.clock.Advance(testLease + time.Second)
	f.publish(f.b, testPK, f.entry("3"))
	f.wantBodyKeys("1", "2", "3")
	f.publish(f.b, testPK, f.entry("4"))
	f.wantBodyKeys("1", "2", "4")
}

func (f *fleet) wantBodyKeys(ids ...string) {
	f.t.Helper()
	got, err := f.b.BodyKeys(f.t.Context(), testPK)
	if err != nil {
		f.t.Fatalf("BodyKeys: %v", err)
	}
	slices.Sort(got)
	var want []string
	for _, id := range ids {
		want = append(want, "bodies/5f1c/"+id)
	}
	if !slices.Equal(slices.Compact(got), want) {
		f.t.Errorf("BodyKeys: %q, want %q", got, want)
	}
}
