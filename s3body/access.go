package s3body

import (
	"context"
	"sync"
	"time"
)

// access caches what is known about the permissions on the bucket. It is safe for
// concurrent use.
type access struct {
	mu            sync.Mutex
	deniedUntil   time.Time
	unlistedUntil time.Time
	latest, next  *look // the look that began last, and the next one, nil if no caller waits for it
}

// A look is a request that several callers share.
type look struct {
	done chan struct{} // closed when err is set
	err  error
}

// deny records that reads are denied; isDenied reports whether that was recorded
// within deniedFor.
func (a *access) deny()          { a.remember(&a.deniedUntil) }
func (a *access) isDenied() bool { return a.remembers(&a.deniedUntil) }

// refuseList records that the bucket may not be listed; mayList reports whether that
// was not recorded within deniedFor.
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

// look waits for a call of do that begins after look was called. Calls run one at a
// time, and all waiters for the next call share it. A call outlives its callers; do
// must bound its duration.
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
	a.latest, a.next = l, nil // callers from here on need the next look
	a.mu.Unlock()
	l.err = do(ctx)
	close(l.done)
}
