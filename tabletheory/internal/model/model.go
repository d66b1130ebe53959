// Package model knows how a Go struct is an item: which field is which
// attribute, which of them are keys, and how values are encoded and decoded.
// What it finds out of a type it compiles once, and keeps.
package model

import (
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is an item as DynamoDB has it.
type Item = map[string]types.AttributeValue

// Registry compiles models, each once. It is safe for concurrent use.
type Registry struct{}

// NewRegistry returns an empty registry whose models use these converters.
func NewRegistry(converters ...Converter) *Registry { return &Registry{} }

// Converter encodes and decodes the values of one type in its own way.
type Converter struct {
	Type   reflect.Type
	Encode func(reflect.Value) (types.AttributeValue, error)
	Decode func(types.AttributeValue, reflect.Value) error // into a settable value
}

// Model returns the model of a struct type or a pointer to one, or an *Error.
func (r *Registry) Model(t reflect.Type) (*Model, error) { panic("stub") }

// EncodeValue encodes a value that belongs to no field.
func (r *Registry) EncodeValue(v any) (types.AttributeValue, error) { panic("stub") }

// DecodeValue decodes into dest, a pointer that is not nil.
func (r *Registry) DecodeValue(av types.AttributeValue, dest any) error { panic("stub") }

// Model is a struct type as items of a table.
type Model struct {
	Type   reflect.Type
	Fields []*Field // in the order of declaration, those of embedded structs among them

	Hash, Range                        *Field // Range is nil if the table has no sort key
	TTL, Version, CreatedAt, UpdatedAt *Field // nil if there is none
	Encrypted                          []*Field
	Indexes                            []*Index // in the order of their first field
}

// Field is one attribute at the top of the item.
type Field struct {
	Name      string // of the Go field
	Attribute string
	OmitEmpty bool
	Set       bool
	Encrypted bool
	Key       types.ScalarAttributeType // S, N or B for keys of the table and of indexes; else empty
}

// Index is a secondary index.
type Index struct {
	Name        string
	Local       bool
	Sparse      bool // items that lack its keys are meant not to be in it: its key fields are omitted if empty
	Hash, Range *Field
}

// Field returns the field of that Go name or, failing that, attribute name.
func (m *Model) Field(name string) (*Field, bool) { panic("stub") }

// Index returns the index of that name.
func (m *Model) Index(name string) (*Index, bool) { panic("stub") }

// Path resolves a document path (address.city, lines[2].price), whose steps are
// Go names or attribute names as far as the types are known, into attribute
// names and list indexes, and tells how a value at its end is encoded. A path
// whose first step is no field is an error that names the fields there are.
func (m *Model) Path(path string) (*Path, error) { panic("stub") }

// Path is a resolved document path.
type Path struct {
	Field *Field // that it begins with
	Steps []Step // the first is the attribute of Field
}

// Step is an attribute name, or, if Name is empty, a list index.
type Step struct {
	Name  string
	Index int
}

// Encode encodes a value to be stored at, or compared with, what is at the path:
// as the field's type would be if the value has that type or one convertible to
// it, and by its own type otherwise. nil is NULL.
func (p *Path) Encode(v any) (types.AttributeValue, error) { panic("stub") }

// EncodeElement encodes an element of the list or member of the set at the path.
func (p *Path) EncodeElement(v any) (types.AttributeValue, error) { panic("stub") }

// TableName asks the model's TableName method, of the value or of its pointer;
// v is a struct or a pointer to one. An empty name is an error.
func (m *Model) TableName(v reflect.Value) (string, error) { panic("stub") }

// Encode encodes a whole struct, whose encrypted fields are encoded like others.
func (m *Model) Encode(v reflect.Value) (Item, error) { panic("stub") }

// EncodeKey encodes only the key of the table. An empty key is an error that
// names the field.
func (m *Model) EncodeKey(v reflect.Value) (Item, error) { panic("stub") }

// KeyOf returns the attributes of an item that are the table's key.
func (m *Model) KeyOf(item Item) Item { panic("stub") }

// Decode decodes an item into a settable struct. Fields without an attribute
// get their zero value; attributes without a field are passed over. An error is
// a *DecodeError.
func (m *Model) Decode(item Item, v reflect.Value) error { panic("stub") }

// DecodeSelected is Decode, but leaves fields alone that have no attribute.
func (m *Model) DecodeSelected(item Item, v reflect.Value) error { panic("stub") }

// Encode encodes the field of a struct; omitted says that it has no attribute.
func (f *Field) Encode(v reflect.Value) (av types.AttributeValue, omitted bool, err error) {
	panic("stub")
}

// Value returns the field in a struct; settable if the struct is. Embedded
// pointers on the way are made if make is true; otherwise there may be none,
// and the Value is invalid.
func (f *Field) Value(v reflect.Value, make bool) reflect.Value { panic("stub") }
