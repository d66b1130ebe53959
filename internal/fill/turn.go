package fill

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

const (
	// MaxPayers is how many of the clients that wait for one page are considered when
	// its turn is charged to a client.
	MaxPayers = 8
	// firstQueuePoll and maxQueuePoll are how long a fill that queues for the origin sleeps
	// before it reads META again. Few pages are rendered elsewhere in that time, and each read
	// costs, so that a shorter wait costs none.
	firstQueuePoll = 2 * time.Second
	maxQueuePoll   = 8 * time.Second
)

// An originTurn is what a fill has of the budget of its origin: a turn, or a place in the queue. Its
// methods are safe for concurrent use.
type originTurn struct {
	// known and polls are used by the fill alone: whether the page had rendered before, when the
	// turn was requested, and how often META was polled since then.
	known bool
	polls int

	mu   sync.Mutex
	turn *budget.Turn // guarded by mu; nil if there is none
	// queued ends the wait for a turn in progress; nil if there is none.
	queued func(Result) // guarded by mu
	// clients are the first few clients that wait for the page; empty for a forced
	// render, and if the route does not distinguish clients.
	clients []netip.Prefix // guarded by mu, once the fill runs
}

// enter takes a turn, or a place in the queue. It holds mu throughout, so that no client
// can join between the choice of the client to charge and the record of the turn.
func (t *originTurn) enter(b *budget.Budget, yielding bool) (*budget.Turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn, err := b.Enter(budget.Page{Known: t.known, Yielding: yielding}, t.clients...)
	t.turn = turn
	return turn, err
}

// leave gives up the turn, or the place in the queue, if there is one. verdict is what
// the render says of the origin.
func (t *originTurn) leave(verdict error) {
	t.mu.Lock()
	turn := t.turn
	t.turn = nil
	t.mu.Unlock()
	t.endQueue("canceled")
	if turn != nil {
		turn.Leave(verdict)
	}
}

// current returns the turn, nil if there is none.
func (t *originTurn) current() *budget.Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.turn
}

// join charges the turn to a client, which may be invalid, if that client has less of the budget than
// those who wait already. waits, which is called once there is a turn, reports whether a visitor waits: then
// the turn is no longer a regeneration's.
func (t *originTurn) join(client netip.Prefix, waits func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn != nil && waits() {
		t.turn.Await()
	}
	switch {
	case !client.IsValid():
	case t.turn != nil:
		t.turn.Charge(client)
	case len(t.clients) > 0 && len(t.clients) < MaxPayers && !slices.Contains(t.clients, client):
		t.clients = append(t.clients, client)
	}
}

// beginQueue begins the wait for the turn, by begin, unless it has begun.
func (t *originTurn) beginQueue(begin func() (end func(Result))) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.queued == nil {
		t.queued = begin()
	}
}

// endQueue ends the wait for the turn, if it has begun.
func (t *originTurn) endQueue(outcome string) {
	t.mu.Lock()
	end := t.queued
	t.queued = nil
	t.mu.Unlock()
	if end != nil {
		end(Result{Outcome: outcome})
	}
}

// queueOutcome is the outcome of a wait for a turn that has come. err is why it is of no use.
func queueOutcome(err error) string {
	if err != nil {
		return "refused"
	}
	return "ok"
}

// awaitTurn enters the origin's queue, and sleeps until the turn has come, or until it is
// time to read META again because another process may have rendered the page. come: the turn
// has come, META was just read, and the page may be rendered. The error is a
// *budget.Error, or the reason for which the cache closes.
func (s *Fill) awaitTurn(ctx context.Context, rec store.Record) (come bool, err error) {
	s.storeWait.stop() // so that only this goroutine uses the turn
	defer s.storeWait.start()
	turn := s.turn.current()
	if turn == nil {
		s.turn.known = s.isKnown(rec)
		if turn, err = s.turn.enter(s.Policy.Budget, s.background()); err != nil {
			return false, err
		}
	}
	select {
	case <-turn.Ready():
		err := turn.Begin()
		s.turn.endQueue(queueOutcome(err))
		return true, err
	default:
	}
	s.turn.beginQueue(func() func(Result) { return s.beginQueue(ctx) })
	left := s.Policy.Wait - time.Since(s.since)
	if left <= 0 {
		s.turn.endQueue("timeout")
		return false, &budget.Error{RetryAfter: budget.BusyRetry}
	}
	if !s.background() {
		left = min(left, s.e.Jitter(backoff.Exponential(firstQueuePoll, maxQueuePoll, s.turn.polls)))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-turn.Ready():
		if err := turn.Displaced(); err != nil {
			s.turn.endQueue(queueOutcome(err))
			return false, err
		}
	case <-timer.C:
		s.turn.polls++
		s.waited = true // if there is a page now, another process has rendered it
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	return false, nil
}

// Join is called for a visitor who joins the fill, from a client, which may be invalid.
func (s *Fill) Join(client netip.Prefix) {
	s.turn.join(client, func() bool { return !s.background() })
}

// isKnown reports whether the page has rendered before.
func (s *Fill) isKnown(rec store.Record) bool {
	if e := rec.Entry; e != nil {
		return !isNegative(e.Status)
	}
	return s.e.Node.Last(s.Key) != nil
}

// verdict returns what a render tells the circuit breaker of the origin: nil if the origin is healthy,
// an error if it fails, and budget.ErrNoVerdict if the render proves neither. These are: a render
// that this process cancelled; a page that fails again, which has a back-off of its own, unless it is
// the probe of the origin; and an error response for a page that has never rendered, which
// may be for an invented URL.
func (s *Fill) verdict(held context.Context, failures int, got render.Rendering) error {
	switch {
	case held.Err() != nil, errors.Is(got.Failure, store.ErrInvalidKey):
		return budget.ErrNoVerdict
	case got.Failure != nil && failures > 0 && !s.turn.current().IsProbe():
		return budget.ErrNoVerdict
	case got.Failure != nil && !got.Outage && !s.turn.known:
		return budget.ErrNoVerdict
	}
	return got.Failure
}

// notAdmitted ends a fill that got no turn at the origin. The page did not fail, and
// gets no back-off.
func (s *Fill) notAdmitted(err error) step {
	var overBudget *budget.Error
	if !errors.As(err, &overBudget) {
		return s.end(Failure{Cause: err, Detail: admissionDetail(err)})
	}
	return s.postponed(overBudget.RetryAfter, err, admissionDetail(err))
}

// admissionDetail is the reason in Cache-Status for which a fill got no turn.
func admissionDetail(err error) string {
	var overBudget *budget.Error
	switch {
	case !errors.As(err, &overBudget):
		return DetailClosing
	case overBudget.Paused:
		return DetailMaintenance
	case overBudget.Open:
		return detailOriginFailing
	}
	return DetailOriginBusy
}

// Client returns the client of a fill that one visitor started, and that does not run yet; invalid if the
// route does not distinguish clients.
func (s *Fill) Client() netip.Prefix {
	if len(s.turn.clients) == 0 {
		return netip.Prefix{}
	}
	return s.turn.clients[0]
}
