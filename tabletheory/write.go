package tabletheory

import (
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/expression"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// Kinds of writes, as errors call them.
const (
	kindPut            = "put"
	kindCreate         = "create"
	kindUpdate         = "update"
	kindDelete         = "delete"
	kindConditionCheck = "condition check"
)

// write is one write of one item, to be sent alone or as an action of a
// transaction.
type write struct {
	*target
	kind        string
	label       any        // of an action of a transaction
	key         model.Item // see itemKey
	expressions expression.Builder
	condition   expression.Condition
	demanded    *int64     // the version that condition demands; nil: none
	item        model.Item // of put and create
	update      string     // the expression of an update
	sets        model.Item // the attributes that an update sets to values that it sends
	removes     []string   // those that it removes
	derives     bool       // an update changes others too, by what is stored
	repeats     bool       // a repetition of the update would change the item again
	stamps      []stamp    // for the caller's struct, once it has happened
}

// newWrite begins a write. key is nil where the whole item is to come.
func (t *target) newWrite(kind string, key model.Item, conditions []Precondition) (*write, error) {
	w := &write{target: t, kind: kind, key: key}
	for _, c := range conditions {
		if err := w.demand(c); err != nil {
			return w, err
		}
	}
	return w, nil
}

// demand adds a condition: all of them must hold.
func (w *write) demand(c Precondition) error {
	condition, err := w.target.condition(&w.expressions, c)
	if err != nil {
		return fmt.Errorf("%w: condition: %w", ErrInvalidQuery, err)
	}
	w.condition = w.condition.And(condition)
	if c.kind != versionEquals {
		return nil
	}
	version := c.version
	if w.demanded != nil && *w.demanded != version {
		return fmt.Errorf("%w: versions %d and %d are demanded of one item: demand one", ErrInvalidQuery, *w.demanded, version)
	}
	w.demanded = &version
	return nil
}

// create makes w the put of an item that may not exist yet. Its version is 1,
// unless the model has one already.
func (w *write) create(ctx context.Context) error {
	if err := w.demand(IfNotExists()); err != nil {
		return err
	}
	version, err := w.version()
	if err != nil {
		return err
	}
	return w.whole(ctx, max(version, 1))
}

// put makes w the put of an item over whatever was there. A version is compared
// and incremented all the same: a put that did neither would undo, unnoticed,
// what others did to the item since it was read, and let them undo it.
func (w *write) put(ctx context.Context) error {
	next, err := w.nextVersion()
	if err != nil {
		return err
	}
	return w.whole(ctx, next)
}

// whole takes the item from the struct, with the times of now and this version.
func (w *write) whole(ctx context.Context, version int64) error {
	item, err := w.model.Encode(w.value)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidModel, err)
	}
	w.item = item
	if err := w.stampWhole(version); err != nil {
		return err
	}
	for _, s := range w.stamps {
		w.item[s.field.Attribute] = s.av
	}
	return w.seal(ctx, w.item, w.item)
}

// itemKey is the key of the item; nil if it is not known yet. That of a whole
// item is taken out of it only where somebody asks.
func (w *write) itemKey() model.Item {
	if w.key == nil && w.item != nil {
		w.key = w.model.KeyOf(w.item)
	}
	return w.key
}

// remove makes w the deletion of the item. The model's version is compared if
// it has one: with the key alone the caller tells nothing of what was read.
func (w *write) remove() error {
	version, err := w.version()
	if err != nil || version == 0 || w.demanded != nil {
		return err
	}
	return w.demand(AtVersion(version))
}

// change makes w the update of these fields, or of all but the keys and
// created_at, to what the struct has.
func (w *write) change(ctx context.Context, names []string) error {
	fields, err := w.changed(names)
	if err != nil {
		return err
	}
	set, removed, err := w.model.EncodeFields(w.value, fields)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidModel, err)
	}
	if err := w.stampChange(); err != nil {
		return err
	}
	if len(fields) == 0 && len(w.stamps) == 0 {
		return fmt.Errorf("%w: %v has no fields but its keys, which cannot be changed", ErrInvalidQuery, w.model.Type)
	}
	if err := w.seal(ctx, w.key, set); err != nil {
		return err
	}
	w.update = w.assign(fields, set, removed)
	return nil
}

// isUnsafe reports that the write must not be carried out a second time. A
// version that it demands sees to that.
func (w *write) isUnsafe() bool { return w.repeats && w.demanded == nil }

// assign writes the update that sets and removes attributes, and what is
// stamped.
func (w *write) assign(fields []*model.Field, set model.Item, removed []*model.Field) string {
	c := clauses{set: make([]string, 0, len(set)+len(w.stamps))}
	for _, f := range fields {
		if av, ok := set[f.Attribute]; ok {
			c.set = append(c.set, w.expressions.Attribute(f)+" = "+w.expressions.Value(av))
		}
	}
	for _, f := range removed {
		c.remove = append(c.remove, w.expressions.Attribute(f))
		w.removes = append(w.removes, f.Attribute)
	}
	for _, s := range w.stamps {
		c.set = append(c.set, w.expressions.Attribute(s.field)+" = "+w.expressions.Value(s.av))
		set[s.field.Attribute] = s.av
	}
	w.sets = set
	return c.String()
}

// changed are the fields that an update is about. The version and updated_at,
// which every update writes by itself, are not among them.
func (w *write) changed(names []string) ([]*model.Field, error) {
	if len(names) == 0 {
		return w.changeable(), nil
	}
	fields := make([]*model.Field, 0, len(names))
	for _, name := range names {
		f, ok := w.model.Field(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("%w: %v has no field %q; what is in a document is changed with UpdateBuilder", ErrInvalidQuery, w.model.Type, name)
		case w.isKey(f):
			return nil, keyChange(f)
		case slices.Contains(fields, f):
			return nil, fmt.Errorf("%w: field %s is named twice", ErrInvalidQuery, f.Name)
		}
		fields = append(fields, f)
	}
	return slices.DeleteFunc(fields, func(f *model.Field) bool {
		return f == w.model.Version || f == w.model.UpdatedAt
	}), nil
}

// changeable are the fields that an update without names is about.
func (w *write) changeable() []*model.Field {
	fields := make([]*model.Field, 0, len(w.model.Fields))
	for _, f := range w.model.Fields {
		if !w.isKey(f) && f != w.model.Version && f != w.model.CreatedAt && f != w.model.UpdatedAt {
			fields = append(fields, f)
		}
	}
	return fields
}

func (w *write) isKey(f *model.Field) bool { return f == w.model.Hash || f == w.model.Range }

func keyChange(f *model.Field) error {
	return fmt.Errorf("%w: %s is the key of the item, which cannot be changed: create another item, and delete this one", ErrInvalidQuery, f.Name)
}

// failure is the error of the write: nil if err is.
func (w *write) failure(err error) error {
	if err == nil {
		return nil
	}
	return w.failureAt(w.kind, w.itemKey(), w.demanded, err)
}

// happened stores in the caller's struct what the write has stored besides.
func (w *write) happened() {
	if !w.value.CanSet() {
		return
	}
	for _, s := range w.stamps {
		s.field.Value(w.value, true).Set(s.value)
	}
}

// text is an expression as requests have it: nil if it is empty.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// onFailure asks for the stored item where there is a condition that can fail.
func (w *write) onFailure() types.ReturnValuesOnConditionCheckFailure {
	if w.condition.IsEmpty() {
		return ""
	}
	return types.ReturnValuesOnConditionCheckFailureAllOld
}

// putItem, updateItem and deleteItem send the write, and return the item, as
// returned says which.
func (w *write) putItem(ctx context.Context, returned types.ReturnValue) (model.Item, error) {
	a := new(attempts)
	out, err := w.api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &w.table, Item: w.item,
		ConditionExpression:                 text(w.condition.String()),
		ExpressionAttributeNames:            w.expressions.Names(),
		ExpressionAttributeValues:           w.expressions.Values(),
		ReturnValues:                        returned,
		ReturnValuesOnConditionCheckFailure: w.onFailure(),
	}, a.follow)
	if err != nil {
		return w.settle(a, returned, err)
	}
	w.happened()
	return out.Attributes, nil
}

func (w *write) updateItem(ctx context.Context, returned types.ReturnValue, options ...func(*dynamodb.Options)) (model.Item, error) {
	a := new(attempts)
	out, err := w.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &w.table, Key: w.key,
		UpdateExpression:                    text(w.update),
		ConditionExpression:                 text(w.condition.String()),
		ExpressionAttributeNames:            w.expressions.Names(),
		ExpressionAttributeValues:           w.expressions.Values(),
		ReturnValues:                        returned,
		ReturnValuesOnConditionCheckFailure: w.onFailure(),
	}, append(options, a.follow)...)
	if err != nil {
		return w.settle(a, returned, err)
	}
	w.happened()
	return out.Attributes, nil
}

func (w *write) deleteItem(ctx context.Context, returned types.ReturnValue) (model.Item, error) {
	a := new(attempts)
	out, err := w.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &w.table, Key: w.key,
		ConditionExpression:                 text(w.condition.String()),
		ExpressionAttributeNames:            w.expressions.Names(),
		ExpressionAttributeValues:           w.expressions.Values(),
		ReturnValues:                        returned,
		ReturnValuesOnConditionCheckFailure: w.onFailure(),
	}, a.follow)
	if err != nil {
		return w.settle(a, returned, err)
	}
	return out.Attributes, nil
}
