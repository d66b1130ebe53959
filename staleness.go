package isr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// The log reports changes by other processes within Config.Poll. A process that was
// frozen, whose machine slept, or that cannot reach the log, has missed what happened
// since. So pages are served from memory for a bounded time only:
//
//	hit ──► the last poll, or the read of the page and its marks, began within the bound ──► serve
//	  └───► late: all late requests wait for one poll, for at most StoreTimeout
//	            ├──► it succeeded: look into memory again
//	            └──► the log cannot be read: serve with detail=cut-off; after MaxBlind,
//	                 as Config.Blind says
//
// Until a process has read SEQ it has no log to follow: a late hit then reads the page
// from the store.

const (
	// The bound is the larger of staleAfterPolls intervals and minStaleAfter.
	staleAfterPolls = 4
	minStaleAfter   = 2 * time.Second
)

// A moment is the time by both clocks. The monotonic clock stops while the machine sleeps,
// and the wall clock may be set back: the larger difference is right.
type moment struct {
	mono time.Time
	wall time.Time // without a monotonic reading, which comparisons would use
}

func (c *Cache) moment() moment { return moment{time.Now(), c.now().Round(0)} }

// before returns how long before now the moment was; now is by the wall clock.
func (m *moment) before(now time.Time) time.Duration {
	return max(time.Since(m.mono), now.Sub(m.wall))
}

// A staleness tracks how long this node has not read the log. All methods are safe for
// concurrent use.
type staleness struct {
	c *Cache
	// within is the staleness bound, in nanoseconds; 0: none.
	within atomic.Int64

	// polled is the start of the last successful poll; nil before the first.
	polled atomic.Pointer[moment]
	// silent is the start of the last poll that failed, or of the last wait that timed
	// out; nil if a poll has succeeded since.
	silent atomic.Pointer[moment]
	// said: that pages are served without the log was reported since the last
	// successful poll.
	said atomic.Bool
	// saidBlind: the same, for Config.Blind.
	saidBlind atomic.Bool

	// wanted makes the follower poll at once.
	wanted chan struct{}

	mu   sync.Mutex
	next chan struct{} // guarded by mu: closed when the next poll ends
}

func newStaleness(c *Cache) *staleness {
	s := &staleness{c: c, wanted: make(chan struct{}, 1), next: make(chan struct{})}
	if c.cfg.Poll >= 0 {
		s.setBound(c.cfg.Poll)
	}
	return s
}

// setBound sets the staleness bound for an interval of polls.
func (s *staleness) setBound(every time.Duration) {
	s.within.Store(int64(max(staleAfterPolls*every, minStaleAfter)))
}

// StalenessBound returns how long this node serves pages from memory without reading the
// log: max(4*PollInterval, 2s), so it grows with the fleet; see Config.Poll. Zero means
// that there is no bound, because it does not read the log. It is safe for concurrent
// use.
func (c *Cache) StalenessBound() time.Duration { return c.follower.bound() }

func (s *staleness) bound() time.Duration { return time.Duration(s.within.Load()) }

// late reports whether the node must poll before it serves p from memory; or, if p is
// nil, before it serves any page. It is on the hit path: it takes no lock and allocates
// nothing.
func (s *staleness) late(p *page, now time.Time) bool {
	bound := s.bound()
	if bound == 0 {
		return false
	}
	if polled := s.polled.Load(); polled == nil {
		if p == nil {
			return false
		}
	} else if polled.before(now) <= bound {
		return false
	}
	if p == nil || p.read.asOf.IsZero() {
		return true
	}
	// Readings use the machine's clocks, not Config.Now.
	machine := time.Now()
	return max(machine.Sub(p.read.asOf), machine.Round(0).Sub(p.read.asOf.Round(0))) > bound
}

// ended records the result of a poll, and wakes the requests that wait for it.
func (s *staleness) ended(began moment, err error) {
	switch {
	case err == nil:
		s.polled.Store(&began)
		s.silent.Store(nil)
		s.said.Store(false)
		s.saidBlind.Store(false)
	case began.before(s.c.now()) <= s.bound(): // else the process was frozen meanwhile
		s.noteSilence(began)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.wanted: // by a request that has waited for this poll
	default:
	}
	close(s.next)
	s.next = make(chan struct{})
}

// noteSilence keeps the later moment. Of two concurrent calls, one may be lost.
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

// want makes the follower poll at once, unless the poll that next belongs to has ended.
func (s *staleness) want(next <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if next != s.next {
		return
	}
	select {
	case s.wanted <- struct{}{}:
	default: // requested already
	}
}

// await makes a late request wait for a poll. cutOff: the log cannot be read, and pages
// are served as they are. A recent failure is enough to know that, unless its poll began
// before the process was frozen.
func (s *staleness) await(ctx context.Context) (cutOff bool) {
	timeout := s.c.cfg.StoreTimeout
	asked, again := s.c.moment(), true
	timer := time.NewTimer(timeout)
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
			return true // closed: there are no more polls
		case <-timer.C:
			if again && asked.before(s.c.now()) > 2*timeout {
				// The process was frozen while it waited: the store had no time to answer.
				asked, again = s.c.moment(), false
				timer.Reset(timeout)
				continue
			}
			s.noteSilence(asked)
			s.tell()
			return true
		}
	}
}

// knownSilent reports whether the log is known to be unreadable. While that lasts, one
// request per bound waits for a poll, to find out whether it still is.
func (s *staleness) knownSilent() bool {
	silent := s.silent.Load()
	if silent == nil {
		return false
	}
	switch ago, bound := silent.before(s.c.now()), s.bound(); {
	case ago <= bound:
		return true
	case ago <= 2*bound:
		now := s.c.moment()
		return !s.silent.CompareAndSwap(silent, &now)
	}
	return false
}

// tell logs one line per outage.
func (s *staleness) tell() {
	if s.said.CompareAndSwap(false, true) {
		s.c.log.Warn("pages are served from memory although the log was not read: other servers may have rolled them back",
			"bound", s.bound())
	}
}

// tellBlind logs one line per outage.
func (s *staleness) tellBlind() {
	if s.saidBlind.CompareAndSwap(false, true) {
		s.c.log.Warn("the log was not read for too long: no page is served without a new render",
			"max_blind", s.maxBlind(), "policy", s.c.cfg.Blind.String())
	}
}

// A BlindPolicy decides what visitors get from a node that has not read the log for longer
// than Config.MaxBlind: whatever it has, in memory or in the store, may have been purged
// or rolled back since. Requests that bypass the cache are not affected, nor is a node
// that has never read the log, which renders every page.
type BlindPolicy int

const (
	// BlindServe serves pages as usual, with detail=cut-off. It is the zero value.
	BlindServe BlindPolicy = iota
	// BlindRevalidate renders each page for the requests that wait for it, within the
	// budget of the origin, without storing it, and serves it for at most five seconds.
	// Older pages are not used, not even in place of a failure of the origin.
	BlindRevalidate
	// BlindRefuse answers with 503 and Retry-After.
	BlindRefuse
)

func (p BlindPolicy) String() string {
	switch p {
	case BlindServe:
		return "serve"
	case BlindRevalidate:
		return "revalidate"
	case BlindRefuse:
		return "refuse"
	}
	return fmt.Sprintf("BlindPolicy(%d)", int(p))
}

// MarshalText implements [encoding.TextMarshaler].
func (p BlindPolicy) MarshalText() ([]byte, error) {
	if !p.valid() {
		return nil, fmt.Errorf("%s is not a blind policy", p)
	}
	return []byte(p.String()), nil
}

// UnmarshalText parses the result of [BlindPolicy.String].
func (p *BlindPolicy) UnmarshalText(text []byte) error {
	for _, known := range []BlindPolicy{BlindServe, BlindRevalidate, BlindRefuse} {
		if string(text) == known.String() {
			*p = known
			return nil
		}
	}
	return fmt.Errorf("%q is not a blind policy; expected serve, revalidate or refuse", text)
}

func (p BlindPolicy) valid() bool { return p >= BlindServe && p <= BlindRefuse }

var errBlind = errors.New("the log has not been read for too long")

// blind reports whether the node has not read the log for so long that [Config.Blind]
// applies. It is on the hit path.
func (s *staleness) blind(now time.Time) bool {
	if s.c.cfg.Blind == BlindServe || s.bound() == 0 {
		return false
	}
	polled := s.polled.Load()
	return polled != nil && polled.before(now) > s.maxBlind()
}

// maxBlind is how long this node serves pages without reading the log: no shorter than the
// interval of its polls demands.
func (s *staleness) maxBlind() time.Duration { return max(s.c.cfg.MaxBlind, s.bound()) }

// answerBlind answers a request of a node that is blind, by another policy than
// [BlindServe]. old is the page in memory; it may be nil.
func (h *handler) answerBlind(w http.ResponseWriter, r *http.Request, k store.Key, old *page) {
	h.c.follower.tellBlind()
	status := httpcache.Status{Forward: httpcache.ForwardMiss, Detail: detailCutOff}
	if old != nil {
		status.Forward = httpcache.ForwardStale
	}
	if h.c.cfg.Blind == BlindRefuse {
		h.serveFailure(w, r, plainFailure(errBlind), status, h.c.now().Add(budget.BusyRetry))
		return
	}
	// A refusal or a failure that is remembered needs no render. A 404 that is remembered may be
	// outdated.
	if known := h.c.negative.get(k, time.Now()); known != nil && known.page == nil && h.answerKnown(w, r, k, nil, status.Forward) {
		return
	}
	if p := h.c.unpublished.get(k); p != nil && time.Since(p.read.began) > h.c.follower.maxBlind() {
		h.c.unpublished.forget(k) // rendered slowly: it is as old as its render
	}
	h.answerUnstored(w, r, k, nil, status)
}
