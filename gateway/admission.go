package gateway

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// admissionTime bounds the wait for an admission.
const admissionTime = 10 * time.Second

// errBusy means that this client, or all clients together, have too many requests active or
// waiting.
var errBusy = errors.New("too many concurrent requests")

// An admission bounds the concurrent pass-through requests to an origin, in total and per
// client, and the requests that wait. A client at its limit waits for its own requests,
// without delaying other clients.
type admission struct {
	perClient int64
	waiting   int // maximum per client
	all       *semaphore.Weighted

	mu      sync.Mutex
	clients map[netip.Prefix]*clientSlots // guarded by mu; clients with requests
}

// clientSlots are the requests of one client.
type clientSlots struct {
	slots    *semaphore.Weighted
	requests int // active or waiting; guarded by admission.mu
}

func newAdmission(connections int) *admission {
	per := max(int64(connections)/4, 1)
	return &admission{
		perClient: per,
		waiting:   int(4 * per),
		all:       semaphore.NewWeighted(int64(connections)),
		clients:   make(map[netip.Prefix]*clientSlots),
	}
}

// enter waits until the request may be sent. If err is nil, the caller must call leave when
// the request has ended.
func (a *admission) enter(ctx context.Context, client netip.Prefix) (leave func(), err error) {
	slots := a.join(client)
	if slots == nil {
		return nil, errBusy
	}
	if err := a.acquire(ctx, slots); err != nil {
		a.part(client)
		return nil, err
	}
	return a.leaver(client, slots), nil
}

// tryEnter is enter without a wait: ok is false if the request could not be sent at once.
func (a *admission) tryEnter(client netip.Prefix) (leave func(), ok bool) {
	slots := a.join(client)
	if slots == nil {
		return nil, false
	}
	mine, both := a.tryAcquire(slots)
	if both {
		return a.leaver(client, slots), true
	}
	if mine {
		slots.Release(1)
	}
	a.part(client)
	return nil, false
}

// tryAcquire acquires a slot of a client, and one of all, as far as they are free. mine: it has the slot of the client.
func (a *admission) tryAcquire(slots *semaphore.Weighted) (mine, both bool) {
	mine = slots.TryAcquire(1)
	return mine, mine && a.all.TryAcquire(1)
}

// leaver returns the function that ends a request which has its slots.
func (a *admission) leaver(client netip.Prefix, slots *semaphore.Weighted) func() {
	return func() {
		a.all.Release(1)
		slots.Release(1)
		a.part(client)
	}
}

// acquire acquires a slot of a client, and one of all. The timer of the wait is made only if there
// is one, which is rare.
func (a *admission) acquire(ctx context.Context, slots *semaphore.Weighted) error {
	mine, both := a.tryAcquire(slots)
	if both {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, admissionTime, errBusy)
	defer cancel()
	if !mine && slots.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	if a.all.Acquire(ctx, 1) != nil {
		slots.Release(1)
		return context.Cause(ctx)
	}
	return nil
}

// join counts a request of a client. It returns nil if the client has too many.
func (a *admission) join(client netip.Prefix) *semaphore.Weighted {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.clients[client]
	if c == nil {
		c = &clientSlots{slots: semaphore.NewWeighted(a.perClient)}
		a.clients[client] = c
	}
	if c.requests >= int(a.perClient)+a.waiting {
		return nil
	}
	c.requests++
	return c.slots
}

func (a *admission) part(client netip.Prefix) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.clients[client]; c != nil {
		if c.requests--; c.requests == 0 {
			delete(a.clients, client)
		}
	}
}
