package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

// A loggedChange is a change with an entry in the log: a rollback, a pin or an unpin.
// It is one member of a transaction that other changes may share.
//
// A condition of a change never becomes true again, so that a refused transaction
// cannot be committed later.
type loggedChange interface {
	// items returns the items that the change writes, one action each.
	items() []itemKey
	// write returns the actions of the change at the sequence next, and its targets in
	// the log. SEQ was read before, so write reads what must not be older than SEQ. An
	// error ends only this change.
	write(ctx context.Context, next int64) ([]action, []logTarget, error)
	// recognizes reports whether a failed condition looks as if the change had been
	// committed already.
	recognizes(why refusal) bool
	// judge classifies failed conditions of the change: an error ends it, and after nil
	// it is sent again.
	judge(why refusal) error
}

// An itemKey is the primary key of an item.
type itemKey struct{ pk, sk string }

// maxGroup bounds the actions of one transaction, of which DynamoDB allows 100,
// without the two on SEQ and LOG.
const maxGroup = 98

// errOverdue: conflicts with other writers kept a change from being committed in time.
var errOverdue = errors.New("the change was not committed in time because of other writers; nothing was written")

// A groupCommit commits the changes of the log that one store makes. Each of them
// advances SEQ, so concurrent transactions would refuse each other. Therefore there is
// one transaction at a time, with all changes that wait:
//
//	callers ──► queue ──► take ──► read SEQ ──► write ──► transaction ──► answers
//	              ▲       up to 98 actions,                  │
//	              │       one change per item                │ SEQ moved: after a pause
//	              └──────────────────────────────────────────┘ another failed: at once
//
// A change leaves the queue, unsent, when its caller's context ends or when it has
// waited for SettleTimeout. Once it is sent, its caller waits for the reply, for at most
// SettleTimeout, and for the settlement, for at most another SettleTimeout.
type groupCommit struct {
	store *Store
	// arrived wakes the committer while it waits for delayed changes.
	arrived chan struct{}

	mu        sync.Mutex
	queue     []*queuedChange // guarded by mu
	running   bool            // run is running; guarded by mu
	committed int64           // the latest sequence of a commit; guarded by mu
}

// A queuedChange is a change with its caller.
type queuedChange struct {
	loggedChange

	// waiting ends when the change is to leave the queue.
	waiting context.Context
	// done receives the answer; it is buffered.
	done chan error
	// seen is SEQ as the caller has just read it; nil if it has not.
	seen *seenSequence

	// The goroutine that took the change out of the queue owns the other fields.

	last      error     // why the latest attempt failed
	conflicts int       // with other writers, on items of the change
	notBefore time.Time // it is delayed until then because of conflicts
	alone     bool      // it is sent by itself, because it may be why DynamoDB rejected others
}

func newGroupCommit(s *Store) *groupCommit {
	return &groupCommit{store: s, arrived: make(chan struct{}, 1)}
}

// commit commits a change, together with concurrent ones. seen is SEQ if the caller
// has read it before anything else, otherwise nil.
func (g *groupCommit) commit(ctx context.Context, c loggedChange, seen *seenSequence) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, g.store.config.SettleTimeout, errOverdue)
	defer cancel()
	q := &queuedChange{loggedChange: c, waiting: waiting, done: make(chan error, 1), seen: seen}
	g.add(q)
	select {
	case err := <-q.done:
		return err
	case <-waiting.Done():
	}
	if g.leave(q) {
		return q.overdue()
	}
	return <-q.done // it was sent: wait for its outcome
}

func (g *groupCommit) add(q *queuedChange) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running || q.seen != nil && q.seen.Seq < g.committed {
		q.seen = nil // it is out of date, or will be
	}
	g.queue = append(g.queue, q)
	if !g.running {
		g.running = true
		go g.run()
		return
	}
	select {
	case g.arrived <- struct{}{}:
	default:
	}
}

// leave removes a change from the queue. It reports false if the change was taken.
func (g *groupCommit) leave(q *queuedChange) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.queue, q)
	if i < 0 {
		return false
	}
	g.queue = slices.Delete(g.queue, i, i+1)
	return true
}

// overdue returns the error of a change that leaves the queue unsent.
func (q *queuedChange) overdue() error {
	err := context.Cause(q.waiting)
	if q.last != nil {
		return fmt.Errorf("%w; the latest attempt: %w", err, q.last)
	}
	return err
}

// run commits until the queue is empty. At most one goroutine runs it.
func (g *groupCommit) run() {
	for refused := 0; ; {
		batch, delay, more := g.take()
		switch {
		case !more:
			return
		case len(batch) == 0:
			g.sleep(delay)
		case g.round(batch):
			// Another process advanced SEQ. The pause comes before SEQ is read again,
			// because what is read before a pause is out of date after it. Changes that
			// arrive meanwhile join the next transaction.
			_ = backoff.Wait(context.Background(), g.backoff(refused)) // it cannot end early
			refused++
		default:
			refused = 0
		}
	}
}

// backoff returns the next pause after a number of pauses: exponential backoff with full jitter.
func (g *groupCommit) backoff(before int) time.Duration {
	first := g.store.config.RetryDelay
	return backoff.FullJitter(backoff.Exponential(first, longestPause*first, before), g.store.config.Random())
}

// sleep waits until a delayed change is due, or another one arrives.
func (g *groupCommit) sleep(delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.arrived:
	}
}

// take removes the changes of the next transaction from the queue: the oldest ones,
// but no two that write one item. If all are delayed, batch is empty and delay is the
// time until the first is due. If the queue is empty, more is false and run must return.
func (g *groupCommit) take() (batch []*queuedChange, delay time.Duration, more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		g.running = false
		return nil, 0, false
	}
	now, actions := time.Now(), 0
	touched := make(map[itemKey]bool)
	var rest []*queuedChange
	for _, q := range g.queue {
		items := q.items()
		fits := len(batch) == 0 || !batch[0].alone && !q.alone && actions+len(items) <= maxGroup
		free := !slices.ContainsFunc(items, func(k itemKey) bool { return touched[k] })
		for _, k := range items {
			touched[k] = true // changes of one item keep their order
		}
		if fits && free && !now.Before(q.notBefore) {
			batch, actions = append(batch, q), actions+len(items)
			continue
		}
		rest = append(rest, q)
		if left := q.notBefore.Sub(now); left > 0 && (delay == 0 || left < delay) {
			delay = left
		}
	}
	g.queue = rest
	return batch, delay, true
}

// putBack returns changes to the front of the queue. Those whose callers have left are
// answered instead.
func (g *groupCommit) putBack(changes ...*queuedChange) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, q := range slices.Backward(changes) {
		if q.waiting.Err() != nil {
			q.done <- q.overdue()
			continue
		}
		g.queue = slices.Insert(g.queue, 0, q)
	}
}

// round sends one transaction, and answers its changes or puts them back. It reports
// whether another process has advanced SEQ, or is about to.
func (g *groupCommit) round(batch []*queuedChange) (contended bool) {
	s := g.store
	// Detached from the callers' contexts, with the values of the first.
	ctx, cancel := settling(meteredBatch(s, batch), s.config.SettleTimeout)
	defer cancel()
	seen, err := g.sequence(ctx, batch)
	if err != nil {
		answer(batch, err) // nothing was sent
		return false
	}
	a := newGroupAttempt(ctx, g, batch, seen)
	if len(a.members) == 0 {
		return false
	}
	return a.execute(ctx)
}

// meteredBatch returns the context of a batch, which names the operation for the meter.
func meteredBatch(s *Store, batch []*queuedChange) context.Context {
	first := batch[0].waiting
	for _, q := range batch[1:] {
		if q.waiting.Value(operationKey{}) != first.Value(operationKey{}) {
			return s.metered(first, "group commit")
		}
	}
	return first
}

// sequence reads SEQ, unless there is a single change whose caller has just read it,
// which saves a read unit. If that is out of date, the transaction is refused.
func (g *groupCommit) sequence(ctx context.Context, batch []*queuedChange) (seenSequence, error) {
	first := batch[0]
	if seen := first.seen; len(batch) == 1 && seen != nil {
		first.seen = nil
		return *seen, nil
	}
	return g.store.readSequence(ctx)
}

// answer sends the outcome to the callers of changes.
func answer(changes []*queuedChange, err error) {
	for _, q := range changes {
		q.done <- err
	}
}
