package budget

import "github.com/sony/gobreaker/v2"

// A State is what a budget does at a moment.
type State struct {
	Rendering int  // turns in use
	Waiting   int  // pages in the queue
	Open      bool // the circuit breaker is open, or lets one render through to probe the origin
}

// State returns the present state.
func (b *Budget) State() State {
	s := State{Open: b.breaker.State() != gobreaker.StateClosed} // before the lock, see mu
	b.mu.Lock()
	defer b.mu.Unlock()
	s.Rendering, s.Waiting = b.rendering, b.waiting[known]+b.waiting[unknown]+b.waiting[regeneration]
	return s
}
