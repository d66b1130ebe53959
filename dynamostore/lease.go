package dynamostore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// A lease is the right to regenerate one page, proven by its token. The token
// stays the same for the life of the lease, so that a refresh whose reply was
// lost can be repeated.
type lease struct {
	store    *Store
	pk       string
	token    string
	duration time.Duration
	failures int
	attempt  *attempt // at a request; nil without one

	mu        sync.Mutex
	expiresAt int64     // epoch seconds, as last acknowledged; guarded by mu
	deadline  time.Time // the same on the monotonic clock; guarded by mu
	over      bool      // lost, released, backed off or published; guarded by mu
	answered  bool      // the request is ended, or another's; guarded by mu
}

var _ store.Lease = (*lease)(nil)

// PK implements [store.Lease].
func (l *lease) PK() string { return l.pk }

// Duration implements [store.Lease].
func (l *lease) Duration() time.Duration { return l.duration }

// Failures implements [store.Lease]. It is 0 if the reply to the acquisition was
// lost, and with it the row that the acquisition replaced.
func (l *lease) Failures() int { return l.failures }

// granted notes an acknowledged acquisition or refresh, which was asked for at
// started: before the request left, so that time on the way counts against us.
func (l *lease) granted(expiresAt int64, started time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiresAt = expiresAt
	l.deadline = started.Add(l.duration)
}

// running says that neither clock has seen the end of the lease: the wall clock
// that others judge it by, and the monotonic one, which no adjustment moves.
func (l *lease) running() bool {
	now, monotonic := floorSeconds(l.store.config.Now()), time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expiresAt > now && l.deadline.After(monotonic)
}

// end notes that the lease is gone for good. A clock that is set back, or a row
// that comes back from a backup, does not revive it in this process.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}

func (l *lease) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// request is the attempt that the lease was acquired for, nil once it is ended.
func (l *lease) request() *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answered {
		return nil
	}
	return l.attempt
}

// endRequest notes that the request is not this lease's concern any more.
func (l *lease) endRequest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered = true
}

// own returns the lease if this very store made it.
func (s *Store) own(l store.Lease) (*lease, error) {
	held, ok := l.(*lease)
	if !ok || held == nil || held.store != s {
		return nil, store.ErrForeignLease
	}
	return held, nil
}

// expiry is the lease_expires_at of a lease that lasts d from now, rounded up so
// that no holder gets less than it asked for.
func expiry(now time.Time, d time.Duration) int64 {
	return min(max(ceilSeconds(now.Add(d)), 0), maxMoment)
}

// newLease is a lease that nobody has asked for yet.
func (s *Store) newLease(ctx context.Context, pk string, d time.Duration) (*lease, error) {
	if err := checkPartition(pk); err != nil {
		return nil, err
	}
	d, err := leaseDuration(d)
	if err != nil {
		return nil, err
	}
	if err := checkMoment("the store's clock", s.config.Now()); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalidInput, err) // its leases would never end
	}
	if err := ctx.Err(); err != nil {
		return nil, err // nothing was asked, nothing needs to be settled
	}
	return &lease{store: s, pk: pk, token: s.config.NewToken(), duration: d}, nil
}

// leaseDuration rounds a requested lifetime up to whole seconds, at least one.
func leaseDuration(d time.Duration) (time.Duration, error) {
	if d <= 0 {
		return 0, fmt.Errorf("%w: a lease of %v is no lease: expected a duration of a second or more", store.ErrInvalidInput, d)
	}
	return time.Duration(interval(d)) * time.Second, nil
}
