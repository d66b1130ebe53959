package isr

import (
	"context"
	"errors"
	"time"
)

// keepLease extends a lease at a third of its lifetime until stop is called,
// and cancels the returned context, with ErrLeaseLost as its cause, once the
// lease is lost: by the store's word, or because the node's own monotonic clock
// says that it ran out before an extension was confirmed. acquiredAt is when the
// acquisition was begun. stop returns when no extension is under way any more.
func (c *Cache) keepLease(ctx context.Context, l Lease, acquiredAt time.Time) (held context.Context, stop func()) {
	held, lose := context.WithCancelCause(ctx)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		c.beat(held, l, acquiredAt, quit, lose)
	}()
	return held, func() {
		close(quit)
		<-ended
		lose(nil)
	}
}

func (c *Cache) beat(ctx context.Context, l Lease, acquiredAt time.Time, quit <-chan struct{}, lose context.CancelCauseFunc) {
	d := l.Duration()
	deadline := acquiredAt.Add(d)
	timer := time.NewTimer(time.Until(acquiredAt.Add(d / 3)))
	defer timer.Stop()
	for {
		select {
		case <-quit:
			return
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		call, cancel := context.WithDeadline(ctx, deadline)
		err := c.meta.Refresh(call, l)
		cancel()
		switch {
		case err == nil:
			// The store counts from when it saw the call, which is later.
			deadline = began.Add(d)
			timer.Reset(time.Until(began.Add(d / 3)))
			continue
		case errors.Is(err, ErrLeaseLost):
			lose(ErrLeaseLost)
			return
		}
		// Unreachable is not lost: the same token may be refreshed again, until
		// our own clock says that somebody else may have it.
		if !time.Now().Before(deadline) {
			lose(ErrLeaseLost)
			return
		}
		c.log.Warn("a lease could not be extended, trying again", "pk", l.PK(), "error", err)
		timer.Reset(min(d/10, time.Until(deadline)))
	}
}
