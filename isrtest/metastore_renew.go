package isrtest

import (
	"errors"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// renewed returns the renewal of an entry now.
func (f *fleet) renewed(e store.Entry) store.Entry {
	e.GeneratedAt = f.clock.Now().Truncate(time.Millisecond).UTC()
	e.Expires = e.GeneratedAt.Add(50 * 24 * time.Hour).Truncate(time.Second)
	e.Header = e.Header.Clone()
	e.Header.Set("X-Renewed", "yes")
	e.Revalidate, e.PurgeSeq, e.PinnedUntil = 2*time.Minute, e.PurgeSeq+1, time.Time{}
	return e
}

// renew acquires the lease, reads, and renews the entry.
func (f *fleet) renew(meta store.MetaStore, next store.Entry) store.Entry {
	f.t.Helper()
	return f.publishAs(meta, next, store.PublishOptions{Renew: true, History: true, Keep: 1, Unchanged: true})
}

// testRenew: a renewal is a publish of the same generation, in the same order of effects.
func testRenew(t *testing.T, f *fleet) {
	first := f.publish(f.a, testPK, f.entry("1"))
	f.clock.Advance(90 * time.Millisecond)
	for _, meta := range []store.MetaStore{f.a, f.b, f.b} {
		want := f.renewed(*f.read(f.a, testPK).Entry)
		got := f.renew(meta, want)
		if got.Version <= first.Version {
			t.Errorf("version %d follows %d, want a greater one", first.Version, got.Version)
		}
		want.Version = got.Version
		f.holds(testPK, want)
		first = got
	}
	f.wantKept() // it was published without history, and stays so
	if lock := f.read(f.b, testPK).Lock; lock != nil {
		t.Errorf("the lease is still held after a renewal: %+v", lock)
	}

	// What the entry became since the read is not overwritten.
	old := f.read(f.a, testPK)
	pinned, err := f.b.Pin(t.Context(), old, store.Assertion{Key: f.assertion().Key, PinnedUntil: store.Forever()})
	if err != nil {
		t.Fatal(err)
	}
	l := f.acquire(f.a, testPK)
	if _, err := f.a.Publish(t.Context(), l, old, f.renewed(*old.Entry), store.PublishOptions{Renew: true}); !errors.Is(err, store.ErrMoved) {
		t.Errorf("a renewal of an entry that was pinned since it was read: %v, want ErrMoved", err)
	}
	if _, err := f.a.Publish(t.Context(), l, f.read(f.a, testPK), f.renewed(*old.Entry), store.PublishOptions{Renew: true}); !errors.Is(err, store.ErrPinned) {
		t.Errorf("a renewal of a pinned entry: %v, want ErrPinned", err)
	}
	f.holds(testPK, pinned)
	f.clock.Set(f.held(f.b, testPK).ExpiresAt)
	if _, err := f.a.Publish(t.Context(), l, f.read(f.a, testPK), f.renewed(*old.Entry), store.PublishOptions{Renew: true, Unpin: true, Key: f.assertion().Key}); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("a renewal after the lease: %v, want ErrLeaseLost", err)
	}
	f.holds(testPK, pinned)
}

// testRenewKeepsVersion: the version of a renewed generation stays as it was published, and the
// next generation supersedes it.
func testRenewKeepsVersion(t *testing.T, f *fleet) {
	first := f.keep(f.a, f.entry("1"))
	f.renew(f.b, f.renewed(first))
	f.wantKept("1")
	second := f.keep(f.a, f.entry("2"))
	f.renew(f.a, f.renewed(second))
	f.wantKept("2", "1")
	versions, err := f.b.Versions(t.Context(), testPK)
	if err != nil || len(versions) != 2 {
		t.Fatalf("Versions: %d, %v", len(versions), err)
	}
	if !versions[0].Expires.IsZero() || versions[1].Expires.IsZero() {
		t.Errorf("the current version expires %v, the superseded one %v", versions[0].Expires, versions[1].Expires)
	}
	a := f.assertion()
	got := f.rollback(f.b, "1", a)
	want := first
	want.Version, want.PurgeSeq, want.AssertedAt, want.Expires = got.Version, got.PurgeSeq, a.At.Truncate(time.Second).UTC(), a.Expires
	f.holds(testPK, want)
	renewed := f.renewed(got)
	renewed.Version = f.renew(f.a, renewed).Version
	f.holds(testPK, renewed)
	f.wantKept("2", "1")
}

// testRenewRefused: only the generation that is current can be renewed.
func testRenewRefused(t *testing.T, f *fleet) {
	renew := func(next store.Entry) error {
		l := f.acquire(f.a, testPK)
		defer f.release(f.a, l)
		_, err := f.a.Publish(t.Context(), l, f.read(f.a, testPK), next, store.PublishOptions{Renew: true})
		return err
	}
	if err := renew(f.entry("1")); !errors.Is(err, store.ErrInvalidInput) {
		t.Errorf("a renewal of no entry: %v, want ErrInvalidInput", err)
	}
	first := f.publish(f.a, testPK, f.entry("1"))
	f.clock.Advance(time.Second)
	for name, change := range map[string]func(*store.Entry){
		"generation": func(e *store.Entry) { e.GenerationID = "2" },
		"body":       func(e *store.Entry) { e.BodyKey = "bodies/5f1c/2" },
		"digest":     func(e *store.Entry) { e.SHA256 = "ab" },
		"length":     func(e *store.Entry) { e.Length++ },
		"same time":  func(e *store.Entry) { e.GeneratedAt = first.GeneratedAt },
		"withdrawn":  func(e *store.Entry) { e.Withdrawn = true },
	} {
		next := f.renewed(first)
		change(&next)
		if err := renew(next); !errors.Is(err, store.ErrInvalidInput) {
			t.Errorf("a renewal with another %s: %v, want ErrInvalidInput", name, err)
		}
	}
	f.holds(testPK, first)
	gone := f.entry("3")
	gone.Withdrawn = true
	f.publish(f.a, testPK, gone)
	f.clock.Advance(time.Second)
	if err := renew(f.renewed(gone)); !errors.Is(err, store.ErrInvalidInput) {
		t.Errorf("a renewal of a withdrawn page: %v, want ErrInvalidInput", err)
	}
}
