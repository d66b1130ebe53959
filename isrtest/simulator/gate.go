package simulator

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A gate holds every call of every node until the driver answers it.
type gate struct {
	arrived chan struct{} // holds one element if a call has arrived since the last read
	ended   chan struct{} // holds one element if the context of a call has ended since the last read
	ordered bool          // the driver reports the ends of contexts; see pace.ordered
	linger  time.Duration // how long after its caller is gone a request may arrive

	mu      sync.Mutex
	waiting []*call // guarded by mu
}

func newGate(p pace) *gate {
	return &gate{arrived: make(chan struct{}, 1), ended: make(chan struct{}, 1), ordered: p.ordered(), linger: p.of(Linger)}
}

// A call is one request to the table or to the bodies.
type call struct {
	life *life
	op   string   // for the trace: verb and row
	pks  []string // the partitions; none for bodies
	kind kind
	errand
	rows []string // of a transaction: the sort keys of its operations
	// purges are the keys of the PURGE and MARK# rows of a transaction.
	purges [][2]string
	// logged: it may append to the log.
	logged bool
	// values are the values of a deletion's condition.
	values item
	at     time.Time
	aside  bool                // its caller is not a visitor
	note   *note               // returns what the table knows; may be nil
	seqAge time.Duration       // age of the process's read of SEQ at that time
	again  bool                // retry of a rollback that SEQ refused
	do     func() (any, error) // executes it; called only by the driver

	reply chan outcome // holds one element once the caller is answered

	// Owned by the driver.
	ready time.Time // not choosable before
	done  *outcome  // executed; the reply is delayed

	gone    atomic.Bool // the caller is gone; set once, under gate.mu
	lingers time.Time   // if gone: the request does not arrive after this; guarded by gate.mu
	ended   error       // of its context, which the driver has not reported yet; guarded by gate.mu
	expired atomic.Bool // its context ended while the process was frozen
}

// A kind determines the faults that a call may meet.
type kind int

const (
	reading kind = iota
	writing
	transaction
	body
)

// An outcome is the response to a call.
type outcome struct {
	value any
	err   error
}

// errCrashed ends the calls of a dead process; the world does not see it.
var errCrashed = errors.New("simulator: this process has crashed")

// pass makes a call wait at the gate until the driver answers it or ctx ends.
func pass[T any](ctx context.Context, g *gate, c *call, do func() (T, error)) (T, error) {
	c.do = func() (any, error) { return do() }
	c.reply = make(chan outcome, 1)
	var o outcome
	if g.enter(c) {
		o = g.await(ctx, c)
	} else {
		o = c.life.unheard(ctx)
	}
	value, _ := o.value.(T)
	return value, o.err
}

// enter queues a call. It returns false if the process is dead.
func (g *gate) enter(c *call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.life.isDead() {
		return false
	}
	c.at = time.Now()
	if c.errand == releasing {
		c.life.released = append(c.life.released, c.values)
	}
	if c.errand == asserting {
		c.seqAge, c.again = c.at.Sub(c.life.seqRead), c.isOneOf(c.life.refused)
		c.life.refused = nil
	}
	g.waiting = append(g.waiting, c)
	select {
	case g.arrived <- struct{}{}:
	default: // the driver already knows of a call
	}
	return true
}

// isOneOf reports whether a call is for a page of one of these partitions.
func (c *call) isOneOf(pks []string) bool {
	return slices.ContainsFunc(c.pks, func(pk string) bool { return pk != "PURGE" && slices.Contains(pks, pk) })
}

// noteAnswered records that a rollback was answered: the next request is not a retry of it.
func (l *life) noteAnswered() {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	l.refused = nil
}

// await waits for the driver's response.
func (g *gate) await(ctx context.Context, c *call) outcome {
	select {
	case o := <-c.reply:
		return o
	case <-c.life.dead:
		return c.life.unheard(ctx)
	case <-ctx.Done():
	}
	if g.leave(c, ctx.Err()) {
		return outcome{err: ctx.Err()}
	}
	// Answered at this instant, or the driver reports the end of the context, one call at a
	// time: at this instant, or when the process thaws. A frozen one does not notice it.
	select {
	case o := <-c.reply:
		return o
	case <-c.life.dead:
		return c.life.unheard(ctx)
	}
}

// leave abandons a call whose context has ended with an error. Its request may arrive
// nevertheless: it lingers. It returns false if the driver answers the caller.
func (g *gate) leave(c *call, err error) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(c.reply) > 0 {
		return false
	}
	switch {
	case c.life.frozen:
		c.ended = err
		c.expired.Store(true)
		return false
	case g.ordered:
		// Several contexts may end at one instant. What their callers do then, such as count
		// failures, must not depend on the order in which goroutines notice it.
		c.ended = err
		select {
		case g.ended <- struct{}{}:
		default: // the driver already knows of one
		}
		return false
	}
	g.abandonLocked(c)
	return true
}

// nextEnded returns a call whose context has ended at this instant; nil if there is none.
func (g *gate) nextEnded() *call {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ended []*call
	for _, c := range g.waiting {
		if c.ended != nil && !c.expired.Load() && !c.gone.Load() {
			ended = append(ended, c)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	return slices.MinFunc(ended, inOrder)
}

func (g *gate) abandonLocked(c *call) {
	c.life.failed = time.Now()
	c.gone.Store(true)
	c.lingers = time.Now().Add(g.linger)
}

// look clears arrived, so that only later calls signal it.
func (g *gate) look() {
	select {
	case <-g.arrived:
	default:
	}
}

// longest returns the longest time that a call has waited.
func (g *gate) longest(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var d time.Duration
	for _, c := range g.waiting {
		d = max(d, now.Sub(c.at))
	}
	return d
}

// choosable returns the calls that the driver may let proceed, in an order that does not
// depend on the order of goroutines. It drops calls that lingered for too long.
func (g *gate) choosable(now time.Time) []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(c *call) bool {
		return c.gone.Load() && (now.After(c.lingers) || c.done != nil)
	})
	var calls []*call
	for _, c := range g.waiting {
		if c.gone.Load() || !c.life.frozen && (c.expired.Load() || !c.readyLocked().After(now)) {
			calls = append(calls, c)
		}
	}
	slices.SortStableFunc(calls, inOrder)
	return calls
}

// inOrder compares calls in an order that does not depend on the order of goroutines.
func inOrder(a, b *call) int {
	return cmp.Or(a.at.Truncate(tick).Compare(b.at.Truncate(tick)), cmp.Compare(a.life.name, b.life.name), cmp.Compare(a.op, b.op),
		falseFirst(a.aside, b.aside), falseFirst(a.gone.Load(), b.gone.Load()))
}

// readyLocked returns when a call can proceed at the earliest. Callers must hold gate.mu.
func (c *call) readyLocked() time.Time {
	ready := c.ready
	if until := c.hangsUntilLocked(); until.After(ready) {
		ready = until
	}
	return ready
}

// next returns the earliest time at which a waiting call becomes choosable by time alone;
// zero if there is none.
func (g *gate) next(now time.Time) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	var first time.Time
	for _, c := range g.waiting {
		if ready := c.readyLocked(); !c.gone.Load() && !c.life.frozen && ready.After(now) && (first.IsZero() || ready.Before(first)) {
			first = ready
		}
	}
	return first
}

// answer delivers the response to a call.
func (g *gate) answer(c *call, o outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removeLocked(c)
	if !c.gone.Load() {
		if outcomeIsFault(o.err) {
			c.life.failed = time.Now()
		}
		if c.op == "body open" && o.err != nil {
			c.life.unread = time.Now()
		}
		if c.op == "get PURGE SEQ" {
			c.life.seqRead = time.Now()
		}
		if c.op == "query PURGE" {
			c.life.marksRead = time.Now()
		}
		if c.op == "body open" && o.err == nil {
			c.life.opened = time.Now()
		}
		if c.errand == asserting && slices.Equal(c.refusedBy(o.err), []string{"SEQ"}) {
			c.life.refused = c.pks
		}
		c.reply <- o
	}
}

// lastFailure returns when a call of the process last failed or was abandoned, other than
// by its condition.
func (l *life) lastFailure() time.Time {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	return l.failed
}

// lastUnread returns when reading a body last failed in the process.
func (l *life) lastUnread() time.Time {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	return l.unread
}

// bodyOpened returns when a body was last opened.
func (l *life) bodyOpened() time.Time {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	return l.opened
}

// sequenceRead returns when a read of SEQ was last answered.
func (l *life) sequenceRead() time.Time {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	return l.seqRead
}

// hasReleased reports whether the process has requested the release of a lease: it renders nothing under it
// any more.
func (l *life) hasReleased(g *grant) bool {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	return slices.ContainsFunc(l.released, func(values item) bool {
		return slices.ContainsFunc(slices.Collect(maps.Values(values)), func(v types.AttributeValue) bool {
			token, ok := v.(*types.AttributeValueMemberS)
			return ok && token.Value == g.token
		})
	})
}

// markRead returns when a query of the log or of marks was last answered.
func (l *life) markRead() time.Time {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	return l.marksRead
}

// expire reports to a caller that its context has ended.
func (g *gate) expire(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.expired.Store(false)
	g.abandonLocked(c)
	c.reply <- outcome{err: c.ended}
}

// forget drops a request whose caller is gone.
func (g *gate) forget(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removeLocked(c)
}

func (g *gate) removeLocked(c *call) {
	g.waiting = slices.DeleteFunc(g.waiting, func(other *call) bool { return other == c })
}

// copyOf queues a second copy of a request, which arrives later or never.
func (g *gate) copyOf(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	second := &call{
		life: c.life, op: c.op, pks: c.pks, kind: c.kind, errand: c.errand, rows: c.rows, logged: c.logged, purges: c.purges, at: c.at, do: c.do,
	}
	g.abandonLocked(second)
	g.waiting = append(g.waiting, second)
}

// orphan detaches a dead process from its calls, which linger.
func (g *gate) orphan(l *life) {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(l.dead)
	for _, c := range g.waiting {
		if c.life == l && !c.gone.Load() {
			g.abandonLocked(c)
		}
	}
}

// freeze stops or resumes a process.
func (g *gate) freeze(l *life, frozen bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.frozen = frozen
}

func falseFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
