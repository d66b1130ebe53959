package isr

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// A search waits for three things: its turn at the origin, a page that another process
// renders, and the stores. Each wait is bounded. A search that waits for another
// process gives its turn to other pages.

const (
	// maxPause bounds how long a page waits for a back-off that another process, whose
	// clock may differ, has stored.
	maxPause = 2 * maxBackOff
	// maxPayers is how many of the clients that wait for one page are considered when
	// its turn is charged to a client.
	maxPayers = 8
	// firstQueuePoll and maxQueuePoll are how long a search that queues for the origin sleeps
	// before it reads META again. Few pages are rendered elsewhere meanwhile, and each read
	// costs, so that a shorter wait costs none.
	firstQueuePoll = 2 * time.Second
	maxQueuePoll   = 8 * time.Second
)

// suffices reports whether a stored page that can be served, in a state, ends the search.
func (s *search) suffices(rec store.Record, state store.State) bool {
	return state == store.Fresh && !s.wanted(rec) || s.onlyStored
}

// A step is what a search does next. The zero value waits for the lease, or the back-off, of
// another process.
type step struct {
	end      outcome // it ends
	unstored string  // it renders the page without storing it, for this reason
	render   bool    // it renders the page
}

// next decides by a record whose page does not end the search.
func (s *search) next(rec store.Record, now time.Time) step {
	switch {
	case s.onlyStored:
		return step{end: failure{cause: errOnlyIfCached, detail: detailOnlyIfCached}}
	case s.refusedByPin(rec):
		return step{end: failure{cause: pinnedUntil(rec.Entry)}}
	}
	unknown := rec.Malformed == nil && (rec.Entry == nil || rec.Entry.Withdrawn) && (rec.Lock == nil || !rec.Lock.HeldAt(now))
	if pass := s.passesUnknown(); unknown && pass != "" {
		return step{end: refusal{pass}}
	}
	if why := s.notWorthStoring(rec); why != "" {
		return step{unstored: why}
	}
	// The row that was just read avoids a conditional write that would fail. Only Acquire
	// decides.
	return step{render: rec.Lock == nil || !rec.Lock.HeldAt(now)}
}

// awaitTurn enters the origin's queue, and sleeps until the turn has come, or until it is
// time to read META again because another process may have rendered the page. come: the turn
// has come, META was just read, and the page may be rendered. The error is a
// *budget.Error, or the reason for which the cache closes.
func (s *search) awaitTurn(ctx context.Context, rec store.Record) (come bool, err error) {
	s.storeWait.stop() // so that only this goroutine uses the turn
	defer s.storeWait.start()
	turn := s.currentTurn()
	if turn == nil {
		s.known = s.isKnown(rec)
		if turn, err = s.enter(); err != nil {
			return false, err
		}
	}
	select {
	case <-turn.Ready():
		err := turn.Begin()
		s.endQueue(queueOutcome(err))
		return true, err
	default:
	}
	s.beginQueue(ctx)
	left := s.route.wait - time.Since(s.since)
	if left <= 0 {
		s.endQueue("timeout")
		return false, &budget.Error{RetryAfter: budget.BusyRetry}
	}
	if !s.background() {
		left = min(left, s.c.jitter(backoff.Exponential(firstQueuePoll, maxQueuePoll, s.queuePolls)))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-turn.Ready():
		if err := turn.Displaced(); err != nil {
			s.endQueue(queueOutcome(err))
			return false, err
		}
	case <-timer.C:
		s.queuePolls++
		s.waited = true // if there is a page now, another process has rendered it meanwhile
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	return false, nil
}

// enter takes a turn, or a place in the queue. It holds mu throughout, so that no client
// can join between the choice of the client to charge and the record of the turn.
func (s *search) enter() (*budget.Turn, error) {
	p := budget.Page{Known: s.known, Yielding: s.background()}
	s.mu.Lock()
	defer s.mu.Unlock()
	turn, err := s.route.budget.Enter(p, s.clients...)
	s.turn = turn
	return turn, err
}

// leave gives up the turn, or the place in the queue, if there is one. verdict is what
// the render says of the origin.
func (s *search) leave(verdict error) {
	s.mu.Lock()
	turn := s.turn
	s.turn = nil
	s.mu.Unlock()
	s.endQueue("canceled")
	if turn != nil {
		turn.Leave(verdict)
	}
}

func (s *search) currentTurn() *budget.Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn
}

// join is called for a visitor who joins the search. If the visitor waits for it, its turn is
// that of a regeneration no longer. The turn is charged to the visitor's client, which may be
// invalid, if that client has less of the budget than those who wait already.
func (s *search) join(client netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil && !s.background() {
		s.turn.Await()
	}
	switch {
	case !client.IsValid():
	case s.turn != nil:
		s.turn.Charge(client)
	case len(s.clients) > 0 && len(s.clients) < maxPayers && !slices.Contains(s.clients, client):
		s.clients = append(s.clients, client)
	}
}

// isKnown reports whether the page has rendered before.
func (s *search) isKnown(rec store.Record) bool {
	if e := rec.Entry; e != nil {
		return !isNegative(e.Status)
	}
	return s.c.memory.last(s.key) != nil
}

// verdict is what a render says of the origin. A render that this process cancelled says
// nothing. Neither does a page that fails again, which has a back-off of its own, unless
// it is the probe of the origin; nor an error response for a page that has never
// rendered, which may be for an invented URL.
func (s *search) verdict(held context.Context, failures int, got rendering) error {
	switch {
	case held.Err() != nil, errors.Is(got.failure, store.ErrInvalidKey):
		return budget.ErrNoVerdict
	case got.failure != nil && failures > 0 && !s.currentTurn().IsProbe():
		return budget.ErrNoVerdict
	case got.failure != nil && !got.outage && !s.known:
		return budget.ErrNoVerdict
	}
	return got.failure
}

// notAdmitted ends a search that got no turn at the origin. The page did not fail, and
// gets no back-off.
func (s *search) notAdmitted(ctx context.Context, rec store.Record, err error) outcome {
	var overBudget *budget.Error
	if !errors.As(err, &overBudget) {
		return failure{cause: err, detail: admissionDetail(err)}
	}
	return s.postponed(ctx, rec, overBudget.RetryAfter, err, admissionDetail(err))
}

// admissionDetail is the reason in Cache-Status for which a search got no turn.
func admissionDetail(err error) string {
	var overBudget *budget.Error
	switch {
	case !errors.As(err, &overBudget):
		return detailClosing
	case overBudget.Open:
		return detailOriginFailing
	}
	return detailOriginBusy
}

// background reports whether no request waits for the search: the page is served
// meanwhile, for as long as its stale window lasts.
func (s *search) background() bool {
	p := s.f.stale.Load()
	return p != nil && !s.force && s.minSeq == 0 && (s.early != nil || s.route.Policy != Wait) && s.c.state(s.f, p, s.c.now()) >= store.Stale
}

// wait handles a lease held by another process, or a back-off: it ends the search, or
// sleeps until it is time to read the store again, and returns nil.
func (s *search) wait(ctx context.Context, rec store.Record) outcome {
	held := &store.HeldError{Lock: *rec.Lock}
	backOff := rec.Lock.IsBackOff()
	if !backOff && s.leaseWait == nil {
		s.c.note(Event{Kind: EventLease, Reason: "busy"})
	}
	switch {
	case s.force:
		return failure{cause: held, detail: detailBackOff}
	case backOff:
		return s.postponed(ctx, rec, min(rec.Lock.ExpiresAt.Sub(s.c.now()), maxPause), held, detailBackOff)
	case s.background():
		return s.postponed(ctx, rec, s.c.jitter(searchPause), nil, "")
	case time.Since(s.since) > s.route.wait:
		return s.unavailable(ctx, rec, fmt.Errorf("waited %s: %w", s.route.wait, held), detailTimeout)
	}
	s.waited = true
	s.storeWait.stop()
	defer s.storeWait.start()
	s.storeWait.reset(s.c.cfg.StoreTimeout)
	s.beginLeaseWait(ctx)
	if err := s.sleep(ctx, rec); err != nil {
		return failure{cause: err, detail: detailClosing}
	}
	return nil
}

// postponed ends a search, and delays the next one. Visitors are served the stale page
// meanwhile, if there is one; after the delay one of their requests searches again.
func (s *search) postponed(ctx context.Context, rec store.Record, wait time.Duration, cause error, detail string) outcome {
	stale := s.f.stale.Load()
	switch {
	case s.early != nil:
		s.early.nextEarly.put(s.early, wait)
	case stale != nil:
		stale.nextTry.put(stale, wait)
	}
	if s.background() {
		return storedPage{page: stale}
	}
	return s.unavailable(ctx, rec, cause, detail)
}

// overdue is called when the store has taken too long for the waiting requests. They
// join the unstored flight, which must not queue behind the turn of a search that waits
// for the store, so the turn is given up. A forced search keeps it: it cannot start
// again once its request is claimed.
func (s *search) overdue() {
	close(s.f.overdue)
	if !s.force {
		s.leave(budget.ErrNoVerdict)
	}
}

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
