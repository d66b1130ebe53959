package changelog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

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

func (f *Follower) moment() moment { return moment{time.Now(), f.o.Now().Round(0)} }

// before returns how long before now the moment was; now is by the wall clock.
func (m *moment) before(now time.Time) time.Duration {
	return max(time.Since(m.mono), now.Sub(m.wall))
}

// A lag is how long this node has not read the log.
type lag struct {
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
	// saidBlind: the same, for Options.MaxBlind.
	saidBlind atomic.Bool

	// wanted makes Run poll at once.
	wanted chan struct{}

	mu   sync.Mutex
	next chan struct{} // guarded by mu: closed when the next poll ends
}

// setBound sets the staleness bound for an interval of polls.
func (f *Follower) setBound(every time.Duration) {
	f.within.Store(int64(max(staleAfterPolls*every, minStaleAfter)))
}

// Bound returns the staleness bound, how long this node serves pages from memory without reading the
// log: the larger of four intervals of polls and two seconds. 0: there is none, because the log is
// not followed.
func (f *Follower) Bound() time.Duration { return time.Duration(f.within.Load()) }

// Age returns how long before now the last successful poll began; false before the first.
func (f *Follower) Age(now time.Time) (age time.Duration, ok bool) {
	polled := f.polled.Load()
	if polled == nil {
		return 0, false
	}
	return polled.before(now), true
}

// Silent reports whether the last poll has failed, within the staleness bound.
func (f *Follower) Silent(now time.Time) bool {
	silent := f.silent.Load()
	return silent != nil && silent.before(now) <= f.Bound()
}

// Late reports whether the node must poll before it serves any page from memory. Before the first
// poll it need not.
func (f *Follower) Late(now time.Time) bool { return f.late(false, time.Time{}, now) }

// LateFor reports whether the node must poll before it serves a page from memory that was current at
// asOf, with its marks; zero if no such time is known. It is on the hit path: it takes no lock and
// allocates nothing.
func (f *Follower) LateFor(asOf, now time.Time) bool { return f.late(true, asOf, now) }

func (f *Follower) late(hasPage bool, asOf, now time.Time) bool {
	bound := f.Bound()
	if bound == 0 {
		return false
	}
	if polled := f.polled.Load(); polled == nil {
		if !hasPage {
			return false
		}
	} else if polled.before(now) <= bound {
		return false
	}
	if asOf.IsZero() {
		return true
	}
	// Reads are timed by the machine's clocks, not by Options.Now.
	machine := time.Now()
	return max(machine.Sub(asOf), machine.Round(0).Sub(asOf.Round(0))) > bound
}

// ended records the result of a poll, and wakes the requests that wait for it.
func (f *Follower) ended(began moment, err error) {
	switch {
	case err == nil:
		f.polled.Store(&began)
		f.silent.Store(nil)
		f.said.Store(false)
		f.saidBlind.Store(false)
	case began.before(f.o.Now()) <= f.Bound(): // else the process was frozen during the poll
		f.noteSilence(began)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.wanted: // by a request that has waited for this poll
	default:
	}
	close(f.next)
	f.next = make(chan struct{})
}

// noteSilence keeps the later moment. Of two concurrent calls, one may be lost.
func (f *Follower) noteSilence(began moment) {
	if last := f.silent.Load(); last == nil || began.mono.After(last.mono) {
		f.silent.Store(&began)
	}
}

func (f *Follower) nextPoll() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.next
}

// want makes the follower poll at once, unless the poll that next belongs to has ended.
func (f *Follower) want(next <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if next != f.next {
		return
	}
	select {
	case f.wanted <- struct{}{}:
	default: // requested already
	}
}

// Await makes a late request wait for a poll. cutOff: the log cannot be read, and pages
// are served as they are. A recent failure is enough to know that, unless its poll began
// before the process was frozen.
func (f *Follower) Await(ctx context.Context) (cutOff bool) {
	timeout := f.o.StoreTimeout
	asked, again := f.moment(), true
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		next := f.nextPoll()
		switch {
		case !f.Late(f.o.Now()):
			return false
		case f.knownSilent():
			f.tell()
			return true
		}
		f.want(next)
		select {
		case <-next:
		case <-ctx.Done():
			return true
		case <-f.ctx.Done():
			return true // closed: there are no more polls
		case <-timer.C:
			if again && asked.before(f.o.Now()) > 2*timeout {
				// The process was frozen while it waited: the store had no time to answer.
				asked, again = f.moment(), false
				timer.Reset(timeout)
				continue
			}
			f.noteSilence(asked)
			f.tell()
			return true
		}
	}
}

// knownSilent reports whether the log is known to be unreadable. While that lasts, one
// request per bound waits for a poll, to find out whether it still is.
func (f *Follower) knownSilent() bool {
	silent := f.silent.Load()
	if silent == nil {
		return false
	}
	switch ago, bound := silent.before(f.o.Now()), f.Bound(); {
	case ago <= bound:
		return true
	case ago <= 2*bound:
		now := f.moment()
		return !f.silent.CompareAndSwap(silent, &now)
	}
	return false
}

// tell logs one line per outage.
func (f *Follower) tell() {
	if f.said.CompareAndSwap(false, true) {
		f.o.Logger.Warn("pages are served from memory although the log was not read: other servers may have rolled them back",
			"bound", f.Bound())
	}
}

// TellBlind logs one line per outage: requests are refused until the log is read.
func (f *Follower) TellBlind() {
	if f.saidBlind.CompareAndSwap(false, true) {
		f.o.Logger.Warn("the log was not read for too long: requests are refused until it is", "max_blind", f.MaxBlind())
	}
}

// Blind reports whether the node has not read the log for longer than [Follower.MaxBlind]. It is on
// the hit path. A node that has never read the log is not blind.
func (f *Follower) Blind(now time.Time) bool {
	if f.Bound() == 0 {
		return false
	}
	polled := f.polled.Load()
	return polled != nil && polled.before(now) > f.MaxBlind()
}

// MaxBlind is how long this node may serve pages without reading the log: Options.MaxBlind, and no
// shorter than the interval of its polls demands.
func (f *Follower) MaxBlind() time.Duration { return max(f.o.MaxBlind, f.Bound()) }
