package queue

import (
	"context"
	"errors"
	"sync"
)

// errBusy: too many items wait for a call.
var errBusy = errors.New("too many messages wait for the queue")

// A batcher makes calls of up to batchSize items out of items that are added one by one. No item
// waits for others: while calls are in progress, the next items gather. It is safe for concurrent
// use.
type batcher[T any] struct {
	// call makes a call, and returns an error for each item; nil for those that succeeded. It has
	// callTime.
	call  func(ctx context.Context, items []T) []error
	calls int // at once, at most
	most  int // items that wait, at most

	mu      sync.Mutex
	waiting []batched[T] // guarded by mu
	running int          // guarded by mu
}

// batched is an item that waits for its call.
type batched[T any] struct {
	item T
	ctx  context.Context //nolint:containedctx // of its caller: what is not waited for any more is left out
	done chan error      // has room for one
}

// do waits for the call of an item, and returns its error, or the cause of ctx if that is done
// first.
func (b *batcher[T]) do(ctx context.Context, item T) error {
	w := batched[T]{item, ctx, make(chan error, 1)}
	b.mu.Lock()
	if len(b.waiting) >= b.most {
		b.mu.Unlock()
		return errBusy
	}
	b.waiting = append(b.waiting, w)
	if b.running < b.calls {
		b.running++
		go b.run()
	}
	b.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run makes calls while items wait.
func (b *batcher[T]) run() {
	for batch := b.next(); len(batch) > 0; batch = b.next() {
		items := make([]T, len(batch))
		for i, w := range batch {
			items[i] = w.item
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), callTime)
		for i, err := range b.call(ctx, items) {
			batch[i].done <- err
		}
		cancel()
	}
}

// next returns the items of the next call; none ends run.
func (b *batcher[T]) next() (batch []batched[T]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.waiting) > 0 && len(batch) < batchSize {
		if w := b.waiting[0]; w.ctx.Err() == nil {
			batch = append(batch, w)
		}
		b.waiting = b.waiting[1:]
	}
	if len(batch) == 0 {
		b.running--
	}
	return batch
}

// allFailed returns the same error for n items.
func allFailed(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
