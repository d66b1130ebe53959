package isr

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/page"
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
	fill *fill

	// forced: the page is rendered even if the stored one is fresh. A visitor who
	// joined such a flight and got nothing starts an ordinary one.
	forced bool

	// usable is closed once there is a page to serve while the flight goes on: a
	// stale one, or one that is refreshed early.
	usable  chan struct{}
	offered bool                      // usable is closed; only the fill uses it
	stale   atomic.Pointer[page.Page] // that page; nil before, and once the store has another entry

	// cover is what this process has read of the page's own purges since the flight
	// began, nil if nothing. Waiting requests are not served what it covers. Marks are
	// in the table of marks (see internal/marks).
	cover atomic.Pointer[store.PurgeState] // written under flights.mu

	// hardPurges are the sequences of the page's own hard purges that this process has learned
	// since the flight began, and byPosts of those that unsafe requests have caused here.
	hardPurges, byPosts atomic.Pointer[[]int64] // written under flights.mu; nil: none

	// reloadedAt is when the page was last reloaded since the flight began (see
	// overtake), nil if it was not.
	reloadedAt atomic.Pointer[time.Time] // written under flights.mu

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

	// done is closed at the end; outcome is set before.
	done    chan struct{}
	outcome outcome
}

// flights are the flights of a cache.
type flights struct {
	activity *activity // counts them

	mu     sync.Mutex
	byKey  map[store.Key]*flight
	flying map[store.Key][]*flight // all of a key, including retired ones
	closed bool
	wg     sync.WaitGroup
}

func newFlights(a *activity) flights {
	return flights{activity: a, byKey: make(map[store.Key]*flight), flying: make(map[store.Key][]*flight)}
}

// join returns the flight of the fill's key. If there is none, the fill becomes a
// flight, and run is called in a goroutine of its own; leader reports that. The flight
// is nil after shut.
func (fs *flights) join(s *fill, run func(*flight) outcome) (f *flight, leader bool) {
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
		fill: s, waitTimes: new(waitTimes), forced: s.force, usable: make(chan struct{}),
		overdue: make(chan struct{}), streaming: make(chan struct{}), begun: make(chan struct{}), done: make(chan struct{}),
	}
	fs.byKey[k] = f
	fs.flying[k] = append(fs.flying[k], f)
	fs.activity.begin()
	fs.wg.Go(func() {
		defer fs.activity.end()
		f.outcome = run(f)
		// The flight leaves the map before the waiters wake: one that cannot use
		// the outcome must be able to start the next flight.
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

// learn adds purges that were read to the key's flights: the pages that they have read,
// or are rendering, may be older.
func (fs *flights) learn(k store.Key, c store.PurgeState) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.flying[k] {
		f.cover.Store(new(f.known(c)))
		if c.HardSeq > 0 {
			addSeq(&f.hardPurges, c.HardSeq)
		}
	}
}

// postedTo records in the key's flights that an unsafe request has caused a purge.
func (fs *flights) postedTo(k store.Key, seq int64) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.flying[k] {
		addSeq(&f.byPosts, seq)
	}
}

// addSeq adds a sequence to a list that others read. Callers must hold flights.mu.
func addSeq(list *atomic.Pointer[[]int64], seq int64) {
	if seqs := seqsOf(list); !slices.Contains(seqs, seq) {
		list.Store(new(append(slices.Clip(seqs), seq)))
	}
}

func seqsOf(list *atomic.Pointer[[]int64]) []int64 {
	if seqs := list.Load(); seqs != nil {
		return *seqs
	}
	return nil
}

// give passes a page that was rendered without the store to the key's flights, which
// still wait for the store.
func (fs *flights) give(k store.Key, p *page.Page) {
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

// oldest returns the flight of a key that began first and has not ended, or nil.
func (fs *flights) oldest(k store.Key) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if all := fs.flying[k]; len(all) > 0 {
		return all[0]
	}
	return nil
}

// retireAll prevents further requests from joining the current flights, which may have
// read outdated rows. They go on for the requests that have joined.
func (fs *flights) retireAll() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	clear(fs.byKey)
}

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
	if known := f.cover.Load(); known != nil {
		return c.Merge(*known)
	}
	return c
}

// shut prevents further flights from starting.
func (fs *flights) shut() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.closed = true
}

// wait waits until all flights have ended, after shut.
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

// overtake records a reload in the flights of a page, and prevents further requests from
// joining them. They go on for the requests that have joined.
func (fs *flights) overtake(k store.Key, now time.Time) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.flying[k] {
		f.reloadedAt.Store(&now)
	}
	delete(fs.byKey, k)
}

// overtaken reports whether the page was reloaded after a read of it began: what was read
// must not be kept.
func (f *flight) overtaken(readAt time.Time) bool {
	at := f.reloadedAt.Load()
	return at != nil && readAt.Before(*at)
}

// crossed reports whether the page was reloaded during a read.
func (f *flight) crossed(read page.Interval) bool { return read.Contains(f.reloadedAt.Load()) }

// reload drops all that this process keeps of pages that were rolled back, pinned,
// unpinned or withdrawn. Later requests get what the store has.
func (c *Cache) reload(keys ...store.Key) {
	for _, k := range keys {
		c.changed.note(k)
		// First no older reading can be added; then existing ones are removed.
		c.flights.overtake(k, time.Now())
		c.unstored.overtake(k, time.Now())
		c.memory.drop(k)
		c.unpublished.forget(k)
		c.negative.forget(k)
	}
}
