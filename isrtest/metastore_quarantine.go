package isrtest

import (
	"errors"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

func (f *fleet) quarantined(id, why string) store.Quarantined {
	e := f.entry(id)
	e.Expires = f.clock.Now().Add(time.Hour)
	return store.Quarantined{Entry: e, Tenant: "acme", Reason: why, RejectedAt: f.clock.Now(), Keep: 3}
}

func (f *fleet) quarantine(l store.Lease, q store.Quarantined) {
	f.t.Helper()
	if err := f.a.Quarantine(f.t.Context(), l, q); err != nil {
		f.t.Fatalf("Quarantine: %v", err)
	}
}

// wantQuarantined checks the generation in quarantine, as each node finds it; empty: none.
func (f *fleet) wantQuarantined(id, why string) {
	f.t.Helper()
	for _, node := range []store.MetaStore{f.a, f.b} {
		got, err := node.Quarantined(f.t.Context(), testPK)
		if id == "" && errors.Is(err, store.ErrNotQuarantined) {
			continue
		}
		if err != nil || got.Entry.GenerationID != id || got.Reason != why {
			f.t.Errorf("Quarantined: %q, %q, %v; want %q, %q", got.Entry.GenerationID, got.Reason, err, id, why)
		}
	}
	var listed []string
	for q, err := range f.b.AllQuarantined(f.t.Context()) {
		if err != nil {
			f.t.Fatalf("AllQuarantined: %v", err)
		}
		listed = append(listed, q.PK+" "+q.Entry.GenerationID)
	}
	if want := testPK + " " + id; id == "" && len(listed) > 0 || id != "" && (len(listed) != 1 || listed[0] != want) {
		f.t.Errorf("AllQuarantined: %q, want %q", listed, want)
	}
}

// testQuarantine: the last rejected generation of a page is kept next to the current one,
// with its body, until it is dropped or expires.
func testQuarantine(t *testing.T, f *fleet) {
	f.wantQuarantined("", "")
	current := f.publish(f.a, testPK, f.entry("1"))
	l := f.acquire(f.a, testPK)
	f.quarantine(l, f.quarantined("2", "small"))
	f.wantQuarantined("2", "small")
	f.quarantine(l, f.quarantined("3", "blank")) // replaces the other
	f.wantQuarantined("3", "blank")
	f.wantBodyKeys("1", "3")
	f.wantNamedBodies(map[string][]string{testPK: {"bodies/5f1c/1", "bodies/5f1c/3"}})
	f.holds(testPK, current)
	f.held(f.b, testPK)

	q := f.quarantined("3", "blank")
	got, err := f.b.Quarantined(t.Context(), testPK)
	if err != nil {
		t.Fatal(err)
	}
	q.Entry.GeneratedAt, q.Entry.Expires = got.Entry.GeneratedAt, got.Entry.Expires.Truncate(time.Second)
	if got.PK != testPK || got.Tenant != "acme" || got.Keep != 3 || got.Entry.SHA256 != q.Entry.SHA256 || got.Entry.Status != q.Entry.Status ||
		!got.RejectedAt.Equal(f.clock.Now().Truncate(time.Second)) {
		t.Errorf("got %+v, want %+v", got, q)
	}
	for _, generation := range []string{"2", "3", "3"} {
		if err := f.b.DropQuarantined(t.Context(), testPK, generation); err != nil {
			t.Fatalf("DropQuarantined(%s): %v", generation, err)
		}
		if generation == "2" {
			f.wantQuarantined("3", "blank") // another one is not dropped
		}
	}
	f.wantQuarantined("", "")
	f.wantBodyKeys("1")

	f.quarantine(l, f.quarantined("4", "blank"))
	f.clock.Advance(time.Hour + time.Second)
	f.wantQuarantined("", "") // expired
}

// testQuarantineRefused: only the holder of the lease can write the row.
func testQuarantineRefused(t *testing.T, f *fleet) {
	l := f.acquire(f.a, testPK)
	forever := f.quarantined("1", "")
	forever.Entry.Expires = time.Time{}
	if err := f.a.Quarantine(t.Context(), l, forever); !errors.Is(err, store.ErrInvalidInput) {
		t.Errorf("a generation that does not expire: %v", err)
	}
	if err := f.b.Quarantine(t.Context(), l, f.quarantined("1", "")); !errors.Is(err, store.ErrForeignLease) {
		t.Errorf("a lease of another store: %v", err)
	}
	f.clock.Advance(testLease + 2*time.Second)
	f.acquire(f.b, testPK)
	if err := f.a.Quarantine(t.Context(), l, f.quarantined("1", "")); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("a lease that was taken over: %v", err)
	}
	f.wantQuarantined("", "")
}
