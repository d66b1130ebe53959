package render

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/facetheory/isr/buffers"
)

// The body of a response that is being rendered is in memory as a whole, until it is stored, and for as
// long as it is not stored also until the slowest visitor has it:
//
//	the first 256 KiB          ──► count for nothing: there are no more than renders at once
//	more, of a stated length   ──► wait for that many bytes of their part of Config.Buffers
//	more, of an unknown length ──► take twice as many as they have, if they are free
//	there are none             ──► the response passes through to its visitors, and is not stored
//
// A render waits only while it has nothing, so that none waits for another one that waits. Once the page
// is stored, its visitors read the rest from the store, and the memory is free for the next render.

const (
	// free is the part of each body that takes no memory of the budget, in bytes.
	free = 256 << 10
	// memoryWait is how long a render waits for memory.
	memoryWait = 2 * time.Second
)

// A Memory is what the body of one render has of a budget. The fill has it, and each visitor who
// reads the body; the last to release it returns it. Its methods are safe for concurrent use. A
// nil Memory has no limit.
type Memory struct {
	budget *buffers.Budget

	mu      sync.Mutex
	held    int64 // guarded by mu
	holders int   // guarded by mu
}

// NewMemory returns memory of a budget, with one holder.
func NewMemory(b *buffers.Budget) *Memory { return &Memory{budget: b, holders: 1} }

// reserve makes room for a body of at least size bytes, which had room for fewer, and returns for how many
// there is room now. declared is its Content-Length, negative if there is none, and limit what it
// may have. ok is false if there is no memory, or ctx is done.
func (m *Memory) reserve(ctx context.Context, had, size, declared, limit int64) (room int64, ok bool) {
	if m == nil {
		return limit, true
	}
	m.mu.Lock()
	held := m.held
	m.mu.Unlock()
	waits := held == 0 && declared >= size
	if room = min(max(2*had, size), limit); waits {
		room = declared
	}
	_, total := m.budget.Usage()
	n := min(room, total) - held
	if waits {
		ctx, cancel := context.WithTimeout(ctx, memoryWait)
		defer cancel()
		ok = m.budget.Acquire(ctx, netip.Prefix{}, n) == nil
	} else {
		ok = m.budget.TryAcquire(netip.Prefix{}, n)
	}
	if ok {
		m.add(max(n, 0))
	}
	return room, ok
}

// add adds what was acquired. If there is no holder any more, it is returned.
func (m *Memory) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holders == 0 {
		m.budget.Release(netip.Prefix{}, n)
		return
	}
	m.held += n
}

// share adds a holder.
func (m *Memory) share() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holders++
}

// Release removes a holder.
func (m *Memory) Release() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holders--; m.holders == 0 {
		m.budget.Release(netip.Prefix{}, m.held)
		m.held = 0
	}
}
