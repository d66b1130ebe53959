package tabletheory

import (
	"context"
	"reflect"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// destStruct returns the struct that dest, a caller's pointer, points to.
func (t *target) destStruct(op string, dest any) (reflect.Value, error) {
	value := reflect.ValueOf(dest)
	if value.Kind() != reflect.Pointer || value.IsNil() || value.Type().Elem() != t.model.Type {
		return reflect.Value{}, invalid("%s needs a *%v, got %s", op, t.model.Type, describe(dest))
	}
	return value.Elem(), nil
}

// list collects items for a caller's slice, which is set at the end or, on an
// error, unchanged.
type list struct {
	dest     reflect.Value
	items    reflect.Value
	pointers bool // to structs
}

// destList returns the list for dest, a pointer to a slice of the model's
// structs or of pointers to them.
func (t *target) destList(op string, dest any) (*list, error) {
	value := reflect.ValueOf(dest)
	if value.Kind() != reflect.Pointer || value.IsNil() || value.Type().Elem().Kind() != reflect.Slice {
		return nil, invalid("%s needs a *[]%v or *[]*%v, got %s", op, t.model.Type, t.model.Type, describe(dest))
	}
	slice := value.Type().Elem()
	if element := slice.Elem(); element != t.model.Type && element != reflect.PointerTo(t.model.Type) {
		return nil, invalid("%s needs a *[]%v or *[]*%v, got %s", op, t.model.Type, t.model.Type, describe(dest))
	}
	return (&list{dest: value.Elem(), pointers: slice.Elem() != t.model.Type}).empty(), nil
}

// empty returns an empty list of the same type. Its slice is not nil, so that it
// becomes [] in JSON and not null.
func (l *list) empty() *list {
	return &list{dest: l.dest, items: settable(reflect.MakeSlice(l.dest.Type(), 0, 0)), pointers: l.pointers}
}

func settable(v reflect.Value) reflect.Value {
	s := reflect.New(v.Type()).Elem()
	s.Set(v)
	return s
}

func (l *list) len() int { return l.items.Len() }

// add decodes items and appends them.
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

// append appends the items of another list.
func (l *list) append(other *list) { l.items.Set(reflect.AppendSlice(l.items, other.items)) }

// truncate drops the items after the first n.
func (l *list) truncate(n int) {
	if l.items.Len() > n {
		l.items.SetLen(n)
	}
}

// store sets the caller's slice.
func (l *list) store() { l.dest.Set(l.items) }
