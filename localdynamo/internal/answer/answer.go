// Package answer bounds the memory of responses. Values of an item take many times their
// stored size once they are decoded and encoded as JSON, and a response lasts until its
// client has read it. So a few hundred clients could exhaust the memory of a machine with
// requests of a few bytes.
//
// A server has one Budget, and gives the engine a Meter for each response in the request's
// context. The engine adds what it decodes. While there is room this costs nothing. When the
// budget is used up, the engine drops what it has read, waits outside of the store's
// transaction until there is room for what the response is likely to take, and reads again;
// at last it waits until this response is the only one.
package answer

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// Free is the size of a response that is not taken from the budget, in bytes. Small
	// responses go on while the budget is used up.
	Free = 64 << 10

	// Patience is how long a request waits for room in the budget: less than SDKs wait for a
	// response.
	Patience = 20 * time.Second

	// Inflation is how many bytes a response takes at most for each byte of the stored items,
	// unless they consist of values without content, such as NULL. It is for items that have
	// not been decoded.
	Inflation = 20

	grain = 256 << 10 // bytes taken from the budget at a time
)

var (
	// ErrFull means that a response does not fit into the budget now.
	ErrFull = errors.New("the budget of responses is used up")

	// ErrBusy means that a request has waited for Patience.
	ErrBusy = errors.New("the responses in flight exceed the memory limit")
)

// Budget is the memory for the responses in flight. It is safe for concurrent use.
type Budget struct {
	size int64
	free *semaphore.Weighted // first come, first served
}

// NewBudget returns a budget of size bytes.
func NewBudget(size int64) *Budget {
	return &Budget{size: size, free: semaphore.NewWeighted(size)}
}

// Meter is the part of one response in a budget. It belongs to the goroutine of the request.
// All methods of a nil Meter succeed and do nothing: the response has no bound.
type Meter struct {
	budget *Budget
	used   int64 // added
	stored int64 // size of the stored items that were added
	held   int64 // taken from the budget
	alone  bool  // has the whole budget
}

// Meter returns a meter for one response. It must be closed.
func (b *Budget) Meter() Meter { return Meter{budget: b} }

// Add adds n bytes, of an item of stored bytes, and reports whether they fit into the budget. If
// they do not, the caller must drop the response, and call Reserve before it starts again.
func (m *Meter) Add(n, stored int) bool {
	if m == nil {
		return true
	}
	m.used += int64(n)
	m.stored += int64(stored)
	if m.alone || m.used <= Free+m.held {
		return true
	}
	more := (m.used - Free - m.held + grain - 1) / grain * grain
	if !m.budget.free.TryAcquire(more) {
		return false
	}
	m.held += more
	return true
}

// Estimate returns how many bytes a response of items of stored bytes takes, if all are like those
// that were added.
func (m *Meter) Estimate(stored int) int {
	if m == nil || m.stored == 0 {
		return 0
	}
	return int(float64(m.used) * max(1, float64(stored)/float64(m.stored)))
}

// Reserve starts the response again. It waits until n bytes are taken for it, or the whole
// budget if that is less; with the whole budget Add succeeds always. The error is ErrBusy after
// Patience, or the error of ctx.
func (m *Meter) Reserve(ctx context.Context, n int) error {
	if m == nil {
		return nil
	}
	m.Close()
	if n <= Free {
		return nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, Patience, ErrBusy)
	defer cancel()
	held := min(int64(n), m.budget.size)
	if err := m.budget.free.Acquire(limited, held); err != nil {
		return context.Cause(limited)
	}
	m.held, m.alone = held, held == m.budget.size
	return nil
}

// Settle gives back all but n bytes: the size of the encoded response.
func (m *Meter) Settle(n int) {
	if keep := max(int64(n)-Free, 0); keep < m.held {
		m.budget.free.Release(m.held - keep)
		m.held = keep
	}
}

// Close gives everything back. The meter can be used again.
func (m *Meter) Close() {
	if m.held > 0 {
		m.budget.free.Release(m.held)
	}
	m.used, m.stored, m.held, m.alone = 0, 0, 0, false
}

type contextKey struct{}

// With returns a context that carries the meter of a response.
func With(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, contextKey{}, m)
}

// From returns the meter of ctx, or nil if there is none.
func From(ctx context.Context) *Meter {
	m, _ := ctx.Value(contextKey{}).(*Meter)
	return m
}
