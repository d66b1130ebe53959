package localdynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/answer"
	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// GetItem reads one item. The read is always strongly consistent; ConsistentRead
// only changes the reported capacity.
func (db *DB) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	in = orEmpty(in)
	if in.Key == nil {
		return nil, errNullKey()
	}
	if err := checkCapacityMode(in.ReturnConsumedCapacity); err != nil {
		return nil, err
	}
	itemKey, err := value.NormalizeItem(in.Key)
	if err != nil {
		return nil, asInvalid(err)
	}
	projection, err := db.bindProjection(in.ProjectionExpression, in.ExpressionAttributeNames, in.AttributesToGet)
	if err != nil {
		return nil, err
	}
	t, err := db.findTable(in.TableName)
	if err != nil {
		return nil, err
	}
	key, err := t.keyOf(itemKey)
	if err != nil {
		return nil, err
	}
	out := &dynamodb.GetItemOutput{}
	l := itemRead{table: t, key: key, projection: projection}
	err = db.viewForAnswer(ctx, noMore, func(r store.Reader, meter *answer.Meter) error {
		item, err := l.read(r)
		if err != nil {
			return err
		}
		out.ConsumedCapacity = usage{Table: t.Name, Units: readUnits(item.Size(), aws.ToBool(in.ConsistentRead))}.consumed(in.ReturnConsumedCapacity)
		out.Item, err = l.project(item, meter)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// itemRead is a validated read of one item.
type itemRead struct {
	table      *table
	key        []byte
	projection *expr.Projection
}

// read returns the stored item, or "" if there is none. The item is valid only
// during the store's transaction.
func (l *itemRead) read(r store.Reader) (value.Item, error) {
	item := value.View(r.Get(l.table.space(), l.key))
	if item == "" {
		return "", l.table.checkExists(r)
	}
	return item, nil
}

// project returns a copy of the item's projected attributes, or nil for "", and adds it to the
// response.
func (l *itemRead) project(item value.Item, meter *answer.Meter) (map[string]types.AttributeValue, error) {
	if item == "" {
		return nil, nil
	}
	fields, err := projected(copyOf(item), l.projection)
	if err != nil {
		return nil, err
	}
	return fields, addItem(meter, fields, len(item))
}

// projected decodes what a projection selects; nil selects all.
func projected(item value.Item, projection *expr.Projection) (map[string]types.AttributeValue, error) {
	if projection == nil {
		return decode(item)
	}
	s := &document{item: item}
	return projection.Apply(s), s.err
}

// checkExists is for reads that found nothing. It tells an empty table from one
// that was deleted after findTable.
func (t *table) checkExists(r store.Reader) error {
	if r.Get(tableSpace, []byte(t.Name)) == nil {
		return errNotFound()
	}
	return nil
}

func (db *DB) parseProjection(text *string, names map[string]string) (*expr.Projection, error) {
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
