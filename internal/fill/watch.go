package fill

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// A countdown is how much longer the visitors of a flight wait for the stores. It runs
// only while a store is being called. A nil countdown never expires.
type countdown struct {
	expired func() // called once, when nothing is left

	mu    sync.Mutex
	left  time.Duration // guarded by mu
	since time.Time     // guarded by mu: when it was started; zero while it is stopped
	timer *time.Timer   // guarded by mu
}

// start runs the countdown: a store is being called.
func (c *countdown) start() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() || c.left <= 0 {
		return
	}
	c.since = time.Now()
	c.timer = time.AfterFunc(c.left, c.expire)
}

func (c *countdown) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() || time.Since(c.since) < c.left {
		return // stop was called at the same moment
	}
	c.since, c.left = time.Time{}, 0
	c.expired()
}

// stop pauses the countdown: the flight waits for something other than a store.
func (c *countdown) stop() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return
	}
	c.timer.Stop()
	c.left -= time.Since(c.since)
	c.since = time.Time{}
	if c.left <= 0 {
		c.left = 0
		c.expired()
	}
}

// reset starts over with d, unless nothing is left: the store has answered.
func (c *countdown) reset(d time.Duration) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left > 0 {
		c.left = d
	}
}

// A fill that waits for the page of another process reads META now and then: it looks. A
// look that comes early is paid for nothing, one that comes late delays visitors. So the
// first look comes when the page is likely to be stored, later ones in quick succession, and
// then with exponential backoff:
//
//	lease seen held                 likely stored
//	│                                     │ │  │    │      │            │  … at most maxLookPause
//	└──────────── render ─────────────────┴─┴──┴────┴──────┴────────────┘
//
// One process looks once for all requests that wait for a page, but a thousand processes may
// wait for it. So looks are limited: by the time t of a wait there are at most
// lookBurst + 2 per second of t. A page that is stored when it was expected takes one or two.

const (
	// lookBurst is how many looks a wait may make at once; then each takes lookTime.
	lookBurst = 3
	lookTime  = time.Second / 2
	// firstLookPause is between the first looks for a page that is due. Pauses then grow to half
	// of the time for which it is overdue, and to maxLookPause. If it is not known how long the
	// render takes, they begin with unknownLookPause, and double.
	firstLookPause   = 25 * time.Millisecond
	unknownLookPause = 400 * time.Millisecond
	maxLookPause     = time.Second
	// maxLookJitter bounds the random part of a pause, which spreads the looks of processes
	// that began to wait together.
	maxLookJitter = 10 * time.Millisecond
	// storingTime is how long a lease is taken to last beyond the render, until this process has
	// stored a page.
	storingTime = 20 * time.Millisecond
)

// nextLook returns how long a fill that has waited for some time, and has looked that often,
// sleeps until its next look. The page is likely to be stored at that time of the wait; zero
// or less: it is not known when. The result is positive, and at most maxLookPause.
func nextLook(waited, likely time.Duration, looks int) time.Duration {
	at := likely
	switch {
	case likely <= 0:
		at = waited + backoff.Exponential(unknownLookPause, maxLookPause, looks)
	case likely <= waited:
		at = waited + max(firstLookPause, (waited-likely)/2)
	}
	at = max(at, time.Duration(looks+1-lookBurst)*lookTime)
	return min(at-waited, maxLookPause)
}

// A watch is the wait of a fill for the page that another process renders.
type watch struct {
	began  time.Time          // before the first look
	looks  int                // so far
	likely time.Duration      // when the holder has likely stored the page, since began; 0: unknown
	holder string             // of the lease; empty if it is not known
	asked  netip.AddrPort     // the holder that was asked to say when it ends its work; invalid: none
	hinted <-chan struct{}    // closed once it says so; nil: it has, or none was asked
	cancel context.CancelFunc // withdraws the request; nil if there is none
}

// next returns how long to sleep before META is read again, and whether it is known when the page is
// likely stored. likely returns at which time of the wait that is; 0 if it is not known.
func (w *watch) next(lock *store.Lock, likely func(waited time.Duration) time.Duration) (pause time.Duration, known bool) {
	now := time.Now()
	if w.looks == 0 {
		w.began = now
	}
	waited := now.Sub(w.began)
	holder := ""
	if isLease(lock) {
		holder = lock.Owner
	}
	if w.looks == 0 || holder != w.holder {
		w.holder, w.likely = holder, likely(waited)
	}
	pause = nextLook(waited, w.likely, w.looks)
	w.looks++
	return pause, w.likely != 0
}

// stop withdraws the request to the holder, if there is one.
func (w *watch) stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

// sleep waits until it is time to look for the page of another process: by the schedule, or
// because the holder of the lease says that it has ended its work. Each holder is asked once in a
// wait, so that one that lies causes one look in vain, and looks are limited as by the schedule.
func (s *Fill) sleep(ctx context.Context, rec store.Record) error {
	w := &s.watch
	pause := s.pause(rec)
	earliest := time.Duration(w.looks-lookBurst)*lookTime - time.Since(w.began)
	s.ask(ctx, rec.Lock.Peer())
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.hinted:
		w.hinted = nil
		s.e.note(EventPeer, "ended")
		allowed := time.NewTimer(earliest)
		defer allowed.Stop()
		select {
		case <-allowed.C:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// pause is how long to sleep before META is read again.
func (s *Fill) pause(rec store.Record) time.Duration {
	pause, known := s.watch.next(rec.Lock, func(waited time.Duration) time.Duration { return s.likelyStored(rec, waited) })
	if !known {
		return s.e.Jitter(pause) // no moment is better than another
	}
	return pause + backoff.FullJitter(min(pause/4, maxLookJitter), s.e.Random())
}

// ask asks the holder of the lease to say when it has ended its work, unless this fill has asked
// it before.
func (s *Fill) ask(ctx context.Context, holder netip.AddrPort) {
	w := &s.watch
	if !holder.IsValid() || holder == w.asked || !s.e.Peers.Knows(holder) {
		return
	}
	w.stop()
	ctx, w.cancel = context.WithCancel(ctx)
	w.asked = holder
	hinted := make(chan struct{})
	w.hinted = hinted
	s.e.Go(func() {
		if s.e.AwaitLease(ctx, holder, s.Key) {
			close(hinted)
		} else if ctx.Err() == nil {
			s.e.note(EventPeer, "silent")
		}
	})
}

// likelyStored returns at which time of the wait the page is likely to be stored, if another
// process renders it now; zero if that is not known.
func (s *Fill) likelyStored(rec store.Record, waited time.Duration) time.Duration {
	expected := s.expected(rec)
	if expected == 0 {
		return 0
	}
	expected += s.e.storing.Median(storingTime)
	if isLease(rec.Lock) {
		// The end of a lease is rounded up to a second, so this is up to a second less than
		// what has passed: nothing for processes that were asked at the same time.
		elapsed := s.e.Now().Sub(rec.Lock.ExpiresAt.Add(-s.e.Lease))
		expected -= min(max(elapsed, 0), expected)
	}
	return waited + max(expected, 1)
}

// isLease reports whether a lock is a lease, which may have expired, and not a back-off. It may be nil.
func isLease(l *store.Lock) bool { return l != nil && !l.IsBackOff() }

// expected is how long a render of the page is expected to take: as long as the last one, or
// as the renders of the route that this process has seen lately; 0 if neither is known.
func (s *Fill) expected(rec store.Record) time.Duration {
	if rec.Entry != nil && rec.Entry.RenderTime > 0 {
		return rec.Entry.RenderTime
	}
	return s.Policy.Renders.Median(0)
}

// noteRenderTime records how long a page took that was found in the table.
func (p *Policy) noteRenderTime(e *store.Entry) {
	if e.RenderTime > 0 {
		p.Renders.add(e.RenderTime)
	}
}

// RecentTimes are the last few durations of a kind. The zero value has none. Its methods are
// safe for concurrent use.
type RecentTimes struct {
	mu   sync.Mutex
	last [15]time.Duration // guarded by mu: a ring
	n    int               // guarded by mu: how many were added
}

func (r *RecentTimes) add(took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[r.n%len(r.last)] = took
	r.n++
}

// Median returns the median, or a value that stands for it if there are none yet.
func (r *RecentTimes) Median(unknown time.Duration) time.Duration {
	r.mu.Lock()
	last := r.last
	n := min(r.n, len(last))
	r.mu.Unlock()
	if n == 0 {
		return unknown
	}
	slices.Sort(last[:n])
	return last[n/2]
}
