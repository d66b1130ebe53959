package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
)

// Acquire implements [isr.MetaStore]. A d that is not positive is refused.
//
// A request whose reply was lost is repeated under the same token: if the row
// that refuses it carries that token, the first one was carried out and the
// lease is ours. If the answer stays out, or the caller gives up, the row is
// deleted by its token before Acquire returns, within CallTimeout and whatever
// becomes of ctx; only if that is not answered either does the error wrap
// [isr.ErrUnknownOutcome], and then the worst that remains is a lease that
// nobody uses until it expires.
func (s *Store) Acquire(ctx context.Context, pk string, d time.Duration) (isr.Lease, error) {
	l, err := s.acquire(ctx, pk, d)
	if err != nil {
		return nil, fmt.Errorf("acquire the lease of %s: %w", pk, err)
	}
	return l, nil
}

func (s *Store) acquire(ctx context.Context, pk string, d time.Duration) (*lease, error) {
	d, err := leaseDuration(d)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err // nothing was asked, nothing needs to be settled
	}
	l := &lease{store: s, pk: pk, token: s.config.NewToken(), duration: d}
	started := time.Now()
	for attempt := 1; ; attempt++ {
		err := s.call(ctx, l.take)
		switch classify(err) {
		case applied:
			return l, nil
		case conditionFailed:
			return l.contest(err, started)
		case refused:
			if attempt == 1 {
				return nil, err
			}
		case cancelled, unknown:
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
	item := key(l.pk, skLock)
	item[attrToken] = text(l.token)
	item[attrExpiresAt] = number(expiresAt)
	item[attrTTL] = number(expiresAt + lockLinger)
	item[attrOwner] = text(s.config.Owner)
	out, err := s.api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.table,
		Item:      item,
		// A row without a number cannot say when it ends: it is free.
		ConditionExpression: aws.String(`attribute_not_exists(pk)` +
			` OR NOT attribute_type(lease_expires_at, :number) OR lease_expires_at <= :now`),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":number": text("N"), ":now": number(floorSeconds(now)),
		},
		ReturnValues:                        types.ReturnValueAllOld,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err != nil {
		return err
	}
	// A back-off that has passed, or a lease whose holder died.
	l.failures = decodeFailures(out.Attributes)
	l.granted(expiresAt, started)
	return nil
}

// contest reads the row that refused us. Our own token on it means that an
// earlier attempt, ours or the SDK's, was carried out and its reply lost.
func (l *lease) contest(err error, started time.Time) (*lease, error) {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return nil, err
	}
	found := row(failed.Item)
	lock := decodeLock(found)
	if found.text(attrToken) == l.token {
		l.granted(lock.ExpiresAt.Unix(), started)
		return l, nil
	}
	return nil, &isr.HeldError{Lock: *lock}
}

// abandon makes sure that a lease whose acquisition was not answered is nobody's.
// It gives up sooner than the settlement of a publish: what it leaves behind at
// worst ends by itself.
func (s *Store) abandon(ctx context.Context, l *lease, cause error) error {
	ctx, cancel := settling(ctx, s.config.CallTimeout)
	defer cancel()
	_, err := s.drop(ctx, l)
	s.config.Logger.Warn("isr: settled an unanswered acquisition", slog.String("pk", l.pk), slog.Any("cause", cause), slog.Any("err", err))
	if err != nil {
		return fmt.Errorf("%w: %w; giving it back: %w", isr.ErrUnknownOutcome, cause, err)
	}
	return cause
}

// drop deletes the LOCK row if it carries the lease's token, and insists on an
// answer. After a nil error no row carries the token, and no request that
// demands it can succeed any more. gone says that none did to begin with.
func (s *Store) drop(ctx context.Context, l *lease) (gone bool, err error) {
	err = s.repeat(ctx, false, l.erase)
	if classify(err) == conditionFailed {
		return true, nil
	}
	return false, err
}

// erase deletes the LOCK row if it is ours.
func (l *lease) erase(ctx context.Context) error {
	_, err := l.store.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:                 &l.store.table,
		Key:                       key(l.pk, skLock),
		ConditionExpression:       aws.String("lease_token = :token"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":token": text(l.token)},
	})
	return err
}
