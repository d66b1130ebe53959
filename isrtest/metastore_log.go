package isrtest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/store"
)

func (f *fleet) changes(after int64) []store.Change {
	f.t.Helper()
	seq, changes, err := f.b.Changes(f.t.Context(), after)
	if err != nil {
		f.t.Fatalf("Changes after %d: %v", after, err)
	}
	if n := f.sequence(); seq.Seq != n {
		f.t.Errorf("Changes after %d: sequence %d, want %d", after, seq.Seq, n)
	}
	return changes
}

// wantChanges checks the complete log.
func (f *fleet) wantChanges(want ...store.Change) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.changes(0)); diff != "" {
		f.t.Errorf("the log (-want +got):\n%s", diff)
	}
}

// testChanges: the log returns rollbacks, pins and unpins in order.
func testChanges(t *testing.T, f *fleet) {
	if changes := f.changes(0); len(changes) != 0 {
		t.Errorf("the log of nothing: %+v", changes)
	}
	f.keep(f.a, f.entry("1"))
	f.keep(f.a, f.entry("2"))
	a := f.assertion()
	f.rollback(f.a, "1", a)
	a.Key, a.PinnedUntil = store.Key{Text: "example.com/other?a=b"}, store.Forever()
	if _, err := f.b.Pin(t.Context(), f.read(f.b, testPK), a); err != nil {
		t.Fatal(err)
	}
	a.Key.Tenant, a.Key.Text = "t.2", "example.com/ü#accept=a"
	f.rollback(f.a, "2", a)
	want := []store.Change{
		{Seq: 1, Reload: []store.Key{{Tenant: "t1", Text: "example.com/news"}}},
		{Seq: 2, Reload: []store.Key{{Text: "example.com/other?a=b"}}},
		{Seq: 3, Reload: []store.Key{{Tenant: "t.2", Text: "example.com/ü#accept=a"}}},
	}
	for after := range int64(5) {
		if diff := cmp.Diff(want[min(after, 3):], f.changes(after), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("Changes after %d (-want +got):\n%s", after, diff)
		}
	}
	if n := f.sequence(); n != 3 {
		t.Errorf("Sequence %d, want 3", n)
	}
	slices.Reverse(want)
	for upTo := range int64(4) {
		recent, err := f.b.Recent(t.Context(), upTo)
		if diff := cmp.Diff(want[3-upTo:], recent, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("Recent up to %d: %v (-want +got):\n%s", upTo, err, diff)
		}
	}
}

// testManyChanges: a reader that is far behind catches up page by page.
func testManyChanges(t *testing.T, f *fleet) {
	const events = 30
	f.publish(f.a, testPK, f.entry("1"))
	for range events {
		f.rollback(f.a, "1", f.assertion())
	}
	seen := int64(0)
	for {
		changes := f.changes(seen)
		for _, change := range changes {
			if seen++; change.Seq != seen {
				t.Fatalf("sequence %d after %d", change.Seq, seen-1)
			}
		}
		if len(changes) == 0 {
			break
		}
	}
	if seen != events {
		t.Errorf("%d changes were read, want %d", seen, events)
	}
}
