package singleflight

import (
	"context"
	"sync"
)

// An Activity counts work in progress, such as flights. Its methods are safe for concurrent use.
type Activity struct {
	mu   sync.Mutex
	n    int           // guarded by mu
	idle chan struct{} // guarded by mu: closed when n becomes 0; nil while it is
}

// Begin counts work that begins.
func (a *Activity) Begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n++; a.n == 1 {
		a.idle = make(chan struct{})
	}
}

// End counts work that ends.
func (a *Activity) End() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n--; a.n == 0 {
		close(a.idle)
		a.idle = nil
	}
}

// Wait waits until there is none. It returns the cause of ctx if that is done first.
func (a *Activity) Wait(ctx context.Context) error {
	for {
		a.mu.Lock()
		idle := a.idle
		a.mu.Unlock()
		if idle == nil {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
