package isr_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"iter"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// longAfter is a time at which all files are old. Files have real times, even in tests with
// virtual time.
func longAfter() time.Time { return time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC) }

// collect returns what a garbage collection deletes a day after the last write.
func (tb *table) collect(t *testing.T, opts gc.CollectOptions) ([]string, gc.Collected) {
	t.Helper()
	var keys []string
	opts.Now = longAfter
	opts.Report = func(g gc.Garbage) { keys = append(keys, g.Key) }
	done, err := gc.Collect(t.Context(), tb.store("gc"), tb.bodies, opts)
	if err != nil {
		t.Fatal(err)
	}
	if done.Bodies != len(keys) {
		t.Errorf("%d bodies are counted, %d were reported", done.Bodies, len(keys))
	}
	slices.Sort(keys)
	return keys, done
}

func (tb *table) bodyKeys(t *testing.T) []string {
	t.Helper()
	var keys []string
	for info, err := range tb.bodies.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	slices.Sort(keys)
	return keys
}

// folderOf returns the folder with the bodies of a partition.
func folderOf(pk string) string {
	sum := sha256.Sum256([]byte(pk))
	return "bodies/" + hex.EncodeToString(sum[:]) + "/"
}

func TestCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", isr.Route{Name: "site"}, newSite(), nil) // no history
		first, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r"))
		if err != nil {
			t.Fatal(err)
		}
		p.regenerate(t, 2) // the body of the second is garbage, the body of the first a result
		folder := folderOf(store.HashedPartition(page))
		crashed, theirs := folder+"20000101T000000.000000Z-crashed", "pages/theirs.html"
		gone := folderOf("CACHE#gone") + "20000101T000000.000000Z-gone"
		for _, key := range []string{crashed, gone, theirs, "bodies/short", "bodies/" + "not-a-hash-not-a-hash-not-a-hash-not-a-hash-not-a-hash-not-a-has/x"} {
			if err := tb.bodies.Put(t.Context(), key, []byte("12345")); err != nil {
				t.Fatal(err)
			}
		}
		before := tb.bodyKeys(t)

		if done, err := gc.Collect(t.Context(), tb.store("gc"), tb.bodies, gc.CollectOptions{}); err != nil || done != (gc.Collected{Young: 5}) {
			t.Errorf("of young bodies: %+v, %v", done, err)
		}
		dry, _ := tb.collect(t, gc.CollectOptions{DryRun: true})
		if !slices.Equal(tb.bodyKeys(t), before) {
			t.Error("a dry run deletes")
		}
		got, done := tb.collect(t, gc.CollectOptions{})
		if !slices.Equal(dry, got) || len(got) != 3 || !slices.Contains(got, crashed) || !slices.Contains(got, gone) {
			t.Errorf("deleted %q, tried %q", got, dry)
		}
		if done.Kept != 2 || done.Busy != 0 || done.Bytes != 5+5+int64(len("/ rendered 2")) {
			t.Errorf("%+v", done)
		}
		left := slices.DeleteFunc(before, func(key string) bool { return slices.Contains(got, key) })
		if !slices.Equal(tb.bodyKeys(t), left) || !slices.Contains(left, theirs) || !slices.Contains(left, first.BodyKey) {
			t.Errorf("left: %q", tb.bodyKeys(t))
		}
		if again, _ := tb.collect(t, gc.CollectOptions{}); len(again) != 0 {
			t.Errorf("again: %q", again)
		}
		rec, err := p.store.Read(t.Context(), store.HashedPartition(page))
		if err != nil || rec.Lock != nil {
			t.Errorf("the lease was not given back: %+v, %v", rec.Lock, err)
		}
		expect(t, get(tb.peer("b", isr.Route{}, newSite(), nil), "/"), "/ rendered 3", "isr; hit")
	})
}

// datedBodies is a store whose clock differs from the clock of the collector.
type datedBodies struct {
	store.BodyStore
	written time.Time // all bodies, by a right clock
	ahead   time.Duration
}

func (b datedBodies) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		for info, err := range b.BodyStore.List(ctx, prefix) {
			info.ModifiedAt, info.ListedAt = b.written.Add(b.ahead), time.Now().Add(b.ahead)
			if !yield(info, err) {
				return
			}
		}
	}
}

// The ages of bodies are by the clock of their store, if it tells, however wrong the clock of
// the collector is.
func TestCollectByTheClockOfTheBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, written := newTable(t), time.Now()
		tb.poll = rarely // a day of polls takes a minute
		tb.peer("a", isr.Route{Name: "site"}, newSite(), nil).regenerate(t, 1)
		crashed := folderOf(store.HashedPartition(page)) + "20000101T000000.000000Z-crashed"
		if err := tb.bodies.Put(t.Context(), crashed, []byte("12345")); err != nil {
			t.Fatal(err)
		}
		collect := func(wrong, ahead time.Duration) gc.Collected {
			t.Helper()
			done, err := gc.Collect(t.Context(), tb.store("gc"), datedBodies{tb.bodies, written, ahead}, gc.CollectOptions{
				Now: func() time.Time { return time.Now().Add(wrong) },
			})
			if err != nil {
				t.Fatal(err)
			}
			return done
		}
		for _, ahead := range []time.Duration{0, 72 * time.Hour, -72 * time.Hour} {
			if done := collect(72*time.Hour, ahead); done.Young != 2 || done.Bodies != 0 {
				t.Errorf("a collector three days ahead, bodies by %s: %+v, want none deleted", ahead, done)
			}
		}
		time.Sleep(25 * time.Hour)
		if done := collect(-72*time.Hour, 0); done.Bodies != 1 || done.Kept != 1 {
			t.Errorf("a collector three days behind, a day later: %+v, want the garbage deleted", done)
		}
	})
}

// The bodies of versions are kept, also one that several share and one of a version that was
// rolled back from. The bodies of pruned versions are deleted.
func TestCollectKeepsVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", isr.Route{Name: "site", History: 3}, site, nil)
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) { // pairs share a body
			w.Header().Set("Content-Language", fmt.Sprint("x-", n))
			cacheable(w, r, n/2)
		})
		p.regenerate(t, 7)
		versions := p.versions(t)
		if _, err := p.Rollback(t.Context(), page, isr.RollbackTo(versions[2].GenerationID)); err != nil {
			t.Fatal(err)
		}
		if got, _ := tb.collect(t, gc.CollectOptions{}); len(got) != 2 {
			t.Errorf("deleted %q, want the bodies of the first three generations", got)
		}
		for _, v := range versions {
			if _, err := p.Rollback(t.Context(), page, isr.RollbackTo(v.GenerationID)); err != nil {
				t.Errorf("%s: %v", v.GenerationID, err)
			}
		}
	})
}

// While a page is leased, no body of it is deleted, not even an old unpublished one.
func TestCollectKeepsBodiesOfLeasedPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", isr.Route{Name: "site"}, site, nil)
		p.regenerate(t, 2)
		proceed := make(chan struct{})
		p.store.publish = func() error { <-proceed; p.store.publish = nil; return errPassOn }
		published := make(chan error)
		go func() {
			_, err := p.Regenerate(context.Background(), page)
			published <- err
		}()
		time.Sleep(5 * time.Second) // its body is written
		if got, done := tb.collect(t, gc.CollectOptions{}); len(got) != 0 || done.Busy != 1 {
			t.Errorf("deleted %q, %+v", got, done)
		}
		close(proceed)
		if err := <-published; err != nil {
			t.Fatal(err)
		}
		if got, _ := tb.collect(t, gc.CollectOptions{}); len(got) != 2 {
			t.Errorf("afterwards deleted %q", got)
		}
		expect(t, get(tb.peer("b", isr.Route{}, site, nil), "/"), "/ rendered 3", "isr; hit")
	})
}

// A body that is published between the scan and the lease is not deleted.
func TestCollectReadsAgainUnderTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", isr.Route{Name: "site"}, site, nil)
		p.regenerate(t, 1)
		proceed, published := make(chan struct{}), make(chan error)
		p.store.publish = func() error { <-proceed; return errPassOn }
		go func() {
			_, err := p.Regenerate(context.Background(), page)
			published <- err
		}()
		time.Sleep(5 * time.Second) // its body is written
		collector := &faultyStore{MetaStore: tb.store("gc"), acquire: func() {
			close(proceed)
			if err := <-published; err != nil {
				t.Error(err)
			}
		}}
		done, err := gc.Collect(t.Context(), collector, tb.bodies, gc.CollectOptions{Now: longAfter})
		if err != nil || done.Bodies != 0 {
			t.Errorf("%+v, %v", done, err)
		}
		expect(t, get(tb.peer("b", isr.Route{}, site, nil), "/"), "/ rendered 2", "isr; hit")
	})
}

// A store whose scan is outdated: rows refer to more bodies than it has seen.
type outdatedScan struct {
	gc.Store
}

func (s outdatedScan) ReferencedBodies(ctx context.Context) iter.Seq2[store.ReferencedBodies, error] {
	return func(yield func(store.ReferencedBodies, error) bool) {
		for found, err := range s.Store.ReferencedBodies(ctx) {
			if !yield(store.ReferencedBodies{PK: found.PK}, err) {
				return
			}
		}
	}
}

func (s outdatedScan) BodyKeys(ctx context.Context, pk string) ([]string, error) {
	keys, err := s.Store.BodyKeys(ctx, pk)
	for i, key := range keys {
		keys[i] = "s3://bucket/" + key
	}
	return keys, err
}

// Another service may refer to a body by its URL, also between the scan and the lease.
func TestCollectKnowsURLsUnderTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.peer("a", isr.Route{Name: "site"}, site, nil).regenerate(t, 2) // the first one's body is garbage
		done, err := gc.Collect(t.Context(), outdatedScan{tb.store("gc")}, tb.bodies, gc.CollectOptions{Now: longAfter})
		if err != nil || done.Bodies != 1 || done.Kept != 1 {
			t.Errorf("%+v, %v; want the body that a URL names kept, and the other one deleted", done, err)
		}
		expect(t, get(tb.peer("b", isr.Route{}, site, nil), "/"), "/ rendered 2", "isr; hit")
	})
}

// A publisher that was frozen until its lease had expired does not publish a body that was deleted
// before it went on.
func TestCollectDuringAFrozenPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", isr.Route{Name: "site"}, site, nil)
		p.regenerate(t, 1)
		p.store.publish = func() error { time.Sleep(time.Minute); p.store.publish = nil; return errPassOn }
		published := make(chan error)
		go func() {
			_, err := p.Regenerate(context.Background(), page)
			published <- err
		}()
		time.Sleep(30 * time.Second)
		if got, _ := tb.collect(t, gc.CollectOptions{}); len(got) != 1 {
			t.Errorf("deleted %q, want the body of the paused publisher", got)
		}
		if err := <-published; !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("the paused publisher: %v", err)
		}
		expect(t, get(tb.peer("b", isr.Route{}, site, nil), "/"), "/ rendered 1", "isr; hit")
	})
}

// A lookedAt counts the reads of pages, and reports when the scan begins.
type lookedAt struct {
	store.MetaStore
	looks   atomic.Int64
	scanned func()
}

func (l *lookedAt) BodyKeys(ctx context.Context, pk string) ([]string, error) {
	l.looks.Add(1)
	return l.MetaStore.BodyKeys(ctx, pk)
}

func (l *lookedAt) ReferencedBodies(ctx context.Context) iter.Seq2[store.ReferencedBodies, error] {
	if l.scanned != nil {
		l.scanned()
	}
	return l.MetaStore.ReferencedBodies(ctx)
}

// A page without garbage costs its part of the scan, and no read.
func TestCollectReadsOnlyPagesWithGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", isr.Route{Name: "site", History: 3}, site, nil)
		for i := range 50 {
			if _, err := p.Regenerate(t.Context(), store.Key{Text: fmt.Sprint("example.com/", i)}); err != nil {
				t.Fatal(err)
			}
		}
		p.regenerate(t, 5) // three are kept
		collector := &lookedAt{MetaStore: tb.store("gc")}
		done, err := gc.Collect(t.Context(), collector, tb.bodies, gc.CollectOptions{Now: longAfter})
		if err != nil || done.Bodies != 2 || done.Kept != 53 {
			t.Errorf("%+v, %v; want 2 deleted and 53 kept", done, err)
		}
		if n := collector.looks.Load(); n != 1 {
			t.Errorf("%d reads of pages, want one, under the lease of the page with garbage", n)
		}
	})
}

// A body of a page without rows that appears after the scan has begun is not deleted,
// whatever its time: its writer may have acquired a lease since the scan began.
func TestCollectKeepsBodiesThatAppearDuringTheScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", isr.Route{Name: "site"}, newSite(), nil)
		p.regenerate(t, 1)
		put := func(key string) string {
			if err := tb.bodies.Put(t.Context(), key, []byte("12345")); err != nil {
				t.Fatal(err)
			}
			return key
		}
		gone := put(folderOf("CACHE#gone") + "20000101T000000.000000Z-gone")
		var late string
		collector := &lookedAt{MetaStore: tb.store("gc"), scanned: func() {
			late = put(folderOf("CACHE#late") + "20000101T000000.000000Z-late")
		}}
		if _, err := gc.Collect(t.Context(), collector, tb.bodies, gc.CollectOptions{Now: longAfter}); err != nil {
			t.Fatal(err)
		}
		if left := tb.bodyKeys(t); slices.Contains(left, gone) || !slices.Contains(left, late) {
			t.Errorf("left: %q", left)
		}
	})
}

func TestCollectRefusesTheWrongTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, other := newTable(t), newTable(t)
		p, q := tb.peer("a", isr.Route{Name: "site"}, newSite(), nil), other.peer("b", isr.Route{Name: "site"}, newSite(), nil)
		p.regenerate(t, 2)
		if _, err := q.Regenerate(t.Context(), store.Key{Text: "example.org/"}); err != nil {
			t.Fatal(err)
		}
		before := tb.bodyKeys(t)
		_, err := gc.Collect(t.Context(), other.store("gc"), tb.bodies, gc.CollectOptions{Now: longAfter})
		if !errors.Is(err, gc.ErrForeignBodies) || !slices.Equal(tb.bodyKeys(t), before) {
			t.Errorf("%v, and %d of %d bodies are left", err, len(tb.bodyKeys(t)), len(before))
		}
		if _, err := gc.Collect(t.Context(), tb.store("gc"), tb.bodies, gc.CollectOptions{Grace: time.Minute}); err == nil {
			t.Error("a grace period of a minute is accepted")
		}
	})
}

// Config.Collect makes a cache collect garbage and compact purge marks periodically.
func TestCacheCollectsPeriodically(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", isr.Route{Name: "site"}, newSite(), func(cfg *isr.Config) {
			cfg.Collect, cfg.Poll = 24*time.Hour, -1
			cfg.Now = longAfter
		})
		p.regenerate(t, 2)
		if n := len(tb.bodyKeys(t)); n != 2 {
			t.Fatalf("%d bodies", n)
		}
		for _, target := range []store.PurgeTarget{{Kind: store.PurgeTag, Value: "old"}, {Kind: store.PurgeSite}} {
			if _, err := tb.store("b").Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{target}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Hour)
		for m, err := range tb.store("b").Marks(t.Context()) {
			if err != nil || m.Target.Kind != store.PurgeSite {
				t.Errorf("the mark of %s is left, %v", m.Target, err)
			}
		}
		if n := len(tb.bodyKeys(t)); n != 1 {
			t.Errorf("%d bodies, want 1, of the current generation", n)
		}
		if _, err := isr.New(tb.store("a"), tb.bodies, isr.Config{Collect: time.Minute}); err == nil {
			t.Error("an interval of a minute is accepted")
		}
	})
}

// evict returns what an eviction removed, by path, in the order of ranks.
func (tb *table) evict(t *testing.T, free int64, pages []string, used func(path string) time.Time) (paths []string, freed int64) {
	t.Helper()
	return tb.evictFrom(t, tb.bodies, free, pages, used)
}

// evictFrom is evict for a table that has its bodies in another store.
func (tb *table) evictFrom(t *testing.T, bodies store.BodyStore, free int64, pages []string, used func(path string) time.Time) (paths []string, freed int64) {
	t.Helper()
	byPK := make(map[string]string)
	for _, path := range pages {
		byPK[store.HashedPartition(keyOf(path))] = path
	}
	freed, err := gc.Evict(t.Context(), tb.store("room"), bodies, gc.EvictOptions{
		Free:    free,
		LastUse: func(pk string) time.Time { return used(byPK[pk]) },
		Report:  func(e gc.Evicted) { paths = append(paths, byPK[e.PK]) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths, freed
}

func keyOf(path string) store.Key { return store.Key{Text: "example.com" + path} }

// The least recently used page is evicted first, with all of its rows and bodies, and a pinned one
// last. A leased page stays.
func TestEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", isr.Route{Name: "site", History: 3}, site, nil)
		pages := []string{"/0", "/1", "/2", "/held", "/old", "/pinned"}
		for _, path := range pages {
			get(p, path)
		}
		if _, err := p.Regenerate(t.Context(), keyOf("/old")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Pin(t.Context(), keyOf("/pinned"), time.Hour); err != nil {
			t.Fatal(err)
		}
		lease, err := p.store.Acquire(t.Context(), store.HashedPartition(keyOf("/held")), time.Minute, nil)
		if err != nil {
			t.Fatal(err)
		}
		used := func(path string) time.Time { // the pinned page longest ago, then /old, /0, /1 …
			at := longAfter()
			switch path {
			case "/pinned", "/old":
				return at
			}
			return at.Add(time.Duration(slices.Index(pages, path)+1) * time.Minute)
		}
		if got, freed := tb.evict(t, 0, pages, used); len(got) != 0 || freed != 0 {
			t.Errorf("for nothing: %q, %d bytes", got, freed)
		}
		before := len(tb.bodyKeys(t))
		got, freed := tb.evict(t, 1<<40, pages, used)
		slices.Sort(got[:4]) // pages are forgotten concurrently
		if !slices.Equal(got, []string{"/0", "/1", "/2", "/old", "/pinned"}) || freed < 6*6<<10 {
			t.Errorf("forgotten: %q, %d bytes", got, freed)
		}
		left := tb.bodyKeys(t)
		if len(left) != 1 || !strings.HasPrefix(left[0], folderOf(store.HashedPartition(keyOf("/held")))) {
			t.Errorf("%d bodies before, left: %q", before, left)
		}
		for _, path := range pages {
			rec := tb.record(keyOf(path))
			if kept := path == "/held"; (rec.Entry != nil) != kept || (rec.Lock != nil) != kept {
				t.Errorf("%s: %+v", path, rec)
			}
			versions, err := p.Versions(t.Context(), keyOf(path))
			if err != nil || len(versions) > 1 || path != "/held" && len(versions) > 0 {
				t.Errorf("%s has the versions %+v, %v", path, versions, err)
			}
		}
		if err := p.store.Release(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
		b := tb.peer("b", isr.Route{Name: "site"}, site, nil)
		expect(t, get(b, "/0"), "/0 rendered 8", "isr; fwd=miss; fwd-status=200; stored")
	})
}

// timelessBodies are bodies whose store records neither when they were written nor when they were read.
// The files of a test are of the time of the machine, not of the test.
type timelessBodies struct{ store.BodyStore }

func (b timelessBodies) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		for info, err := range b.BodyStore.List(ctx, prefix) {
			info.ModifiedAt = time.Unix(0, 0)
			if !yield(info, err) {
				return
			}
		}
	}
}

// Pages of invented URLs are evicted first, however recently they were requested. A page that has
// changed once does not outlive one that never changes and that visitors come back to.
func TestEvictUnprovenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", isr.Route{Name: "site", History: 3, Revalidate: 24 * time.Hour}, newSite(), nil)
		pages := []string{"/changed", "/read", "/popular", "/invented"}
		for _, path := range pages[:3] {
			get(p, path)
		}
		if _, err := p.Regenerate(t.Context(), keyOf("/changed")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		get(p, "/read") // its use is known to the memory of the process alone
		time.Sleep(time.Hour)
		get(p, "/popular")
		time.Sleep(time.Hour)
		get(p, "/invented")
		get(p, "/invented")
		uses := p.LastUses()
		used := func(path string) time.Time { return uses[store.HashedPartition(keyOf(path))] }
		for _, want := range []string{"/invented", "/changed", "/read", "/popular"} {
			if got, freed := tb.evictFrom(t, timelessBodies{tb.bodies}, 1, pages, used); !slices.Equal(got, []string{want}) || freed < 6<<10 {
				t.Errorf("%q, %d bytes; want %s", got, freed, want)
			}
		}
	})
}

// No more is evicted than required, and pages served from memory count as used.
func TestEvictLeastRecentlyUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", isr.Route{Name: "site", Revalidate: time.Hour}, newSite(), nil)
		pages := []string{"/a", "/b", "/c", "/d"}
		for _, path := range pages {
			get(p, path)
			time.Sleep(time.Second)
		}
		get(p, "/b")
		uses := p.LastUses()
		if at, want := uses[store.HashedPartition(keyOf("/b"))], time.Now().Truncate(time.Second).Add(time.Second); !at.Equal(want) || len(uses) != 1 {
			t.Errorf("uses: %v, want /b at %v", uses, want)
		}
		for _, path := range pages {
			got, freed := tb.evict(t, 1, pages, func(path string) time.Time {
				return longAfter().Add(time.Duration(slices.Index(pages, path)) * time.Second)
			})
			if !slices.Equal(got, []string{path}) || freed < 6<<10 {
				t.Errorf("%q, %d bytes; want %s", got, freed, path)
			}
		}
	})
}

var collectPages = flag.Int("collect-pages", 20_000, "how many pages BenchmarkCollect has")

// countingTable counts the reads of a table.
type countingTable struct {
	*localdynamo.DB
	queries, scans atomic.Int64
}

func (c *countingTable) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	c.queries.Add(1)
	return c.DB.Query(ctx, in, o...)
}

func (c *countingTable) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	c.scans.Add(1)
	return c.DB.Scan(ctx, in, o...)
}

// listedBodies generates bodies without content as they are listed: one per page that a
// row refers to, and for every tenth page also garbage.
type listedBodies struct {
	store.BodyStore
	pages   int
	deleted sync.Map
}

func benchPK(i int) string {
	return store.HashedPartition(store.Key{Text: fmt.Sprint("example.com/", i)})
}

func benchFolder(i int) string {
	sum := sha256.Sum256([]byte(benchPK(i)))
	return "bodies/" + hex.EncodeToString(sum[:]) + "/"
}

func benchBodies(i int) []string {
	folder := benchFolder(i)
	bodies := []string{folder + "20261121T183412.767908Z-bvwjmuat2f7ecwuu4gkv6skqqw"}
	if i%10 == 0 {
		bodies = append(bodies, folder+"20261120T183412.767908Z-aaaajmuat2f7ecwuu4gkv6skqq")
	}
	return bodies
}

func (l *listedBodies) List(_ context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		list := func(i int) bool {
			for _, key := range benchBodies(i) {
				if _, gone := l.deleted.Load(key); !gone && !yield(store.BodyInfo{Key: key, Length: 1, ModifiedAt: time.Unix(1e9, 0)}, nil) {
					return false
				}
			}
			return true
		}
		if i, ok := benchPages(l.pages)[prefix]; ok {
			list(i)
			return
		}
		for i := range l.pages {
			if !list(i) {
				return
			}
		}
	}
}

// benchPages are the pages by folder, which a bucket would find by its index.
var benchPages = sync.OnceValue(func() func(int) map[string]int {
	pages := make(map[string]int)
	return func(n int) map[string]int {
		for i := len(pages); i < n; i++ {
			pages[benchFolder(i)] = i
		}
		return pages
	}
})()

func (l *listedBodies) Delete(_ context.Context, key string) error {
	l.deleted.Store(key, true)
	return nil
}

// BenchmarkCollect collects the garbage of many pages, a tenth of which have some.
func BenchmarkCollect(b *testing.B) {
	tb := newTable(b)
	for first := 0; first < *collectPages; first += 25 {
		var writes []types.WriteRequest
		for i := first; i < first+25; i++ {
			writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: map[string]types.AttributeValue{
				"pk":     &types.AttributeValueMemberS{Value: benchPK(i)},
				"sk":     &types.AttributeValueMemberS{Value: "META"},
				"s3_key": &types.AttributeValueMemberS{Value: benchBodies(i)[0]},
				"isr":    &types.AttributeValueMemberS{Value: string(make([]byte, 700))},
			}}})
		}
		if _, err := tb.db.BatchWriteItem(b.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{tableName: writes}}); err != nil {
			b.Fatal(err)
		}
	}
	counted := &countingTable{DB: tb.db}
	store, err := dynamostore.New(counted, tableName, dynamostore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	benchPages(*collectPages)
	for b.Loop() {
		peak := measurePeak()
		done, err := gc.Collect(b.Context(), store, &listedBodies{pages: *collectPages}, gc.CollectOptions{})
		b.ReportMetric(float64(peak())/(1<<20), "peak-MiB")
		if err != nil || done.Bodies != (*collectPages+9)/10 {
			b.Fatalf("%+v, %v", done, err)
		}
		b.ReportMetric(float64(counted.queries.Swap(0))/float64(*collectPages), "queries/page")
		b.ReportMetric(float64(counted.scans.Swap(0)), "scan-requests")
	}
}

// measurePeak returns a function that returns the largest growth of the heap.
func measurePeak() func() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	quit, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for {
			runtime.GC() // what is live, not what is waiting to be collected
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > before {
				most = max(most, m.HeapAlloc-before)
			}
			select {
			case <-quit:
				peak <- most
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() uint64 { close(quit); return <-peak }
}
