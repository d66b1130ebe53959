package isr

import (
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// A flight offers what the store has, and not what it had when the flight began. Package
// isrtest/simulator found one that went back to a page that another service had replaced.
func TestFlightOffersWhatWasReadLast(t *testing.T) {
	now := time.Unix(1e9, 0)
	read := func(version int64) store.Record {
		return store.Record{Entry: &store.Entry{Version: version, GeneratedAt: now, Revalidate: time.Minute}}
	}
	pageOf := func(rec store.Record) *page {
		return newPage(store.Key{Text: "h/"}, *rec.Entry, rec.Purges, reading{now, now}, nil)
	}
	f := &flight{usable: make(chan struct{})}
	first, second := read(1), read(2)

	f.found(first)
	f.offer(pageOf(first))
	f.found(first)
	if p := f.stale.Load(); p == nil || p.entry.Version != 1 {
		t.Errorf("offered is %v, though the store has it still", p)
	}
	f.found(second)
	if p := f.stale.Load(); p != nil {
		t.Errorf("version %d is offered, and the store has version 2", p.entry.Version)
	}
	f.offer(pageOf(second))
	if p := f.stale.Load(); p == nil || p.entry.Version != 2 {
		t.Errorf("offered is %v, want version 2", p)
	}
	f.found(store.Record{})
	if p := f.stale.Load(); p != nil {
		t.Errorf("version %d is offered, and the store has nothing", p.entry.Version)
	}
}

// What a flight has heard of purges counts for all pages that it could be answered with.
func TestFlightKnowsPurges(t *testing.T) {
	now := time.Unix(1e9, 0)
	k := store.Key{Text: "h/"}
	old := newPage(k, store.Entry{Version: 1, GeneratedAt: now, Revalidate: time.Minute}, store.PurgeState{}, reading{now, now}, nil)
	f := new(flight)
	fs := flights{flying: map[store.Key][]*flight{k: {f}}}
	if state := f.state(old, now); state != store.Fresh {
		t.Errorf("%v before any purge", state)
	}
	fs.learn(k, store.PurgeState{Seq: 2, At: now})
	if state := f.state(old, now); state != store.Stale {
		t.Errorf("%v after a soft purge", state)
	}
	fs.learn(k, store.PurgeState{HardSeq: 1, Seq: 1, At: now})
	if state := f.state(old, now); state != store.Purged {
		t.Errorf("%v after a hard purge", state)
	}
	fs.learn(store.Key{Text: "h/other"}, store.PurgeState{}) // of which there is none
}
