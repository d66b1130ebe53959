package isr

import (
	"net/netip"
	"sync/atomic"

	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/internal/render"
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

// renderShare is the part of the budget that renders, and reads of bodies, have together, as a divisor:
// a quarter is for what is being sent (see responseShare), and a quarter is left to requests. A body that is larger than
// the part, which Config.MaxBody allows, takes all of it, and exceeds the budget.
const renderShare = 2

// nextMemory returns the memory of the next render of the fill. The last one has ended.
func (s *fill) nextMemory() *render.Memory {
	s.memory.Release()
	s.memory = render.NewMemory(s.c.rendered)
	return s.memory
}

// releaseMemory ends what the fill has of the last render.
func (s *fill) releaseMemory() {
	s.memory.Release()
	s.memory = nil
}
