package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// Refresh implements [store.MetaStore]. An error other than [store.ErrLeaseLost]
// leaves open whether the lease was extended; it may be called again.
func (s *Store) Refresh(ctx context.Context, l store.Lease) error {
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("refresh a lease: %w", err)
	}
	if held.ended() {
		return fmt.Errorf("refresh the lease of %s: %w", held.pk, store.ErrLeaseLost)
	}
	operation := "refresh"
	if held.request() != nil {
		operation += " with request"
	}
	err = s.try(s.during(ctx, operation), held.extend)
	if tabletheory.OutcomeOf(err) == tabletheory.ConditionFailed {
		held.end()
		return fmt.Errorf("refresh the lease of %s: %w%s", held.pk, store.ErrLeaseLost, whoHasIt(err))
	}
	if err != nil {
		return fmt.Errorf("refresh the lease of %s: %w", held.pk, err)
	}
	return nil
}

// extend moves the end of a lease that is still ours and has not passed. A lease
// that has expired stays so, although the row still carries our token: another
// node may be about to take it, by a request that has already been judged.
func (l *lease) extend(ctx context.Context) error {
	s := l.store
	now, started := s.config.Now(), time.Now()
	expiresAt := expiry(now, l.duration)
	err := l.move(ctx, now, expiresAt)
	if err == nil {
		l.granted(expiresAt, started)
	}
	return err
}

// move writes the new end of the lease, and of its request if it has one: one
// that was taken over takes the lease with it.
func (l *lease) move(ctx context.Context, now time.Time, expiresAt int64) error {
	s := l.store
	lock := newLockRow(s.at(l.pk, skLock), expiresAt)
	if a := l.request(); a != nil {
		return s.newRequest([]action{
			{opLock, func(tx *tabletheory.TransactionBuilder) {
				tx.Update(lock, []string{"ExpiresAt", "TTL"}, tabletheory.ConditionExpression(isHeld, l.heldAt(now)))
			}},
			a.extend(s, l.pk, expiresAt),
		}).send(ctx)
	}
	return s.db.WithContext(ctx).Model(lock).
		WithConditionExpression(isHeld, l.heldAt(now)).
		Update("ExpiresAt", "TTL")
}

// isHeld is true of a LOCK row that is ours and has not expired.
const isHeld = "lease_token = :token AND lease_expires_at > :now"

// heldAt are the values of isHeld.
func (l *lease) heldAt(now time.Time) map[string]any {
	return map[string]any{":token": l.token, ":now": floorSeconds(now)}
}

// Release implements [store.MetaStore]. It uses ctx as it is: give it one that is
// not cancelled together with the work that it ends.
func (s *Store) Release(ctx context.Context, l store.Lease) error {
	ctx = s.during(ctx, "release")
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("release a lease: %w", err)
	}
	err = s.try(ctx, held.erase)
	if err != nil && tabletheory.OutcomeOf(err) != tabletheory.ConditionFailed {
		return fmt.Errorf("release the lease of %s: %w", held.pk, err)
	}
	held.end()
	return nil
}

// BackOff implements [store.MetaStore]. A d that is not positive ends the lease
// now, with the failure counted. Like Release, it uses ctx as it is.
func (s *Store) BackOff(ctx context.Context, l store.Lease, d time.Duration) error {
	ctx = s.during(ctx, "back off")
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("back off: %w", err)
	}
	pause := newLockRow(s.at(held.pk, skLock), expiry(s.config.Now(), max(d, 0)))
	pause.Token = laxText(s.config.NewToken()) // nobody's, and nobody is told
	// The count is a constant, not an addition: a repetition must not count the
	// failure twice.
	pause.Failures = laxNumber(held.failures) + 1
	err = s.try(ctx, func(ctx context.Context) error {
		return s.db.WithContext(ctx).Model(pause).
			WithCondition("Token", "=", held.token).
			Update("Token", "ExpiresAt", "Failures", "TTL", "Owner")
	})
	// A failed condition is a lost lease, or the effect of an attempt of ours
	// whose reply was lost. Both leave the row as it ought to be.
	if err != nil && tabletheory.OutcomeOf(err) != tabletheory.ConditionFailed {
		return fmt.Errorf("back off from %s: %w", held.pk, err)
	}
	held.end()
	return nil
}

// whoHasIt names the present holder for an error message, if the refusal of a
// condition brought the row along.
func whoHasIt(err error) string {
	if canceled, ok := errors.AsType[*tabletheory.TransactionError](err); ok {
		lock, ok := canceled.Reason(label{purpose: opLock})
		if !ok || !lock.ConditionFailed() {
			return " (its request was taken over, or is ended)"
		}
		return holder(lock)
	}
	failed, ok := errors.AsType[*tabletheory.ConditionError](err)
	if !ok {
		return ""
	}
	return holder(failed)
}

// holder names the holder that the error of a condition brought along.
func holder(failed interface{ Decode(dest any) error }) string {
	var found lockRow
	err := failed.Decode(&found)
	switch {
	case errors.Is(err, tabletheory.ErrItemNotFound):
		return " (there is no lease)"
	case err != nil:
		return fmt.Sprintf(" (whose it is: %v)", err)
	}
	return fmt.Sprintf(" (%v)", &store.HeldError{Lock: found.lock()})
}
