package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// KeepLease extends a lease by refresh at a third of its lifetime until stop is
// called, and cancels the returned context, with [store.ErrLeaseLost] as its cause, once
// the lease is lost: by the word of refresh (ErrLeaseLost), or because the node's
// own monotonic clock says that it ran out before an extension was confirmed.
// acquiredAt is when the acquisition was begun, by [time.Now]. stop returns when no
// extension is under way any more; it must be called, and may be called again. Other
// errors of refresh are logged, and it is tried again.
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

// A heartbeat keeps one lease.
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
			// The store counts from when it saw the call, which is later.
			deadline = began.Add(d)
			timer.Reset(time.Until(began.Add(d / 3)))
			continue
		case errors.Is(err, ErrLeaseLost):
			h.lose(ErrLeaseLost)
			return
		}
		// Unreachable is not lost: the same token may be refreshed again, until
		// our own clock says that somebody else may have it.
		if !time.Now().Before(deadline) {
			h.lose(ErrLeaseLost)
			return
		}
		h.log.Warn("a lease could not be extended, trying again", "pk", h.lease.PK(), "error", err)
		timer.Reset(min(d/10, time.Until(deadline)))
	}
}
