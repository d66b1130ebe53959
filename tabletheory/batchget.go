package tabletheory

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

const (
	// maxBatchGet is DynamoDB's bound on the keys of one BatchGetItem.
	maxBatchGet = 100
	// largeResponse is the size from which on a response may be incomplete because of its
	// size: DynamoDB ends it before it has 16 MB, or 1 MB of one partition, and an item has
	// up to 400 KB.
	largeResponse = (1<<10 - 400) << 10
)

// BatchGet reads items by their keys into dest, a pointer to a slice. A key is
// a struct of the model or, in a model without a sort key, a bare partition
// key. The items come in the order of their keys; keys without an item are left
// out, and a key that appears twice is read once.
//
// BatchGet sends requests of up to 100 keys. It requests unprocessed keys again
// until the context is done, with exponential backoff and jitter, unless the response
// had so many bytes that its size may be why they are unprocessed. On an error dest is
// unchanged.
func (q *Query) BatchGet(keys []any, dest any) error {
	if err := q.begin("BatchGet", callSelect|callConsistentRead); err != nil {
		return err
	}
	l, err := q.destList("BatchGet", dest)
	if err != nil {
		return err
	}
	b, err := q.batchOf(keys)
	if err != nil {
		return err
	}
	if err := b.read(q.ctx); err != nil {
		return err
	}
	if err := l.add(q.ctx, q, b.inOrder()); err != nil {
		return err
	}
	l.store()
	return nil
}

// batch is a BatchGet in progress.
type batch struct {
	*Query
	projection *string
	order      []string // identities of all keys, without duplicates
	pending    []model.Item
	found      map[string]model.Item // by identity
}

func (q *Query) batchOf(keys []any) (*batch, error) {
	b := &batch{Query: q, projection: q.projection(), found: make(map[string]model.Item, len(keys))}
	asked := make(map[string]bool, len(keys))
	for i, v := range keys {
		key, err := q.keyOf(v)
		if err != nil {
			return nil, invalid("BatchGet: key %d: %w", i, err)
		}
		id := q.identity(key)
		if asked[id] {
			continue
		}
		asked[id] = true
		b.order = append(b.order, id)
		b.pending = append(b.pending, key)
	}
	return b, nil
}

// read sends requests until no key is pending.
func (b *batch) read(ctx context.Context) error {
	for throttled := 0; len(b.pending) > 0; {
		asked := min(len(b.pending), maxBatchGet)
		left, size, err := b.fetch(ctx, b.pending[:asked])
		if err != nil {
			return b.failure("batch get", nil, err)
		}
		b.pending = append(b.pending[asked:], left...)
		if len(left) == 0 || size >= largeResponse {
			throttled = 0
			continue
		}
		if throttled++; !waitAfter(ctx, throttled) {
			return b.failure("batch get", nil, fmt.Errorf("%d of %d keys are unprocessed: %w: %w", len(b.pending), len(b.order), ErrThrottled, context.Cause(ctx)))
		}
	}
	return nil
}

// fetch sends one request and returns the unprocessed keys, and about how many bytes the
// response had.
func (b *batch) fetch(ctx context.Context, keys []model.Item) (left []model.Item, size int, err error) {
	out, err := b.api.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{b.table: {
			Keys: keys, ConsistentRead: b.consistency(),
			ProjectionExpression: b.projection, ExpressionAttributeNames: b.expressions.Names(),
		}},
	})
	if err != nil {
		return nil, 0, err
	}
	for _, item := range out.Responses[b.table] {
		b.found[b.identity(item)] = item
		size += itemWireSize(item)
	}
	return out.UnprocessedKeys[b.table].Keys, size, nil
}

// inOrder returns the items in the order of their keys.
func (b *batch) inOrder() []model.Item {
	items := make([]model.Item, 0, len(b.found))
	for _, id := range b.order {
		if item, ok := b.found[id]; ok {
			items = append(items, item)
		}
	}
	return items
}
