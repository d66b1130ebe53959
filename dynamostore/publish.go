package dynamostore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
)

// Positions in the publish transaction, for reading its cancellation reasons.
const (
	opMeta = iota
	opLock
)

// tokenLife is how long a request is repeated under one ClientRequestToken:
// DynamoDB remembers tokens for ten minutes.
const tokenLife = 8 * time.Minute

// Publish implements [isr.MetaStore], by recipe A of the reference documents:
// one transaction that updates META, if it is exactly what was read, and deletes
// LOCK, if the lease is ours and has not expired. It costs four write units if
// META has at most 1 KB.
//
// The entry that is returned is next as a reader will find it, its times in
// whole seconds.
//
// A request without an answer is repeated unchanged, under the same client
// token, until the lease ends or ctx is done. If there is no answer even then,
// Publish settles the matter, on a context of its own of SettleTimeout: it
// deletes LOCK, after which the transaction can no longer land, and then looks
// whether it has. So a caller that cancels ctx waits for as long as that at
// worst, and is told the truth: nil if the generation was published.
func (s *Store) Publish(ctx context.Context, l isr.Lease, read isr.Record, next isr.Entry) (isr.Entry, error) {
	held, err := s.own(l)
	if err != nil {
		return isr.Entry{}, fmt.Errorf("publish: %w", err)
	}
	if held.ended() {
		return isr.Entry{}, fmt.Errorf("publish %s: %w", held.pk, isr.ErrLeaseLost)
	}
	p, err := s.newPublication(held, read, next)
	if err == nil {
		err = p.run(ctx)
	}
	if errors.Is(err, isr.ErrLeaseLost) {
		held.end()
	}
	if err != nil {
		return isr.Entry{}, fmt.Errorf("publish %s: %w", held.pk, err)
	}
	held.end()
	return p.next, nil
}

// A publication is one call of Publish.
type publication struct {
	store *Store
	lease *lease
	fence fence
	next  isr.Entry
	sent  []*dynamodb.TransactWriteItemsInput // each with its own client token
}

func (s *Store) newPublication(l *lease, read isr.Record, next isr.Entry) (*publication, error) {
	f, ok := read.Fence.(fence)
	if !ok || f.pk != l.pk {
		return nil, fmt.Errorf("the record was not read from this partition")
	}
	next, err := normalize(next)
	if err != nil {
		return nil, err
	}
	next.Version = f.next(s.config.Now())
	return &publication{store: s, lease: l, fence: f, next: next}, nil
}

// run sends the transaction until it has an answer.
func (p *publication) run(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // nothing was sent, nothing needs to be settled
	}
	started := time.Now()
	request := p.request()
	for attempt := 1; ; attempt++ {
		err := p.send(ctx, request)
		switch classify(err) {
		case applied:
			// Crashing here loses nothing: META and LOCK are as they should be.
			return nil
		case conditionFailed:
			return p.refusal(ctx, err, attempt == 1)
		case refused:
			if attempt == 1 {
				return withReasons(err)
			}
			return p.settle(ctx, withReasons(err))
		case cancelled, unknown:
		}
		if !p.store.pause(ctx, attempt) || !p.lease.running() || time.Since(started) > tokenLife {
			return p.settle(ctx, err)
		}
		if classify(err) == cancelled {
			request = p.request()
		}
	}
}

func (p *publication) send(ctx context.Context, request *dynamodb.TransactWriteItemsInput) error {
	return p.store.call(ctx, func(ctx context.Context) error {
		_, err := p.store.api.TransactWriteItems(ctx, request)
		return err
	})
}

// request makes a transaction with a client token and a :now of its own.
func (p *publication) request() *dynamodb.TransactWriteItemsInput {
	request := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: aws.String(rand.Text()),
		TransactItems: []types.TransactWriteItem{
			opMeta: {Update: p.updateMeta()},
			opLock: {Delete: p.deleteLock()},
		},
	}
	p.sent = append(p.sent, request)
	return request
}

// updateMeta sets or removes every attribute of the reference, so that no
// generation inherits from another, and leaves those alone that we do not know.
func (p *publication) updateMeta() *types.Update {
	values := map[string]types.AttributeValue{
		":s3_key":       text(p.next.BodyKey),
		":generated_at": number(p.next.GeneratedAt.Unix()),
		":revalidate":   number(interval(p.next.Revalidate)),
		":isr":          encodeISR(p.next),
	}
	set := "SET s3_key = :s3_key, generated_at = :generated_at, revalidate_seconds = :revalidate, isr = :isr"
	remove := " REMOVE current_sk"
	if p.next.ETag != "" {
		set += ", etag = :etag"
		values[":etag"] = text(p.next.ETag)
	} else {
		remove += ", etag"
	}
	if !p.next.Expires.IsZero() {
		set += ", #ttl = :ttl"
		values[":ttl"] = number(p.next.Expires.Unix())
	} else {
		remove += ", #ttl"
	}
	return &types.Update{
		TableName:                           &p.store.table,
		Key:                                 key(p.lease.pk, skMeta),
		UpdateExpression:                    aws.String(set + remove),
		ConditionExpression:                 aws.String(p.fence.condition(values)),
		ExpressionAttributeNames:            map[string]string{"#ttl": attrTTL},
		ExpressionAttributeValues:           values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}

// deleteLock gives up the lease and is the proof that it was held: DynamoDB
// allows one operation per item, so that there is no separate check.
func (p *publication) deleteLock() *types.Delete {
	return &types.Delete{
		TableName:           &p.store.table,
		Key:                 key(p.lease.pk, skLock),
		ConditionExpression: aws.String("lease_token = :token AND lease_expires_at > :now"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":token": text(p.lease.token),
			":now":   number(floorSeconds(p.store.config.Now())),
		},
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
}
