package isr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/breaker"
	"github.com/facetheory/isr/store"
)

// All calls of the stores have a deadline, whatever the stores promise, and a circuit
// breaker per store counts those that fail. Visitors wait for less (see unstored.go),
// and a lease is not kept beyond storeTime.

const (
	// tableTimeout is longer than a store needs to settle a lost reply.
	tableTimeout = 20 * time.Second
	nodesTimeout = 5 * time.Second
	// bodyTimeout is for bodies up to 1 MiB; each further MiB adds a second.
	bodyTimeout = 10 * time.Second
	// storeTime is what all calls under a lease may take, in addition to the render.
	storeTime = 30 * time.Second
)

// bodyTime is how long reading or writing a body of n bytes may take.
func bodyTime(n int64) time.Duration { return bodyTimeout + time.Duration(n>>20)*time.Second }

// unreachable reports whether an error means that the store could not be reached. The
// declared errors are answers, except [store.ErrDenied]: permissions apply to a whole
// store, and one that denies access to several subjects in a row is of no more use to
// visitors than one that is down.
func unreachable(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range []error{
		store.ErrLeaseLost, store.ErrMoved, store.ErrForeignLease, store.ErrPinned, store.ErrPurged, store.ErrNoVersion, ErrNoBody, store.ErrNotFound, store.ErrExists,
		store.ErrInvalidKey, store.ErrInvalidInput, ErrClosed,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	var held *store.HeldError
	var earlier *store.RequestError
	return !errors.As(err, &held) && !errors.As(err, &earlier)
}

// storeDown returns the breaker of a store whose breaker is open, or nil.
func (c *Cache) storeDown() *breaker.Breaker {
	for _, b := range []*breaker.Breaker{c.tableBreaker, c.bodiesBreaker} {
		if b.IsOpen() {
			return b
		}
	}
	return nil
}

// StoresDown returns the stores whose circuit breaker is open: "table", "bodies".
// Visitors are served without them.
func (c *Cache) StoresDown() []string {
	var down []string
	for _, b := range []*breaker.Breaker{c.tableBreaker, c.bodiesBreaker} {
		if b.IsOpen() {
			down = append(down, b.Store())
		}
	}
	return down
}

// complaints are log lines about single pages: that a store failed, or that must not be stored.
// There may be thousands a second: one in complaintPause is written, the others are counted.
type complaints struct {
	logger *slog.Logger
	level  slog.Level

	mu   sync.Mutex
	next time.Time // guarded by mu: when the next line may be written
	held int       // guarded by mu: lines suppressed since the last one
}

// complaintPause is the least time between such lines.
const complaintPause = 10 * time.Second

func (c *complaints) log(msg string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.next) {
		c.held++
		return
	}
	c.logger.Log(context.Background(), c.level, msg, append(args, "more_since_last", c.held)...)
	c.next, c.held = now.Add(complaintPause), 0
}

// answered records the result of a call about a subject in a store's circuit breaker,
// and starts to probe the store by ask once the breaker has opened.
func (c *Cache) answered(ctx context.Context, b *breaker.Breaker, subject string, err error, ask func(context.Context) error) {
	switch {
	case ctx.Err() != nil: // the caller cancelled: that says nothing of the store
	case !unreachable(err):
		b.NoteAnswer()
	case b.NoteFailure(subject, err):
		first := c.jitter(breaker.FirstProbe) // drawn here, so that simulations repeat
		answers := func(ctx context.Context) bool { return !unreachable(ask(ctx)) }
		c.background.Go(func() { b.Probe(c.ctx, first, answers, c.jitter) })
	}
}

// A watchedTable adds deadlines and the circuit breaker to a MetaStore.
type watchedTable struct {
	store.MetaStore
	c *Cache
}

// probeRequest is the idempotency key of a request that is never made.
const probeRequest = "isr-probe"

// answered probes a partition by reading a request record that does not exist: a probe
// that read the page would have to obey what it read, such as a purge.
func (t *watchedTable) answered(ctx context.Context, pk string, err error) {
	t.c.answered(ctx, t.c.tableBreaker, pk, err, func(ctx context.Context) error {
		_, _, err := t.MetaStore.RequestRecord(ctx, pk, probeRequest)
		return err
	})
}

func (t *watchedTable) logAnswered(ctx context.Context, err error) {
	t.c.answered(ctx, t.c.tableBreaker, "the log", err, func(ctx context.Context) error {
		_, err := t.MetaStore.Sequence(ctx)
		return err
	})
}

func (t *watchedTable) Read(ctx context.Context, pk string) (store.Record, error) {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	rec, err := t.MetaStore.Read(call, pk)
	t.answered(ctx, pk, err)
	return rec, err
}

func (t *watchedTable) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	rec, err := t.MetaStore.ReadSerializable(call, pk)
	t.answered(ctx, pk, err)
	return rec, err
}

func (t *watchedTable) Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error) {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	l, err := t.MetaStore.Acquire(call, pk, d, claim)
	t.answered(ctx, pk, err)
	return l, err
}

// Publish has no deadline but the lease: the store retries until the lease ends, and then
// settles the outcome.
func (t *watchedTable) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	how.Destinations = t.c.destinations()
	e, err := t.MetaStore.Publish(ctx, l, read, next, how)
	t.answered(ctx, l.PK(), err)
	if how.Reload || read.Entry != nil && read.Entry.PinnedUntil.After(t.c.now()) {
		t.c.deliver(err)
	}
	return e, err
}

func (t *watchedTable) Purge(ctx context.Context, p store.Purge) (store.Receipt, error) {
	p.Destinations = t.c.destinations()
	r, err := t.MetaStore.Purge(ctx, p)
	t.c.deliver(err)
	return r, err
}

func (t *watchedTable) Rollback(ctx context.Context, read store.Record, to string, a store.Assertion) (store.Entry, error) {
	a.Destinations = t.c.destinations()
	e, err := t.MetaStore.Rollback(ctx, read, to, a)
	t.c.deliver(err)
	return e, err
}

func (t *watchedTable) Pin(ctx context.Context, read store.Record, a store.Assertion) (store.Entry, error) {
	a.Destinations = t.c.destinations()
	e, err := t.MetaStore.Pin(ctx, read, a)
	t.c.deliver(err)
	return e, err
}

func (t *watchedTable) AddVariant(ctx context.Context, pk string, k store.Key, until time.Time) error {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	err := t.MetaStore.AddVariant(call, pk, k, until)
	t.answered(ctx, pk, err)
	return err
}

func (t *watchedTable) RemoveVariant(ctx context.Context, pk string, k store.Key, until time.Time) error {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	err := t.MetaStore.RemoveVariant(call, pk, k, until)
	t.answered(ctx, pk, err)
	return err
}

func (t *watchedTable) Variants(ctx context.Context, pk string, limit int) (texts []string, more bool, err error) {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	texts, more, err = t.MetaStore.Variants(call, pk, limit)
	t.answered(ctx, pk, err)
	return texts, more, err
}

func (t *watchedTable) Sequence(ctx context.Context) (store.Sequence, error) {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	seq, err := t.MetaStore.Sequence(call)
	t.logAnswered(ctx, err)
	if err == nil {
		t.c.marks.Note(seq)
	}
	return seq, err
}

// Covering belongs to a read of a page.
func (t *watchedTable) Covering(ctx context.Context, k store.Key, tags []string) (store.PurgeState, error) {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	p, err := t.MetaStore.Covering(call, k, tags)
	t.logAnswered(ctx, err)
	return p, err
}

func (t *watchedTable) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	seq, changes, err := t.MetaStore.Changes(ctx, after)
	t.logAnswered(ctx, err)
	if err == nil {
		t.c.marks.Note(seq)
	}
	return seq, changes, err
}

func (t *watchedTable) Nodes(ctx context.Context) ([]store.Node, error) {
	call, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	return t.MetaStore.Nodes(call)
}

// A watchedBodies adds deadlines and the circuit breaker to a BodyStore. The deadline of
// Open includes reading the body.
type watchedBodies struct {
	store.BodyStore
	c *Cache
}

func (b *watchedBodies) answered(ctx context.Context, key string, err error) {
	b.c.answered(ctx, b.c.bodiesBreaker, key, err, func(ctx context.Context) error {
		_, err := b.BodyStore.Stat(ctx, key)
		return err
	})
}

func (b *watchedBodies) Put(ctx context.Context, key string, body []byte) error {
	call, cancel := context.WithTimeout(ctx, bodyTime(int64(len(body))))
	defer cancel()
	err := b.BodyStore.Put(call, key, body)
	b.answered(ctx, key, err)
	return err
}

func (b *watchedBodies) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	call, cancel := context.WithTimeout(ctx, bodyTimeout)
	defer cancel()
	info, err := b.BodyStore.Stat(call, key)
	b.answered(ctx, key, err)
	return info, err
}

func (b *watchedBodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	call, cancel := context.WithTimeout(ctx, bodyTime(b.c.cfg.MaxBody))
	rd, n, err := b.BodyStore.Open(call, key)
	if err != nil {
		cancel()
		b.answered(ctx, key, err)
		return nil, 0, err
	}
	return &watchedBody{ReadCloser: rd, cancel: cancel, answered: func(err error) { b.answered(ctx, key, err) }}, n, nil
}

// A watchedBody reports to the circuit breaker how reading a body ended.
type watchedBody struct {
	io.ReadCloser
	cancel   context.CancelFunc
	answered func(error)
	failed   bool
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader returns it as it is
		b.failed = true
		b.answered(err)
	}
	return n, err
}

// Presentation implements [store.Presented].
func (b *watchedBody) Presentation() store.Presentation { return store.PresentationOf(b.ReadCloser) }

func (b *watchedBody) Close() error {
	defer b.cancel()
	if !b.failed {
		b.answered(nil)
	}
	return b.ReadCloser.Close()
}

// OpenRange implements [store.RangeReader]. The deadline is for the call and for each Read, so that
// slow visitors do not run into it.
func (b *watchedBodies) OpenRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, int64, error) {
	call, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(bodyTimeout, func() { cancel(context.DeadlineExceeded) })
	rd, size, err := store.OpenRange(call, b.BodyStore, key, offset, length)
	timer.Stop()
	if err != nil {
		err = overdue(call, err)
		cancel(nil)
		b.answered(ctx, key, err)
		return nil, 0, err
	}
	body := &watchedBody{ReadCloser: rd, cancel: func() { cancel(nil) }, answered: func(err error) { b.answered(ctx, key, err) }}
	return &watchedRange{watchedBody: body, call: call, timer: timer}, size, nil
}

// overdue adds the cause of the end of a call to its error.
func overdue(call context.Context, err error) error {
	if cause := context.Cause(call); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// A watchedRange is a watchedBody with a deadline for each Read.
type watchedRange struct {
	*watchedBody
	call  context.Context //nolint:containedctx // of the call; timer ends it
	timer *time.Timer
}

func (r *watchedRange) Read(p []byte) (int, error) {
	r.timer.Reset(bodyTimeout)
	n, err := r.watchedBody.Read(p)
	if r.timer.Stop(); err != nil && err != io.EOF { //nolint:errorlint // io.Reader returns it as it is
		err = overdue(r.call, err)
	}
	return n, err
}

// A Downstream delivers purges to the caches in front of this one, such as a CDN. A
// [*downstream.Worker] is one. It must be safe for concurrent use.
//
// [downstream.Worker]: https://pkg.go.dev/github.com/facetheory/isr/downstream#Worker
type Downstream interface {
	// Destinations are the names of the caches: at most [store.MaxDestinations]. They are
	// constant.
	Destinations() []string
	// Wake is called after a change that is to be delivered was committed, by this process
	// or another one. It must not block.
	Wake()
}

// destinations returns the names of the downstream caches.
func (c *Cache) destinations() []string {
	if c.cfg.Downstream == nil {
		return nil
	}
	return c.cfg.Downstream.Destinations()
}

// deliver wakes the delivery to downstream caches after a change. If we crash before, the
// jobs, which were committed with the change, are found by the next poll of the outbox.
func (c *Cache) deliver(err error) {
	if err == nil && c.cfg.Downstream != nil {
		c.cfg.Downstream.Wake()
	}
}

// wakingNodes is how many processes of a fleet wake their delivery, on average.
const wakingNodes = 4

// deliverFor wakes the delivery after a change whose writer wrote no jobs, such as a client
// in another language. In a fleet of many nodes only some do: any of them enqueues the change
// for all, and among many one soon reads the outbox anyway.
func (c *Cache) deliverFor(change store.Change, nodes int64) {
	undelivered := func(destination string) bool { return len(change.Undelivered(destination)) > 0 }
	if slices.ContainsFunc(c.destinations(), undelivered) && c.below(uint64(max(nodes, 1))) < wakingNodes {
		c.cfg.Downstream.Wake()
	}
}

// putBody writes the body of the next generation under a key that was never used; or,
// if the content is that of the current one, reuses the current body, after checking
// that it exists. If we crash here, the body is garbage.
func (s *search) putBody(ctx context.Context, current *store.Entry, next *store.Entry, body []byte) error {
	unchanged := current != nil && !current.Foreign && current.BodyKey != s.noBody && current.SHA256 == next.SHA256
	if unchanged {
		info, err := s.c.bodies.Stat(ctx, current.BodyKey)
		if err == nil && info.Length == next.Length {
			next.BodyKey = current.BodyKey
			return nil
		}
	}
	return s.c.bodies.Put(ctx, next.BodyKey, body)
}
