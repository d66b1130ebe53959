package page

import (
	"net/netip"
	"sync/atomic"

	"github.com/facetheory/isr/buffers"
)

// A body in memory that is being sent stays there for as long as the slowest visitor takes it, even if its
// page is evicted. So the bodies that are being sent count against a bound of their own; beyond it, a
// body is sent from the store in pieces (see NewDetached). Bodies of at most bodies.MaxCached bytes do not
// count: a visitor of one costs less than his connection does.

// responseShare is the part of the budget that bodies which are being sent may take, as a divisor. It
// is acquired once, so that hits do not contend for the budget.
const responseShare = 4

// Open acquires the memory from a budget. The caller must release it.
func (m *ResponseMemory) Open(from *buffers.Budget) {
	_, total := from.Usage()
	if n := total / responseShare; from.TryAcquire(netip.Prefix{}, n) {
		m.limit = n
	}
}

// A ResponseMemory bounds the memory of bodies that are being sent. Its methods are safe for concurrent use.
type ResponseMemory struct {
	limit int64        // in bytes
	used  atomic.Int64 // bytes

	closed atomic.Bool
}

// take takes n bytes, and reports whether there were any left.
func (m *ResponseMemory) take(n int64) bool {
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

// Shut returns what open has acquired, at its first call.
func (m *ResponseMemory) Shut() int64 {
	if m.closed.Swap(true) {
		return 0
	}
	return m.limit
}

// give gives back n bytes.
func (m *ResponseMemory) give(n int64) { m.used.Add(-n) }

// Hold counts a response that sends the body of the page. It returns false if there is no memory for that. The
// caller must call release afterwards.
func (p *Page) Hold(m *ResponseMemory) bool { return p.plain.pin.take(m) }

func (p *Page) Release(m *ResponseMemory) { p.plain.pin.give(m) }

// A pin counts the responses that send a body. Its methods are safe for concurrent use. A nil pin belongs to a
// small body, which does not count.
type pin struct {
	size      int64 // of the body, in bytes
	responses atomic.Int64
}

// take counts a response, unless it is the first one of the body and there is no memory left.
func (p *pin) take(m *ResponseMemory) bool {
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
func (p *pin) give(m *ResponseMemory) {
	if p != nil && p.responses.Add(-1) == 0 {
		m.give(p.size)
	}
}
