package nodecache

import (
	"testing"
	"time"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

// Purges that were read during a flight count for all pages that it may offer.
func TestFlightKnowsPurges(t *testing.T) {
	now := time.Unix(1e9, 0)
	k := store.Key{Text: "h/"}
	old := page.New(k, store.Entry{Version: 1, GeneratedAt: now, Revalidate: time.Minute, Stale: time.Minute}, store.PurgeState{}, page.Interval{Began: now, Ended: now}, nil, new(page.View))
	f, flights := fly(t, k)
	c := new(Cache)
	if state := c.State(f, old, now); state != store.Fresh {
		t.Errorf("%v before any purge", state)
	}
	flights.Learn(k, store.PurgeState{Seq: 2, At: now})
	if state := c.State(f, old, now); state != store.Stale {
		t.Errorf("%v after a soft purge", state)
	}
	flights.Learn(k, store.PurgeState{HardSeq: 1, Seq: 1, At: now})
	if state := c.State(f, old, now); state != store.Purged {
		t.Errorf("%v after a hard purge", state)
	}
	flights.Learn(store.Key{Text: "h/other"}, store.PurgeState{}) // without a flight
}

// After a flush, no page is served from memory that was read before.
func TestNothingIsServedFromBeforeAFlush(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	var f flushTime
	if f.since(at(1)) {
		t.Error("what is read before the log is known is not to be served")
	}
	f.set(at(2))
	if !f.since(at(1)) || f.since(at(2)) {
		t.Error("what is read once the log is known is to be served, and nothing before")
	}
	if f.during(page.Interval{Began: at(0), Ended: at(1)}) || !f.during(page.Interval{Began: at(1), Ended: at(3)}) || f.during(page.Interval{Began: at(2), Ended: at(3)}) {
		t.Error("only a read in progress when of the flush is between the states")
	}
}

// An invalidation is recorded only in the flights of its page: a burst of invalidations takes no memory,
// and each is remembered until the last read that it overtook has ended.
func TestInvalidationsAreRecordedInFlights(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	k, other := store.Key{Text: "h/"}, store.Key{Text: "h/other"}
	flights := singleflight.New[*flight](func() {}, func() {})
	c, err := New(Options{Memory: 1 << 20, Now: time.Now, InvalidateFlights: flights.Invalidate})
	if err != nil {
		t.Fatal(err)
	}
	land := make(chan struct{})
	begin := func() *flight { return new(flight) }
	f, _ := flights.Join(k, begin, func(*flight) { <-land })

	c.Invalidate(other) // which has no flight
	if f.InvalidatedSince(at(-1)) {
		t.Error("the invalidation of another page overtakes the flight")
	}
	c.Invalidate(k)
	if !f.InvalidatedSince(at(-1)) || f.InvalidatedSince(at(1)) {
		t.Error("the flight's reads are to be overtaken that began before the invalidation, and no others")
	}
	next, began := flights.Join(k, begin, func(*flight) {})
	if !began || next.InvalidatedSince(at(-1)) {
		t.Error("a flight that begins after the invalidation has nothing to do with it")
	}
	close(land)
	<-f.Done()
	<-next.Done()
	if n := flights.Len(); n != 0 {
		t.Errorf("%d flights are remembered once all flights have landed", n)
	}
}

// Flights learn of an invalidation before pages are dropped: a page that is put in between is dropped,
// or not kept.
func TestFlightsAreInvalidatedFirst(t *testing.T) {
	k := store.Key{Text: "h/"}
	f, flights := fly(t, k)
	var c *Cache
	read := func() *page.Page {
		at := time.Now()
		return page.New(k, store.Entry{Version: 1}, store.PurgeState{}, page.Interval{Began: at, Ended: at}, nil, new(page.View))
	}
	var before, between *page.Page
	c, err := New(Options{Memory: 16 << 20, Now: time.Now, InvalidateFlights: func(k store.Key, now time.Time) {
		c.Put(before, f)
		flights.Invalidate(k, now)
		c.Put(between, f)
	}})
	if err != nil {
		t.Fatal(err)
	}
	before, between = read(), read()
	c.Invalidate(k)
	if p := c.Get(k); p != nil {
		t.Error("a page that was read before an invalidation is served after it")
	}
	if c.Last(k) != before || !c.IsDropped(before) {
		t.Error("the page that was put before the flights were invalidated is to be dropped, and the other one not to be kept")
	}
}
