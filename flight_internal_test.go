package isr

import (
	"testing"
	"time"

	"github.com/facetheory/isr/internal/changelog"
	"github.com/facetheory/isr/internal/fleet"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// A flight offers the page that the store has now, not one that it had when the flight
// began. Package isrtest/simulator found one that offered a replaced page.
func TestFlightOffersTheLastRead(t *testing.T) {
	now := time.Unix(1e9, 0)
	read := func(version int64) store.Record {
		return store.Record{Entry: &store.Entry{Version: version, GeneratedAt: now, Revalidate: time.Minute}}
	}
	pageOf := func(rec store.Record) *page.Page {
		return page.New(store.Key{Text: "h/"}, *rec.Entry, rec.Purges, page.Interval{Began: now, Ended: now}, nil, new(page.View))
	}
	f := &flight{usable: make(chan struct{}), waitTimes: new(waitTimes)}
	first, second := read(1), read(2)

	f.found(first)
	f.offer(pageOf(first))
	f.found(first)
	if p := f.stale.Load(); p == nil || p.Entry.Version != 1 {
		t.Errorf("offered: %v, although the store still has it", p)
	}
	f.found(second)
	if p := f.stale.Load(); p != nil {
		t.Errorf("version %d is offered, and the store has version 2", p.Entry.Version)
	}
	f.offer(pageOf(second))
	if p := f.stale.Load(); p == nil || p.Entry.Version != 2 {
		t.Errorf("offered is %v, want version 2", p)
	}
	f.found(store.Record{})
	if p := f.stale.Load(); p != nil {
		t.Errorf("version %d is offered, and the store has nothing", p.Entry.Version)
	}
}

// Purges that were read during a flight count for all pages that it may offer.
func TestFlightKnowsPurges(t *testing.T) {
	now := time.Unix(1e9, 0)
	k := store.Key{Text: "h/"}
	old := page.New(k, store.Entry{Version: 1, GeneratedAt: now, Revalidate: time.Minute, Stale: time.Minute}, store.PurgeState{}, page.Interval{Began: now, Ended: now}, nil, new(page.View))
	f := new(flight)
	fs := newFlights(new(activity))
	fly(t, fs, k, f)
	c := new(Cache)
	if state := c.state(f, old, now); state != store.Fresh {
		t.Errorf("%v before any purge", state)
	}
	fs.Learn(k, store.PurgeState{Seq: 2, At: now})
	if state := c.state(f, old, now); state != store.Stale {
		t.Errorf("%v after a soft purge", state)
	}
	fs.Learn(k, store.PurgeState{HardSeq: 1, Seq: 1, At: now})
	if state := c.state(f, old, now); state != store.Purged {
		t.Errorf("%v after a hard purge", state)
	}
	fs.Learn(store.Key{Text: "h/other"}, store.PurgeState{}) // without a flight
}

// A page that this process has purged while it rendered it without the store is not kept, even
// if the render began at the instant of the purge. Package isrtest/simulator found one that was
// served from memory.
func TestUnpublishedPageOfAPurgedRenderIsNotKept(t *testing.T) {
	now := time.Now()
	k := store.Key{Text: "h/"}
	c := &Cache{now: time.Now, unstored: newFlights(new(activity)), flights: newFlights(new(activity))}
	c.follower, c.peers = changelog.New(t.Context(), changelog.Options{Poll: -1}), fleet.NewPeers(nil)
	kept, err := newUnpublishedPages(1<<20, c)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(purge bool) *page.Page {
		purged := make(chan struct{})
		f, _ := c.unstored.Join(k, func() *flight { return newFlight(&fill{fillRequest: fillRequest{key: k}}) }, func(f *flight) {
			<-purged
			e := store.Entry{Status: 200, GeneratedAt: now, Revalidate: time.Minute, PurgeSeq: 1}
			kept.put(page.New(k, e, store.PurgeState{}, page.Interval{Began: time.Now(), Ended: time.Now()}, nil, new(page.View)), f)
		})
		if purge {
			c.applyPurge([]store.PurgeTarget{PurgeKey(k)}, false, 2)
		}
		close(purged)
		<-f.Done()
		return kept.get(k)
	}
	if keep(true) != nil {
		t.Error("a page that was purged during its render is kept")
	}
	if keep(false) == nil {
		t.Error("a page that was not purged is not kept")
	}
}

// Once the floor is raised, no page is served from memory that was read before.
func TestNothingIsServedFromBelowTheFloor(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	var f floor
	if f.above(at(1)) {
		t.Error("what is read before the log is known is not to be served")
	}
	f.raise(at(2))
	if !f.above(at(1)) || f.above(at(2)) {
		t.Error("what is read once the log is known is to be served, and nothing before")
	}
	if f.crossed(page.Interval{Began: at(0), Ended: at(1)}) || !f.crossed(page.Interval{Began: at(1), Ended: at(3)}) || f.crossed(page.Interval{Began: at(2), Ended: at(3)}) {
		t.Error("only a read in progress when the floor was raised has crossed it")
	}
}

// A reload is recorded only in the current flights of its page: a burst of reloads takes no
// memory, and each is remembered until the last read that it overtook has ended.
func TestReloadsAreRecordedInFlights(t *testing.T) {
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Minute) }
	page, other := store.Key{Text: "h/"}, store.Key{Text: "h/other"}
	c := &Cache{memory: &memory{}, unpublished: &unpublishedPages{}, negative: testNegativeCache(t, 1<<20)}
	c.flights, c.unstored = newFlights(new(activity)), newFlights(new(activity))
	land := make(chan struct{})
	f, _ := c.flights.Join(page, func() *flight { return newFlight(&fill{fillRequest: fillRequest{key: page}}) }, func(*flight) { <-land })

	c.reload(other) // which has no flight
	if f.InvalidatedSince(at(-1)) {
		t.Error("the reload of another page overtakes the flight")
	}
	c.reload(page)
	if !f.InvalidatedSince(at(-1)) || f.InvalidatedSince(at(1)) {
		t.Error("the flight's reads are to be overtaken that began before the reload, and no others")
	}
	next, began := c.flights.Join(page, func() *flight { return newFlight(&fill{fillRequest: fillRequest{key: page}}) }, func(*flight) {})
	if !began || next.InvalidatedSince(at(-1)) {
		t.Error("a flight that begins after the reload has nothing to do with it")
	}
	close(land)
	<-f.Done()
	<-next.Done()
	if n := c.flights.Len(); n != 0 {
		t.Errorf("%d flights are remembered once all flights have landed", n)
	}
}

// fly keeps a flight in a group until the test ends.
func fly(t *testing.T, fs *flights, k store.Key, f *flight) {
	t.Helper()
	land := make(chan struct{})
	fs.Join(k, func() *flight { return f }, func(*flight) { <-land })
	t.Cleanup(func() {
		close(land)
		<-f.Done()
	})
}
