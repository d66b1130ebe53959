package isr

import (
	"context"
	"sync"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/singleflight"
)

// In a process that is frozen after its responses (see Config.Freezes), nothing may be left to do
// when a response ends:
//
//	flights         a render whose visitor has gone away, or a stale page: awaited by Settle
//	invalidations   purges after unsafe requests: awaited by Settle, and not spread over time
//	codings         awaited by Settle; what is cut off is made again
//	the log         is not followed while the process is frozen: a request polls it first
//	                (see package changelog)
//
// What has a deadline ends with the request that began it: renders, and leases, which another
// process can take over soon after this one is gone.

// Settle waits until all work that requests have begun, and have not waited for, is done:
// regenerations, purges after unsafe requests, and codings. It returns the cause of ctx if that
// is done first. Work that begins during the wait is awaited too.
func (c *Cache) Settle(ctx context.Context) error { return c.activity.wait(ctx) }

// An activity counts work in progress. Its methods are safe for concurrent use.
type activity struct {
	mu   sync.Mutex
	n    int           // guarded by mu
	idle chan struct{} // guarded by mu: closed when n becomes 0; nil while it is
}

func (a *activity) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n++; a.n == 1 {
		a.idle = make(chan struct{})
	}
}

func (a *activity) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n--; a.n == 0 {
		close(a.idle)
		a.idle = nil
	}
}

// wait waits until there is none.
func (a *activity) wait(ctx context.Context) error {
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

// newFlights returns a group of flights, which are activities.
func newFlights(a *activity) *fill.Flights { return singleflight.New[*fill.Flight](a.begin, a.end) }
