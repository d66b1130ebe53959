package model

import (
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Field is one attribute at the top of the item.
type Field struct {
	Name      string // of the Go field
	Attribute string
	OmitEmpty bool
	Set       bool
	Encrypted bool
	Key       types.ScalarAttributeType // S, N or B for keys of the table and of indexes; else empty

	owner    reflect.Type // the struct that declares the field
	index    []int        // of the field in the struct of the plan, through embedded ones
	typ      reflect.Type
	tag      tag
	codec    *codec
	empty    func(reflect.Value) bool // whether there is to be no attribute; nil: never
	registry *Registry
	tableKey keyPart
	path     *Path // of the field itself
}

// keyPart is what a field is in the key of the table.
type keyPart int

const (
	noKey keyPart = iota
	hashKey
	rangeKey
	keyParts
)

// Encode encodes the field of a struct; omitted says that it has no attribute.
func (f *Field) Encode(v reflect.Value) (av types.AttributeValue, omitted bool, err error) {
	e := f.registry.encoder()
	defer e.release()
	av, omitted, err = f.encode(e, v)
	if err == nil {
		e.finish()
	}
	return av, omitted, err
}

func (f *Field) encode(e *encoder, v reflect.Value) (av types.AttributeValue, omitted bool, err error) {
	value := f.Value(v, false)
	if !value.IsValid() || f.empty != nil && f.empty(value) {
		return nil, true, nil
	}
	av, err = f.codec.encode(e, value)
	if err != nil {
		return nil, false, within(f.Attribute, f.goName(), err)
	}
	return av, false, nil
}

// Path returns the path that ends at the field.
func (f *Field) Path() *Path { return f.path }

// Value returns the field in a struct; settable if the struct is. Embedded
// pointers on the way are made if make is true; otherwise there may be none,
// and the Value is invalid.
func (f *Field) Value(v reflect.Value, make bool) reflect.Value {
	if len(f.index) == 1 {
		return v.Field(f.index[0])
	}
	for i, x := range f.index {
		if i > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if !make {
					return reflect.Value{}
				}
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(x)
	}
	return v
}

// goName names the field for errors: models.Page.Headers.
func (f *Field) goName() string { return f.owner.String() + "." + f.Name }

// emptiness returns how values of a type are found to be empty: zero, without
// elements, or as their method IsZero says.
func emptiness(t reflect.Type) func(reflect.Value) bool {
	switch {
	case t.Kind() == reflect.Struct && t.ConvertibleTo(timeType):
		return func(v reflect.Value) bool { return timeOf(v).IsZero() }
	case hasMethods(t, zeroerType):
		return func(v reflect.Value) bool { return addressable(v).Interface().(zeroer).IsZero() }
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return func(v reflect.Value) bool { return v.Len() == 0 }
	}
	return reflect.Value.IsZero
}

// zeroer is what types have that say themselves whether they are zero.
type zeroer interface{ IsZero() bool }

var zeroerType = reflect.TypeFor[zeroer]()
