package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// Acquire implements [store.MetaStore]. It refuses a d that is not positive.
//
// An attempt whose reply was lost is repeated under the same lease token: if the
// row that fails the condition carries that token, the first attempt was executed
// and the lease is ours. If there is still no reply, or the caller gives up, Acquire
// deletes the row by its token before it returns, within CallTimeout and independently
// of ctx. Only if that has no reply either does the error wrap
// [store.ErrUnknownOutcome]; at worst an unused lease remains until it expires.
//
// The same holds for the request record of a claim. A claim that was written and
// then given back is FAILED, and may be made again.
func (s *Store) Acquire(ctx context.Context, pk string, d time.Duration, c *store.Claim) (store.Lease, error) {
	acquire := s.acquire
	if c != nil {
		acquire = func(ctx context.Context, pk string, d time.Duration) (*lease, error) {
			return s.acquireWithClaim(ctx, pk, d, c)
		}
	}
	l, err := acquire(ctx, pk, d)
	if err != nil {
		return nil, fmt.Errorf("acquire the lease of %s: %w", pk, err)
	}
	return l, nil
}

func (s *Store) acquire(ctx context.Context, pk string, d time.Duration) (*lease, error) {
	ctx = s.metered(ctx, "acquire")
	l, err := s.newLease(ctx, pk, d)
	if err != nil {
		return nil, err
	}
	err = s.execute(ctx, operation{
		bounded: true, send: l.put, classify: outcomeOfPut, refused: l.contest,
		settle: func(ctx context.Context, cause error, _ progress) error { return l.abandon(ctx, cause) },
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// put writes the LOCK row once. If we crash here, the lease expires, or is gone if its row was
// not on disk yet (see [Config.Leases]): nothing that it protected can happen any more, because
// the holder is this process. No token returns, and what orders generations is the fence in
// META, which only durable writes change.
func (l *lease) put(ctx context.Context) error {
	s := l.store
	now, started := s.config.Now(), time.Now()
	expiresAt := expiry(now, l.duration)
	var replaced lockRow
	err := s.leases.WithContext(ctx).Model(l.lockRow(expiresAt)).
		WithConditionExpression(isFree, freeAt(now)).
		ReturnOld(&replaced).
		CreateOrUpdate()
	if err != nil {
		return err
	}
	// The replaced row is a back-off row that has expired, or the lease of a holder
	// that died.
	l.failures = replaced.failures()
	l.extended(expiresAt, started)
	return nil
}

// outcomeOfPut is [tabletheory.OutcomeOf] for put. A failed condition is definite
// even if an earlier attempt of the SDK had no reply: the token on the row shows
// whose it is.
func outcomeOfPut(err error) tabletheory.Outcome {
	if _, ok := errors.AsType[*tabletheory.ConditionError](err); ok {
		return tabletheory.ConditionFailed
	}
	return tabletheory.OutcomeOf(err)
}

// contest reads the row that failed the condition. Our own token on it means that an
// earlier attempt, ours or the SDK's, was executed and its reply lost.
func (l *lease) contest(_ context.Context, err error, p progress) (retry bool, result error) {
	failed, ok := errors.AsType[*tabletheory.ConditionError](err)
	if !ok {
		return false, err
	}
	var found lockRow
	if err := failed.Decode(&found); err != nil && !errors.Is(err, tabletheory.ErrItemNotFound) {
		return false, errors.Join(failed, err)
	}
	if string(found.Token) == l.token {
		l.extended(int64(found.ExpiresAt), p.started)
		return false, nil
	}
	return false, &store.HeldError{Lock: found.lock()}
}

// abandon deletes a lease whose acquisition had no reply. It gives up sooner than the
// settlement of a publish, because a lease that stays behind expires.
func (l *lease) abandon(ctx context.Context, cause error) error {
	s := l.store
	ctx, cancel := settling(ctx, s.config.CallTimeout)
	defer cancel()
	_, err := l.revoke(ctx)
	if err == nil {
		// The lease is gone: a claim that was written can be made again.
		err = l.failClaim(ctx, cause)
	}
	s.config.Logger.Warn("isr: settled an acquisition whose reply was lost", slog.String("pk", l.pk), slog.Any("cause", cause), slog.Any("err", err))
	if err != nil {
		return fmt.Errorf("%w: %w; giving it back: %w", store.ErrUnknownOutcome, cause, err)
	}
	return cause
}

// revoke deletes the LOCK row if it carries the lease's token, and repeats that until
// ctx ends. After a nil error no row carries the token, and no write that requires it
// can be executed later. gone reports that no row carried it before.
func (l *lease) revoke(ctx context.Context) (gone bool, err error) {
	err = l.store.execute(ctx, operation{send: l.delete, refused: func(context.Context, error, progress) (bool, error) {
		gone = true
		return false, nil
	}})
	return gone && err == nil, err
}

// delete deletes the LOCK row if it carries the lease's token.
func (l *lease) delete(ctx context.Context) error {
	return l.store.leases.WithContext(ctx).Model(&lockRow{location: l.store.at(l.pk, skLock)}).
		WithCondition("Token", "=", l.token).
		Delete()
}
