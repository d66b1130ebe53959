package isr

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
//	the first renderFree bytes ──► count for nothing: there are no more than renders at once
//	more, of a stated length   ──► wait for that many bytes of their part of Config.Buffers
//	more, of an unknown length ──► take twice as many as they have, if they are free
//	there are none             ──► the response passes through to its visitors, and is not stored
//
// A render waits only while it has nothing, so that none waits for another one that waits. Once the page
// is stored, its visitors read the rest from the store, and the memory is free for the next render.

const (
	// renderFree is the part of each body that takes no memory of the budget, in bytes.
	renderFree = 256 << 10
	// memoryWait is how long a render waits for memory.
	memoryWait = 2 * time.Second
	// renderShare is the part of the budget that renders, and reads of bodies, have together, as a divisor:
	// a quarter is for what is being sent (see responseShare), and a quarter is left to requests. A body that is larger than
	// the part, which Config.MaxBody allows, takes all of it, and exceeds the budget.
	renderShare = 2
)

// A renderMemory is what the body of one render has of a budget. The search has it, and each visitor who
// reads the body; the last to release it returns it. Its methods are safe for concurrent use. A
// nil renderMemory has no limit.
type renderMemory struct {
	budget *buffers.Budget

	mu      sync.Mutex
	held    int64 // guarded by mu
	holders int   // guarded by mu
}

func newRenderMemory(b *buffers.Budget) *renderMemory { return &renderMemory{budget: b, holders: 1} }

// reserve makes room for a body of at least size bytes, which had room for fewer, and returns for how many
// there is room now. declared is its Content-Length, negative if there is none, and limit what it
// may have. ok is false if there is no memory, or ctx is done.
func (m *renderMemory) reserve(ctx context.Context, had, size, declared, limit int64) (room int64, ok bool) {
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
func (m *renderMemory) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.holders == 0 {
		m.budget.Release(netip.Prefix{}, n)
		return
	}
	m.held += n
}

// share adds a holder.
func (m *renderMemory) share() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holders++
}

// release removes a holder.
func (m *renderMemory) release() {
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

// nextMemory returns the memory of the next render of the search. The last one has ended.
func (s *search) nextMemory() *renderMemory {
	s.memory.release()
	s.memory = newRenderMemory(s.c.rendered)
	return s.memory
}

// releaseMemory ends what the search has of the last render.
func (s *search) releaseMemory() {
	s.memory.release()
	s.memory = nil
}
