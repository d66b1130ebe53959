package model

import (
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Field is a top-level attribute of an item, or an attribute of a nested struct.
type Field struct {
	Name      string // of the Go field
	Attribute string
	OmitEmpty bool
	Set       bool
	Encrypted bool
	Key       types.ScalarAttributeType // S, N or B for keys of the table and of indexes; otherwise empty

	owner    reflect.Type // the struct that declares the field
	index    []int        // of the field in the plan's struct, through embedded structs
	typ      reflect.Type
	tag      tag
	codec    *codec
	empty    func(reflect.Value) bool // reports whether the attribute is omitted; nil: never
	registry *Registry
	tableKey keyPart
	path     *Path // to the field
}

// keyPart is the role of a field in the table key.
type keyPart int

const (
	noKey keyPart = iota
	hashKey
	rangeKey
	keyParts
)

// Encode encodes the field of a struct. omitted reports that the field has no
// attribute.
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
		return nil, false, addStep(f.Attribute, f.goName(), err)
	}
	return av, false, nil
}

// Path returns the path to the field.
func (f *Field) Path() *Path { return f.path }

// Value returns the field of a struct; it is settable if the struct is. If make
// is true, nil embedded pointers on the way are allocated; otherwise the Value
// is invalid if there is one.
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

// emptyFunc returns the function that reports whether a value of type t is
// empty: it is zero, it has no elements, or its own method IsZero reports so.
func emptyFunc(t reflect.Type) func(reflect.Value) bool {
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

type zeroer interface{ IsZero() bool }

var zeroerType = reflect.TypeFor[zeroer]()
