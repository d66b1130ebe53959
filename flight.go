package isr

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// A flight is the one search for a page that this process has under way for a
// key, shared by all who want it. It has its own deadline and survives whoever
// began it.
type flight struct {
	// usable is closed when there is a page to serve while the flight goes on:
	// a stale one, or one whose successor is made early.
	usable  chan struct{}
	offered bool                 // usable is closed; the search's own
	stale   atomic.Pointer[page] // nil before that, and once the store has another entry

	// cover is what this process has read of the page's purges since the flight
	// began: what they cover is not served to those who wait. Nil before.
	cover atomic.Pointer[store.PurgeState] // written under flights.mu

	// reloadedAt is when the page was reloaded last since the flight began (see
	// reload.go). Nil if it was not.
	reloadedAt atomic.Pointer[time.Time] // written under flights.mu

	// making is closed when there is none, and the page is to be made here.
	making    chan struct{}
	announced bool // making is closed; the search's own

	// overdue is closed when the store has taken too long: those who wait are
	// served without it. rendered then makes the page, if there is one already
	// that is only to be stored.
	overdue  chan struct{}
	rendered atomic.Pointer[func() *page]

	// unstored is what those who did not wait for the store were given meanwhile. It
	// may be published by this flight. Nil without.
	unstored atomic.Pointer[page]

	// forced: the page is rendered anew whatever is stored; a visitor who joined
	// and got nothing begins an ordinary flight.
	forced bool

	// search is what the flight does, for those who join it.
	search *search

	// done is closed at the end; outcome is set before.
	done    chan struct{}
	outcome outcome
}

// An outcome is what a flight came to: one of its cases.
type outcome struct {
	page    *page
	how     provenance
	refused string    // not cacheable, for this reason: each visitor asks alone
	failed  *response // the renderer failed with this answer
	err     error     // why there is no page
	detail  string    // the reason in Cache-Status, with err
}

// A provenance is where a flight's page came from.
type provenance int

const (
	fromStore   provenance = iota // another process had published it
	fromRender                    // rendered and published by this flight
	fromWait                      // published by another process while the flight waited
	unpublished                   // rendered by this flight, and overtaken or not storable
)

// flights are those of one cache.
type flights struct {
	mu     sync.Mutex
	byKey  map[store.Key]*flight
	flying map[store.Key][]*flight // all of a key, those that were retired among them
	closed bool
	wg     sync.WaitGroup
}

func newFlights() flights {
	return flights{byKey: make(map[store.Key]*flight), flying: make(map[store.Key][]*flight)}
}

// join returns the key's flight, beginning one by calling run in a goroutine of
// its own if there is none. began says which; nil after close.
func (fs *flights) join(s *search, run func(*flight) outcome) (f *flight, began bool) {
	k := s.key
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.byKey[k]; f != nil {
		return f, false
	}
	if fs.closed {
		return nil, false
	}
	f = &flight{
		search: s, forced: s.force, usable: make(chan struct{}), making: make(chan struct{}),
		overdue: make(chan struct{}), done: make(chan struct{}),
	}
	fs.byKey[k] = f
	fs.flying[k] = append(fs.flying[k], f)
	fs.wg.Go(func() {
		f.outcome = run(f)
		// Leave the map before waking anybody: whoever finds the outcome
		// wanting must be able to begin the next flight.
		fs.land(k, f)
		close(f.done)
	})
	return f, true
}

func (fs *flights) land(k store.Key, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.byKey[k] == f {
		delete(fs.byKey, k)
	}
	fs.flying[k] = slices.DeleteFunc(fs.flying[k], func(other *flight) bool { return other == f })
	if len(fs.flying[k]) == 0 {
		delete(fs.flying, k)
	}
}

// learn tells the key's flights of purges that were read: what they have read
// before, or are rendering, may be older.
func (fs *flights) learn(k store.Key, c store.PurgeState) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.flying[k] {
		f.cover.Store(new(f.known(c)))
	}
}

// give hands what was rendered without the store to the key's flights, which are
// still asking it.
func (fs *flights) give(k store.Key, p *page) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.flying[k] {
		f.unstored.Store(p)
	}
}

// current returns the key's flight that can be joined, or nil.
func (fs *flights) current(k store.Key) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.byKey[k]
}

// retireAll lets nobody else join the flights under way, which may have read what
// is not true any more. They go on for those who have joined.
func (fs *flights) retireAll() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	clear(fs.byKey)
}

// offer lets those who wait have a page at once.
func (f *flight) offer(p *page) {
	f.stale.Store(p)
	if !f.offered {
		f.offered = true
		close(f.usable)
	}
}

// found takes note of what the store has now: who comes from now on is not offered
// what was there before.
func (f *flight) found(rec store.Record) {
	if p := f.stale.Load(); p != nil && (rec.Entry == nil || !sameEntry(&p.entry, rec.Entry)) {
		f.stale.Store(nil)
	}
}

// known is the cover of a page, with the purges that this process has read since
// the flight began.
func (f *flight) known(c store.PurgeState) store.PurgeState {
	if known := f.cover.Load(); known != nil {
		return c.Merge(*known)
	}
	return c
}

// state is what a page is worth to those who wait for this flight.
func (f *flight) state(p *page, now time.Time) store.State {
	return store.Freshness(&p.entry, f.known(p.cover), now)
}

// announce tells those who do not want to wait for a render that they would.
func (f *flight) announce() {
	if f.stale.Load() == nil && !f.announced {
		f.announced = true
		close(f.making)
	}
}

// shut lets no further flight begin.
func (fs *flights) shut() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.closed = true
}

// wait waits for the flights under way, once no further one can begin.
func (fs *flights) wait(ctx context.Context) error {
	landed := make(chan struct{})
	go func() {
		fs.wg.Wait()
		close(landed)
	}()
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
