// Package buffers limits the bytes that a server buffers in memory for requests and responses: one
// budget for all of them, of which a client may have a part.
//
//	TryAcquire ──► there is room: the caller buffers, and calls Release
//	           └─► there is none: the caller does without, or refuses
//	Acquire    ──► waits for room, in turns among clients
package buffers

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
)

// clients is how many clients can use all of a budget: each may have that part of it.
const clients = 4

// ErrTooLarge means that a budget will never have room for as many bytes, or not for that client.
var ErrTooLarge = errors.New("more bytes than the budget of buffers allows")

// A Budget is a number of bytes that may be buffered at once. A client is a network, as
// the clients of [budget.Budget] are; the zero Prefix is no client, and bounded by the whole alone.
// Bytes are given to the client that has the fewest, and within a client in order of
// arrival. A client that has its part waits for its own bytes, and does not delay others.
//
// All methods are safe for concurrent use. A nil *Budget has no limit.
type Budget struct {
	total, perClient int64
	whole            *Budget // of which this is a part; nil if it is none

	mu      sync.Mutex
	used    int64                   // guarded by mu
	shares  map[netip.Prefix]*share // guarded by mu; of clients that have bytes, or wait
	short   bool                    // guarded by mu: the next waiter is within its client's part, and the whole has no room
	arrived uint64                  // guarded by mu: waiters so far
}

// A share is what one client has of a budget.
type share struct {
	used    int64
	waiting list.List // of *waiter, in order of arrival
}

// A waiter waits for n bytes.
type waiter struct {
	n       int64
	arrival uint64
	granted chan struct{} // closed, under the budget's mu, once it has them
}

// New returns a budget of that many bytes. One client may have a quarter of them.
func New(total int64) *Budget {
	return &Budget{total: total, perClient: total / clients, shares: make(map[netip.Prefix]*share)}
}

// Part returns a budget of at most n bytes of b: what is acquired of it is acquired of b, too, so that the users
// of a part leave the rest of b to others. One client may have a quarter of the part.
func (b *Budget) Part(n int64) *Budget {
	if b == nil {
		return nil
	}
	part := New(min(n, b.total))
	part.whole = b
	return part
}

// bound returns how many bytes a client may have.
func (b *Budget) bound(client netip.Prefix) int64 {
	if client.IsValid() {
		return b.perClient
	}
	return b.total
}

// TryAcquire acquires n bytes for a client, and returns false if they are not free, or if other
// clients wait for them. It does not wait. The caller must release what it has acquired.
func (b *Budget) TryAcquire(client netip.Prefix, n int64) bool {
	if b == nil || n <= 0 {
		return true
	}
	b.mu.Lock()
	acquired := b.tryLocked(client, n)
	b.mu.Unlock()
	if acquired && !b.whole.TryAcquire(client, n) {
		b.release(client, n)
		acquired = false
	}
	return acquired
}

func (b *Budget) tryLocked(client netip.Prefix, n int64) bool {
	s := b.shares[client]
	switch {
	case b.short || n > b.total-b.used || n > b.bound(client):
		return false
	case s == nil:
		s = new(share)
		b.shares[client] = s
	case n > b.bound(client)-s.used || s.waiting.Len() > 0:
		return false
	}
	s.used += n
	b.used += n
	return true
}

// Acquire acquires n bytes for a client, and waits for them until ctx is done. The error is
// the cause of ctx, or [ErrTooLarge]. The caller must release what it has acquired. It should hold nothing
// of the budget while it waits: two callers that do may wait for each other.
func (b *Budget) Acquire(ctx context.Context, client netip.Prefix, n int64) error {
	if b == nil || n <= 0 {
		return nil
	}
	if n > b.bound(client) {
		return fmt.Errorf("%w: %d, of %d at most", ErrTooLarge, n, b.bound(client))
	}
	if err := b.await(ctx, client, n); err != nil {
		return err
	}
	if err := b.whole.Acquire(ctx, client, n); err != nil {
		b.release(client, n)
		return err
	}
	return nil
}

// await is Acquire without the whole.
func (b *Budget) await(ctx context.Context, client netip.Prefix, n int64) error {
	b.mu.Lock()
	if b.tryLocked(client, n) {
		b.mu.Unlock()
		return nil
	}
	s := b.shares[client]
	if s == nil {
		s = new(share)
		b.shares[client] = s
	}
	b.arrived++
	w := &waiter{n: n, arrival: b.arrived, granted: make(chan struct{})}
	place := s.waiting.PushBack(w)
	b.grantLocked()
	b.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.granted: // at the same time
		b.releaseLocked(client, n)
	default:
		s.waiting.Remove(place)
		b.tidyLocked(client, s)
		b.grantLocked()
	}
	return context.Cause(ctx)
}

// Release returns n bytes of a client.
func (b *Budget) Release(client netip.Prefix, n int64) {
	if b == nil || n <= 0 {
		return
	}
	b.whole.Release(client, n)
	b.release(client, n)
}

// release is Release without the whole.
func (b *Budget) release(client netip.Prefix, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releaseLocked(client, n)
}

func (b *Budget) releaseLocked(client netip.Prefix, n int64) {
	s := b.shares[client]
	if s == nil || s.used < n {
		panic("buffers: more bytes were released than acquired")
	}
	s.used -= n
	b.used -= n
	b.tidyLocked(client, s)
	b.grantLocked()
}

// tidyLocked removes a client that has nothing.
func (b *Budget) tidyLocked(client netip.Prefix, s *share) {
	if s.used == 0 && s.waiting.Len() == 0 {
		delete(b.shares, client)
	}
}

// grantLocked gives free bytes to the waiters. The next waiter gets them even if later ones want less, so
// that large ones are not left waiting.
func (b *Budget) grantLocked() {
	for {
		next, s := b.nextLocked()
		b.short = next != nil && next.n > b.total-b.used
		if next == nil || b.short {
			return
		}
		s.waiting.Remove(s.waiting.Front())
		s.used += next.n
		b.used += next.n
		close(next.granted)
	}
}

// nextLocked returns the first waiter of the client that has the fewest bytes, of the clients whose parts
// have room; nil if there is none.
func (b *Budget) nextLocked() (next *waiter, of *share) {
	for client, s := range b.shares {
		if s.waiting.Len() == 0 {
			continue
		}
		w := s.waiting.Front().Value.(*waiter) //nolint:forcetypeassert // Acquire puts no other
		if w.n > b.bound(client)-s.used {
			continue
		}
		if next == nil || s.used < of.used || s.used == of.used && w.arrival < next.arrival {
			next, of = w, s
		}
	}
	return next, of
}

// Usage returns how many bytes are acquired, and how many can be: [math.MaxInt64] if there is no limit.
func (b *Budget) Usage() (used, total int64) {
	if b == nil {
		return 0, math.MaxInt64
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.total
}

// A Reservation is what one request has of a budget. It is safe for concurrent use.
type Reservation struct {
	budget *Budget
	client netip.Prefix

	mu    sync.Mutex
	n     int64 // guarded by mu
	ended bool  // guarded by mu
}

// Reserve returns a reservation for a client, of nothing yet.
func (b *Budget) Reserve(client netip.Prefix) *Reservation {
	return &Reservation{budget: b, client: client}
}

// Grow acquires n bytes more, and returns false if they are not free, or the reservation has ended. It
// does not wait.
func (r *Reservation) Grow(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || !r.budget.TryAcquire(r.client, n) {
		return false
	}
	r.n += n
	return true
}

// Shrink releases n bytes. It does nothing once the reservation has ended.
func (r *Reservation) Shrink(n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.n -= n
	r.budget.Release(r.client, n)
}

// End releases all bytes. Further calls do nothing.
func (r *Reservation) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.ended = true
		r.budget.Release(r.client, r.n)
	}
}
