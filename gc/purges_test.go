package gc_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// newStore returns a store in memory with its clock.
func newStore(t *testing.T) (*dynamostore.Store, *isrtest.Clock) {
	t.Helper()
	db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := dynamostore.CreateTable(t.Context(), db, "pages"); err != nil {
		t.Fatal(err)
	}
	clock := isrtest.NewClock(time.Now().Truncate(time.Second))
	s, err := dynamostore.New(db, "pages", dynamostore.Config{Now: clock.Now, RetryDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return s, clock
}

func purge(t *testing.T, s *dynamostore.Store, hard bool, targets ...store.PurgeTarget) {
	t.Helper()
	if _, err := s.Purge(t.Context(), store.Purge{Targets: targets, Hard: hard}); err != nil {
		t.Fatal(err)
	}
}

func listMarks(t *testing.T, s *dynamostore.Store) map[store.PurgeTarget]store.Mark {
	t.Helper()
	marks := make(map[store.PurgeTarget]store.Mark)
	for m, err := range s.Marks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		marks[m.Target] = m
	}
	return marks
}

func target(kind store.PurgeKind, tenant, value string) store.PurgeTarget {
	return store.PurgeTarget{Kind: kind, Tenant: tenant, Value: value}
}

// TestCompactMarks: marks that a mark of their tenant or of the site includes are deleted,
// and no page is covered by less.
func TestCompactMarks(t *testing.T) {
	t.Parallel()
	s, clock := newStore(t)
	var (
		site, tenant     = target(store.PurgeSite, "", ""), target(store.PurgeTenant, "t1", "")
		old, hard, newer = target(store.PurgeTag, "t1", "old"), target(store.PurgeTag, "t1", "hard"), target(store.PurgeTag, "t1", "newer")
		other, prefix    = target(store.PurgeTag, "t2", "old"), target(store.PurgePrefix, "", "example.com/")
	)
	purge(t, s, false, old, other, prefix)
	purge(t, s, true, hard)
	clock.Advance(time.Minute)
	purge(t, s, false, tenant)
	clock.Advance(time.Minute)
	purge(t, s, false, newer)

	compact := func(dry bool, want gc.Compacted, left ...store.PurgeTarget) {
		t.Helper()
		before := covers(t, s)
		if done, err := gc.CompactMarks(t.Context(), s, dry); err != nil || done != want {
			t.Errorf("CompactMarks: %+v, %v, want %+v", done, err, want)
		}
		found := listMarks(t, s)
		if len(found) != len(left) {
			t.Errorf("marks %v are left, want %v", slices.Collect(maps.Keys(found)), left)
		}
		for _, l := range left {
			if _, ok := found[l]; !ok {
				t.Errorf("the mark of %s is gone", l)
			}
		}
		if after := covers(t, s); !maps.Equal(before, after) {
			t.Errorf("pages were covered by %v before, and by %v after", before, after)
		}
	}
	compact(true, gc.Compacted{Marks: 1, Kept: 5}, old, hard, newer, other, prefix, tenant)
	compact(false, gc.Compacted{Marks: 1, Kept: 5}, hard, newer, other, prefix, tenant)
	clock.Advance(time.Minute)
	purge(t, s, false, site)
	compact(false, gc.Compacted{Marks: 4, Kept: 2}, hard, site)
	purge(t, s, true, site)
	compact(false, gc.Compacted{Marks: 1, Kept: 1}, site)
	compact(false, gc.Compacted{Kept: 1}, site)
}

// covers returns the sequences that cover some pages.
func covers(t *testing.T, s *dynamostore.Store) map[store.Key][2]int64 {
	t.Helper()
	covers := make(map[store.Key][2]int64)
	for _, tenant := range []string{"", "t1", "t2", "t3"} {
		for _, tag := range []string{"old", "hard", "newer"} {
			k := store.Key{Tenant: tenant, Text: "example.com/" + tag}
			state, err := s.Covering(t.Context(), k, []string{tag})
			if err != nil {
				t.Fatal(err)
			}
			covers[k] = [2]int64{state.Seq, state.HardSeq}
		}
	}
	return covers
}

// A purger purges a tag when a mark is about to be deleted.
type purger struct {
	*dynamostore.Store
	purge func()
}

func (p *purger) DeleteMark(ctx context.Context, m store.Mark) error {
	p.purge()
	return p.Store.DeleteMark(ctx, m)
}

// TestCompactPurgedAgain: a mark that is purged again while it is about to be deleted stays.
func TestCompactPurgedAgain(t *testing.T) {
	t.Parallel()
	s, _ := newStore(t)
	tag := target(store.PurgeTag, "", "news")
	purge(t, s, false, tag)
	purge(t, s, false, target(store.PurgeSite, "", ""))
	if _, err := gc.CompactMarks(t.Context(), &purger{s, func() { purge(t, s, true, tag) }}, false); err != nil {
		t.Fatal(err)
	}
	if m := listMarks(t, s)[tag]; m.Seq != 3 || m.HardSeq != 3 {
		t.Errorf("the mark is %+v", m)
	}
}

// publish publishes a page that is pinned until a time.
func publish(t *testing.T, s *dynamostore.Store, k store.Key, now, pinned time.Time, tag string) string {
	t.Helper()
	pk := store.HashedPartition(k)
	l, err := s.Acquire(t.Context(), pk, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := s.Read(t.Context(), pk)
	if err != nil {
		t.Fatal(err)
	}
	next := store.Entry{
		BodyKey: "bodies/x/" + k.Text, GeneratedAt: now, Revalidate: time.Minute, GenerationID: k.String(), Key: k.Text,
		Status: 200, PinnedUntil: pinned, Tags: []string{tag},
	}
	if _, err := s.Publish(t.Context(), l, rec, next, store.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	return pk
}

// TestRenewPins: permanent pins outlive the lifetime of purge marks, unless a purge covers
// their page.
func TestRenewPins(t *testing.T) {
	t.Parallel()
	s, clock := newStore(t)
	renew := func(dry bool, want gc.Renewed) {
		t.Helper()
		if done, err := gc.RenewPins(t.Context(), s, gc.RenewOptions{Now: clock.Now, DryRun: dry}); err != nil || done != want {
			t.Errorf("RenewPins: %+v, %v, want %+v", done, err, want)
		}
	}
	forever := publish(t, s, store.Key{Tenant: "t1", Text: "example.com/forever"}, clock.Now(), store.Forever(), "a")
	purged := publish(t, s, store.Key{Text: "example.com/purged"}, clock.Now(), store.Forever(), "b")
	limited := publish(t, s, store.Key{Text: "example.com/limited"}, clock.Now(), clock.Now().AddDate(1, 0, 0), "a")
	clock.Advance(60 * 24 * time.Hour)
	renew(false, gc.Renewed{}) // nothing was ever purged
	purge(t, s, false, target(store.PurgeTag, "", "b"))
	renew(true, gc.Renewed{Pins: 2})
	renew(false, gc.Renewed{Pins: 1, Purged: 1})
	renew(false, gc.Renewed{Purged: 1})

	clock.Advance(60 * 24 * time.Hour)
	for pk, want := range map[string]store.State{forever: store.Fresh, purged: store.Expired, limited: store.Expired} {
		rec, err := s.Read(t.Context(), pk)
		if err != nil {
			t.Fatal(err)
		}
		seq, err := s.Sequence(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if state := store.Freshness(rec.Entry, store.PurgeState{MarkLifetime: seq.MarkLifetime}, clock.Now()); state != want {
			t.Errorf("%s is %v, want %v", rec.Entry.Key, state, want)
		}
	}
}
