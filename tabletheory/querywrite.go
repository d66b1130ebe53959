package tabletheory

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// WithCondition states a condition on the stored item for the write that ends
// the chain. All conditions of a write must hold. Reads refuse conditions.
func (q *Query) WithCondition(field, operator string, value any) *Query {
	return q.require(Condition(field, operator, value))
}

// WithConditionExpression is [Query.WithCondition] with a condition expression
// in DynamoDB's own syntax; see [ConditionExpression].
func (q *Query) WithConditionExpression(expression string, values map[string]any) *Query {
	return q.require(ConditionExpression(expression, values))
}

// IfExists makes the write fail unless the item exists.
func (q *Query) IfExists() *Query { return q.require(IfExists()) }

// IfNotExists makes the write fail if the item exists.
func (q *Query) IfNotExists() *Query { return q.require(IfNotExists()) }

// require adds conditions for the write that executes the query.
func (q *Query) require(conditions ...Precondition) *Query {
	if len(conditions) > 0 {
		q.called |= callCondition
	}
	q.conditions = append(q.conditions, conditions...)
	return q
}

// ReturnOld makes CreateOrUpdate and Delete read the item that they replace or
// delete into dest, a pointer to a struct of the model, at no extra cost. If
// there was no item, dest is unchanged. If the item cannot be decoded, the
// error is a [*DecodeError], but the write has happened.
func (q *Query) ReturnOld(dest any) *Query {
	q.called |= callReturnOld
	if q.err == nil {
		q.old, q.err = q.destStruct("ReturnOld", dest)
	}
	return q
}

// Create puts the model's item and returns [ErrConditionFailed] if it exists.
// The version is 1, unless the model has one already.
//
// Like all writes it stores times and the version in the model too, if the
// model is a pointer and the write has succeeded. updated_at is the time of the
// write; created_at is set by writes of the whole item, unless the model has it
// already.
func (q *Query) Create() error {
	return q.executePut(kindCreate, callCondition, (*write).prepareCreate)
}

// CreateOrUpdate puts the model's item and replaces a stored one. A version
// field is compared and incremented as by [Query.Update]: a model with version
// 0 does not replace an item that has a version.
func (q *Query) CreateOrUpdate() error {
	return q.executePut(kindPut, callCondition|callReturnOld, (*write).preparePut)
}

func (q *Query) executePut(kind string, takes calls, build func(*write, context.Context) error) error {
	if err := q.begin(kind, takes); err != nil {
		return err
	}
	w, err := q.newWrite(kind, nil, q.conditions)
	if err == nil {
		err = build(w, q.ctx)
	}
	if err != nil {
		return w.failure(err)
	}
	old, err := w.putItem(q.ctx, q.returned())
	return q.readOld(w, old, err)
}

// returned returns the ReturnValues of a write: ALL_OLD if ReturnOld was called.
func (q *Query) returned() types.ReturnValue {
	if q.old.IsValid() {
		return types.ReturnValueAllOld
	}
	return ""
}

// readOld decodes the replaced or deleted item into the destination of
// ReturnOld, if the write succeeded.
func (q *Query) readOld(w *write, old model.Item, err error) error {
	if err != nil || !q.old.IsValid() || len(old) == 0 {
		return w.failure(err)
	}
	return w.decode(q.ctx, old, q.old)
}

// Update sets these fields of the stored item to the model's values and removes
// those that are omitted (omitempty and empty). Without names it covers all
// fields except the keys and created_at.
//
// A version field is compared and incremented, in the item and in the model; if
// it differs, the error is [ErrVersionConflict]. A missing item, and an item
// without a version, have version 0. Update creates a missing item, unless a
// condition or a version prevents it.
func (q *Query) Update(fields ...string) error {
	w, err := q.newKeyedWrite(kindUpdate, callCondition)
	if err != nil {
		return err
	}
	if err = w.prepareUpdate(q.ctx, fields); err == nil {
		_, err = w.updateItem(q.ctx, types.ReturnValueNone)
	}
	return w.failure(err)
}

// Delete deletes the item with the model's key. A missing item is not an error,
// unless a condition makes it one. The version is compared if the model's is
// not 0.
func (q *Query) Delete() error {
	w, err := q.newKeyedWrite(kindDelete, callCondition|callReturnOld)
	if err != nil {
		return err
	}
	if err := w.prepareDelete(); err != nil {
		return w.failure(err)
	}
	old, err := w.deleteItem(q.ctx, q.returned())
	return q.readOld(w, old, err)
}

// newKeyedWrite begins a write of the item with the query's key. The write
// supports Where and the calls in takes.
func (q *Query) newKeyedWrite(kind string, takes calls) (*write, error) {
	if err := q.begin(kind, callWhere|takes); err != nil {
		return nil, err
	}
	key, err := q.writeKey()
	if err != nil {
		return nil, err
	}
	w, err := q.newWrite(kind, key, q.conditions)
	return w, w.failure(err)
}

// writeKey returns the key of the item to write: the model's, or the key of Where
// if the model's is empty. Where gives the whole key or nothing, because
// DynamoDB has no write of all items that match a condition.
func (q *Query) writeKey() (model.Item, error) {
	if len(q.where) == 0 {
		key, err := q.model.EncodeKey(q.value)
		if err != nil {
			return nil, fmt.Errorf("tabletheory: %w: %w", ErrInvalidModel, err)
		}
		return key, nil
	}
	key := model.Item{}
	for _, c := range q.where {
		f := c.path.Field
		switch {
		case f != q.model.Hash && f != q.model.Range || len(c.path.Steps) > 1 || c.operator != "=":
			return nil, invalid("Where(%q, %q) on a write: Where gives the key of the item, with =; use WithCondition for other conditions", f.Name, c.operator)
		case key[f.Attribute] != nil:
			return nil, invalid("Where(%q) twice", f.Name)
		}
		av, err := keyAttribute(c.path, c.value)
		if err != nil {
			return nil, invalid("Where: %w", err)
		}
		key[f.Attribute] = av
	}
	return key, q.checkKey(key)
}

// checkKey returns an error if a key is incomplete or differs from the key in
// the struct.
func (q *Query) checkKey(key model.Item) error {
	for _, f := range []*model.Field{q.model.Hash, q.model.Range} {
		if f == nil {
			continue
		}
		if key[f.Attribute] == nil {
			return invalid("Where on a write must give the whole key, and %s is missing", f.Name)
		}
		if own := f.Value(q.value, false); !own.IsValid() || own.IsZero() {
			continue
		}
		av, _, err := f.Encode(q.value)
		if err != nil {
			return fmt.Errorf("tabletheory: %w: %w", ErrInvalidModel, err)
		}
		if scalar(av) != scalar(key[f.Attribute]) {
			return invalid("Where(%q) is %s, but the model's is %s", f.Name, formatKey(key[f.Attribute]), formatKey(av))
		}
	}
	return nil
}
