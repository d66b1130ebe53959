package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
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
	claim    *claim // nil if there is no request record

	mu        sync.Mutex
	expiresAt int64     // epoch seconds, as last acknowledged; guarded by mu
	deadline  time.Time // the same on the monotonic clock; guarded by mu
	over      bool      // lost, released, backed off or published; guarded by mu
	closed    bool      // the claim was ended, or taken over; guarded by mu
}

var _ store.Lease = (*lease)(nil)

// PK implements [store.Lease].
func (l *lease) PK() string { return l.pk }

// Duration implements [store.Lease].
func (l *lease) Duration() time.Duration { return l.duration }

// Failures implements [store.Lease]. It is 0 if the reply to the acquisition, which
// has the replaced row, was lost.
func (l *lease) Failures() int { return l.failures }

// extended records an acknowledged acquisition or refresh. started is the time before
// it was sent, so that the time of the round trip is not added to the lease.
func (l *lease) extended(expiresAt int64, started time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiresAt = expiresAt
	l.deadline = started.Add(l.duration)
}

// running reports whether the lease has not expired by either clock: the wall clock,
// by which other processes judge it, and the monotonic clock, which is never adjusted.
func (l *lease) running() bool {
	now, monotonic := floorSeconds(l.store.config.Now()), time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expiresAt > now && l.deadline.After(monotonic)
}

// end marks the lease as ended. Neither a clock that is set back nor a row that is
// restored from a backup revives it in this process.
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

// openClaim returns the claim that the lease was acquired with; nil if there was none, or
// once it is closed.
func (l *lease) openClaim() *claim {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	return l.claim
}

// closeClaim marks the claim as ended or taken over.
func (l *lease) closeClaim() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// own returns the lease if this store made it, or [store.ErrForeignLease].
func (s *Store) own(l store.Lease) (*lease, error) {
	held, ok := l.(*lease)
	if !ok || held == nil || held.store != s {
		return nil, store.ErrForeignLease
	}
	return held, nil
}

// expiry returns the lease_expires_at of a lease that lasts d from now, rounded up so
// that no holder gets less than d.
func expiry(now time.Time, d time.Duration) int64 {
	return min(max(ceilSeconds(now.Add(d)), 0), maxMoment)
}

// newLease returns a lease that is not yet in the table.
func (s *Store) newLease(ctx context.Context, pk string, d time.Duration) (*lease, error) {
	if err := checkPartition(pk); err != nil {
		return nil, err
	}
	d, err := leaseDuration(d)
	if err != nil {
		return nil, err
	}
	if err := checkMoment("the store's clock", s.config.Now()); err != nil {
		return nil, fmt.Errorf("%w: %w", store.ErrInvalidInput, err) // its leases would never expire
	}
	if err := ctx.Err(); err != nil {
		return nil, err // nothing was sent, nothing needs to be settled
	}
	return &lease{store: s, pk: pk, token: s.config.NewToken(), duration: d}, nil
}

// leaseDuration rounds d up to whole seconds, at least one.
func leaseDuration(d time.Duration) (time.Duration, error) {
	if d <= 0 {
		return 0, fmt.Errorf("%w: a lease duration must be positive (got %v)", store.ErrInvalidInput, d)
	}
	return time.Duration(interval(d)) * time.Second, nil
}

// Refresh implements [store.MetaStore]. An error other than [store.ErrLeaseLost]
// leaves open whether the lease was extended; Refresh may be called again.
func (s *Store) Refresh(ctx context.Context, l store.Lease) error {
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("refresh a lease: %w", err)
	}
	if held.ended() {
		return fmt.Errorf("refresh the lease of %s: %w", held.pk, store.ErrLeaseLost)
	}
	name := "refresh"
	if held.openClaim() != nil {
		name += " with request"
	}
	err = s.execute(s.metered(ctx, name), operation{bounded: true, send: held.extend, refused: func(_ context.Context, err error, _ progress) (bool, error) {
		held.end()
		return false, fmt.Errorf("%w%s", store.ErrLeaseLost, describeHolder(err))
	}})
	if err != nil {
		return fmt.Errorf("refresh the lease of %s: %w", held.pk, err)
	}
	return nil
}

// extend extends a lease that is still ours and has not expired. An expired lease
// stays expired although the row still carries our token: DynamoDB may already have
// evaluated the condition of another process that takes it.
func (l *lease) extend(ctx context.Context) error {
	s := l.store
	now, started := s.config.Now(), time.Now()
	expiresAt := expiry(now, l.duration)
	err := l.writeExpiry(ctx, now, expiresAt)
	if err == nil {
		l.extended(expiresAt, started)
	}
	return err
}

// writeExpiry writes the new expiry of the lease, and of its claim if it has one. If
// the claim was taken over, the lease is lost with it.
func (l *lease) writeExpiry(ctx context.Context, now time.Time, expiresAt int64) error {
	s := l.store
	lock := newLockRow(s.at(l.pk, skLock), expiresAt)
	if c := l.openClaim(); c != nil {
		return s.newTransaction([]action{
			update(onLock, lock, []string{"ExpiresAt", "TTL"}, tabletheory.ConditionExpression(isHeld, l.heldAt(now))),
			c.extend(s, l.pk, expiresAt),
		}).send(ctx)
	}
	return s.leases.WithContext(ctx).Model(lock).
		WithConditionExpression(isHeld, l.heldAt(now)).
		Update("ExpiresAt", "TTL")
}

// isHeld is true of a LOCK row that is ours and has not expired.
const isHeld = "lease_token = :token AND lease_expires_at > :now"

// heldAt returns the values of isHeld.
func (l *lease) heldAt(now time.Time) map[string]any {
	return map[string]any{":token": l.token, ":now": floorSeconds(now)}
}

// Release implements [store.MetaStore]. It does not detach ctx: pass one that is not
// cancelled together with the work that it ends.
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	ctx = s.metered(ctx, "release")
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("release a lease: %w", err)
	}
	err = s.execute(ctx, operation{bounded: true, send: held.delete, refused: ignoreRefusal})
	if err != nil {
		return fmt.Errorf("release the lease of %s: %w", held.pk, err)
	}
	held.end()
	return nil
}

// BackOff implements [store.MetaStore]. A d that is not positive ends the lease
// now, with the failure counted. Like Release, it does not detach ctx.
func (s *Store) BackOff(ctx context.Context, l store.Lease, d time.Duration) error {
	ctx = s.metered(ctx, "back off")
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("back off: %w", err)
	}
	row := newLockRow(s.at(held.pk, skLock), expiry(s.config.Now(), max(d, 0)))
	row.Token = laxText(s.config.NewToken()) // of no lease
	// The count is a constant, not an addition: a repetition must not count the
	// failure twice.
	row.Failures = laxNumber(held.failures) + 1
	// A failed condition is a lost lease, or the effect of an attempt of ours whose
	// reply was lost. Both leave the row as it ought to be.
	err = s.execute(ctx, operation{bounded: true, refused: ignoreRefusal, send: func(ctx context.Context) error {
		return s.db.WithContext(ctx).Model(row).
			WithCondition("Token", "=", held.token).
			Update("Token", "ExpiresAt", "Failures", "TTL", "Owner")
	}})
	if err != nil {
		return fmt.Errorf("back off from %s: %w", held.pk, err)
	}
	held.end()
	return nil
}

// describeHolder describes the current holder for an error message, if the error of a
// failed condition has the row.
func describeHolder(err error) string {
	if canceled, ok := errors.AsType[*tabletheory.TransactionError](err); ok {
		lock, ok := canceled.Reason(label{purpose: onLock})
		if !ok || !lock.ConditionFailed() {
			return " (its request record was taken over or ended)"
		}
		return holder(lock)
	}
	failed, ok := errors.AsType[*tabletheory.ConditionError](err)
	if !ok {
		return ""
	}
	return holder(failed)
}

// holder describes the holder in the row of a failed condition.
func holder(failed interface{ Decode(dest any) error }) string {
	var found lockRow
	err := failed.Decode(&found)
	switch {
	case errors.Is(err, tabletheory.ErrItemNotFound):
		return " (there is no lease)"
	case err != nil:
		return fmt.Sprintf(" (read its holder: %v)", err)
	}
	return fmt.Sprintf(" (%v)", &store.HeldError{Lock: found.lock()})
}
