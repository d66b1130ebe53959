package localdynamo

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// PutItem creates or replaces an item if its condition holds. When it returns
// without an error, the item is on disk.
func (db *DB) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return db.putItem(ctx, in, db.mutateDurably)
}

func (db *DB) putItem(ctx context.Context, in *dynamodb.PutItemInput, write write) (*dynamodb.PutItemOutput, error) {
	in = orEmpty(in)
	if err := checkReturn(in.TableName, in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics, in.ReturnValues, types.ReturnValueAllOld); err != nil {
		return nil, err
	}
	m, e, err := db.mutate(ctx, write, &operation{
		verb: verbPut, table: in.TableName, item: in.Item, condition: in.ConditionExpression,
		names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues, onFailure: in.ReturnValuesOnConditionCheckFailure,
		legacy: &legacyWrite{expected: in.Expected, operator: in.ConditionalOperator}, returns: in.ReturnValues,
	})
	if err != nil {
		return nil, err
	}
	out := &dynamodb.PutItemOutput{ConsumedCapacity: e.usage(m.table).consumed(in.ReturnConsumedCapacity)}
	if out.ItemCollectionMetrics, err = m.collection(in.ReturnItemCollectionMetrics); err != nil {
		return nil, db.internal(err)
	}
	out.Attributes, err = db.returned(in.ReturnValues, m, e)
	return out, err
}

// DeleteItem deletes an item if its condition holds. Deleting an absent item is
// not an error.
func (db *DB) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return db.deleteItem(ctx, in, db.mutateDurably)
}

func (db *DB) deleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, write write) (*dynamodb.DeleteItemOutput, error) {
	in = orEmpty(in)
	if err := checkReturn(in.TableName, in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics, in.ReturnValues, types.ReturnValueAllOld); err != nil {
		return nil, err
	}
	m, e, err := db.mutate(ctx, write, &operation{
		verb: verbDelete, table: in.TableName, key: in.Key, condition: in.ConditionExpression,
		names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues, onFailure: in.ReturnValuesOnConditionCheckFailure,
		legacy: &legacyWrite{expected: in.Expected, operator: in.ConditionalOperator}, returns: in.ReturnValues,
	})
	if err != nil {
		return nil, err
	}
	out := &dynamodb.DeleteItemOutput{ConsumedCapacity: e.usage(m.table).consumed(in.ReturnConsumedCapacity)}
	if out.ItemCollectionMetrics, err = m.collection(in.ReturnItemCollectionMetrics); err != nil {
		return nil, db.internal(err)
	}
	out.Attributes, err = db.returned(in.ReturnValues, m, e)
	return out, err
}

// UpdateItem updates or creates an item if its condition holds.
func (db *DB) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return db.updateItem(ctx, in, db.mutateDurably)
}

func (db *DB) updateItem(ctx context.Context, in *dynamodb.UpdateItemInput, write write) (*dynamodb.UpdateItemOutput, error) {
	in = orEmpty(in)
	if err := checkReturn(in.TableName, in.ReturnConsumedCapacity, in.ReturnItemCollectionMetrics, in.ReturnValues, types.ReturnValueAllOld,
		types.ReturnValueAllNew, types.ReturnValueUpdatedOld, types.ReturnValueUpdatedNew); err != nil {
		return nil, err
	}
	m, e, err := db.mutate(ctx, write, &operation{
		verb: verbUpdate, table: in.TableName, key: in.Key, update: in.UpdateExpression, condition: in.ConditionExpression,
		names: in.ExpressionAttributeNames, values: in.ExpressionAttributeValues, onFailure: in.ReturnValuesOnConditionCheckFailure,
		legacy: &legacyWrite{expected: in.Expected, operator: in.ConditionalOperator, updates: in.AttributeUpdates}, returns: in.ReturnValues,
	})
	if err != nil {
		return nil, err
	}
	out := &dynamodb.UpdateItemOutput{ConsumedCapacity: e.usage(m.table).consumed(in.ReturnConsumedCapacity)}
	if out.ItemCollectionMetrics, err = m.collection(in.ReturnItemCollectionMetrics); err != nil {
		return nil, db.internal(err)
	}
	out.Attributes, err = db.returned(in.ReturnValues, m, e)
	return out, err
}

// A write performs a planned write, and returns its effect.
type write func(context.Context, *mutation) (effect, error)

// mutate plans a write and performs it.
func (db *DB) mutate(ctx context.Context, write write, o *operation) (*mutation, effect, error) {
	m, err := db.plan(o)
	if err != nil {
		return nil, effect{}, err
	}
	if m.verb == verbUpdate {
		if err := m.checkKeyUntouched(); err != nil {
			return nil, effect{}, err
		}
	}
	if o.returns != "" && o.returns != types.ReturnValueNone || m.returnsOnFailure() {
		if err := db.reserveReturned(ctx, m); err != nil {
			return nil, effect{}, err
		}
	}
	e, err := write(ctx, m)
	return m, e, err
}

// checkReturn checks the parameters that select what a write returns. As on AWS,
// an empty table name is reported first, and an invalid ReturnValues of
// UpdateItem is reported alone.
func checkReturn(table *string, capacity types.ReturnConsumedCapacity, metrics types.ReturnItemCollectionMetrics, mode types.ReturnValue, allowed ...types.ReturnValue) error {
	if table != nil && *table == "" {
		return checkTableName(table)
	}
	values := checkReturnValues(mode, allowed)
	if update := len(allowed) > 1; update && values != nil {
		return values
	}
	return joinFaults(checkCapacityMode(capacity), values, checkMetricsMode(metrics))
}

func checkReturnValues(mode types.ReturnValue, allowed []types.ReturnValue) error {
	switch {
	case mode == "", mode == types.ReturnValueNone, slices.Contains(allowed, mode):
		return nil
	case slices.Contains(mode.Values(), mode):
		return errViolations("ReturnValues can only be ALL_OLD or NONE")
	}
	return errViolations("Failed to satisfy constraint: Member must satisfy enum value set: [ALL_OLD, UPDATED_OLD, ALL_NEW, UPDATE_NEW, NONE]") // AWS's text, which says UPDATE_NEW
}

// returned returns the attributes that ReturnValues selects, or nil.
func (db *DB) returned(mode types.ReturnValue, m *mutation, e effect) (map[string]types.AttributeValue, error) {
	before, after := e.before, value.View(e.after)
	var out map[string]types.AttributeValue
	var err error
	switch mode {
	case types.ReturnValueAllOld:
		out, err = decode(before)
	case types.ReturnValueAllNew:
		out, err = decode(after)
	case types.ReturnValueUpdatedOld:
		out = m.update.Touched(&document{item: before})
	case types.ReturnValueUpdatedNew:
		out = m.update.Touched(&document{item: after})
	}
	if err != nil {
		return nil, db.internal(err)
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}
