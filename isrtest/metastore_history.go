package isrtest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// keep publishes the entry and keeps it as a version.
func (f *fleet) keep(meta store.MetaStore, next store.Entry) store.Entry {
	f.t.Helper()
	return f.publishAs(meta, next, store.PublishOptions{History: true})
}

func (f *fleet) publishAs(store store.MetaStore, next store.Entry, how store.PublishOptions) store.Entry {
	f.t.Helper()
	got, err := store.Publish(f.t.Context(), f.acquire(store, testPK), f.read(store, testPK), next, how)
	if err != nil {
		f.t.Fatalf("Publish %s: %v", next.GenerationID, err)
	}
	f.clock.Advance(time.Second)
	return got
}

// assertion returns an assertion without options.
func (f *fleet) assertion() store.Assertion {
	return store.Assertion{
		Key: store.Key{Tenant: "t1", Text: "example.com/news"}, At: f.clock.Now(),
		Expires: f.clock.Now().Add(40 * 24 * time.Hour).Truncate(time.Second),
	}
}

func (f *fleet) rollback(store store.MetaStore, to string, a store.Assertion) store.Entry {
	f.t.Helper()
	got, err := store.Rollback(f.t.Context(), f.read(store, testPK), to, a)
	if err != nil {
		f.t.Fatalf("Rollback to %s: %v", to, err)
	}
	return got
}

// kept returns the ids of the versions.
func (f *fleet) kept(store store.MetaStore) []string {
	f.t.Helper()
	versions, err := store.Versions(f.t.Context(), testPK)
	if err != nil {
		f.t.Fatalf("Versions: %v", err)
	}
	ids := make([]string, len(versions))
	for i, v := range versions {
		ids[i] = v.GenerationID
	}
	return ids
}

func (f *fleet) wantKept(want ...string) {
	f.t.Helper()
	if got := f.kept(f.b); !slices.Equal(got, want) {
		f.t.Errorf("the versions kept are %q, want %q", got, want)
	}
}

func (f *fleet) sequence() int64 {
	f.t.Helper()
	sequence, err := f.b.Sequence(f.t.Context())
	if err != nil {
		f.t.Fatalf("Sequence: %v", err)
	}
	return sequence.Seq
}

func testVersions(t *testing.T, f *fleet) {
	f.wantKept()
	want := make([]store.Entry, 3)
	for i := range want {
		want[i] = f.keep([]store.MetaStore{f.a, f.b}[i%2], f.entry(fmt.Sprint(i)))
		f.holds(testPK, want[i])
	}
	versions, err := f.b.Versions(t.Context(), testPK)
	if err != nil || len(versions) != len(want) {
		t.Fatalf("Versions: %d, %v; want %d", len(versions), err, len(want))
	}
	slices.Reverse(want) // newest first
	for i, got := range versions {
		if current := i == 0; got.Expires.IsZero() != current {
			t.Errorf("version %s expires %v, and is current=%t", got.GenerationID, got.Expires, current)
		}
		got.Expires = want[i].Expires
		if diff := diffEntries(want[i], got); diff != "" {
			t.Errorf("version %d differs (-want +got):\n%s", i, diff)
		}
	}
	if versions, err := f.b.Versions(t.Context(), testPK+"0"); err != nil || len(versions) != 0 {
		t.Errorf("Versions of another page: %+v, %v", versions, err)
	}
}

// testVersionsOnDemand: only publishes that ask for history write a version, and
// the others do not affect existing versions.
func testVersionsOnDemand(_ *testing.T, f *fleet) {
	f.publish(f.a, testPK, f.entry("1"))
	f.wantKept()
	f.clock.Advance(time.Second)
	f.keep(f.a, f.entry("2"))
	f.wantKept("2")
	last := f.publish(f.b, testPK, f.entry("3"))
	f.wantKept("2")
	f.holds(testPK, last)
}

func testRollback(t *testing.T, f *fleet) {
	first := f.keep(f.a, f.entry("1"))
	second := f.keep(f.b, f.entry("2"))
	a := f.assertion()
	before := f.sequence()
	got := f.rollback(f.a, "1", a)
	want := first
	want.Version, want.PurgeSeq = got.Version, before
	want.AssertedAt, want.Expires = a.At.Truncate(time.Second).UTC(), a.Expires
	if got.Version <= second.Version {
		t.Errorf("version %d follows %d, want a greater one", second.Version, got.Version)
	}
	if diff := diffEntries(want, got); diff != "" {
		t.Errorf("Rollback returned a different entry (-want +got):\n%s", diff)
	}
	f.holds(testPK, want)
	f.wantKept("2", "1")

	f.clock.Advance(time.Second)
	a = f.assertion()
	a.PinnedUntil = store.Forever()
	back := f.rollback(f.b, "2", a)
	if back.GenerationID != "2" || !back.PinnedUntil.Equal(store.Forever()) || back.Version <= got.Version {
		t.Errorf("rolled forward to %+v", back)
	}
	f.holds(testPK, back)
	if after := f.sequence(); after != before+2 {
		t.Errorf("two rollbacks moved the sequence from %d to %d", before, after)
	}
}

// testRollbackRefused: a refused rollback changes nothing and writes no log row.
func testRollbackRefused(t *testing.T, f *fleet) {
	f.keep(f.a, f.entry("1"))
	old := f.read(f.a, testPK)
	second := f.keep(f.b, f.entry("2"))
	now := f.read(f.a, testPK)
	for name, test := range map[string]struct {
		read store.Record
		to   string
		a    store.Assertion
		want error
	}{
		"moved":      {old, "2", f.assertion(), store.ErrMoved},
		"no version": {now, "3", f.assertion(), store.ErrNoVersion},
		"no id":      {now, "", f.assertion(), store.ErrNoVersion},
		"no key":     {now, "1", store.Assertion{At: f.clock.Now()}, store.ErrInvalidKey},
	} {
		if _, err := f.a.Rollback(t.Context(), test.read, test.to, test.a); !errors.Is(err, test.want) {
			t.Errorf("Rollback, %s: %v, want %v", name, err, test.want)
		}
	}
	if _, err := f.a.Rollback(t.Context(), store.Record{}, "1", f.assertion()); err == nil {
		t.Error("Rollback without a record: no error")
	}
	f.holds(testPK, second)
	if n := f.sequence(); n != 0 {
		t.Errorf("the sequence is %d after refused rollbacks", n)
	}
}

// testRollbackBeatsRegeneration: a render that began before a rollback cannot
// undo it.
func testRollbackBeatsRegeneration(t *testing.T, f *fleet) {
	f.keep(f.a, f.entry("1"))
	f.keep(f.a, f.entry("2"))
	l := f.acquire(f.a, testPK)
	read := f.read(f.a, testPK)
	back := f.rollback(f.b, "1", f.assertion())
	if _, err := f.a.Publish(t.Context(), l, read, f.entry("3"), store.PublishOptions{History: true, Unpin: true}); !errors.Is(err, store.ErrMoved) {
		t.Errorf("Publish after a rollback: %v, want ErrMoved", err)
	}
	f.holds(testPK, back)
	f.wantKept("2", "1")
	f.refresh(f.a, l)
	third, err := f.a.Publish(t.Context(), l, f.read(f.a, testPK), f.entry("3"), store.PublishOptions{History: true})
	if err != nil {
		t.Fatalf("Publish of one that began after it: %v", err)
	}
	f.holds(testPK, third)
	f.wantKept("3", "2", "1")
}

// testRollbackToCurrent: a rollback to the current generation is a pin and needs
// no version.
func testRollbackToCurrent(t *testing.T, f *fleet) {
	first := f.publish(f.a, testPK, f.entry("1"))
	a := f.assertion()
	a.PinnedUntil = f.clock.Now().Add(time.Hour).Truncate(time.Second).UTC()
	got := f.rollback(f.b, "1", a)
	want := first
	want.Version, want.PinnedUntil, want.Expires = first.Version+1, a.PinnedUntil, a.Expires
	if diff := diffEntries(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.holds(testPK, want)
}

func testPin(t *testing.T, f *fleet) {
	if _, err := f.a.Pin(t.Context(), f.read(f.a, testPK), f.assertion()); !errors.Is(err, store.ErrNoVersion) {
		t.Errorf("Pin without an entry: %v, want ErrNoVersion", err)
	}
	want := f.keep(f.a, f.entry("1"))
	old := f.read(f.b, testPK)
	// The last two unpin: the pin ends now, or has ended already.
	unpinned := f.clock.Now().Truncate(time.Second).UTC()
	for i, test := range []struct{ until, want time.Time }{
		{f.clock.Now().Add(time.Hour), f.clock.Now().Add(time.Hour).Truncate(time.Second).UTC()},
		{store.Forever(), store.Forever()},
		{time.Time{}, unpinned},
		{time.Time{}, unpinned},
	} {
		a := f.assertion()
		a.PinnedUntil = test.until
		got, err := f.a.Pin(t.Context(), f.read(f.a, testPK), a)
		if err != nil {
			t.Fatalf("Pin until %v: %v", test.until, err)
		}
		want.Version, want.PinnedUntil, want.Expires = want.Version+1, test.want, a.Expires
		if diff := diffEntries(want, got); diff != "" {
			t.Errorf("Pin until %v returned a different entry (-want +got):\n%s", test.until, diff)
		}
		f.holds(testPK, want)
		if n := f.sequence(); n != int64(i)+1 {
			t.Errorf("Pin until %v: the sequence is %d, want %d", test.until, n, i+1)
		}
	}
	if _, err := f.b.Pin(t.Context(), old, f.assertion()); !errors.Is(err, store.ErrMoved) {
		t.Errorf("Pin of an old record: %v, want ErrMoved", err)
	}
	f.wantKept("1")
	f.keep(f.b, f.entry("2"))
	f.wantKept("2", "1") // the entry still matches its version
}

// testUnpinOfUnpinned: it executes, is logged, and leaves the entry without a pin.
func testUnpinOfUnpinned(t *testing.T, f *fleet) {
	want := f.publish(f.a, testPK, f.entry("1"))
	a := f.assertion()
	got, err := f.b.Pin(t.Context(), f.read(f.b, testPK), a)
	if err != nil {
		t.Fatal(err)
	}
	want.Version, want.Expires = want.Version+1, a.Expires
	if diff := diffEntries(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.holds(testPK, want)
	f.wantChanges(store.Change{Seq: 1, Reload: []store.Key{a.Key}})
}

// testPublishOverPinIsLogged: a publish that ends a pin writes its log row in the
// same transaction; other publishes write none.
func testPublishOverPinIsLogged(t *testing.T, f *fleet) {
	unpinning := store.PublishOptions{Unpin: true, Key: store.Key{Tenant: "t2", Text: "example.com/a"}}
	f.publishAs(f.a, f.entry("1"), unpinning)
	a := f.assertion()
	a.PinnedUntil = store.Forever()
	if _, err := f.a.Pin(t.Context(), f.read(f.a, testPK), a); err != nil {
		t.Fatal(err)
	}
	pinned := store.Change{Seq: 1, Reload: []store.Key{a.Key}}
	f.wantChanges(pinned)

	// Without the page's key the log row could not name the page: refused.
	l, read := f.acquire(f.b, testPK), f.read(f.b, testPK)
	if _, err := f.b.Publish(t.Context(), l, read, f.entry("2"), store.PublishOptions{Unpin: true}); !errors.Is(err, store.ErrInvalidKey) {
		t.Errorf("Publish over a pin without a key: %v, want ErrInvalidKey", err)
	}
	f.wantChanges(pinned)
	second, err := f.b.Publish(t.Context(), l, read, f.entry("2"), unpinning)
	if err != nil {
		t.Fatal(err)
	}
	f.holds(testPK, second)
	f.wantChanges(pinned, store.Change{Seq: 2, Reload: []store.Key{unpinning.Key}})
	if _, err := f.a.Publish(t.Context(), f.acquire(f.a, testPK), read, f.entry("3"), unpinning); !errors.Is(err, store.ErrMoved) {
		t.Errorf("Publish over a pin that is gone: %v, want ErrMoved", err)
	}
	f.wantChanges(pinned, store.Change{Seq: 2, Reload: []store.Key{unpinning.Key}})
}

// testWithdrawal: it is a publish under the lease, is logged, and does not complete
// the request record that it was rendered for.
func testWithdrawal(t *testing.T, f *fleet) {
	f.publish(f.a, testPK, f.entry("1"))
	l, err := f.a.Acquire(t.Context(), testPK, testLease, newClaim("r1", "a"))
	if err != nil {
		t.Fatal(err)
	}
	read := f.read(f.a, testPK)
	next := *read.Entry
	next.GenerationID, next.Withdrawn, next.Revalidate, next.Stale = "2", true, 0, 0
	how := store.PublishOptions{Reload: true, Key: store.Key{Text: "example.com/a"}}
	if _, err := f.a.Publish(t.Context(), l, read, next, store.PublishOptions{Reload: true}); !errors.Is(err, store.ErrInvalidKey) {
		t.Errorf("a reload without a key: %v, want ErrInvalidKey", err)
	}
	got, err := f.a.Publish(t.Context(), l, read, next, how)
	if err != nil || !got.Withdrawn || store.Freshness(&got, store.PurgeState{}, f.clock.Now()) != store.Missing {
		t.Fatalf("%+v, %v", got, err)
	}
	f.holds(testPK, got)
	f.wantChanges(store.Change{Seq: 1, Reload: []store.Key{how.Key}})
	if r := f.recorded("r1"); r.State != store.RequestStarted {
		t.Errorf("the request is %s", r.State)
	}
	f.endRequest(f.a, l, store.RequestEnd{Failure: "withdrawn"})
	if r := f.recorded("r1"); r.State != store.RequestFailed || r.Failure != "withdrawn" {
		t.Errorf("the request is %s: %q", r.State, r.Failure)
	}
	f.holds(testPK, f.publish(f.b, testPK, f.entry("3")))
	if _, err := f.a.Publish(t.Context(), f.acquire(f.a, testPK), read, next, how); !errors.Is(err, store.ErrMoved) {
		t.Errorf("a withdrawal of a replaced entry: %v, want ErrMoved", err)
	}
}

// testPinHolds: only a publish that unpins replaces a pinned entry.
func testPinHolds(t *testing.T, f *fleet) {
	f.keep(f.a, f.entry("1"))
	f.keep(f.a, f.entry("2"))
	a := f.assertion()
	a.PinnedUntil = f.clock.Now().Add(time.Hour)
	pinned := f.rollback(f.a, "1", a)
	l := f.acquire(f.b, testPK)
	read := f.read(f.b, testPK)
	if _, err := f.b.Publish(t.Context(), l, read, f.entry("3"), store.PublishOptions{}); !errors.Is(err, store.ErrPinned) {
		t.Fatalf("Publish over a pin: %v, want ErrPinned", err)
	}
	f.holds(testPK, pinned)
	f.refresh(f.b, l) // a refused publish keeps the lease
	third, err := f.b.Publish(t.Context(), l, read, f.entry("3"), store.PublishOptions{Unpin: true, Key: a.Key})
	if err != nil || !third.PinnedUntil.IsZero() {
		t.Fatalf("Publish that unpins: %+v, %v", third, err)
	}
	f.holds(testPK, third)

	a = f.assertion()
	a.PinnedUntil = f.clock.Now().Add(time.Minute)
	f.rollback(f.a, "3", a)
	f.clock.Advance(time.Minute)
	f.holds(testPK, f.publish(f.a, testPK, f.entry("4"))) // the pin has expired
}

// testKeep: only the newest superseded versions are kept.
func testKeep(_ *testing.T, f *fleet) {
	keep := func(id string, n int) {
		f.publishAs(f.a, f.entry(id), store.PublishOptions{History: true, Keep: n})
	}
	for i := range 5 {
		keep(fmt.Sprint(i), 3)
	}
	f.wantKept("4", "3", "2")
	f.rollback(f.a, "2", f.assertion())
	f.wantKept("4", "3", "2")
	keep("5", 2)
	f.wantKept("5", "4")
	f.rollback(f.a, "4", f.assertion())
	f.publish(f.b, testPK, f.entry("6"))
	keep("7", 1)
	f.wantKept("7")
}

// testRaceOfRollbacks: concurrent publishes and rollbacks form one chain, and
// each rollback is logged.
func testRaceOfRollbacks(t *testing.T, f *fleet) {
	first := f.keep(f.a, f.entry("0"))
	f.keep(f.a, f.entry("1"))
	var publishes, rollbacks atomic.Int64
	var group errgroup.Group
	for node := range raceNodes {
		meta := f.open(fmt.Sprintf("racer-%d", node), f.clock.Now)
		group.Go(func() error {
			for round := range raceRounds {
				won, counter := error(nil), &rollbacks
				if node%3 == 0 {
					won, counter = f.tryPublish(meta, fmt.Sprintf("%d-%d", node, round)), &publishes
				} else {
					won = f.tryRollback(meta, []string{"0", "1"}[(node+round)%2])
				}
				switch {
				case won == nil:
					counter.Add(1)
				case !errors.Is(won, store.ErrMoved):
					return won
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	last := f.read(f.a, testPK)
	if want := first.Version + 1 + publishes.Load() + rollbacks.Load(); last.Entry.Version != want {
		t.Errorf("%d publishes and %d rollbacks were acknowledged, but the version went from %d to %d",
			publishes.Load(), rollbacks.Load(), first.Version+1, last.Entry.Version)
	}
	if err := checkWhole(last); err != nil {
		t.Error(err)
	}
	_, changes, err := f.a.Changes(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(changes)) != rollbacks.Load() || f.sequence() != rollbacks.Load() {
		t.Errorf("%d rollbacks, %d rows in the log, sequence %d", rollbacks.Load(), len(changes), f.sequence())
	}
}

// testRaceOfChanges: concurrent changes of different pages through several nodes
// all succeed, and each is logged once.
func testRaceOfChanges(t *testing.T, f *fleet) {
	const each = 25
	var group errgroup.Group
	for node := range raceNodes {
		meta := f.open(fmt.Sprintf("racer-%d", node), f.clock.Now)
		for i := range each {
			name := fmt.Sprintf("%d-%d", node, i)
			pk := "CACHE#" + name
			f.publish(meta, pk, f.entry(name))
			read := f.read(meta, pk)
			a := f.assertion()
			a.Key.Text, a.PinnedUntil = "example.com/"+name, store.Forever()
			group.Go(func() error {
				got, err := meta.Pin(t.Context(), read, a)
				if err == nil && !got.PinnedUntil.Equal(store.Forever()) {
					err = fmt.Errorf("pinned until %v", got.PinnedUntil)
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	told, seen := make(map[string]int), int64(0)
	for changes := f.changes(0); len(changes) > 0; changes = f.changes(seen) {
		for _, change := range changes {
			if seen++; change.Seq != seen {
				t.Fatalf("sequence %d after %d", change.Seq, seen-1)
			}
			for _, k := range change.Reload {
				told[k.Text]++
			}
		}
	}
	for node := range raceNodes {
		for i := range each {
			if text := fmt.Sprintf("example.com/%d-%d", node, i); told[text] != 1 {
				t.Errorf("%s is logged %d times, want once", text, told[text])
			}
		}
	}
	if n := f.sequence(); n != seen {
		t.Errorf("the sequence is %d, and the log has %d rows", n, seen)
	}
}

func (f *fleet) tryPublish(meta store.MetaStore, id string) error {
	l, err := f.contend(meta)
	if err != nil {
		return err
	}
	read, err := meta.Read(f.t.Context(), testPK)
	if err != nil {
		return err
	}
	_, err = meta.Publish(f.t.Context(), l, read, entryAt(id, f.clock.Now()), store.PublishOptions{History: true})
	if err != nil {
		return errors.Join(err, meta.Release(f.t.Context(), l))
	}
	return nil
}

func (f *fleet) tryRollback(store store.MetaStore, to string) error {
	read, err := store.Read(f.t.Context(), testPK)
	if err != nil {
		return err
	}
	_, err = store.Rollback(f.t.Context(), read, to, f.assertion())
	return err
}

// testUnchangedVersion: an unchanged generation replaces the current version and no
// other, even if that version was rolled back to.
func testUnchangedVersion(t *testing.T, f *fleet) {
	unchanged := store.PublishOptions{History: true, Unchanged: true}
	f.publishAs(f.a, f.entry("g1"), unchanged) // replaces none
	f.keep(f.a, f.entry("g2"))
	f.publishAs(f.a, f.entry("g3"), unchanged)
	f.wantKept("g3", "g1")
	f.rollback(f.b, "g1", f.assertion())
	f.publishAs(f.a, f.entry("g4"), unchanged)
	f.wantKept("g4", "g3")
	if _, err := f.b.Rollback(t.Context(), f.read(f.b, testPK), "g1", f.assertion()); !errors.Is(err, store.ErrNoVersion) {
		t.Errorf("Rollback to a replaced version: %v, want ErrNoVersion", err)
	}
}
