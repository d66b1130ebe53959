package isr

import (
	"context"
	"io"
	"time"

	"github.com/facetheory/isr/store"
)

// Bounds of calls of the stores, whatever these promise. A visitor does not wait for
// so long (see outage.go), and a lease is not kept beyond storeTime.
const (
	// tableTimeout is longer than a store takes to settle a reply that was lost.
	tableTimeout = 20 * time.Second
	// bodyTimeout is for bodies up to a MiB, and a second for each further one.
	bodyTimeout = 10 * time.Second
	// storeTime is what all calls under a lease may take beside the render.
	storeTime = 30 * time.Second
)

// bodyTime is how long a body of n bytes may take to be read or written.
func bodyTime(n int64) time.Duration { return bodyTimeout + time.Duration(n>>20)*time.Second }

// answered tells a store's circuit breaker what came of a call about something, and
// has the store probed by ask once the breaker has opened.
func (c *Cache) answered(ctx context.Context, b *breaker, about string, err error, ask func(context.Context) error) {
	switch {
	case ctx.Err() != nil: // the caller is gone, which says nothing of the store
	case !unreachable(err):
		b.noteAnswer()
	case b.noteFailure(about, err):
		first := c.jitter(firstProbe) // drawn here, where simulations know who draws
		c.background.Go(func() { b.probe(c.ctx, first, ask, c.jitter) })
	}
}

// A watchedTable bounds the calls of a MetaStore in time, and has its circuit
// breaker know of them.
type watchedTable struct {
	store.MetaStore
	c *Cache
}

// probeRequest is the idempotency key of a request that is never made.
const probeRequest = "isr-probe"

// answered has a partition probed by looking for a request that is not there: what a
// probe read of the page itself would have to be heeded, such as a purge.
func (t *watchedTable) answered(ctx context.Context, pk string, err error) {
	t.c.answered(ctx, t.c.table, pk, err, func(ctx context.Context) error {
		_, _, err := t.MetaStore.RequestRecord(ctx, pk, probeRequest)
		return err
	})
}

func (t *watchedTable) logAnswered(ctx context.Context, err error) {
	t.c.answered(ctx, t.c.table, "the log", err, func(ctx context.Context) error {
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

// Publish has the lease for its deadline: the store repeats it until that ends, and
// then settles it.
func (t *watchedTable) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	e, err := t.MetaStore.Publish(ctx, l, read, next, how)
	t.answered(ctx, l.PK(), err)
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

func (t *watchedTable) Changes(ctx context.Context, after int64) ([]store.Change, error) {
	changes, err := t.MetaStore.Changes(ctx, after)
	t.logAnswered(ctx, err)
	return changes, err
}

// A watchedShelf does so with a BodyStore. Its deadlines bind the reading of a body
// as well.
type watchedShelf struct {
	store.BodyStore
	c *Cache
}

func (s *watchedShelf) answered(ctx context.Context, key string, err error) {
	s.c.answered(ctx, s.c.shelf, key, err, func(ctx context.Context) error {
		_, err := s.BodyStore.Stat(ctx, key)
		return err
	})
}

func (s *watchedShelf) Put(ctx context.Context, key string, body []byte) error {
	call, cancel := context.WithTimeout(ctx, bodyTime(int64(len(body))))
	defer cancel()
	err := s.BodyStore.Put(call, key, body)
	s.answered(ctx, key, err)
	return err
}

func (s *watchedShelf) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	call, cancel := context.WithTimeout(ctx, bodyTimeout)
	defer cancel()
	info, err := s.BodyStore.Stat(call, key)
	s.answered(ctx, key, err)
	return info, err
}

func (s *watchedShelf) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	call, cancel := context.WithTimeout(ctx, bodyTime(s.c.cfg.MaxBody))
	rd, n, err := s.BodyStore.Open(call, key)
	if err != nil {
		cancel()
		s.answered(ctx, key, err)
		return nil, 0, err
	}
	return &watchedBody{ReadCloser: rd, cancel: cancel, answered: func(err error) { s.answered(ctx, key, err) }}, n, nil
}

// A watchedBody is a body that is being read.
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
