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

// Acquire implements [store.MetaStore]. A d that is not positive is refused.
//
// A request whose reply was lost is repeated under the same token: if the row
// that refuses it carries that token, the first one was carried out and the
// lease is ours. If the answer stays out, or the caller gives up, the row is
// deleted by its token before Acquire returns, within CallTimeout and whatever
// becomes of ctx; only if that is not answered either does the error wrap
// [store.ErrUnknownOutcome], and then the worst that remains is a lease that
// nobody uses until it expires.
//
// With a claim the same holds of its record, which counts as failed if it was
// begun and given back: it may be made again.
func (s *Store) Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error) {
	l, err := s.acquireAs(ctx, pk, d, claim)
	if err != nil {
		return nil, fmt.Errorf("acquire the lease of %s: %w", pk, err)
	}
	return l, nil
}

func (s *Store) acquireAs(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (*lease, error) {
	if claim != nil {
		return s.acquireFor(ctx, pk, d, claim)
	}
	return s.acquire(ctx, pk, d)
}

func (s *Store) acquire(ctx context.Context, pk string, d time.Duration) (*lease, error) {
	ctx = s.during(ctx, "acquire")
	l, err := s.newLease(ctx, pk, d)
	if err != nil {
		return nil, err
	}
	started := time.Now()
	for attempt := 1; ; attempt++ {
		err := s.call(ctx, l.take)
		if refusal, ok := errors.AsType[*tabletheory.ConditionError](err); ok {
			return l.contest(refusal, started) // the token on the row settles an echo
		}
		switch tabletheory.OutcomeOf(err) {
		case tabletheory.Applied:
			return l, nil
		case tabletheory.ConditionFailed, tabletheory.Refused:
			if attempt == 1 {
				return nil, err
			}
		case tabletheory.Cancelled, tabletheory.Unknown:
			if !s.spent(attempt, started) && s.pause(ctx, attempt) {
				continue
			}
		}
		return nil, s.abandon(ctx, l, err)
	}
}

// take asks for the LOCK row once. If we crash here, a lease expires.
func (l *lease) take(ctx context.Context) error {
	s := l.store
	now, started := s.config.Now(), time.Now()
	expiresAt := expiry(now, l.duration)
	var replaced lockRow
	err := s.db.WithContext(ctx).Model(l.lockRow(expiresAt)).
		WithConditionExpression(isFree, freeAt(now)).
		ReturnOld(&replaced).
		CreateOrUpdate()
	if err != nil {
		return err
	}
	// A back-off that has passed, or a lease whose holder died.
	l.failures = replaced.failures()
	l.granted(expiresAt, started)
	return nil
}

// contest reads the row that refused us. Our own token on it means that an
// earlier attempt, ours or the SDK's, was carried out and its reply lost.
func (l *lease) contest(refusal *tabletheory.ConditionError, started time.Time) (*lease, error) {
	var found lockRow
	if err := refusal.Decode(&found); err != nil && !errors.Is(err, tabletheory.ErrItemNotFound) {
		return nil, errors.Join(refusal, err)
	}
	if string(found.Token) == l.token {
		l.granted(int64(found.ExpiresAt), started)
		return l, nil
	}
	return nil, &store.HeldError{Lock: found.lock()}
}

// abandon makes sure that a lease whose acquisition was not answered is nobody's.
// It gives up sooner than the settlement of a publish: what it leaves behind at
// worst ends by itself.
func (s *Store) abandon(ctx context.Context, l *lease, cause error) error {
	ctx, cancel := settling(ctx, s.config.CallTimeout)
	defer cancel()
	_, err := s.drop(ctx, l)
	if err == nil {
		err = l.abandonRequest(ctx, cause)
	}
	s.config.Logger.Warn("isr: settled an unanswered acquisition", slog.String("pk", l.pk), slog.Any("cause", cause), slog.Any("err", err))
	if err != nil {
		return fmt.Errorf("%w: %w; giving it back: %w", store.ErrUnknownOutcome, cause, err)
	}
	return cause
}

// drop deletes the LOCK row if it carries the lease's token, and insists on an
// answer. After a nil error no row carries the token, and no request that
// demands it can succeed any more. gone says that none did to begin with.
func (s *Store) drop(ctx context.Context, l *lease) (gone bool, err error) {
	err = s.repeat(ctx, false, l.erase)
	if tabletheory.OutcomeOf(err) == tabletheory.ConditionFailed {
		return true, nil
	}
	return false, err
}

// erase deletes the LOCK row if it is ours.
func (l *lease) erase(ctx context.Context) error {
	return l.store.db.WithContext(ctx).Model(&lockRow{location: l.store.at(l.pk, skLock)}).
		WithCondition("Token", "=", l.token).
		Delete()
}
