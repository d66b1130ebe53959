package isr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A brokenDisk fails to read one body, which exists.
type brokenDisk struct {
	store.BodyStore
	broken string // key
	left   int    // how many more reads fail; negative: all
	down   bool   // the whole store does not answer
}

var errDown = errors.New("the bodies cannot be reached")

func (b *brokenDisk) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if b.down {
		return nil, 0, errDown
	}
	rd, length, err := b.BodyStore.Open(ctx, key)
	if err == nil && key == b.broken && b.left != 0 {
		b.left--
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(io.LimitReader(rd, 3), failingReader{}), rd}, length, nil
	}
	return rd, length, err
}

func (b *brokenDisk) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	if b.down {
		return store.BodyInfo{}, errDown
	}
	return b.BodyStore.Stat(ctx, key)
}

func (b *brokenDisk) Put(ctx context.Context, key string, body []byte) error {
	if b.down {
		return errDown
	}
	return b.BodyStore.Put(ctx, key, body)
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, syscall.EIO }

// unchanging always answers with the same content.
func unchanging(w http.ResponseWriter, _ *http.Request, _ int64) {
	w.Header().Set("Cache-Control", "public, max-age=600, stale-while-revalidate=86400")
	fmt.Fprint(w, "the same")
}

func (p *peer) entry(t *testing.T) store.Entry {
	t.Helper()
	rec, err := p.store.Read(t.Context(), store.HashedPartition(page))
	if err != nil || rec.Entry == nil {
		t.Fatalf("the entry: %v, %v", rec.Entry, err)
	}
	return *rec.Entry
}

// storedPage is a page of a node whose renders are all the same.
func storedPage(t *testing.T) (tb *table, origin *site, a *peer) {
	t.Helper()
	tb, origin = newTable(t), newSite()
	origin.answers(unchanging)
	a = tb.peer("a", isr.Route{}, origin, nil)
	get(a, "/")
	return tb, origin, a
}

// A body that exists and cannot be read is replaced by a new one, even with the same
// content.
func TestUnreadableBodyIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, a := storedPage(t)
		before := a.entry(t)
		disk := &brokenDisk{BodyStore: tb.bodies, broken: before.BodyKey, left: -1}
		b := tb.peerOn(disk, "b", isr.Route{}, site, nil)
		expect(t, get(b, "/"), "the same", "isr; fwd=miss; fwd-status=200; stored")
		if after := a.entry(t); after.BodyKey == before.BodyKey {
			t.Error("the entry names the unreadable body still")
		}
		c := tb.peerOn(disk, "c", isr.Route{}, site, nil)
		expect(t, get(c, "/"), "the same", "isr; hit")
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want 2", n)
		}
	})
}

// A read that fails once is retried.
func TestFailedBodyReadIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, a := storedPage(t)
		disk := &brokenDisk{BodyStore: tb.bodies, broken: a.entry(t).BodyKey, left: 2}
		b := tb.peerOn(disk, "b", isr.Route{}, site, nil)
		expect(t, get(b, "/"), "the same", "isr; hit")
	})
}

// While no body can be read, none of them counts as missing: no page is published again
// because of that.
func TestBodyStoreOutageReplacesNoPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, a := storedPage(t)
		before := a.entry(t)
		disk := &brokenDisk{BodyStore: tb.bodies, down: true}
		b := tb.peerOn(disk, "b", isr.Route{}, site, nil)
		if got := get(b, "/"); got.Code != http.StatusOK || strings.Contains(got.status(), "stored") {
			t.Errorf("during the outage: %d %q", got.Code, got.status())
		}
		time.Sleep(10 * time.Second)
		disk.down = false
		expect(t, get(b, "/"), "the same", "isr; hit")
		if after := a.entry(t); after.GenerationID != before.GenerationID {
			t.Error("the page was published again")
		}
	})
}

// A pin is not overridden because its body cannot be read: the body may become readable
// again. A damaged body is lost.
func TestPinsOutlastReadErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a := tb.peer("a", withHistory, site, nil)
		a.regenerate(t, 2)
		pinned, err := a.Rollback(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		disk := &brokenDisk{BodyStore: tb.bodies, broken: pinned.BodyKey, left: -1}
		b := tb.peerOn(disk, "b", withHistory, site, nil)
		get(b, "/")
		if after := a.entry(t); after.GenerationID != pinned.GenerationID {
			t.Errorf("generation %s was published over the pin of %s", after.GenerationID, pinned.GenerationID)
		}
		time.Sleep(time.Minute)
		disk.left = 0
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
	})
}

// Neither is a pin that was made after the read failed.
func TestLatePinsOutlastReadErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a := tb.peer("a", withHistory, site, nil)
		a.regenerate(t, 1)
		disk := &brokenDisk{BodyStore: tb.bodies, broken: a.entry(t).BodyKey, left: -1}
		b := tb.peerOn(disk, "b", withHistory, site, nil)
		b.store.acquire = func() {
			b.store.acquire = nil
			if _, err := a.Pin(t.Context(), page, time.Hour); err != nil {
				t.Error(err)
			}
		}
		pinned := a.entry(t)
		get(b, "/")
		if after := a.entry(t); after.GenerationID != pinned.GenerationID || after.PinnedUntil.IsZero() {
			t.Errorf("generation %s was published over the pin of %s", after.GenerationID, pinned.GenerationID)
		}
	})
}

// A node with a smaller limit does not keep larger pages of other nodes. They do not count
// as missing: they are not replaced while they are fresh, and pins hold.
func TestLargerBodiesOfOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		large := func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
			fmt.Fprintf(w, "%d %s", n, strings.Repeat("x", 20_000))
		}
		site.answers(large)
		a := tb.peer("a", withHistory, site, nil)
		a.regenerate(t, 2)
		b := tb.peer("b", withHistory, site, func(cfg *isr.Config) { cfg.MaxBody = 10_000 })
		site.answers(cacheable) // what the origin has now would fit
		expectPassed := func() {
			t.Helper()
			before := a.entry(t)
			for range 2 {
				if got := get(b, "/"); got.Code != http.StatusOK || got.status() != "isr; fwd=miss; fwd-status=200; detail=too-large" &&
					got.status() != "isr; fwd=bypass; fwd-status=200; detail=too-large" {
					t.Errorf("%d %q", got.Code, got.status())
				}
			}
			if after := a.entry(t); after.GenerationID != before.GenerationID || !after.PinnedUntil.Equal(before.PinnedUntil) {
				t.Errorf("generation %s was published over %s, pinned until %v", after.GenerationID, before.GenerationID, before.PinnedUntil)
			}
		}
		expectPassed()
		if _, err := a.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		time.Sleep(isr.DefaultPoll)
		expectPassed()
		if _, err := b.Regenerate(t.Context(), page); !errors.Is(err, store.ErrPinned) {
			t.Errorf("Regenerate of the pinned page: %v", err)
		}
		if _, err := b.Unpin(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if got := get(b, "/"); !strings.Contains(got.status(), "stored") {
			t.Errorf("a page that is not fresh: %q", got.status())
		}
	})
}

// A distantStore is a store of bodies on a slow network. It counts the bodies that are opened at
// once.
type distantStore struct {
	store.BodyStore
	now, most atomic.Int64
}

func (s *distantStore) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	s.most.Store(max(s.most.Load(), n))
	time.Sleep(10 * time.Millisecond)
	return s.BodyStore.Open(ctx, key)
}

// A node that starts with an empty memory tier reads Config.Fills bodies at once, and renders
// none of them again.
func TestFillsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		first, all := tb.node(tb.store("first"), nil).Handler(isr.Route{}, site), paths(40)
		inTurn(first, all...)
		bodies := &distantStore{BodyStore: tb.bodies}
		restarted := tb.nodeOn(tb.store("restarted"), bodies, func(cfg *isr.Config) { cfg.Fills = 4 }).Handler(isr.Route{}, site)
		rendered := site.renders.Load()
		var visitors sync.WaitGroup
		for _, path := range all {
			visitors.Go(func() {
				if a := get(restarted, path); a.Code != http.StatusOK {
					t.Errorf("%s: %d", path, a.Code)
				}
			})
		}
		visitors.Wait()
		if most := bodies.most.Load(); most != 4 {
			t.Errorf("%d bodies were opened at once, want 4", most)
		}
		if n := site.renders.Load() - rendered; n != 0 {
			t.Errorf("%d pages were rendered again", n)
		}
	})
}

// A readGauge delays reads, and records how many were concurrent.
type readGauge struct {
	store.MetaStore
	delay     atomic.Int64
	now, most atomic.Int64
}

func (g *readGauge) Read(ctx context.Context, pk string) (store.Record, error) {
	for n, most := g.now.Add(1), g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	defer g.now.Add(-1)
	time.Sleep(time.Duration(g.delay.Load()))
	return g.MetaStore.Read(ctx, pk)
}

// After a gap in the log all pages are read again. However many are requested at once, the
// number of concurrent reads is bounded, and visitors get their pages.
func TestReadsAfterAGapAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages, limit = 200, 128
		tb, site := newTable(t), newSite()
		site.delay = 0
		gauge := &readGauge{MetaStore: tb.store("a")}
		c := tb.node(gauge, nil)
		h := c.Handler(isr.Route{}, site)
		for i := range pages {
			get(h, fmt.Sprint("/", i))
		}
		time.Sleep(3 * time.Second)
		gauge.delay.Store(int64(50 * time.Millisecond))
		gauge.most.Store(0)
		tb.putLog(5)
		time.Sleep(isr.DefaultPoll + gapDelay)
		var wg sync.WaitGroup
		for i := range pages {
			wg.Go(func() {
				if a := get(h, fmt.Sprint("/", i)); a.Code != http.StatusOK || !strings.HasPrefix(a.status(), "isr; hit") {
					t.Errorf("page %d: %d %q", i, a.Code, a.status())
				}
			})
		}
		wg.Wait()
		if !strings.Contains(tb.log.String(), "the log has a gap") {
			t.Error("there was no gap")
		}
		if n := gauge.most.Load(); n > limit {
			t.Errorf("%d reads at once, at most %d are bearable", n, limit)
		}
	})
}

// Reads that hang delay other reads by at most their own deadline.
func TestHangingReadsDelayOthersBriefly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &brokenStore{MetaStore: tb.store("a")}
		store.hangs.Store(true)
		h := tb.node(store, func(cfg *isr.Config) { cfg.Poll = -1 }).Handler(isr.Route{}, site)
		var wg sync.WaitGroup
		for i := range 150 {
			wg.Go(func() {
				if a := get(h, fmt.Sprint("/", i)); a.Code != http.StatusOK || a.took != isr.DefaultStoreTimeout+site.delay {
					t.Errorf("page %d: %d after %v", i, a.Code, a.took)
				}
			})
		}
		wg.Wait()
		store.hangs.Store(false)
		time.Sleep(time.Minute)
		for i := range 150 {
			if a := get(h, fmt.Sprint("/", i)); a.Code != http.StatusOK || strings.Contains(a.status(), "store-error") || strings.Contains(a.status(), "unpublished") {
				t.Errorf("page %d, once the store is well: %d %q", i, a.Code, a.status())
			}
		}
	})
}
