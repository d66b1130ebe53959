package tabletheory

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// Select reads only these fields or parts of documents. Other fields of the
// destination keep their values. If parts of a document are selected, they
// replace the document in the destination.
func (q *Query) Select(fields ...string) *Query {
	q.called |= callSelect
	if len(fields) == 0 {
		q.setErrorf("Select without fields: name some, or remove it to read all")
	}
	for _, field := range fields {
		if path := q.path("Select", field); path != nil {
			q.selectPath(field, path)
		}
	}
	return q
}

func (q *Query) selectPath(field string, path *model.Path) {
	if path.Field.Encrypted && len(path.Steps) > 1 {
		q.setErrorf("Select(%q): field %s is encrypted and can only be read as a whole", field, path.Field.Name)
		return
	}
	for _, other := range q.selected {
		if !overlap(path, other) {
			continue
		}
		if len(path.Steps) != len(other.Steps) {
			q.setErrorf("Select(%q): a part of it, or a document around it, is selected too: select one of them", field)
		}
		return // selected already
	}
	q.selected = append(q.selected, path)
}

// overlap reports whether one path is a prefix of the other.
func overlap(a, b *model.Path) bool {
	n := min(len(a.Steps), len(b.Steps))
	return slices.Equal(a.Steps[:n], b.Steps[:n])
}

// projection returns the ProjectionExpression: nil for whole items. It always
// includes the table key: encrypted fields are bound to it, batches are ordered
// by it, and errors name it.
func (q *Query) projection() *string {
	if len(q.selected) == 0 {
		return nil
	}
	var parts []string
	for _, path := range q.selected {
		parts = append(parts, q.expressions.Path(path))
	}
	for _, field := range q.keyLeftOut() {
		parts = append(parts, q.expressions.Attribute(field))
	}
	return aws.String(strings.Join(parts, ", "))
}

// keyLeftOut returns the table's key fields that are not selected.
func (q *Query) keyLeftOut() []*model.Field {
	var fields []*model.Field
	for _, field := range []*model.Field{q.model.Hash, q.model.Range} {
		if field != nil && !q.selects(field) {
			fields = append(fields, field)
		}
	}
	return fields
}

func (q *Query) selects(field *model.Field) bool {
	return slices.ContainsFunc(q.selected, func(p *model.Path) bool { return p.Field == field })
}

// decode decodes an item, of which only the selected fields were requested, into
// a struct. On an error the struct is unchanged.
func (q *Query) decode(ctx context.Context, item model.Item, into reflect.Value) error {
	if len(q.selected) == 0 {
		return q.target.decode(ctx, item, into)
	}
	key := q.model.KeyOf(item)
	if err := q.open(ctx, item); err != nil {
		return q.failure("read", key, err)
	}
	for _, field := range q.keyLeftOut() {
		delete(item, field.Attribute)
	}
	if err := q.model.DecodeSelected(item, into); err != nil {
		return q.failure("read", key, err)
	}
	for _, path := range q.selected {
		if _, stored := item[path.Field.Attribute]; stored {
			continue
		}
		if field := path.Field.Value(into, false); field.IsValid() {
			field.SetZero() // it is not stored
		}
	}
	return nil
}

// decode decodes a whole item into a struct.
func (t *target) decode(ctx context.Context, item model.Item, into reflect.Value) error {
	err := t.open(ctx, item)
	if err == nil {
		err = t.model.Decode(item, into)
	}
	if err != nil {
		return t.failure("read", t.model.KeyOf(item), err)
	}
	return nil
}
