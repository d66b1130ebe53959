package dynamostore_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// keep publishes the entry with history.
func (f *fixture) keep(id string) store.Entry {
	f.t.Helper()
	return f.publishAs(f.entry(id), store.PublishOptions{History: true})
}

func (f *fixture) publishAs(next store.Entry, how store.PublishOptions) store.Entry {
	f.t.Helper()
	got, err := f.store.Publish(f.t.Context(), f.acquire(), f.read(), next, how)
	if err != nil {
		f.t.Fatal(err)
	}
	return got
}

// wantTTL checks the ttl of a version; nil if there must be none.
func (f *fixture) wantTTL(sk string, want *time.Time) {
	f.t.Helper()
	found := f.raw.get(pk, sk)
	if found == nil {
		f.t.Errorf("there is no row %s", sk)
		return
	}
	var wanted any
	if want != nil {
		wanted = num(seconds(*want))
	}
	if got := found["ttl"]; (want == nil) != (got == nil) || want != nil && diff(wanted, got) != "" {
		f.t.Errorf("%s has ttl %v, want %v", sk, got, want)
	}
}

// TestVersionRows: the rows after pointer swaps.
func TestVersionRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		next := f.entry("g1")
		version := f.publishAs(next, store.PublishOptions{History: true}).Version
		want := storedMeta(next, version)
		want["current_sk"] = str("VER#g1")
		if d := diff(want, f.raw.get(pk, "META")); d != "" {
			t.Errorf("META (-want +got):\n%s", d)
		}
		delete(want, "current_sk")
		delete(want, "ttl")
		want["sk"] = str("VER#g1")
		if d := diff(want, f.raw.get(pk, "VER#g1")); d != "" {
			t.Errorf("VER#g1 (-want +got):\n%s", d)
		}

		// The superseded version expires at the given time; or with the entry; or after a
		// month.
		at := f.clock.Now().Add(time.Hour)
		f.publishAs(f.entry("g2"), store.PublishOptions{History: true, Superseded: at})
		f.wantTTL("VER#g1", &at)
		f.wantTTL("VER#g2", nil)
		third := f.entry("g3")
		f.publishAs(third, store.PublishOptions{History: true})
		f.wantTTL("VER#g2", &third.Expires)
		fourth := f.entry("g4")
		fourth.Expires = time.Time{}
		f.publishAs(fourth, store.PublishOptions{History: true})
		month := f.clock.Now().Add(30 * 24 * time.Hour)
		f.wantTTL("VER#g3", &month)

		// A generation without history supersedes one with.
		fifth := f.entry("g5")
		f.publish(fifth)
		f.wantTTL("VER#g4", &fifth.Expires)
		if current := f.raw.get(pk, "META")["current_sk"]; current != nil {
			t.Errorf("current_sk is %v", current)
		}
		f.wantTTL("VER#g1", &at)
	})
}

// TestSupersededVersionDeleted: a superseded version that was deleted early does not
// prevent a publish.
func TestSupersededVersionDeleted(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		r.keep("g1")
		r.raw.set(pk, "VER#g1", nil)
		l, read := begin(t, r.faulty, pk)
		r.api.arm(nil, false, nil)
		got, err := r.faulty.Publish(t.Context(), l, read, r.entry("g2"), store.PublishOptions{History: true})
		if err != nil || len(r.api.sent) != 2 {
			t.Fatalf("Publish: %v, after %d requests; want 2", err, len(r.api.sent))
		}
		if d := diff(&got, r.read().Entry); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if r.raw.get(pk, "VER#g1") != nil {
			t.Error("the version came back")
		}
	})
}

// TestVersionTwice: a generation id can be used once, and a second publish with it
// changes nothing.
func TestVersionTwice(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.keep("g1")
		second := f.keep("g2")
		before := f.raw.get(pk, "VER#g1")
		l := f.acquire()
		_, err := f.store.Publish(t.Context(), l, f.read(), f.entry("g1"), store.PublishOptions{History: true})
		if err == nil || !strings.Contains(err.Error(), "g1") || errors.Is(err, store.ErrMoved) || errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("Publish: %v, want an error that names the version", err)
		}
		if d := diff(&second, f.read().Entry) + diff(before, f.raw.get(pk, "VER#g1")); d != "" {
			t.Errorf("the rows changed:\n%s", d)
		}
		if err := f.store.Refresh(t.Context(), l); err != nil {
			t.Errorf("Refresh: %v", err)
		}
	})
}

// TestForeignVersions: rows of other services are not versions.
func TestForeignVersions(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		f.keep("g1")
		generated := f.clock.Now()
		f.raw.put(pk, "VER#theirs", reference(generated, nil))
		f.raw.put(pk, "VER#renamed", reference(generated, ours(generated, nil)))
		f.raw.put(pk, "VER#bad", attrs{"s3_key": num("1")})
		versions, err := f.store.Versions(t.Context(), pk)
		if err != nil || len(versions) != 1 || versions[0].GenerationID != "g1" {
			t.Errorf("Versions: %+v, %v; want g1 alone", versions, err)
		}
		for to, want := range map[string]error{
			"theirs": store.ErrNoVersion, "renamed": store.ErrNoVersion, "bad": nil, "g0": store.ErrNoVersion,
			strings.Repeat("x", 2000): store.ErrNoVersion, "\xff": store.ErrNoVersion,
		} {
			_, err := f.store.Rollback(t.Context(), f.read(), to, f.assertion())
			_, malformed := errors.AsType[*dynamostore.MalformedError](err)
			if want != nil && !errors.Is(err, want) || malformed != (want == nil) {
				t.Errorf("Rollback to %.20q: %v, want %v", to, err, want)
			}
		}
		if f.raw.get("PURGE", "SEQ") != nil {
			t.Error("a rollback that was refused is in the log")
		}
	})
}

// TestPointerOfAnotherService: a version that another service has made current is
// superseded as well.
func TestPointerOfAnotherService(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		generated := f.clock.Now()
		for current, retired := range map[string]bool{"VER#theirs": true, "META": false, "LOCK": false, "OTHER#1": false} {
			f.raw.put(pk, "VER#theirs", reference(generated, nil))
			f.raw.put(pk, "OTHER#1", attrs{})
			f.raw.put(pk, "META", reference(generated, attrs{"current_sk": str(current)}))
			f.publishAs(f.entry("g1"), store.PublishOptions{})
			if got := f.raw.get(pk, "VER#theirs")["ttl"] != nil; got != retired {
				t.Errorf("current_sk %s: VER#theirs is retired=%t, want %t", current, got, retired)
			}
			if f.raw.get(pk, "OTHER#1")["ttl"] != nil {
				t.Errorf("current_sk %s: a row that is no version got a ttl", current)
			}
		}
	})
}

// TestPruneKeepsCurrent: the current version stays, in whatever order the ids sort.
func TestPruneKeepsCurrent(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		for _, id := range []string{"g3", "g2", "g1"} { // by clocks that went backwards
			f.publishAs(f.entry(id), store.PublishOptions{History: true, Keep: 1})
		}
		kept := map[string]bool{}
		for _, id := range []string{"g1", "g2", "g3"} {
			kept[id] = f.raw.get(pk, "VER#"+id) != nil
		}
		if want := map[string]bool{"g1": true, "g2": false, "g3": true}; !maps.Equal(kept, want) {
			t.Errorf("kept are %v, want %v", kept, want)
		}
	})
}
