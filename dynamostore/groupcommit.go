package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// A loggedChange is a change with an entry in the log: a purge, a rollback, a pin, an
// unpin or a new build. It is one member of a transaction that other changes may share.
//
// A condition of a change never becomes true again, so that a refused transaction
// cannot be committed later.
type loggedChange interface {
	// items returns the items that the change writes, one action each.
	items() []itemKey
	// mergeable reports whether the change may share a transaction with others of its kind
	// that write the same items.
	mergeable() bool
	// destinations returns the downstream caches that the change is delivered to.
	destinations() []string
	// write returns the actions of the change, and adds to w what it shares with other
	// changes, such as its targets in the log.
	write(w *logWrites) []action
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
// without the two on SEQ and LOG. The jobs for downstream caches are among them, one for
// each destination.
const maxGroup = 98

// burstPatience is how much longer than other changes purges wait in the queue: one partition
// of DynamoDB takes some 400 purges a second, and the last of 10,000 that come at once must
// not fail because of those before it.
const burstPatience = 4

const (
	// maxCongestion bounds the mean pause to 4 times RetryDelay: 100 milliseconds.
	maxCongestion = 3
	// congestionFor is how long one degree of congestion lasts while nothing is sent.
	congestionFor = 50 * time.Millisecond
)

// errOverdue: conflicts with other writers kept a change from being committed in time.
var errOverdue = errors.New("the change was not committed in time because of other writers; nothing was written")

// A groupCommit commits the changes of the log that one store makes. Each of them
// advances SEQ, so concurrent transactions would refuse each other. Therefore there is
// one transaction at a time, with all changes that wait:
//
//	callers ──► queue ──► take ──► read SEQ ──► write ──► transaction ──► answers
//	              ▲       up to 98 actions,                  │
//	              │       one change per item, purges merged │ SEQ moved: after a pause
//	              └──────────────────────────────────────────┘ another failed: at once
//
// A change leaves the queue, unsent, when its caller's context ends or when it has
// waited for SettleTimeout; a purge, for burstPatience times as long. Once it is sent,
// its caller waits for the reply, for at most SettleTimeout, and for the settlement, for
// at most another SettleTimeout.
type groupCommit struct {
	store *Store
	// arrived wakes the committer while it waits for delayed changes.
	arrived chan struct{}

	mu        sync.Mutex
	queue     []*queuedChange // guarded by mu
	running   bool            // run is running; guarded by mu
	committed int64           // the latest sequence of a commit; guarded by mu

	// The following fields belong to the goroutine of run.

	congestion int       // how often, lately, other processes advanced SEQ first, or the partition throttled
	adapted    time.Time // when congestion was set
}

// A queuedChange is a change with its caller.
type queuedChange struct {
	loggedChange

	// waiting is done when the change must leave the queue unsent.
	waiting context.Context
	// done receives the answer; it is buffered.
	done chan answer
	// seen is SEQ as the caller has just read it; nil if it has not.
	seen *seenSequence

	// The goroutine that took the change out of the queue owns the other fields.

	last      error     // why the latest attempt failed
	conflicts int       // with other writers, on items of the change
	notBefore time.Time // it is delayed until then because of conflicts
	alone     bool      // it is sent by itself, because it may be why DynamoDB rejected others
}

// An answer is the outcome of a change.
type answer struct {
	receipt store.Receipt // if it was committed
	err     error
}

func newGroupCommit(s *Store) *groupCommit {
	return &groupCommit{store: s, arrived: make(chan struct{}, 1)}
}

// commit commits a change, together with concurrent ones. seen is SEQ if the caller
// has read it before anything else, otherwise nil.
func (g *groupCommit) commit(ctx context.Context, c loggedChange, seen *seenSequence) (store.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return store.Receipt{}, err
	}
	patience := g.store.config.SettleTimeout
	if c.mergeable() {
		patience *= burstPatience
	}
	waiting, cancel := context.WithTimeoutCause(ctx, patience, errOverdue)
	defer cancel()
	q := &queuedChange{loggedChange: c, waiting: waiting, done: make(chan answer, 1), seen: seen}
	g.add(q)
	select {
	case a := <-q.done:
		return a.receipt, a.err
	case <-waiting.Done():
	}
	if g.leave(q) {
		return store.Receipt{}, q.overdue()
	}
	a := <-q.done // it was sent: wait for its outcome
	return a.receipt, a.err
}

func (g *groupCommit) add(q *queuedChange) {
	g.mu.Lock()
	defer g.mu.Unlock()
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
	for {
		// The pause comes before SEQ is read, because what is read before a pause is out of
		// date after it. Changes that arrive during the pause join the next transaction.
		_ = backoff.Wait(context.Background(), g.pause()) // it cannot end early
		batch, delay, more := g.take()
		switch {
		case !more:
			return
		case len(batch) == 0:
			g.sleep(delay)
		default:
			g.adapt(g.round(batch))
		}
	}
}

// adapt notes how a transaction went.
func (g *groupCommit) adapt(contended bool) {
	if contended {
		g.congestion = min(g.congestion+1, maxCongestion)
	} else {
		g.congestion = max(g.congestion-1, 0)
	}
	g.adapted = time.Now()
}

// pause returns how long to wait before the next transaction; zero if there is no congestion.
// The process that has just won waits like those that have lost, so that they take
// turns, and their changes gather: fewer and larger transactions consume fewer units.
func (g *groupCommit) pause() time.Duration {
	g.mu.Lock()
	waiting := len(g.queue)
	g.mu.Unlock()
	level := g.congestion - int(time.Since(g.adapted)/congestionFor)
	if waiting == 0 || level <= 0 {
		return 0
	}
	return g.backoff(level)
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
// but no two that write one item, unless they are merged. If all are delayed, batch is empty and delay is the
// time until the first is due. If the queue is empty, more is false and run must return.
func (g *groupCommit) take() (batch []*queuedChange, delay time.Duration, more bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queue) == 0 {
		g.running = false
		return nil, 0, false
	}
	now, actions := time.Now(), 0
	touched, delivered := make(map[itemKey]bool), make(map[string]bool)
	var rest []*queuedChange
	for _, q := range g.queue {
		more := 0 // actions
		for _, k := range q.items() {
			if !touched[k] {
				more++
			}
		}
		jobs := len(delivered)
		for _, d := range q.destinations() {
			if !delivered[d] {
				jobs++
			}
		}
		fits := len(batch) == 0 || !batch[0].alone && !q.alone && actions+more+jobs <= maxGroup
		free := q.mergeable() || more == len(q.items())
		taken := fits && free && !now.Before(q.notBefore)
		if taken || !q.mergeable() {
			for _, k := range q.items() {
				touched[k] = true // changes of one item keep their order, unless they are merged
			}
		}
		if taken {
			batch, actions = append(batch, q), actions+more
			for _, d := range q.destinations() {
				delivered[d] = true
			}
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
			q.end(q.overdue())
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
		endAll(batch, err) // nothing was sent
		return false
	}
	a := newGroupAttempt(g, batch, seen)
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

// sequence reads SEQ, unless there is a single change whose caller has just read it and this
// store has committed nothing since, which saves a read unit. If another process has
// advanced SEQ since that read, the transaction is refused. The read is repeated until ctx ends: the
// polls of a large fleet may use up the capacity of its partition for a while, and no purge
// is to fail because of that.
func (g *groupCommit) sequence(ctx context.Context, batch []*queuedChange) (seenSequence, error) {
	seen := batch[0].seen
	for _, q := range batch {
		q.seen = nil // another attempt reads SEQ
	}
	if len(batch) == 1 && seen != nil && seen.Seq >= g.latest() {
		return *seen, nil
	}
	return g.store.readSequence(ctx, false)
}

// latest returns the sequence of the latest commit of this store.
func (g *groupCommit) latest() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.committed
}

// end sends the error of a change to its caller.
func (q *queuedChange) end(err error) { q.done <- answer{err: err} }

// endAll ends changes with the same error.
func endAll(changes []*queuedChange, err error) {
	for _, q := range changes {
		q.end(err)
	}
}
