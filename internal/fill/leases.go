package fill

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// A Held is a lease that this process holds.
type Held struct {
	Key   store.Key
	Route string // its label; empty for a lease that no fill holds
	Since time.Time
}

// Hold records a lease that this process has acquired, and returns the function that records
// its end. before is the lock that it has replaced, nil if none is known.
func (e *Engine) Hold(k store.Key, label string, before *store.Lock) (release func(lost bool)) {
	acquired := "acquired"
	if isLease(before) {
		acquired = "taken-over"
	}
	e.note(EventLease, acquired)
	h := &Held{Key: k, Route: label, Since: e.Now()}
	e.held.add(h)
	return func(lost bool) {
		e.held.remove(h)
		ended := "released"
		if lost {
			ended = "lost"
		}
		e.note(EventLease, ended)
	}
}

// Held returns the leases that this process holds, the oldest first.
func (e *Engine) Held() []Held {
	all := e.held.all()
	slices.SortFunc(all, func(a, b Held) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Key.Tenant, b.Key.Tenant), strings.Compare(a.Key.Text, b.Key.Text))
	})
	return all
}

// heldLeases are the leases that a process holds. The zero value is empty. All methods are safe
// for concurrent use.
type heldLeases struct {
	mu     sync.Mutex
	leases map[*Held]struct{} // guarded by mu; the elements do not change
}

func (l *heldLeases) add(h *Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leases == nil {
		l.leases = make(map[*Held]struct{})
	}
	l.leases[h] = struct{}{}
}

func (l *heldLeases) remove(h *Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.leases, h)
}

func (l *heldLeases) all() []Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]Held, 0, len(l.leases))
	for h := range l.leases {
		all = append(all, *h)
	}
	return all
}
