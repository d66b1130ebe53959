package fill

import (
	"testing"
	"time"

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
	f := &Flight{Usable: make(chan struct{}), WaitTimes: new(WaitTimes)}
	first, second := read(1), read(2)

	f.found(first)
	f.offer(pageOf(first))
	f.found(first)
	if p := f.Stale.Load(); p == nil || p.Entry.Version != 1 {
		t.Errorf("offered: %v, although the store still has it", p)
	}
	f.found(second)
	if p := f.Stale.Load(); p != nil {
		t.Errorf("version %d is offered, and the store has version 2", p.Entry.Version)
	}
	f.offer(pageOf(second))
	if p := f.Stale.Load(); p == nil || p.Entry.Version != 2 {
		t.Errorf("offered is %v, want version 2", p)
	}
	f.found(store.Record{})
	if p := f.Stale.Load(); p != nil {
		t.Errorf("version %d is offered, and the store has nothing", p.Entry.Version)
	}
}
