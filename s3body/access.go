package s3body

import (
	"context"
	"sync"
	"time"
)

// access remembers what was found out about the permissions on the bucket. It is
// safe for concurrent use.
type access struct {
	mu            sync.Mutex
	deniedUntil   time.Time
	unlistedUntil time.Time
	latest, next  *look // the one that began last, and the one that is to begin
}

// A look is one that several callers wait for.
type look struct {
	done chan struct{} // closed when err is set
	err  error
}

// deny remembers that reads are denied, and isDenied reports that they were
// within deniedFor.
func (a *access) deny()          { a.remember(&a.deniedUntil) }
func (a *access) isDenied() bool { return a.remembers(&a.deniedUntil) }

// refuseList remembers that the bucket may not be listed, and mayList reports
// that this is not known.
func (a *access) refuseList()   { a.remember(&a.unlistedUntil) }
func (a *access) mayList() bool { return !a.remembers(&a.unlistedUntil) }

func (a *access) remember(until *time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*until = time.Now().Add(deniedFor)
}

func (a *access) remembers(until *time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Now().Before(*until)
}

// look waits for a call of do that begins after look was called. Calls come one
// after the other; all who wait for the next one share it. It outlives its
// callers, and do bounds its time.
func (a *access) look(ctx context.Context, do func(context.Context) error) error {
	a.mu.Lock()
	l := a.next
	if l == nil {
		l = &look{done: make(chan struct{})}
		a.next = l
		go a.run(context.WithoutCancel(ctx), l, a.latest, do)
	}
	a.mu.Unlock()
	select {
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *access) run(ctx context.Context, l, before *look, do func(context.Context) error) {
	if before != nil {
		<-before.done
	}
	a.mu.Lock()
	a.latest, a.next = l, nil // a caller from here on comes too late for it
	a.mu.Unlock()
	l.err = do(ctx)
	close(l.done)
}
