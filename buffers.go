package isr

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/buffers"
)

// A body in memory that is being sent stays there for as long as the slowest visitor takes it, even if its
// page is evicted. So the bodies that are being sent count against a bound of their own; beyond it, a
// body is sent from the store in pieces (see newDetached). Bodies of at most bodies.MaxCached bytes do not
// count: a visitor of one costs less than his connection does.

const (
	// leastBuffers is the least default budget of Config.Buffers, in bytes.
	leastBuffers = 32 << 20
	// responseShare is the part of the budget that bodies which are being sent may take, as a divisor. It
	// is acquired once, so that hits do not contend for the budget.
	responseShare = 4
)

// open acquires the memory from a budget. The caller must release it.
func (m *responseMemory) open(from *buffers.Budget) {
	_, total := from.Usage()
	if n := total / responseShare; from.TryAcquire(netip.Prefix{}, n) {
		m.limit = n
	}
}

// A responseMemory bounds the memory of bodies that are being sent. Its methods are safe for concurrent use.
type responseMemory struct {
	limit int64        // in bytes
	used  atomic.Int64 // bytes

	closed atomic.Bool
}

// take takes n bytes, and reports whether there were any left.
func (m *responseMemory) take(n int64) bool {
	for {
		used := m.used.Load()
		if used+n > m.limit {
			return false
		}
		if m.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// shut returns what open has acquired, at its first call.
func (m *responseMemory) shut() int64 {
	if m.closed.Swap(true) {
		return 0
	}
	return m.limit
}

// give gives back n bytes.
func (m *responseMemory) give(n int64) { m.used.Add(-n) }

// hold counts a response that sends the body of the page. It returns false if there is no memory for that. The
// caller must call release afterwards.
func (p *page) hold(m *responseMemory) bool { return p.plain.pin.take(m) }

func (p *page) release(m *responseMemory) { p.plain.pin.give(m) }

// A pin counts the responses that send a body. Its methods are safe for concurrent use. A nil pin is that of a
// small body, which does not count.
type pin struct {
	size      int64 // of the body, in bytes
	responses atomic.Int64
}

// take counts a response, unless it is the first one of the body and there is no memory left.
func (p *pin) take(m *responseMemory) bool {
	if p == nil {
		return true
	}
	for {
		n := p.responses.Load()
		if n == 0 && !m.take(p.size) {
			return false
		}
		if p.responses.CompareAndSwap(n, n+1) {
			return true
		}
		if n == 0 {
			m.give(p.size) // another response was sooner
		}
	}
}

// give ends a response that was counted.
func (p *pin) give(m *responseMemory) {
	if p != nil && p.responses.Add(-1) == 0 {
		m.give(p.size)
	}
}

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
)

// A renderMemory is what the body of one render has of a budget. The fill has it, and each visitor who
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

// renderShare is the part of the budget that renders, and reads of bodies, have together, as a divisor:
// a quarter is for what is being sent (see responseShare), and a quarter is left to requests. A body that is larger than
// the part, which Config.MaxBody allows, takes all of it, and exceeds the budget.
const renderShare = 2

// nextMemory returns the memory of the next render of the fill. The last one has ended.
func (s *fill) nextMemory() *renderMemory {
	s.memory.release()
	s.memory = newRenderMemory(s.c.rendered)
	return s.memory
}

// releaseMemory ends what the fill has of the last render.
func (s *fill) releaseMemory() {
	s.memory.release()
	s.memory = nil
}
