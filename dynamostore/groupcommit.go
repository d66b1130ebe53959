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

// A loggedChange is a change that the log tells of: a rollback, a pin or an unpin.
// It is one member of a transaction that other changes may share.
//
// What a change demands does not come back once it is false, so that a request
// which was refused can never happen later.
type loggedChange interface {
	// items are the items that the change writes, one action each.
	items() []itemKey
	// write states what the change writes at the sequence next, and what the log
	// tells of it. SEQ has been read by then: whatever must not be older than that
	// is read here. An error ends this change alone.
	write(ctx context.Context, next int64) ([]action, []logTarget, error)
	// recognizes reports whether a condition that was false looks as if the change
	// had been carried out already.
	recognizes(why refusal) bool
	// judge says what conditions of the change that were false mean: an error ends
	// it, nil has it sent again.
	judge(why refusal) error
}

// An itemKey is the primary key of an item.
type itemKey struct{ pk, sk string }

// maxGroup bounds the actions of one transaction beside those on SEQ and LOG: DynamoDB
// takes 100.
const maxGroup = 98

// errOverdue: other writers, or conflicts, kept a change from being committed.
var errOverdue = errors.New("the change of the log could not be committed in time; nothing was written")

// A groupCommit commits the changes of the log that one store makes. Each of them
// advances SEQ, so that transactions that are sent at the same time refuse each
// other. So there is one at a time, and it has everything that waits:
//
//	callers ──► queue ──► take ──► read SEQ ──► write ──► transaction ──► answers
//	              ▲       up to 98 actions,                  │
//	              │       one change per item                │ SEQ moved: after a pause
//	              └──────────────────────────────────────────┘ another failed: at once
//
// A change leaves the queue when its caller's context ends, or when it has waited
// for SettleTimeout: it was not sent, and is not made. Once it is sent, its caller
// waits for the answer, which takes SettleTimeout, and another one to settle it, at
// most.
type groupCommit struct {
	store *Store
	// arrived wakes the committer while it waits for delayed changes.
	arrived chan struct{}

	mu        sync.Mutex
	queue     []*queuedChange // guarded by mu
	running   bool            // there is a committer; guarded by mu
	committed int64           // the latest sequence of a commit; guarded by mu
}

// A queuedChange is a change with its caller.
type queuedChange struct {
	loggedChange

	// waiting ends when the change is to leave the queue.
	waiting context.Context
	// done takes the answer. It has room for it.
	done chan error
	// seen is SEQ as the caller has just read it, nil if it has not.
	seen *seenSequence

	// The rest belongs to whoever has taken the change out of the queue.

	last      error     // why the latest attempt was in vain
	conflicts int       // with other writers, on items of the change
	notBefore time.Time // it is delayed until then, because of these
	alone     bool      // it is sent by itself, since it may be why others were refused
}

func newGroupCommit(s *Store) *groupCommit {
	return &groupCommit{store: s, arrived: make(chan struct{}, 1)}
}

// commit carries a change out, with others that are made at the same time. seen may
// be SEQ as the caller has read it before anything else; nil: it has not.
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
	return <-q.done // it was sent, and the answer says what became of it
}

func (g *groupCommit) add(q *queuedChange) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running || q.seen != nil && q.seen.Seq < g.committed {
		q.seen = nil // it has been overtaken, or will be
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

// leave takes a change out of the queue, if it is there.
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

// overdue is the answer to a change that leaves the queue.
func (q *queuedChange) overdue() error {
	err := context.Cause(q.waiting)
	if q.last != nil {
		return fmt.Errorf("%w; the latest attempt: %w", err, q.last)
	}
	return err
}

// run commits until nothing waits. There is one at a time.
func (g *groupCommit) run() {
	for refused := 0; ; {
		batch, delay, more := g.take()
		switch {
		case !more:
			return
		case len(batch) == 0:
			g.sleep(delay)
		case g.round(batch):
			// Another process advanced SEQ. The pause comes before SEQ is read again:
			// what is read before a pause is out of date after it. Whatever arrives
			// meanwhile is in the next transaction.
			_ = backoff.Wait(context.Background(), g.backoff(refused)) // it cannot end early
			refused++
		default:
			refused = 0
		}
	}
}

// backoff is a pause after so many others, exponential and with full jitter.
func (g *groupCommit) backoff(before int) time.Duration {
	first := g.store.config.RetryDelay
	return backoff.FullJitter(backoff.Exponential(first, longestPause*first, before), g.store.config.Random())
}

// sleep waits for a delayed change, or for one that arrives.
func (g *groupCommit) sleep(delay time.Duration) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.arrived:
	}
}

// take takes the changes that go into the next transaction out of the queue: those
// that came first, but no two of one item. If all that wait are delayed there are
// none, and delay is when the first of them may go. If nothing waits there is no
// committer any more.
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

// putBack has changes sent again, before those that came later. A change whose
// caller has left meanwhile is not.
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

// round sends one transaction, and answers the changes in it or puts them back. It
// reports whether another process has advanced SEQ, or is about to.
func (g *groupCommit) round(batch []*queuedChange) (contended bool) {
	s := g.store
	// Neither the callers' contexts nor their ends, but the values of the first.
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

// meteredBatch is the context of a batch, by which the meter knows what it is.
func meteredBatch(s *Store, batch []*queuedChange) context.Context {
	first := batch[0].waiting
	for _, q := range batch[1:] {
		if q.waiting.Value(operationKey{}) != first.Value(operationKey{}) {
			return s.metered(first, "group commit")
		}
	}
	return first
}

// sequence reads SEQ, unless there is a single change whose caller has just done
// so: a change by itself costs no more than it has to. Should it be out of date,
// the transaction is refused.
func (g *groupCommit) sequence(ctx context.Context, batch []*queuedChange) (seenSequence, error) {
	first := batch[0]
	if seen := first.seen; len(batch) == 1 && seen != nil {
		first.seen = nil
		return *seen, nil
	}
	return g.store.readSequence(ctx)
}

// answer ends changes.
func answer(changes []*queuedChange, err error) {
	for _, q := range changes {
		q.done <- err
	}
}
