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

// Kinds of writes, as they appear in errors.
const (
	kindPut            = "put"
	kindCreate         = "create"
	kindUpdate         = "update"
	kindDelete         = "delete"
	kindConditionCheck = "condition check"
)

// write is a write of one item, sent alone or as an action of a transaction.
type write struct {
	*target
	kind            string
	label           any        // of an action of a transaction
	key             model.Item // nil until itemKey extracts it from item
	expressions     expression.Builder
	condition       expression.Condition
	wantVersion     *int64     // the version that condition requires; nil: none
	item            model.Item // of a put or create
	update          string     // the update expression
	sets            model.Item // attributes that an update sets to values in the request
	removes         []string   // attributes that an update removes
	dependsOnStored bool       // the result of an update depends on the stored item
	notIdempotent   bool       // applying the update twice differs from applying it once
	stamps          []stamp    // for the caller's struct, after success
}

// newWrite begins a write. key is nil for writes of a whole item, which have it.
func (t *target) newWrite(kind string, key model.Item, conditions []Precondition) (*write, error) {
	w := &write{target: t, kind: kind, key: key}
	for _, c := range conditions {
		if err := w.require(c); err != nil {
			return w, err
		}
	}
	return w, nil
}

// require adds a condition. All conditions must hold.
func (w *write) require(c Precondition) error {
	condition, err := w.target.condition(&w.expressions, c)
	if err != nil {
		return fmt.Errorf("%w: condition: %w", ErrInvalidQuery, err)
	}
	w.condition = w.condition.And(condition)
	if c.kind != versionEquals {
		return nil
	}
	version := c.version
	if w.wantVersion != nil && *w.wantVersion != version {
		return fmt.Errorf("%w: AtVersion(%d) and AtVersion(%d) on one item: keep one", ErrInvalidQuery, *w.wantVersion, version)
	}
	w.wantVersion = &version
	return nil
}

// prepareCreate makes w the put of an item that must not exist. Its version is
// 1, unless the model has one.
func (w *write) prepareCreate(ctx context.Context) error {
	if err := w.require(IfNotExists()); err != nil {
		return err
	}
	version, err := w.version()
	if err != nil {
		return err
	}
	return w.encodeWhole(ctx, max(version, 1))
}

// preparePut makes w the put of an item that may exist. The version is compared
// and incremented: otherwise the put would silently overwrite changes made since
// the item was read.
func (w *write) preparePut(ctx context.Context) error {
	next, err := w.nextVersion()
	if err != nil {
		return err
	}
	return w.encodeWhole(ctx, next)
}

// encodeWhole encodes the struct, with the current time and this version.
func (w *write) encodeWhole(ctx context.Context, version int64) error {
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

// itemKey returns the key of the item, or nil if it is not known yet. The key of
// a whole item is extracted only when it is needed.
func (w *write) itemKey() model.Item {
	if w.key == nil && w.item != nil {
		w.key = w.model.KeyOf(w.item)
	}
	return w.key
}

// prepareDelete makes w the deletion of the item. The model's version is
// compared if it is not 0: a model with only a key is not the item that was
// read.
func (w *write) prepareDelete() error {
	version, err := w.version()
	if err != nil || version == 0 || w.wantVersion != nil {
		return err
	}
	return w.require(AtVersion(version))
}

// prepareUpdate makes w the update of these fields to the values of the struct.
// Without names it updates all fields except the keys and created_at.
func (w *write) prepareUpdate(ctx context.Context, names []string) error {
	fields, err := w.updatedFields(names)
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
		return fmt.Errorf("%w: %v has only key fields, which cannot be changed", ErrInvalidQuery, w.model.Type)
	}
	if err := w.seal(ctx, w.key, set); err != nil {
		return err
	}
	w.update = w.updateExpression(fields, set, removed)
	return nil
}

// needsToken reports whether a retry could apply the write twice. A version
// condition prevents that.
func (w *write) needsToken() bool { return w.notIdempotent && w.wantVersion == nil }

// updateExpression returns the expression that sets and removes attributes and
// sets the stamps.
func (w *write) updateExpression(fields []*model.Field, set model.Item, removed []*model.Field) string {
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

// updatedFields returns the fields to update. The version and updated_at are not
// among them, because every update sets them.
func (w *write) updatedFields(names []string) ([]*model.Field, error) {
	if len(names) == 0 {
		return w.updatableFields(), nil
	}
	fields := make([]*model.Field, 0, len(names))
	for _, name := range names {
		f, ok := w.model.Field(name)
		switch {
		case !ok:
			return nil, fmt.Errorf("%w: %v has no field %q; use UpdateBuilder to change a part of a document", ErrInvalidQuery, w.model.Type, name)
		case w.isKey(f):
			return nil, keyUpdateError(f)
		case slices.Contains(fields, f):
			return nil, fmt.Errorf("%w: field %s is named twice", ErrInvalidQuery, f.Name)
		}
		fields = append(fields, f)
	}
	return slices.DeleteFunc(fields, func(f *model.Field) bool {
		return f == w.model.Version || f == w.model.UpdatedAt
	}), nil
}

// updatableFields returns the fields that an update without names covers.
func (w *write) updatableFields() []*model.Field {
	fields := make([]*model.Field, 0, len(w.model.Fields))
	for _, f := range w.model.Fields {
		if !w.isKey(f) && f != w.model.Version && f != w.model.CreatedAt && f != w.model.UpdatedAt {
			fields = append(fields, f)
		}
	}
	return fields
}

func (w *write) isKey(f *model.Field) bool { return f == w.model.Hash || f == w.model.Range }

func keyUpdateError(f *model.Field) error {
	return fmt.Errorf("%w: %s is a key and cannot be changed: create another item and delete this one", ErrInvalidQuery, f.Name)
}

// failure returns the error of the write, or nil if err is nil.
func (w *write) failure(err error) error {
	if err == nil {
		return nil
	}
	return w.failureAt(w.kind, w.itemKey(), w.wantVersion, err)
}

// updateModel stores the version and times in the caller's struct.
func (w *write) updateModel() {
	if !w.value.CanSet() {
		return
	}
	for _, s := range w.stamps {
		s.field.Value(w.value, true).Set(s.value)
	}
}

// text returns an expression for a request: nil if it is empty.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// onFailure requests the stored item if the write has a condition that can fail.
func (w *write) onFailure() types.ReturnValuesOnConditionCheckFailure {
	if w.condition.IsEmpty() {
		return ""
	}
	return types.ReturnValuesOnConditionCheckFailureAllOld
}

// putItem, updateItem and deleteItem send the write and return the attributes
// that returned selects.
func (w *write) putItem(ctx context.Context, returned types.ReturnValue) (model.Item, error) {
	if err := errUnsent(ctx); err != nil {
		return nil, err
	}
	a := new(attempts)
	out, err := w.api.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &w.table, Item: w.item,
		ConditionExpression:                 text(w.condition.String()),
		ExpressionAttributeNames:            w.expressions.Names(),
		ExpressionAttributeValues:           w.expressions.Values(),
		ReturnValues:                        returned,
		ReturnValuesOnConditionCheckFailure: w.onFailure(),
	}, a.observe)
	if err != nil {
		return w.classifyReply(a, returned, err)
	}
	w.updateModel()
	return out.Attributes, nil
}

func (w *write) updateItem(ctx context.Context, returned types.ReturnValue, options ...func(*dynamodb.Options)) (model.Item, error) {
	if err := errUnsent(ctx); err != nil {
		return nil, err
	}
	a := new(attempts)
	out, err := w.api.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &w.table, Key: w.key,
		UpdateExpression:                    text(w.update),
		ConditionExpression:                 text(w.condition.String()),
		ExpressionAttributeNames:            w.expressions.Names(),
		ExpressionAttributeValues:           w.expressions.Values(),
		ReturnValues:                        returned,
		ReturnValuesOnConditionCheckFailure: w.onFailure(),
	}, append(options, a.observe)...)
	if err != nil {
		return w.classifyReply(a, returned, err)
	}
	w.updateModel()
	return out.Attributes, nil
}

func (w *write) deleteItem(ctx context.Context, returned types.ReturnValue) (model.Item, error) {
	if err := errUnsent(ctx); err != nil {
		return nil, err
	}
	a := new(attempts)
	out, err := w.api.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &w.table, Key: w.key,
		ConditionExpression:                 text(w.condition.String()),
		ExpressionAttributeNames:            w.expressions.Names(),
		ExpressionAttributeValues:           w.expressions.Values(),
		ReturnValues:                        returned,
		ReturnValuesOnConditionCheckFailure: w.onFailure(),
	}, a.observe)
	if err != nil {
		return w.classifyReply(a, returned, err)
	}
	return out.Attributes, nil
}
