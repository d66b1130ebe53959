package tabletheory

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// maxBatchGet is DynamoDB's bound on the keys of one BatchGetItem.
const maxBatchGet = 100

// BatchGet reads items by their keys into dest, a pointer to a slice. A key is
// a struct of the model or, in a model without a sort key, a bare partition
// key. The items come in the order of their keys; keys without an item are left
// out, and a key that appears twice is read once.
//
// BatchGet sends requests of up to 100 keys. It requests unprocessed keys again
// until the context is done, with exponential backoff and jitter while DynamoDB
// processes nothing. On an error dest is unchanged.
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
	for idle := 0; len(b.pending) > 0; {
		asked := min(len(b.pending), maxBatchGet)
		left, err := b.fetch(ctx, b.pending[:asked])
		if err != nil {
			return b.failure("batch get", nil, err)
		}
		b.pending = append(b.pending[asked:], left...)
		if len(left) < asked {
			idle = 0
			continue
		}
		if idle++; !waitAfter(ctx, idle) {
			return b.failure("batch get", nil, fmt.Errorf("%d of %d keys are unprocessed: %w: %w", len(b.pending), len(b.order), ErrThrottled, context.Cause(ctx)))
		}
	}
	return nil
}

// fetch sends one request and returns the unprocessed keys.
func (b *batch) fetch(ctx context.Context, keys []model.Item) ([]model.Item, error) {
	out, err := b.api.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{b.table: {
			Keys: keys, ConsistentRead: b.consistency(),
			ProjectionExpression: b.projection, ExpressionAttributeNames: b.expressions.Names(),
		}},
	})
	if err != nil {
		return nil, err
	}
	for _, item := range out.Responses[b.table] {
		b.found[b.identity(item)] = item
	}
	return out.UnprocessedKeys[b.table].Keys, nil
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
