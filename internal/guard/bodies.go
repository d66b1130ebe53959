package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/facetheory/isr/store"
)

// A guardedBodies is a BodyStore whose calls are observed and, unless it is for background work, have
// deadlines and count in the circuit breaker. Opening a body includes reading it.
type guardedBodies struct {
	store.BodyStore
	s       *Stores
	begin   Begin
	guarded bool // by deadlines and the circuit breaker
}

// ofBody is a call about a body.
func (b *guardedBodies) ofBody(name, key string, timeout time.Duration) call {
	if !b.guarded {
		return call{name: name}
	}
	return call{name: name, timeout: timeout, answered: func(ctx context.Context, err error) { b.answered(ctx, key, err) }}
}

func (b *guardedBodies) answered(ctx context.Context, key string, err error) {
	if !b.guarded {
		return
	}
	b.s.answered(ctx, b.s.bodies, key, err, func(ctx context.Context) error {
		_, err := b.stat(ctx, call{name: "stat"}, key)
		return err
	})
}

func (b *guardedBodies) Put(ctx context.Context, key string, body []byte) error {
	c := b.ofBody("put", key, BodyTime(int64(len(body))))
	c.bytes = int64(len(body))
	return do(ctx, b.begin, c, func(ctx context.Context) error { return b.BodyStore.Put(ctx, key, body) })
}

func (b *guardedBodies) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	return b.stat(ctx, b.ofBody("stat", key, bodyTimeout), key)
}

func (b *guardedBodies) stat(ctx context.Context, c call, key string) (store.BodyInfo, error) {
	return get(ctx, b.begin, c, func(ctx context.Context) (store.BodyInfo, error) { return b.BodyStore.Stat(ctx, key) })
}

func (b *guardedBodies) Delete(ctx context.Context, key string) error {
	return do(ctx, b.begin, call{name: "delete"}, func(ctx context.Context) error { return b.BodyStore.Delete(ctx, key) })
}

// DeleteBatch implements [store.BatchDeleter]. A store that does not gets one call for each body.
func (b *guardedBodies) DeleteBatch(ctx context.Context, keys []string) (deleted int, err error) {
	batches, ok := b.BodyStore.(store.BatchDeleter)
	if !ok {
		return store.DeleteBodies(ctx, struct{ store.BodyStore }{b}, keys)
	}
	return get(ctx, b.begin, call{name: "delete-batch"}, func(ctx context.Context) (int, error) { return batches.DeleteBatch(ctx, keys) })
}

func (b *guardedBodies) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return each(ctx, b.begin, "list", func(ctx context.Context) iter.Seq2[store.BodyInfo, error] {
		return b.BodyStore.List(ctx, prefix)
	})
}

// open opens a body, without a deadline and the circuit breaker.
func (b *guardedBodies) open(ctx context.Context, name string, f func(context.Context) (io.ReadCloser, int64, error)) (*openBody, int64, error) {
	ctx, end := b.begin(ctx, name)
	rd, n, err := f(ctx)
	if err != nil {
		end(0, err)
		return nil, 0, err
	}
	return &openBody{ReadCloser: rd, end: end, cancel: func() {}, answered: func(error) {}}, n, nil
}

// Open has one deadline for the call and for reading the body.
func (b *guardedBodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	call, cancel := ctx, func() {}
	if b.guarded {
		call, cancel = context.WithTimeout(ctx, BodyTime(b.s.o.MaxBody))
	}
	body, n, err := b.open(call, "open", func(ctx context.Context) (io.ReadCloser, int64, error) { return b.BodyStore.Open(ctx, key) })
	if err != nil {
		cancel()
		b.answered(ctx, key, err)
		return nil, 0, err
	}
	body.cancel, body.answered = cancel, func(err error) { b.answered(ctx, key, err) }
	return body, n, nil
}

// OpenRange implements [store.RangeReader]. The deadline is for the call and for each Read, so that
// slow visitors do not run into it.
func (b *guardedBodies) OpenRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, int64, error) {
	f := func(ctx context.Context) (io.ReadCloser, int64, error) {
		return store.OpenRange(ctx, b.BodyStore, key, offset, length)
	}
	if !b.guarded {
		body, size, err := b.open(ctx, "open-range", f)
		if err != nil {
			return nil, 0, err
		}
		return body, size, nil
	}
	call, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(bodyTimeout, func() { cancel(context.DeadlineExceeded) })
	body, size, err := b.open(call, "open-range", f)
	timer.Stop()
	if err != nil {
		err = overdue(call, err)
		cancel(nil)
		b.answered(ctx, key, err)
		return nil, 0, err
	}
	body.cancel, body.answered = func() { cancel(nil) }, func(err error) { b.answered(ctx, key, err) }
	return &openRange{openBody: body, call: call, timer: timer}, size, nil
}

// overdue adds the cause of the end of a call to its error.
func overdue(call context.Context, err error) error {
	if cause := context.Cause(call); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// An openBody reports how reading a body ended: to the circuit breaker at once, and to the observer
// when it is closed.
type openBody struct {
	io.ReadCloser
	end      func(int64, error)
	cancel   func()
	answered func(error)
	read     int64
	err      error // of reading
}

func (b *openBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if err != nil && err != io.EOF { //nolint:errorlint // io.Reader returns it as it is
		b.err = err
		b.answered(err)
	}
	return n, err
}

// Presentation implements [store.Presented].
func (b *openBody) Presentation() store.Presentation { return store.PresentationOf(b.ReadCloser) }

func (b *openBody) Close() error {
	defer b.cancel()
	if b.err == nil {
		b.answered(nil)
	}
	b.end(b.read, b.err)
	return b.ReadCloser.Close()
}

// An openRange is an openBody with a deadline for each Read.
type openRange struct {
	*openBody
	call  context.Context //nolint:containedctx // of the call; timer ends it
	timer *time.Timer
}

func (r *openRange) Read(p []byte) (int, error) {
	r.timer.Reset(bodyTimeout)
	n, err := r.openBody.Read(p)
	if r.timer.Stop(); err != nil && err != io.EOF { //nolint:errorlint // io.Reader returns it as it is
		err = overdue(r.call, err)
	}
	return n, err
}

// An observedLocal observes the bodies that are read from a local disk.
type observedLocal struct {
	store.LocalReader
	begin Begin
}

func (b *observedLocal) ReadLocal(ctx context.Context, key string, limit int64) ([]byte, error) {
	ctx, end := b.begin(ctx, "read-local")
	body, err := b.LocalReader.ReadLocal(ctx, key, limit)
	end(int64(len(body)), err)
	return body, err
}
