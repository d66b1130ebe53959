package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// KeepLease refreshes a lease at a third of its duration until stop is called. It cancels
// the returned context, with [ErrLeaseLost] as its cause, once the lease is lost: refresh
// returned ErrLeaseLost, or the lease expired by the local monotonic clock before a refresh
// succeeded. Other errors of refresh are logged and retried.
//
// acquiredAt is when Acquire was called, by [time.Now]. stop waits for a refresh in flight;
// it must be called, and may be called more than once.
func KeepLease(ctx context.Context, l Lease, acquiredAt time.Time, refresh func(context.Context, Lease) error, log *slog.Logger) (held context.Context, stop func()) {
	held, lose := context.WithCancelCause(ctx)
	h := &heartbeat{lease: l, refresh: refresh, log: log, lose: lose, quit: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.beat(held, acquiredAt)
	}()
	return held, sync.OnceFunc(func() {
		close(h.quit)
		<-ended
		lose(nil)
	})
}

// A heartbeat refreshes one lease.
type heartbeat struct {
	lease   Lease
	refresh func(context.Context, Lease) error
	log     *slog.Logger
	lose    context.CancelCauseFunc
	quit    chan struct{}
}

func (h *heartbeat) beat(ctx context.Context, acquiredAt time.Time) {
	d := h.lease.Duration()
	deadline := acquiredAt.Add(d)
	timer := time.NewTimer(time.Until(acquiredAt.Add(d / 3)))
	defer timer.Stop()
	for {
		select {
		case <-h.quit:
			return
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		call, cancel := context.WithDeadline(ctx, deadline)
		err := h.refresh(call, h.lease)
		cancel()
		switch {
		case err == nil:
			// The store counts from when it received the call, which is later: this deadline
			// is on the safe side.
			deadline = began.Add(d)
			timer.Reset(time.Until(began.Add(d / 3)))
			continue
		case errors.Is(err, ErrLeaseLost):
			h.lose(ErrLeaseLost)
			return
		}
		// A store that cannot be reached does not mean a lost lease: the same token may
		// be refreshed until another process may hold it by the local clock.
		if !time.Now().Before(deadline) {
			h.lose(ErrLeaseLost)
			return
		}
		h.log.Warn("failed to refresh a lease, retrying", "pk", h.lease.PK(), "error", err)
		timer.Reset(min(d/10, time.Until(deadline)))
	}
}
