package tabletheory

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/core"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// WithCondition states what must hold of a field of the stored item.
func (q *query) WithCondition(field, operator string, value any) core.Query {
	return q.demand(Condition(field, operator, value))
}

// WithConditionExpression states what must hold in DynamoDB's own words.
func (q *query) WithConditionExpression(expression string, values map[string]any) core.Query {
	return q.demand(ConditionExpression(expression, values))
}

// IfExists demands that there is an item.
func (q *query) IfExists() core.Query { return q.demand(IfExists()) }

// IfNotExists demands that there is no item.
func (q *query) IfNotExists() core.Query { return q.demand(IfNotExists()) }

// demand adds conditions for the write that ends the chain, which looks at them.
func (q *query) demand(conditions ...core.Condition) *query {
	if len(conditions) > 0 {
		q.called |= callCondition
	}
	q.conditions = append(q.conditions, conditions...)
	return q
}

// ReturnOld reads what the write that ends the chain replaces or deletes.
func (q *query) ReturnOld(dest any) core.Query {
	q.called |= callReturnOld
	if q.err == nil {
		q.old, q.err = q.structOf("ReturnOld", dest)
	}
	return q
}

// Create puts an item that may not exist yet.
func (q *query) Create() error { return q.putWhole(kindCreate, callCondition, (*write).create) }

// CreateOrUpdate puts an item over what was there.
func (q *query) CreateOrUpdate() error {
	return q.putWhole(kindPut, callCondition|callReturnOld, (*write).put)
}

func (q *query) putWhole(kind string, takes calls, build func(*write, context.Context) error) error {
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
func (q *query) returned() types.ReturnValue {
	if q.old.IsValid() {
		return types.ReturnValueAllOld
	}
	return ""
}

// readOld reads what was there, if it was asked for, once it has been replaced or
// deleted without an error.
func (q *query) readOld(w *write, old model.Item, err error) error {
	if err != nil || !q.old.IsValid() || len(old) == 0 {
		return w.failure(err)
	}
	return w.decode(q.ctx, old, q.old)
}

// Update sets fields of the stored item.
func (q *query) Update(fields ...string) error {
	w, err := q.keyedWrite(kindUpdate, callCondition)
	if err != nil {
		return err
	}
	if err = w.change(q.ctx, fields); err == nil {
		_, err = w.updateItem(q.ctx, types.ReturnValueNone)
	}
	return w.failure(err)
}

// Delete deletes the item.
func (q *query) Delete() error {
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
func (q *query) keyedWrite(kind string, takes calls) (*write, error) {
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
func (q *query) writtenKey() (model.Item, error) {
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
func (q *query) checkKey(key model.Item) error {
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
