package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
)

// Refresh implements [isr.MetaStore]. An error other than [isr.ErrLeaseLost]
// leaves open whether the lease was extended; it may be called again.
func (s *Store) Refresh(ctx context.Context, l isr.Lease) error {
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("refresh a lease: %w", err)
	}
	if held.ended() {
		return fmt.Errorf("refresh the lease of %s: %w", held.pk, isr.ErrLeaseLost)
	}
	err = s.try(ctx, held.extend)
	if classify(err) == conditionFailed {
		held.end()
		return fmt.Errorf("refresh the lease of %s: %w%s", held.pk, isr.ErrLeaseLost, whoHasIt(err))
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
	_, err := s.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &s.table,
		Key:                      key(l.pk, skLock),
		UpdateExpression:         aws.String("SET lease_expires_at = :expires_at, #ttl = :ttl"),
		ConditionExpression:      aws.String("lease_token = :token AND lease_expires_at > :now"),
		ExpressionAttributeNames: map[string]string{"#ttl": attrTTL},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":token": text(l.token), ":now": number(floorSeconds(now)),
			":expires_at": number(expiresAt), ":ttl": number(expiresAt + lockLinger),
		},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err == nil {
		l.granted(expiresAt, started)
	}
	return err
}

// Release implements [isr.MetaStore]. It uses ctx as it is: give it one that is
// not cancelled together with the work that it ends.
func (s *Store) Release(ctx context.Context, l isr.Lease) error {
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("release a lease: %w", err)
	}
	err = s.try(ctx, held.erase)
	if err != nil && classify(err) != conditionFailed {
		return fmt.Errorf("release the lease of %s: %w", held.pk, err)
	}
	held.end()
	return nil
}

// BackOff implements [isr.MetaStore]. A d that is not positive ends the lease
// now, with the failure counted. Like Release, it uses ctx as it is.
func (s *Store) BackOff(ctx context.Context, l isr.Lease, d time.Duration) error {
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("back off: %w", err)
	}
	until := expiry(s.config.Now(), max(d, 0))
	nobody := s.config.NewToken() // and nobody is told
	err = s.try(ctx, func(ctx context.Context) error {
		_, err := s.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.table,
			Key:       key(held.pk, skLock),
			// The count is a constant, not an addition: a repetition must not
			// count the failure twice.
			UpdateExpression: aws.String("SET lease_token = :nobody, lease_expires_at = :until," +
				" failures = :failures, #ttl = :ttl REMOVE lease_owner"),
			ConditionExpression:      aws.String("lease_token = :token"),
			ExpressionAttributeNames: map[string]string{"#ttl": attrTTL},
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":token": text(held.token), ":nobody": text(nobody), ":until": number(until),
				":failures": number(int64(held.failures) + 1), ":ttl": number(until + lockLinger),
			},
		})
		return err
	})
	// A failed condition is a lost lease, or the effect of an attempt of ours
	// whose reply was lost. Both leave the row as it ought to be.
	if err != nil && classify(err) != conditionFailed {
		return fmt.Errorf("back off from %s: %w", held.pk, err)
	}
	held.end()
	return nil
}

// whoHasIt names the present holder for an error message, if the refusal of a
// condition brought the row along.
func whoHasIt(err error) string {
	failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err)
	if !ok {
		return ""
	}
	return holder(failed.Item)
}

func holder(lock row) string {
	if lock == nil {
		return " (there is no lease)"
	}
	return fmt.Sprintf(" (%v)", &isr.HeldError{Lock: *decodeLock(lock)})
}
