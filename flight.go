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

// learned returns what a flight has learned of its page; nil if there is no flight.
func (f *flight) learned() *singleflight.State {
	if f == nil {
		return nil
	}
	return &f.State
}

// A period goes on while ended is zero.
type period struct{ began, ended time.Time }

// since returns how much of the period is after a moment.
func (p *period) since(t time.Time) time.Duration {
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
