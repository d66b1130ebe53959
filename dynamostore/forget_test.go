package dynamostore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// TestForget: an entry and its versions are deleted only under a held lease, and only
// if the entry is still what was read.
func TestForget(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.publish(f.entry("1"))
		before := f.read()
		history := store.PublishOptions{History: true, Key: store.Key{Text: "example.com/"}}
		if _, err := f.store.Publish(t.Context(), f.acquire(), f.read(), f.entry("2"), history); err != nil {
			t.Fatal(err)
		}
		l := f.acquire()
		if err := f.store.Forget(t.Context(), l, before); !errors.Is(err, store.ErrMoved) {
			t.Errorf("an entry that is not what was read: %v, want ErrMoved", err)
		}
		read := f.read()
		f.clock.Advance(time.Minute)
		if err := f.store.Forget(t.Context(), l, read); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("a lease that has ended: %v, want ErrLeaseLost", err)
		}
		if f.raw.get(pk, "META") == nil || f.raw.get(pk, "VER#2") == nil {
			t.Error("what was refused has deleted something")
		}
		l = f.acquire()
		if err := f.store.Forget(t.Context(), l, f.read()); err != nil {
			t.Fatal(err)
		}
		if f.raw.get(pk, "META") != nil || f.raw.get(pk, "VER#2") != nil || f.raw.get(pk, "LOCK") == nil {
			t.Error("a row is there that should be gone, or the lease is gone")
		}
		if keys, err := f.store.BodyKeys(t.Context(), pk); err != nil || len(keys) != 0 {
			t.Errorf("named: %q, %v", keys, err)
		}
		// The page can be published again, under the same lease.
		if _, err := f.store.Publish(t.Context(), l, f.read(), f.entry("3"), store.PublishOptions{}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
