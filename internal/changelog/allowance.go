package changelog

import (
	"sync"
	"time"
)

// A pollAllowance limits the polls that others ask for to half as many as the follower
// makes anyway: visitors who send invented receipts, and peers that lie, must not use up the
// reads of the log. A few may follow each other at once. It is safe for concurrent use.
type pollAllowance struct {
	mu   sync.Mutex
	used time.Time       // guarded by mu: up to when the allowance is used
	last <-chan struct{} // guarded by mu: the poll that was last asked for
}

// pollBurst is how many polls may be asked for at once.
const pollBurst = 4

// take reports whether the poll at whose end next is closed may be made at once. every is
// the interval of the follower.
func (a *pollAllowance) take(next <-chan struct{}, every time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == next {
		return true // asked for already
	}
	now := time.Now()
	if a.used.Before(now) {
		a.used = now
	}
	if a.used.Sub(now) >= pollBurst*2*every {
		return false
	}
	a.used, a.last = a.used.Add(2*every), next
	return true
}
