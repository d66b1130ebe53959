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
	return q.demand(Condition(field, operator, value))
}

// WithConditionExpression is [Query.WithCondition] with a condition expression
// in DynamoDB's own syntax; see [ConditionExpression].
func (q *Query) WithConditionExpression(expression string, values map[string]any) *Query {
	return q.demand(ConditionExpression(expression, values))
}

// IfExists makes the write fail unless the item exists.
func (q *Query) IfExists() *Query { return q.demand(IfExists()) }

// IfNotExists makes the write fail if the item exists.
func (q *Query) IfNotExists() *Query { return q.demand(IfNotExists()) }

// demand adds conditions for the write that ends the chain, which looks at them.
func (q *Query) demand(conditions ...Precondition) *Query {
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
		q.old, q.err = q.structOf("ReturnOld", dest)
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
func (q *Query) Create() error { return q.putWhole(kindCreate, callCondition, (*write).create) }

// CreateOrUpdate puts the model's item and replaces a stored one. A version
// field is compared and incremented as by [Query.Update]: a model with version
// 0 does not replace an item that has a version.
func (q *Query) CreateOrUpdate() error {
	return q.putWhole(kindPut, callCondition|callReturnOld, (*write).put)
}

func (q *Query) putWhole(kind string, takes calls, build func(*write, context.Context) error) error {
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

// returned says whether DynamoDB is to return what was there.
func (q *Query) returned() types.ReturnValue {
	if q.old.IsValid() {
		return types.ReturnValueAllOld
	}
	return ""
}

// readOld reads what was there, if it was asked for, once it has been replaced or
// deleted without an error.
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
	w, err := q.keyedWrite(kindUpdate, callCondition)
	if err != nil {
		return err
	}
	if err = w.change(q.ctx, fields); err == nil {
		_, err = w.updateItem(q.ctx, types.ReturnValueNone)
	}
	return w.failure(err)
}

// Delete deletes the item with the model's key. A missing item is not an error,
// unless a condition makes it one. The version is compared if the model's is
// not 0.
func (q *Query) Delete() error {
	w, err := q.keyedWrite(kindDelete, callCondition|callReturnOld)
	if err != nil {
		return err
	}
	if err := w.remove(); err != nil {
		return w.failure(err)
	}
	old, err := w.deleteItem(q.ctx, q.returned())
	return q.readOld(w, old, err)
}

// keyedWrite begins a write of the item with the query's key, which takes these
// calls besides Where.
func (q *Query) keyedWrite(kind string, takes calls) (*write, error) {
	if err := q.begin(kind, callWhere|takes); err != nil {
		return nil, err
	}
	key, err := q.writtenKey()
	if err != nil {
		return nil, err
	}
	w, err := q.newWrite(kind, key, q.conditions)
	return w, w.failure(err)
}

// writtenKey is the key of the item to write: the model's, or what Where says if
// the model's is empty. Where on a write says the whole key or nothing: there is
// no write of all items that a condition on a part of the key would select.
func (q *Query) writtenKey() (model.Item, error) {
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
			return nil, invalid("Where on a write gives the key of the item, by =, and not that %s %s something: state what must hold with WithCondition", f.Name, c.operator)
		case key[f.Attribute] != nil:
			return nil, invalid("Where gives %s twice", f.Name)
		}
		av, err := keyAttribute(c.path, c.value)
		if err != nil {
			return nil, invalid("Where: %w", err)
		}
		key[f.Attribute] = av
	}
	return key, q.checkKey(key)
}

// checkKey refuses a key that lacks an attribute, or that is another one than
// the struct has.
func (q *Query) checkKey(key model.Item) error {
	for _, f := range []*model.Field{q.model.Hash, q.model.Range} {
		if f == nil {
			continue
		}
		if key[f.Attribute] == nil {
			return invalid("Where on a write gives the whole key of the item, and %s is missing", f.Name)
		}
		if own := f.Value(q.value, false); !own.IsValid() || own.IsZero() {
			continue
		}
		av, _, err := f.Encode(q.value)
		if err != nil {
			return fmt.Errorf("tabletheory: %w: %w", ErrInvalidModel, err)
		}
		if scalar(av) != scalar(key[f.Attribute]) {
			return invalid("Where says that %s is %s, but the model's is %s", f.Name, readable(key[f.Attribute]), readable(av))
		}
	}
	return nil
}
