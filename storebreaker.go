package isr

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// All calls of the stores have a deadline, whatever the stores promise, and a circuit
// breaker per store counts those that fail. Visitors wait for less (see unstored.go),
// and a lease is not kept beyond storeTime.

const (
	// tableTimeout is longer than a store needs to settle a lost reply.
	tableTimeout = 20 * time.Second
	// bodyTimeout is for bodies up to 1 MiB; each further MiB adds a second.
	bodyTimeout = 10 * time.Second
	// storeTime is what all calls under a lease may take, in addition to the render.
	storeTime = 30 * time.Second

	// storeFailures is how many failures in a row, of different pages, open the
	// circuit breaker of a store. One success in between resets the count.
	storeFailures = 3
	// Probes start a quarter of a second apart, with exponential backoff.
	firstProbe   = 250 * time.Millisecond
	maxProbe     = 10 * time.Second
	probeTimeout = 5 * time.Second
)

// bodyTime is how long reading or writing a body of n bytes may take.
func bodyTime(n int64) time.Duration { return bodyTimeout + time.Duration(n>>20)*time.Second }

// A breaker is the circuit breaker of one store: the table, or the bodies. All
// methods are safe for concurrent use.
type breaker struct {
	store string // in the log
	log   *slog.Logger

	isOpen   atomic.Bool
	affected atomic.Int64 // requests served without the store since the breaker opened

	mu     sync.Mutex
	failed map[string]bool // guarded by mu: subjects whose calls have failed since the last success
	since  time.Time       // guarded by mu: when the breaker opened
}

// noteAnswer records that the store answered. It does not close the breaker: the probe
// does.
func (b *breaker) noteAnswer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.failed)
}

// noteFailure records a failed call about a subject, such as a partition key. A subject
// counts once, however often its calls fail in a row: one body that cannot be read is no
// outage. If the breaker opened, the caller starts to probe.
func (b *breaker) noteFailure(subject string, err error) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOpen.Load() {
		return false
	}
	if b.failed == nil {
		b.failed = make(map[string]bool, storeFailures)
	}
	if b.failed[subject] = true; len(b.failed) < storeFailures {
		return false
	}
	b.since = time.Now()
	b.affected.Store(0)
	b.isOpen.Store(true)
	b.log.Error("the store does not answer, and its circuit breaker opens: pages are rendered without being stored",
		"store", b.store, "error", err)
	return true
}

// probe calls ask, after first and then with exponential backoff, until the store
// answers. Then the breaker closes.
func (b *breaker) probe(ctx context.Context, first time.Duration, ask func(context.Context) error, jitter func(time.Duration) time.Duration) {
	for wait, round := first, 1; ; wait, round = jitter(backoff.Exponential(firstProbe, maxProbe, round)), round+1 {
		if backoff.Wait(ctx, wait) != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, probeTimeout)
		err := ask(call)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if !unreachable(err) {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.failed)
	b.isOpen.Store(false)
	b.log.Info("the store answers, and its circuit breaker closes", "store", b.store,
		"affected", b.affected.Load(), "after", time.Since(b.since).Round(time.Millisecond))
}

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
func (c *Cache) storeDown() *breaker {
	for _, b := range []*breaker{c.tableBreaker, c.bodiesBreaker} {
		if b.isOpen.Load() {
			return b
		}
	}
	return nil
}

// StoresDown returns the stores whose circuit breaker is open: "table", "bodies".
// Visitors are served without them.
func (c *Cache) StoresDown() []string {
	var down []string
	for _, b := range []*breaker{c.tableBreaker, c.bodiesBreaker} {
		if b.isOpen.Load() {
			down = append(down, b.store)
		}
	}
	return down
}

// complaints are log lines about single pages that a store failed. There may be
// thousands a second: one in complaintPause is written, the others are counted.
type complaints struct {
	logger *slog.Logger

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
	c.logger.Error(msg, append(args, "more_since_last", c.held)...)
	c.next, c.held = now.Add(complaintPause), 0
}

// answered records the result of a call about a subject in a store's circuit breaker,
// and starts to probe the store by ask once the breaker has opened.
func (c *Cache) answered(ctx context.Context, b *breaker, subject string, err error, ask func(context.Context) error) {
	switch {
	case ctx.Err() != nil: // the caller cancelled: that says nothing of the store
	case !unreachable(err):
		b.noteAnswer()
	case b.noteFailure(subject, err):
		first := c.jitter(firstProbe) // drawn here, so that simulations repeat
		c.background.Go(func() { b.probe(c.ctx, first, ask, c.jitter) })
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

func (t *watchedTable) Sequence(ctx context.Context) (store.Sequence, error) {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	seq, err := t.MetaStore.Sequence(call)
	t.logAnswered(ctx, err)
	if err == nil {
		t.c.marks.note(seq)
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
		t.c.marks.note(seq)
	}
	return seq, changes, err
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

func (b *watchedBody) Close() error {
	defer b.cancel()
	if !b.failed {
		b.answered(nil)
	}
	return b.ReadCloser.Close()
}
