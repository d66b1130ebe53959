package nodecache

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

// testCache returns a cache that keeps what was read at start or later.
func testCache(t *testing.T, start time.Time) *Cache {
	t.Helper()
	c, err := New(Options{Memory: 16 << 20, Now: time.Now, InvalidateFlights: func(store.Key, time.Time) {}})
	if err != nil {
		t.Fatal(err)
	}
	c.Flush(start)
	return c
}

func TestMemoryPrefersNewerReads(t *testing.T) {
	start := time.Now()
	saw := func(version int64, began, ended int) *page.Page {
		at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
		return page.New(store.Key{Text: "h/"}, store.Entry{Version: version, Foreign: version == 0}, store.PurgeState{}, page.Interval{Began: at(began), Ended: at(ended)}, nil, new(page.View))
	}
	const (
		older = iota
		newer
		unclear
	)
	tests := []struct {
		name     string
		old, new *page.Page
		kept     int
	}{
		{"a later version, read later", saw(1, 0, 1), saw(2, 1, 2), newer},
		{"a later version, read earlier", saw(1, 1, 2), saw(2, 0, 1), older},
		{"an earlier version, read later: another service has replaced the row", saw(2, 0, 1), saw(1, 1, 2), newer},
		{"the same version, read later", saw(2, 0, 1), saw(2, 1, 2), newer},
		{"the same version, read earlier", saw(2, 1, 2), saw(2, 0, 1), older},
		{"the same version, overlapping reads", saw(2, 0, 2), saw(2, 1, 3), newer},
		{"another writer's, read later", saw(2, 0, 1), saw(0, 1, 2), newer},
		{"another writer's, read earlier", saw(2, 1, 2), saw(0, 0, 1), older},
		{"another version, overlapping reads", saw(1, 0, 2), saw(2, 1, 3), unclear},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := testCache(t, start)
			c.Put(tt.old, new(singleflight.State))
			clear := c.Put(tt.new, new(singleflight.State))
			if want := tt.kept != unclear; clear != want {
				t.Errorf("clear: %v, want %v", clear, want)
			}
			if got, want := c.Get(tt.old.Key), []*page.Page{tt.old, tt.new, tt.old}[tt.kept]; got != want {
				t.Errorf("kept %p; the old one is %p, the new one %p", got, tt.old, tt.new)
			}
		})
	}
}

// A page that was read during an invalidation is not kept, and the order is unclear only if it may
// have been read after it.
func TestReadsDuringAnInvalidationAreNotKept(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	k := store.Key{Text: "h/"}
	c := testCache(t, start)
	f, flights := fly(t, k)
	flights.Invalidate(k, at(2))
	for _, tt := range []struct {
		read  page.Interval
		clear bool
	}{
		{page.Interval{Began: at(0), Ended: at(1)}, true},
		{page.Interval{Began: at(1), Ended: at(3)}, false},
	} {
		if clear := c.Put(page.New(k, store.Entry{Version: 1}, store.PurgeState{}, tt.read, nil, new(page.View)), f); clear != tt.clear {
			t.Errorf("%v: clear: %v, want %v", tt.read, clear, tt.clear)
		}
		if c.Get(k) != nil {
			t.Errorf("%v was kept", tt.read)
		}
	}
}

// A flight is a flight of tests.
type flight struct{ singleflight.State }

// fly returns the state of a flight that lasts until the test ends, and its group.
func fly(t *testing.T, k store.Key) (*singleflight.State, *singleflight.Group[*flight]) {
	t.Helper()
	group := singleflight.New[*flight](func() {}, func() {})
	land := make(chan struct{})
	f, _ := group.Join(k, func() *flight { return new(flight) }, func(*flight) { <-land })
	t.Cleanup(func() {
		close(land)
		<-f.Done()
	})
	return &f.State, group
}

// The weight of a page in memory includes the codings that it got since.
func TestWeightCountsCodings(t *testing.T) {
	c := testCache(t, time.Time{})
	p := page.New(store.Key{Text: "h/"}, store.Entry{Header: http.Header{"Content-Type": {"text/html"}}}, store.PurgeState{}, page.Interval{}, make([]byte, 2_800), page.NewView(page.ViewRules{}))
	bare := uint64(p.Weight())
	c.Put(p, new(singleflight.State))
	c.pages.CleanUp()
	before := c.pages.WeightedSize()
	p.AddCodings(coding.Has{}, coding.Set{httpcache.Gzip: make([]byte, 5_000, 7_000)})
	c.Reweigh(p)
	c.pages.CleanUp()
	if grown := c.pages.WeightedSize() - before; grown < 7_000 || grown != uint64(p.Weight())-bare {
		t.Errorf("the weight grew by %d for a coding of 7,000 bytes", grown)
	}
}

// A cache that is made smaller evicts pages down to the new bound, and one that is made larger keeps more.
func TestResize(t *testing.T) {
	start := time.Now()
	c := testCache(t, start)
	fill := func() (bytes int64, pages int) {
		t.Helper()
		for i := range 4000 {
			p := page.New(store.Key{Text: fmt.Sprintf("h/%d", i)}, store.Entry{Version: 1}, store.PurgeState{}, page.Interval{Began: start.Add(time.Second), Ended: start.Add(time.Second)}, make([]byte, 4<<10), new(page.View))
			c.Put(p, new(singleflight.State))
		}
		c.pages.CleanUp()
		bytes, limit, pages := c.Usage()
		if bytes > limit {
			t.Errorf("%d bytes are kept of %d", bytes, limit)
		}
		return bytes, pages
	}
	_, before := fill()
	c.Resize(1 << 20)
	c.pages.CleanUp()
	if bytes, limit, pages := c.Usage(); limit >= 1<<20 || bytes > limit || pages >= before || pages == 0 {
		t.Errorf("after it was made smaller: %d bytes of %d, %d pages of %d", bytes, limit, pages, before)
	}
	c.Resize(64 << 20)
	if _, pages := fill(); pages != 4000 {
		t.Errorf("after it was made larger: %d pages, want 4000", pages)
	}
}
