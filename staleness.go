package isr

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// The log says within Config.Poll what others did to a page. A process that was
// frozen, or whose machine slept, has heard of nothing since; nor has one that
// cannot reach the log. So what is in memory is good for a bounded time only:
//
//	hit ──► the last poll, or the read of the page itself, began within the bound ──► serve
//	  └───► late: wait for one poll, with all who are late, for StoreTimeout at most
//	            ├──► it succeeded: look into memory again
//	            └──► the log cannot be read: serve, marked as cut off
//
// A process that has not read SEQ yet has no log to follow: there, a late hit has the
// page read from the store.

const (
	// staleAfterPolls and minStaleAfter make the bound: so many intervals, and no
	// less than that time.
	staleAfterPolls = 4
	minStaleAfter   = 2 * time.Second
)

// A moment is one of both clocks. The monotonic clock stops while a machine sleeps,
// and somebody may set the wall clock back: the larger difference is right.
type moment struct {
	mono time.Time
	wall time.Time // without a monotonic reading, by which it would be compared
}

func (c *Cache) moment() moment { return moment{time.Now(), c.now().Round(0)} }

// before is how long before now the moment was; now is by the wall clock.
func (m *moment) before(now time.Time) time.Duration {
	return max(time.Since(m.mono), now.Sub(m.wall))
}

// A staleness is what a node knows of how long it has not read the log. All methods
// are safe for concurrent use.
type staleness struct {
	c     *Cache
	bound time.Duration // 0: none

	// polled is the beginning of the last poll that succeeded; nil before the first.
	polled atomic.Pointer[moment]
	// silent is the beginning of the last poll that failed, or wait for one that was
	// in vain; nil if a poll has succeeded since.
	silent atomic.Pointer[moment]
	// said: since the last poll that succeeded, a line of the log told of pages that
	// are served all the same.
	said atomic.Bool

	// wanted has the follower poll at once.
	wanted chan struct{}

	mu   sync.Mutex
	next chan struct{} // guarded by mu: closed when the next poll ends
}

func newStaleness(c *Cache) *staleness {
	s := &staleness{c: c, wanted: make(chan struct{}, 1), next: make(chan struct{})}
	if c.cfg.Poll >= 0 {
		s.bound = max(staleAfterPolls*c.cfg.Poll, minStaleAfter)
	}
	return s
}

// late says that the node may not serve p from memory before it has polled; nil: nor
// anything else that it remembers. It is on the hit path: it takes no lock and
// allocates nothing.
func (s *staleness) late(p *page, now time.Time) bool {
	if s.bound == 0 {
		return false
	}
	if polled := s.polled.Load(); polled == nil {
		if p == nil {
			return false
		}
	} else if polled.before(now) <= s.bound {
		return false
	}
	if p == nil {
		return true
	}
	// Readings are of the machine's clocks.
	machine := time.Now()
	return max(machine.Sub(p.read.began), machine.Round(0).Sub(p.read.began.Round(0))) > s.bound
}

// ended takes note of what came of a poll. Those who wait for one look again.
func (s *staleness) ended(began moment, err error) {
	switch {
	case err == nil:
		s.polled.Store(&began)
		s.silent.Store(nil)
		s.said.Store(false)
	case began.before(s.c.now()) <= s.bound: // else the process was frozen meanwhile
		s.noteSilence(began)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.wanted: // by somebody who has waited for this poll
	default:
	}
	close(s.next)
	s.next = make(chan struct{})
}

// noteSilence keeps the later moment. Of two at once, one may be lost.
func (s *staleness) noteSilence(began moment) {
	if last := s.silent.Load(); last == nil || began.mono.After(last.mono) {
		s.silent.Store(&began)
	}
}

func (s *staleness) nextPoll() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// want has the follower poll at once, unless the poll that next stands for has ended.
func (s *staleness) want(next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next != s.next {
		return
	}
	select {
	case s.wanted <- struct{}{}:
	default: // somebody has asked
	}
}

// await has a request that came late wait for a poll. cutOff: the log cannot be read,
// and pages are to be served as they are. A moment ago is soon enough to know that;
// a poll that began before the process was frozen says nothing.
func (s *staleness) await(ctx context.Context) (cutOff bool) {
	patience := s.c.cfg.StoreTimeout
	asked, again := s.c.moment(), true
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		next := s.nextPoll()
		switch {
		case !s.late(nil, s.c.now()):
			return false
		case s.knownSilent():
			s.tell()
			return true
		}
		s.want(next)
		select {
		case <-next:
		case <-ctx.Done():
			return true
		case <-s.c.ctx.Done():
			return true // closed: nobody polls any more
		case <-timer.C:
			if again && asked.before(s.c.now()) > 2*patience {
				// Frozen while it waited: the store had no time to answer.
				asked, again = s.c.moment(), false
				timer.Reset(patience)
				continue
			}
			s.noteSilence(asked)
			s.tell()
			return true
		}
	}
}

// knownSilent says that it is known that the log cannot be read. While that lasts, one
// request in a while waits to see whether it still is so.
func (s *staleness) knownSilent() bool {
	silent := s.silent.Load()
	if silent == nil {
		return false
	}
	switch ago := silent.before(s.c.now()); {
	case ago <= s.bound:
		return true
	case ago <= 2*s.bound:
		now := s.c.moment()
		return !s.silent.CompareAndSwap(silent, &now)
	}
	return false
}

// tell writes one line per outage.
func (s *staleness) tell() {
	if s.said.CompareAndSwap(false, true) {
		s.c.log.Warn("pages are served from memory though the log was not read: others may have rolled them back",
			"bound", s.bound)
	}
}

// marks are what this process knows of the life of purge marks. All methods are safe
// for concurrent use.
type marks struct {
	lifetime atomic.Int64 // in nanoseconds; 0: SEQ does not say, or was not read yet
}

// note takes note of what SEQ says. The lifetime in it only grows.
func (m *marks) note(seq store.Sequence) {
	for old := m.lifetime.Load(); old < int64(seq.MarkLifetime); old = m.lifetime.Load() {
		if m.lifetime.CompareAndSwap(old, int64(seq.MarkLifetime)) {
			return
		}
	}
}

// lasting is a cover with the lifetime that is known by now. It is on the hit path.
func (m *marks) lasting(c store.PurgeState) store.PurgeState {
	c.MarkLifetime = max(c.MarkLifetime, time.Duration(m.lifetime.Load()))
	return c
}
