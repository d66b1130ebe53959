package acme

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A host is a name that a certificate is obtained for.
type host struct {
	name   string
	ctx    context.Context // done when the host is no longer served
	cancel context.CancelFunc
	wake   chan struct{} // has an element if the host is to be retried at once
	loaded chan struct{} // closed once a stored certificate would be loaded
	ended  chan struct{} // closed once its goroutine has ended

	certified atomic.Bool // there is a certificate

	mu      sync.Mutex
	problem string // guarded by mu: why there is no certificate, or no new one; empty if all is well
}

func newHost(ctx context.Context, name string) *host {
	h := &host{name: name, wake: make(chan struct{}, 1), loaded: make(chan struct{}), ended: make(chan struct{}), problem: "there is no certificate for " + name + ": it is being obtained"}
	h.ctx, h.cancel = context.WithCancel(ctx)
	return h
}

// setLoaded notes that a stored certificate is loaded, or that there is none.
func (h *host) setLoaded(found bool) {
	h.certified.Store(found)
	close(h.loaded)
}

// retry ends the wait for the next attempt.
func (h *host) retry() {
	select {
	case h.wake <- struct{}{}:
	default: // it is awake
	}
}

// wait waits before the next attempt. It reports whether retry has ended it.
func (h *host) wait(d time.Duration) (woken bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-h.ctx.Done():
	case <-timer.C:
	case <-h.wake:
		return true
	}
	return false
}

func (h *host) setProblem(text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problem = text
}

func (h *host) currentProblem() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.problem
}
