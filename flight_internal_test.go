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

// A page that this process has purged while it rendered it without the store is not kept, even
// if the render began at the instant of the purge. Package isrtest/simulator found one that was
// served from memory.
func TestUnpublishedPageOfAPurgedRenderIsNotKept(t *testing.T) {
	now := time.Now()
	k := store.Key{Text: "h/"}
	c := &Cache{now: time.Now, unstored: newFlights(new(activity)), flights: newFlights(new(activity))}
	c.follower, c.peers = changelog.New(t.Context(), changelog.Options{Poll: -1}), fleet.NewPeers(nil)
	c.cfg.Memory = 16 << 20
	var err error
	c.node, err = newNode(c)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(purge bool) *page.Page {
		purged := make(chan struct{})
		f, _ := c.unstored.Join(k, func() *flight { return new(flight) }, func(f *flight) {
			<-purged
			e := store.Entry{Status: 200, GeneratedAt: now, Revalidate: time.Minute, PurgeSeq: 1}
			c.node.Unpublished.Put(page.New(k, e, store.PurgeState{}, page.Interval{Began: time.Now(), Ended: time.Now()}, nil, new(page.View)), &f.State)
		})
		if purge {
			c.applyPurge([]store.PurgeTarget{PurgeKey(k)}, false, 2)
		}
		close(purged)
		<-f.Done()
		return c.node.Unpublished.Get(k)
	}
	if keep(true) != nil {
		t.Error("a page that was purged during its render is kept")
	}
	if keep(false) == nil {
		t.Error("a page that was not purged is not kept")
	}
}
