package fill

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

// WaitTimes are what a flight has waited for. A visitor who reads a stream refers to them, and to nothing
// else of the flight (see reader).
type WaitTimes struct {
	// Took is how long renders of the flight have taken, in nanoseconds; 0 if there were none.
	Took atomic.Int64
	// LeaseWait is when another process held the lease; nil: it did not.
	LeaseWait atomic.Pointer[period]
}

// A Flight is the single flight of a key in this process: one fill, shared by the
// request that started it (the leader) and all that join it. It has its own deadline
// and goes on if the leader's visitor goes away.
type Flight struct {
	singleflight.State

	Fill *Fill

	// Forced: the page is rendered even if the stored one is fresh. A visitor who
	// joined such a flight and got nothing starts an ordinary one.
	Forced bool

	// Usable is closed once there is a page to serve while the flight goes on: a
	// stale one, or one that is refreshed early.
	Usable  chan struct{}
	offered bool                      // usable is closed; only the fill uses it
	Stale   atomic.Pointer[page.Page] // that page; nil before, and once the store has another entry

	// Overdue is closed when the store has taken too long: waiting requests are
	// served without it. rendered then returns the page, if it was rendered and only
	// remains to be stored.
	Overdue  chan struct{}
	Rendered atomic.Pointer[func() *page.Page]

	// Streaming is closed when visitors may attach to stream, the response that the flight
	// is rendering.
	Streaming chan struct{}
	Stream    atomic.Pointer[Offer] // nil before the first bytes; it does not change then

	// unpublished is the page that another flight rendered because the store was slow; nil if
	// there is none. This flight may publish it.
	unpublished atomic.Pointer[page.Page]

	// begun is closed once work is set.
	begun chan struct{}
	work  context.Context //nolint:containedctx // of the observed operation, which requests join

	*WaitTimes

	Outcome Outcome // set before Done is closed
}

// newFlight returns the flight of a fill, before it begins.
func newFlight(s *Fill) *Flight {
	return &Flight{
		Fill: s, WaitTimes: new(WaitTimes), Forced: s.Force, Usable: make(chan struct{}),
		Overdue: make(chan struct{}), Streaming: make(chan struct{}), begun: make(chan struct{}),
	}
}

// Flights are the flights of a cache.
type Flights = singleflight.Group[*Flight]

// Offer makes a page available to waiting requests at once.
func (f *Flight) offer(p *page.Page) {
	f.Stale.Store(p)
	if !f.offered {
		f.offered = true
		close(f.Usable)
	}
}

// Found records what the store has now: an older page is no longer offered.
func (f *Flight) found(rec store.Record) {
	if p := f.Stale.Load(); p != nil && (rec.Entry == nil || !page.SameEntry(&p.Entry, rec.Entry)) {
		f.Stale.Store(nil)
	}
}

// settleStream tells the visitors of the stream that the page is stored, or will not be.
func (f *Flight) settleStream() {
	if st := f.Stream.Load(); st != nil {
		st.settle()
	}
}

// Learned returns what a flight has learned of its page; nil if there is no flight.
func (f *Flight) Learned() *singleflight.State {
	if f == nil {
		return nil
	}
	return &f.State
}

// A period goes on while ended is zero.
type period struct{ began, ended time.Time }

// Since returns how much of the period is after a moment.
func (p *period) Since(t time.Time) time.Duration {
	if p == nil {
		return 0
	}
	ended := p.ended
	if ended.IsZero() {
		ended = time.Now()
	}
	if p.began.After(t) {
		t = p.began
	}
	return max(ended.Sub(t), 0)
}

// A timing is when a render took place.
type timing struct {
	began       time.Time // by the monotonic clock
	generatedAt time.Time // by the wall clock, in whole milliseconds
	took        time.Duration
}
