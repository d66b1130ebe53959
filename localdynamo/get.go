package localdynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// GetItem reads one item. Every read here is strongly consistent; the
// parameter ConsistentRead decides only what it costs.
func (db *DB) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	in = orEmpty(in)
	if in.Key == nil {
		return nil, errNullKey()
	}
	if err := checkCapacityMode(in.ReturnConsumedCapacity); err != nil {
		return nil, err
	}
	given, err := value.NormalizeItem(in.Key)
	if err != nil {
		return nil, asInvalid(err)
	}
	projection, err := db.eitherProjection(in.ProjectionExpression, in.ExpressionAttributeNames, in.AttributesToGet)
	if err != nil {
		return nil, err
	}
	t, err := db.lookUp(in.TableName)
	if err != nil {
		return nil, err
	}
	key, err := t.keyOf(given)
	if err != nil {
		return nil, err
	}
	out := &dynamodb.GetItemOutput{}
	l := lookup{table: t, key: key, projection: projection}
	err = db.view(ctx, func(r store.Reader) error {
		item, err := l.read(r)
		if err != nil {
			return err
		}
		out.ConsumedCapacity = usage{Table: t.Name, Units: readUnits(item.Size(), aws.ToBool(in.ConsistentRead))}.consumed(in.ReturnConsumedCapacity)
		out.Item, err = l.found(item)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// lookup is the reading of one item, checked.
type lookup struct {
	table      *table
	key        []byte
	projection *expr.Projection
}

// read returns the stored item, which belongs to the store, or "".
func (l *lookup) read(r store.Reader) (value.Item, error) {
	item := value.View(r.Get(l.table.space(), l.key))
	if item == "" {
		return "", l.table.checkThere(r)
	}
	return item, nil
}

// found returns what the projection leaves of an item, as a copy; nil if there
// is none.
func (l *lookup) found(item value.Item) (map[string]types.AttributeValue, error) {
	if item == "" {
		return nil, nil
	}
	item = copyOf(item)
	if l.projection == nil {
		return decode(item)
	}
	s := &stored{item: item}
	return l.projection.Apply(s), s.fault
}

// checkThere is for a reader that has found nothing: the table may have been
// deleted since it was looked up, which must not pass for an empty one.
func (t *table) checkThere(r store.Reader) error {
	if r.Get(tableSpace, []byte(t.Name)) == nil {
		return notFound()
	}
	return nil
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
	return projection, asInvalid(scope.CheckUnused())
}

func errNullKey() error { return errNull("key") }
