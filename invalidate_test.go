package isr

import (
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

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
	if f.crossed(reading{began: at(0), ended: at(1)}) || !f.crossed(reading{began: at(1), ended: at(3)}) || f.crossed(reading{began: at(2), ended: at(3)}) {
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
	c.flights = flights{byKey: make(map[store.Key]*flight), flying: make(map[store.Key][]*flight)}
	land := make(chan struct{})
	f, _ := c.flights.join(&search{key: page}, func(*flight) outcome { <-land; return failure{} })

	c.reload(other) // which has no flight
	if f.overtaken(at(-1)) {
		t.Error("the reload of another page overtakes the flight")
	}
	c.reload(page)
	if !f.overtaken(at(-1)) || f.overtaken(at(1)) {
		t.Error("the flight's reads are to be overtaken that began before the reload, and no others")
	}
	next, began := c.flights.join(&search{key: page}, func(*flight) outcome { return failure{} })
	if !began || next.overtaken(at(-1)) {
		t.Error("a flight that begins after the reload has nothing to do with it")
	}
	close(land)
	<-f.done
	<-next.done
	if n := len(c.flights.flying); n != 0 {
		t.Errorf("%d pages are remembered once all flights have landed", n)
	}
}
