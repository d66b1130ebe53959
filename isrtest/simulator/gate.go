package simulator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A gate is where every call of every node waits for the driver.
type gate struct {
	arrived chan struct{} // holds one element if a call has come since it was read
	linger  time.Duration // how long after its caller a request may arrive

	mu      sync.Mutex
	waiting []*call // guarded by mu
}

func newGate(linger time.Duration) *gate {
	return &gate{arrived: make(chan struct{}, 1), linger: linger}
}

// A call is one request on its way to the table or to the bodies.
type call struct {
	life *life
	op   string   // for the trace: what is done to which row
	pks  []string // the partitions; none for bodies
	kind kind
	errand
	rows []string // of a transaction: the sort keys of its operations
	// logged: it may move the log.
	logged bool
	// values are those of the condition of a deletion.
	values item
	at     time.Time
	aside  bool                // it is somebody's who asks for more than a page
	note   *note               // wants to know; may be nil
	seqAge time.Duration       // how old what the process knew of SEQ was at that time
	again  bool                // a rollback is made again that SEQ has refused
	do     func() (any, error) // carries it out; called by the driver alone

	reply chan outcome // holds one element once the caller is answered

	// The driver's own.
	ready time.Time // it is left alone until then
	done  *outcome  // carried out, and the reply is on its way

	gone    atomic.Bool // nobody waits for the reply any more; set once, under gate.mu
	lingers time.Time   // where gone: it does not arrive after this; guarded by gate.mu
	expired atomic.Bool // its context ended while the process was frozen
}

// A kind is what a call may meet.
type kind int

const (
	reading kind = iota
	writing
	transaction
	body
)

// An outcome is the answer to a call.
type outcome struct {
	value any
	err   error
}

// errCrashed is what the goroutines of a dead process are told, which nobody
// hears.
var errCrashed = errors.New("simulator: this process has crashed")

// pass has a call wait at the gate until the driver answers it or ctx ends.
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

// enter queues a call. It is false for a process that is dead.
func (g *gate) enter(c *call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.life.isDead() {
		return false
	}
	c.at = time.Now()
	if c.errand == asserting {
		c.seqAge, c.again = c.at.Sub(c.life.seqRead), c.isOneOf(c.life.refused)
		c.life.refused = nil
	}
	g.waiting = append(g.waiting, c)
	select {
	case g.arrived <- struct{}{}:
	default: // the driver knows of another
	}
	return true
}

// isOneOf says that a call is for a page of one of these partitions.
func (c *call) isOneOf(pks []string) bool {
	return slices.ContainsFunc(c.pks, func(pk string) bool { return pk != "PURGE" && slices.Contains(pks, pk) })
}

// noteAnswered notes that somebody is told what became of a rollback: what is sent next
// may be another.
func (l *life) noteAnswered() {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	l.refused = nil
}

// await is the caller's part.
func (g *gate) await(ctx context.Context, c *call) outcome {
	select {
	case o := <-c.reply:
		return o
	case <-c.life.dead:
		return c.life.unheard(ctx)
	case <-ctx.Done():
	}
	if g.leave(c) {
		return outcome{err: ctx.Err()}
	}
	// Answered in this very moment, or frozen: a process that does not run
	// does not notice that its time is up. The driver tells it once it thaws,
	// one call at a time.
	select {
	case o := <-c.reply:
		return o
	case <-c.life.dead:
		return c.life.unheard(ctx)
	}
}

// leave gives a call up. The request may be on its way all the same: it lingers.
func (g *gate) leave(c *call) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(c.reply) > 0 {
		return false
	}
	if c.life.frozen {
		c.expired.Store(true)
		return false
	}
	g.abandonLocked(c)
	return true
}

func (g *gate) abandonLocked(c *call) {
	c.life.failed = time.Now()
	c.gone.Store(true)
	c.lingers = time.Now().Add(g.linger)
}

// look takes notice of the calls that wait: what arrives from now on is news.
func (g *gate) look() {
	select {
	case <-g.arrived:
	default:
	}
}

// longest is how long a call has waited by now, of all that do.
func (g *gate) longest(now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	var d time.Duration
	for _, c := range g.waiting {
		d = max(d, now.Sub(c.at))
	}
	return d
}

// choosable returns the calls that the driver may let go on, in an order that
// does not depend on that of goroutines. Those that lingered for too long are
// forgotten.
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
	slices.SortStableFunc(calls, func(a, b *call) int {
		return cmp.Or(a.at.Truncate(tick).Compare(b.at.Truncate(tick)), cmp.Compare(a.life.name, b.life.name), cmp.Compare(a.op, b.op),
			falseFirst(a.aside, b.aside), falseFirst(a.gone.Load(), b.gone.Load()))
	})
	return calls
}

// readyLocked is when a call can go on at the earliest.
func (c *call) readyLocked() time.Time {
	ready := c.ready
	if until := c.hangsUntilLocked(); until.After(ready) {
		ready = until
	}
	return ready
}

// next is when a call that waits may be chosen at the earliest, if that is a
// matter of time alone; zero if there is none.
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

// answer ends a call's wait.
func (g *gate) answer(c *call, o outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removeLocked(c)
	if !c.gone.Load() {
		if outcomeIsFault(o.err) {
			c.life.failed = time.Now()
		}
		if c.op == "get PURGE SEQ" {
			c.life.seqRead = time.Now()
		}
		if c.errand == asserting && slices.Equal(c.refusedBy(o.err), []string{"SEQ"}) {
			c.life.refused = c.pks
		}
		c.reply <- o
	}
}

// lastFailure is when a call of the process was answered by no store, or given up,
// for the last time.
func (l *life) lastFailure() time.Time {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	return l.failed
}

// sequenceRead is when a read of SEQ was answered last.
func (l *life) sequenceRead() time.Time {
	l.w.gate.mu.Lock()
	defer l.w.gate.mu.Unlock()
	return l.seqRead
}

// expire tells a caller that thawed that its context has ended.
func (g *gate) expire(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.expired.Store(false)
	g.abandonLocked(c)
	c.reply <- outcome{err: context.DeadlineExceeded}
}

// forget drops a request that nobody waits for.
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
		life: c.life, op: c.op, pks: c.pks, kind: c.kind, errand: c.errand, rows: c.rows, logged: c.logged, at: c.at, do: c.do,
	}
	g.abandonLocked(second)
	g.waiting = append(g.waiting, second)
}

// orphan cuts a dead process off from its calls, which linger.
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

// freeze stops or continues a process.
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
