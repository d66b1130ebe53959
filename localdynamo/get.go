package localdynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// GetItem reads one item. Every read here is strongly consistent; the
// parameter ConsistentRead decides only what it costs.
func (db *DB) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if in.Key == nil {
		return nil, errNullKey()
	}
	if err := checkCapacityMode(in.ReturnConsumedCapacity); err != nil {
		return nil, err
	}
	projection, err := db.eitherProjection(in.ProjectionExpression, in.ExpressionAttributeNames, in.AttributesToGet)
	if err != nil {
		return nil, err
	}
	t, err := db.lookUp(in.TableName)
	if err != nil {
		return nil, err
	}
	_, key, err := t.keyOf(in.Key)
	if err != nil {
		return nil, err
	}
	item, err := db.read(ctx, t, key)
	if err != nil {
		return nil, err
	}
	out := &dynamodb.GetItemOutput{
		ConsumedCapacity: usage{Table: t.Name, Units: readUnits(item.Size(), aws.ToBool(in.ConsistentRead))}.consumed(in.ReturnConsumedCapacity),
	}
	switch {
	case item == "":
	case projection == nil:
		if out.Item, err = decode(item); err != nil {
			return nil, db.internal(err)
		}
	default:
		s := &stored{item: item}
		if out.Item = projection.Of(s); s.fault != nil {
			return nil, db.internal(s.fault)
		}
	}
	return out, nil
}

// read returns a copy of one stored item, or "".
func (db *DB) read(ctx context.Context, t *table, key []byte) (item value.Item, err error) {
	err = db.view(ctx, func(r store.Reader) error {
		item = value.Item(r.Get(t.space(), key)) // a copy: the bytes are the store's
		return nil
	})
	return item, err
}

func (db *DB) projection(text *string, names map[string]string) (*expr.Projection, error) {
	if text == nil && names == nil {
		return nil, nil
	}
	scope, err := expr.NewScope(&db.expressions, names, nil)
	if err != nil {
		return nil, asInvalid(err)
	}
	projection, err := scope.Projection(text)
	if err != nil {
		return nil, asInvalid(err)
	}
	return projection, asInvalid(scope.Done())
}

func errNullKey() error {
	return invalid("1 validation error detected: Value null at 'key' failed to satisfy constraint: Member must not be null")
}
