package tabletheory

import (
	"context"
	"reflect"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// structOf is the struct of the model that dest, which a caller wants an item
// read into, points to.
func (t *target) structOf(op string, dest any) (reflect.Value, error) {
	value := reflect.ValueOf(dest)
	if value.Kind() != reflect.Pointer || value.IsNil() || value.Type().Elem() != t.model.Type {
		return reflect.Value{}, invalid("%s reads into a *%v, not %s", op, t.model.Type, describe(dest))
	}
	return value.Elem(), nil
}

// list is what items are collected in for a slice of a caller's, which gets them
// all at once at the end, or stays as it was.
type list struct {
	dest     reflect.Value
	items    reflect.Value
	pointers bool // to structs
}

// listOf is the list for dest, a pointer to a slice of the model's structs or of
// pointers to them.
func (t *target) listOf(op string, dest any) (*list, error) {
	value := reflect.ValueOf(dest)
	if value.Kind() != reflect.Pointer || value.IsNil() || value.Type().Elem().Kind() != reflect.Slice {
		return nil, invalid("%s reads into a *[]%v or *[]*%v, not %s", op, t.model.Type, t.model.Type, describe(dest))
	}
	slice := value.Type().Elem()
	if element := slice.Elem(); element != t.model.Type && element != reflect.PointerTo(t.model.Type) {
		return nil, invalid("%s reads into a *[]%v or *[]*%v, not %s", op, t.model.Type, t.model.Type, describe(dest))
	}
	return (&list{dest: value.Elem(), pointers: slice.Elem() != t.model.Type}).empty(), nil
}

// empty is a list of the same type without items. It is not nil, so that it is
// [] and not null to those who write JSON.
func (l *list) empty() *list {
	return &list{dest: l.dest, items: settable(reflect.MakeSlice(l.dest.Type(), 0, 0)), pointers: l.pointers}
}

func settable(v reflect.Value) reflect.Value {
	s := reflect.New(v.Type()).Elem()
	s.Set(v)
	return s
}

func (l *list) len() int { return l.items.Len() }

// add decodes items at the end.
func (l *list) add(ctx context.Context, q *Query, items []model.Item) error {
	l.items.Grow(len(items))
	for _, item := range items {
		end := l.items.Len()
		l.items.SetLen(end + 1)
		element := l.items.Index(end)
		if l.pointers {
			element.Set(reflect.New(q.model.Type))
			element = element.Elem()
		}
		if err := q.decode(ctx, item, element); err != nil {
			return err
		}
	}
	return nil
}

// append adds the items of another list.
func (l *list) append(other *list) { l.items.Set(reflect.AppendSlice(l.items, other.items)) }

// truncate leaves out what is beyond a number of items.
func (l *list) truncate(n int) {
	if l.items.Len() > n {
		l.items.SetLen(n)
	}
}

// store gives the items to the caller.
func (l *list) store() { l.dest.Set(l.items) }
