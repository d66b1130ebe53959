// Package guard puts deadlines, circuit breakers and observation around the stores of a cache.
//
// The problem: a store may hang, throttle, refuse or be down. Visitors must not wait for it each
// time, a call must not hold a goroutine for ever, and all of its calls are to be seen in metrics
// and traces.
//
// The model: one decorator per store, through which all calls go.
//
//	call ──► deadline ──► observation ──► store
//	  ▲                                     │
//	  └──── circuit breaker: did it answer? ◄┘
//	             │ failures of three subjects in a row, without an answer
//	             ▼
//	        open: [Stores.Down], probes with exponential backoff until the store answers
//
// An open circuit breaker refuses no calls: the cache asks Down before it decides to call, because
// some calls, such as a purge by an operator, are better tried than refused.
//
// Guarantees:
//   - Every call of a page ends by a deadline, whatever the store promises: 20 seconds for the table,
//     10 for bodies and a second more for each MiB. A publish ends with its lease. Purges, rollbacks
//     and pins end with their callers.
//   - A declared error of package store is an answer, and never opens a circuit breaker, except
//     [store.ErrDenied]: permissions apply to a whole store.
//   - A canceled call proves nothing about the store.
package guard

// The files:
//
//	guard.go             deadlines, circuit breakers and observation of one call
//	table.go, bodies.go  the decorators of the two stores
//	complaints.go        log lines about single pages, limited

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/facetheory/isr/internal/breaker"
	"github.com/facetheory/isr/store"
)

const (
	// TableTimeout bounds a call of the table about a page. It is longer than a store needs to
	// settle a lost reply.
	TableTimeout = 20 * time.Second
	// nodesTimeout bounds a read of the list of nodes.
	nodesTimeout = 5 * time.Second
	// bodyTimeout is for bodies up to 1 MiB; each further MiB adds a second.
	bodyTimeout = 10 * time.Second
)

// BodyTime is how long reading or writing a body of n bytes may take.
func BodyTime(n int64) time.Duration { return bodyTimeout + time.Duration(n>>20)*time.Second }

// ErrSlow: a store did not answer in time.
var ErrSlow = errors.New("the store did not answer in time")

// A Begin is called before a call of a store, with the name of its method, such as "read". It
// returns the context of the call, and a function that is called once after the call, with the size
// of the body that was read or written.
type Begin func(ctx context.Context, name string) (context.Context, func(bytes int64, err error))

// Options are what [Stores] need. All functions must be safe for concurrent use.
type Options struct {
	// Table and Bodies observe calls; nil: they are not observed.
	Table, Bodies Begin
	// MaxBody is the size of the largest body that is read.
	MaxBody int64
	// Sequence is called with each sequence of the log that is read.
	Sequence func(store.Sequence)
	// Destinations returns the names of the caches in front, to which changes are delivered, and
	// Changed is called after a change that is to be delivered was committed.
	Destinations func() []string
	Changed      func()
	// Answers are errors that mean that a store has answered, in addition to the errors of package store.
	Answers []error
	// Go runs a probe, which ends with the context of [New].
	Go     func(probe func())
	Now    func() time.Time
	Jitter func(time.Duration) time.Duration
	Log    *slog.Logger
}

// Stores are guarded stores. All methods are safe for concurrent use.
type Stores struct {
	Meta   store.MetaStore
	Bodies store.BodyStore
	// Observed are the bodies without deadlines and circuit breaker, for background work.
	Observed store.BodyStore
	// Local is the local disk of bodies, without deadlines and circuit breaker; nil if there is none.
	Local store.LocalReader

	o             Options
	ctx           context.Context //nolint:containedctx // of probes
	table, bodies *breaker.Breaker
}

// New returns guards of stores. Their probes end with ctx.
func New(ctx context.Context, meta store.MetaStore, bodies store.BodyStore, o Options) *Stores {
	s := &Stores{o: o, ctx: ctx, table: breaker.New("table", o.Log), bodies: breaker.New("bodies", o.Log)}
	s.Meta = &guardedTable{meta, s, observed(o.Table)}
	s.Bodies = &guardedBodies{bodies, s, observed(o.Bodies), true}
	s.Observed = &guardedBodies{bodies, s, observed(o.Bodies), false}
	if s.Local, _ = bodies.(store.LocalReader); s.Local != nil && o.Bodies != nil {
		s.Local = &observedLocal{s.Local, o.Bodies}
	}
	return s
}

// observed returns begin, or a function that observes nothing.
func observed(begin Begin) Begin {
	if begin != nil {
		return begin
	}
	return func(ctx context.Context, _ string) (context.Context, func(int64, error)) {
		return ctx, func(int64, error) {}
	}
}

// Down returns the open circuit breaker of a store, or nil if all are closed.
func (s *Stores) Down() *breaker.Breaker {
	for _, b := range []*breaker.Breaker{s.table, s.bodies} {
		if b.IsOpen() {
			return b
		}
	}
	return nil
}

// Names returns the stores whose circuit breakers are open: "table", "bodies".
func (s *Stores) Names() []string {
	var down []string
	for _, b := range []*breaker.Breaker{s.table, s.bodies} {
		if b.IsOpen() {
			down = append(down, b.Store())
		}
	}
	return down
}

// BodiesDown reports whether the circuit breaker of bodies is open.
func (s *Stores) BodiesDown() bool { return s.bodies.IsOpen() }

// BodyRead records that a body was read from the local disk.
func (s *Stores) BodyRead() { s.bodies.NoteAnswer() }

// BodySlow records that a body was not read from the local disk in time. A disk that hangs returns no
// error that would.
func (s *Stores) BodySlow(key string, err error) {
	s.answered(s.ctx, s.bodies, key, err, func(ctx context.Context) error {
		_, err := s.Bodies.Stat(ctx, key)
		return err
	})
}

// Unreachable reports whether an error means that the store could not be reached. The
// declared errors are answers, except [store.ErrDenied]: permissions apply to a whole
// store, and one that denies access to several subjects in a row is of no more use to
// visitors than one that is down.
func (s *Stores) Unreachable(err error) bool {
	if err == nil {
		return false
	}
	for _, answers := range [][]error{{
		store.ErrLeaseLost, store.ErrMoved, store.ErrForeignLease, store.ErrPinned, store.ErrPurged, store.ErrNoVersion, store.ErrNotFound, store.ErrExists,
		store.ErrInvalidKey, store.ErrInvalidInput,
	}, s.o.Answers} {
		for _, answer := range answers {
			if errors.Is(err, answer) {
				return false
			}
		}
	}
	var held *store.HeldError
	var earlier *store.RequestError
	return !errors.As(err, &held) && !errors.As(err, &earlier)
}

// answered records the result of a call about a subject in a store's circuit breaker,
// and starts to probe the store by ask once the breaker has opened.
func (s *Stores) answered(ctx context.Context, b *breaker.Breaker, subject string, err error, ask func(context.Context) error) {
	switch {
	case ctx.Err() != nil: // the caller cancelled: that proves nothing about the store
	case !s.Unreachable(err):
		b.NoteAnswer()
	case b.NoteFailure(subject, err):
		first := s.o.Jitter(breaker.FirstProbe) // drawn here, so that simulations repeat
		answers := func(ctx context.Context) bool { return !s.Unreachable(ask(ctx)) }
		s.o.Go(func() { b.Probe(s.ctx, first, answers, s.o.Jitter) })
	}
}

// A call is how a store is called.
type call struct {
	name    string
	timeout time.Duration // 0: there is none
	bytes   int64         // that are written
	// answered records the result in a circuit breaker; nil: it does not count. Its context is
	// the caller's.
	answered func(ctx context.Context, err error)
}

// do makes a call that returns an error alone, or sets variables of the caller.
func do(ctx context.Context, begin Begin, c call, f func(ctx context.Context) error) error {
	inner := ctx
	if c.timeout > 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeout(ctx, c.timeout)
		defer cancel()
	}
	inner, end := begin(inner, c.name)
	err := f(inner)
	end(c.bytes, err)
	if c.answered != nil {
		c.answered(ctx, err)
	}
	return err
}

// get makes a call that returns a value.
func get[V any](ctx context.Context, begin Begin, c call, f func(ctx context.Context) (V, error)) (v V, err error) {
	err = do(ctx, begin, c, func(ctx context.Context) (err error) {
		v, err = f(ctx)
		return err
	})
	return v, err
}

// each is a call that lasts as long as its results are read.
func each[V any](ctx context.Context, begin Begin, name string, f func(context.Context) iter.Seq2[V, error]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		ctx, end := begin(ctx, name)
		var failed error
		defer func() { end(0, failed) }()
		for v, err := range f(ctx) {
			failed = err
			if !yield(v, err) {
				return
			}
		}
	}
}
