// Package singleflight runs one search for a page at a time, and tells it what happens to its page
// during the search.
//
// The problem: requests for a page that must be found or rendered come together. One of them should do
// the work, and it should go on if its visitor leaves. While it goes on, the process learns of purges,
// rollbacks and pins of the page: what the search has read before may be outdated.
//
// The model: a flight is one search of a key with a goroutine of its own. Requests join the flight that
// is current for their key. All flights of a key that have not ended, also those that are joined no
// more, learn what happens to the page.
//
//	Join ──► current flight of the key? ──► it is joined
//	  └────► no: a new flight is current ──► run ──► lands: leaves the group ──► Done is closed
//	                  │
//	                  ├ Learn, Posted    purges of the page that were read, or caused here
//	                  ├ Invalidate       the page was rolled back, pinned or withdrawn: what was read
//	                  │                  before is outdated, and no further request joins
//	                  └ Retire           no further request joins any current flight
//
// Guarantees:
//   - At most one flight of a key can be joined at any time.
//   - A flight leaves the group before Done is closed: a request that cannot use the outcome can start
//     the next flight at once.
//   - What Learn, Posted and Invalidate record while a flight has not ended, each read of its State after
//     they return includes. They record nothing for other keys: a burst of them takes no memory.
//   - After Shut no flight begins.
//
// All instants are of the process's monotonic clock.
package singleflight

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// A Flight is a pointer to a type that embeds a [State].
type Flight interface {
	comparable
	state() *State
}

// A State is what a flight knows of its page beside what its search has read. The zero State belongs to
// a flight of no group and has learned nothing. Its methods are safe for concurrent use.
type State struct {
	// purges are what was learned of the page's own purges since the flight began; nil if there is
	// nothing.
	purges atomic.Pointer[store.PurgeState] // written under the group's mu
	// hard are the sequences of the page's own hard purges that were learned since the flight began, and
	// posted the sequences of purges that unsafe requests have caused here.
	hard, posted atomic.Pointer[[]int64] // written under the group's mu; nil if there are none
	// invalidated is when the page was last invalidated since the flight began; nil if it was not.
	invalidated atomic.Pointer[time.Time] // written under the group's mu

	done chan struct{} // closed at the end
}

func (s *State) state() *State { return s }

// Done returns a channel that is closed once the flight has ended.
func (s *State) Done() <-chan struct{} { return s.done }

// Known merges c with the page's own purges that were learned since the flight began. A nil State has
// learned none.
func (s *State) Known(c store.PurgeState) store.PurgeState {
	if s == nil {
		return c
	}
	if known := s.purges.Load(); known != nil {
		return c.Merge(*known)
	}
	return c
}

// PostedAlone reports whether unsafe requests to this process have caused all hard purges of the page
// after the sequence since: those that the flight has learned, and hard, the newest that a read has
// found.
func (s *State) PostedAlone(since, hard int64) bool {
	posted := load(&s.posted)
	for _, seq := range append(slices.Clip(load(&s.hard)), hard) {
		if seq > since && !slices.Contains(posted, seq) {
			return false
		}
	}
	return true
}

// InvalidatedSince reports whether the page was invalidated after a read of it began: what was read must
// not be kept.
func (s *State) InvalidatedSince(readAt time.Time) bool {
	at := s.invalidated.Load()
	return at != nil && readAt.Before(*at)
}

// InvalidatedAt returns when the page was last invalidated since the flight began; nil if it was not.
func (s *State) InvalidatedAt() *time.Time { return s.invalidated.Load() }

// add adds a sequence to a list that others read. Callers must hold the group's mu.
func add(list *atomic.Pointer[[]int64], seq int64) {
	if seqs := load(list); !slices.Contains(seqs, seq) {
		list.Store(new(append(slices.Clip(seqs), seq)))
	}
}

func load(list *atomic.Pointer[[]int64]) []int64 {
	if seqs := list.Load(); seqs != nil {
		return *seqs
	}
	return nil
}

// A Group has the flights of a process. All methods are safe for concurrent use.
type Group[F Flight] struct {
	began, ended func()

	mu      sync.Mutex
	current map[store.Key]F   // guarded by mu: the flights that can be joined
	flying  map[store.Key][]F // guarded by mu: all flights that have not ended, the oldest first
	closed  bool              // guarded by mu
	wg      sync.WaitGroup
}

// New returns a group without flights. began is called before a flight runs, and ended after its Done is
// closed; neither may call the group.
func New[F Flight](began, ended func()) *Group[F] {
	return &Group[F]{began: began, ended: ended, current: make(map[store.Key]F), flying: make(map[store.Key][]F)}
}

// Join returns the current flight of a key. If there is none, begin returns a new one, and run is
// called with it in a goroutine of its own; leader reports that. After Shut the flight is the zero value
// of F. begin must not call the group.
func (g *Group[F]) Join(k store.Key, begin func() F, run func(F)) (f F, leader bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if f, ok := g.current[k]; ok {
		return f, false
	}
	if g.closed {
		return f, false
	}
	f = begin()
	f.state().done = make(chan struct{})
	g.current[k] = f
	g.flying[k] = append(g.flying[k], f)
	g.began()
	g.wg.Go(func() {
		defer g.ended()
		run(f)
		g.land(k, f)
		close(f.state().done)
	})
	return f, true
}

// land removes a flight that has ended.
func (g *Group[F]) land(k store.Key, f F) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.current[k] == f {
		delete(g.current, k)
	}
	g.flying[k] = slices.DeleteFunc(g.flying[k], func(other F) bool { return other == f })
	if len(g.flying[k]) == 0 {
		delete(g.flying, k)
	}
}

// Each calls use with each flight of a key that has not ended. use must not call the group.
func (g *Group[F]) Each(k store.Key, use func(F)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.flying[k] {
		use(f)
	}
}

// Learn adds purges that were read to the flights of a key: the pages that they have read, or are
// rendering, may be older.
func (g *Group[F]) Learn(k store.Key, purges store.PurgeState) {
	g.Each(k, func(f F) {
		s := f.state()
		s.purges.Store(new(s.Known(purges)))
		if purges.HardSeq > 0 {
			add(&s.hard, purges.HardSeq)
		}
	})
}

// Posted records in the flights of a key that an unsafe request has caused a purge of the page.
func (g *Group[F]) Posted(k store.Key, seq int64) {
	g.Each(k, func(f F) { add(&f.state().posted, seq) })
}

// Invalidate records in the flights of a key that what was read of the page before now is outdated, and
// prevents further requests from joining them. They go on for the requests that have joined.
func (g *Group[F]) Invalidate(k store.Key, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range g.flying[k] {
		f.state().invalidated.Store(&now)
	}
	delete(g.current, k)
}

// Retire prevents further requests from joining the current flights, which may have read outdated rows.
// They go on for the requests that have joined.
func (g *Group[F]) Retire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.current)
}

// Current returns the flight of a key that can be joined; the zero value if there is none.
func (g *Group[F]) Current(k store.Key) F {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.current[k]
}

// Oldest returns the flight of a key that began first and has not ended; the zero value if there is none.
func (g *Group[F]) Oldest(k store.Key) (f F) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if all := g.flying[k]; len(all) > 0 {
		return all[0]
	}
	return f
}

// Len returns how many flights have not ended.
func (g *Group[F]) Len() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, all := range g.flying {
		n += len(all)
	}
	return n
}

// Shut prevents further flights from beginning.
func (g *Group[F]) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Wait waits until all flights have ended, after Shut. If ctx is done first, it returns the cause.
func (g *Group[F]) Wait(ctx context.Context) error {
	landed := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(landed)
	}()
	select {
	case <-landed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
