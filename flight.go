package isr

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

// waitTimes are what a flight has waited for. A visitor who reads a stream refers to them, and to nothing
// else of the flight (see reader).
type waitTimes struct {
	// took is how long renders of the flight have taken, in nanoseconds; 0 if there were none.
	took atomic.Int64
	// leaseWait is when another process held the lease; nil: it did not.
	leaseWait atomic.Pointer[period]
}

// A flight is the single flight of a key in this process: one fill, shared by the
// request that started it (the leader) and all that join it. It has its own deadline
// and goes on if the leader's visitor goes away.
type flight struct {
	singleflight.State

	fill *fill

	// forced: the page is rendered even if the stored one is fresh. A visitor who
	// joined such a flight and got nothing starts an ordinary one.
	forced bool

	// usable is closed once there is a page to serve while the flight goes on: a
	// stale one, or one that is refreshed early.
	usable  chan struct{}
	offered bool                      // usable is closed; only the fill uses it
	stale   atomic.Pointer[page.Page] // that page; nil before, and once the store has another entry

	// overdue is closed when the store has taken too long: waiting requests are
	// served without it. rendered then returns the page, if it was rendered and only
	// remains to be stored.
	overdue  chan struct{}
	rendered atomic.Pointer[func() *page.Page]

	// streaming is closed when visitors may attach to stream, the response that the flight
	// is rendering.
	streaming chan struct{}
	stream    atomic.Pointer[offer] // nil before the first bytes; it does not change then

	// unstored is the page that another flight rendered because the store was slow; nil if
	// there is none. This flight may publish it.
	unstored atomic.Pointer[page.Page]

	// begun is closed once work is set.
	begun chan struct{}
	work  context.Context //nolint:containedctx // of the observed operation, which requests join

	*waitTimes

	outcome outcome // set before Done is closed
}

// newFlight returns the flight of a fill, before it begins.
func newFlight(s *fill) *flight {
	return &flight{
		fill: s, waitTimes: new(waitTimes), forced: s.force, usable: make(chan struct{}),
		overdue: make(chan struct{}), streaming: make(chan struct{}), begun: make(chan struct{}),
	}
}

// flights are the flights of a cache.
type flights = singleflight.Group[*flight]

func newFlights(a *activity) *flights { return singleflight.New[*flight](a.begin, a.end) }

// offer makes a page available to waiting requests at once.
func (f *flight) offer(p *page.Page) {
	f.stale.Store(p)
	if !f.offered {
		f.offered = true
		close(f.usable)
	}
}

// found records what the store has now: an older page is no longer offered.
func (f *flight) found(rec store.Record) {
	if p := f.stale.Load(); p != nil && (rec.Entry == nil || !page.SameEntry(&p.Entry, rec.Entry)) {
		f.stale.Store(nil)
	}
}

// settleStream tells the visitors of the stream that the page is stored, or will not be.
func (f *flight) settleStream() {
	if st := f.stream.Load(); st != nil {
		st.settle()
	}
}

// known merges c with the purges of the page that this process has read since the flight
// began. A nil flight has read none.
func (f *flight) known(c store.PurgeState) store.PurgeState {
	if f == nil {
		return c
	}
	return f.Known(c)
}

// A read of the store that began before this node learned of a rollback may have seen the
// previous page, and must not put it into memory, however late it returns. Only fills
// put pages into memory, and a fill runs in a flight, so a reload is recorded in the
// current flights of its page. Nothing needs to be recorded for other pages: the cost of
// a burst of reloads is bounded by the number of flights.
//
// All moments are by this process's monotonic clock.

// A floor is a moment: no page that was read before it is served. There is none until it
// is raised for the first time.
type floor struct {
	at atomic.Pointer[time.Time]
}

// raise drops everything that was read before now.
func (f *floor) raise(now time.Time) { f.at.Store(&now) }

// above reports whether what was read at readAt must not be served. It is on the hit
// path: it takes no lock.
func (f *floor) above(readAt time.Time) bool {
	at := f.at.Load()
	return at != nil && readAt.Before(*at)
}

// crossed reports whether the floor was raised during a read, which may have seen the
// state before or after.
func (f *floor) crossed(read page.Interval) bool { return read.Contains(f.at.Load()) }

// crossed reports whether the page was reloaded during a read.
func (f *flight) crossed(read page.Interval) bool { return read.Contains(f.InvalidatedAt()) }

// reload drops all that this process keeps of pages that were rolled back, pinned,
// unpinned or withdrawn. Later requests get what the store has.
func (c *Cache) reload(keys ...store.Key) {
	for _, k := range keys {
		c.changed.note(k)
		// First no older reading can be added; then existing ones are removed.
		c.flights.Invalidate(k, time.Now())
		c.unstored.Invalidate(k, time.Now())
		c.memory.drop(k)
		c.unpublished.forget(k)
		c.negative.forget(k)
	}
}
