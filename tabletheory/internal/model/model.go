// Package model knows how a Go struct is an item: which field is which
// attribute, which of them are keys, and how values are encoded and decoded.
// What it finds out of a type it compiles once, and keeps.
//
//	reflect.Type ──▶ Registry ──▶ Model ──▶ Field ──▶ codec ──▶ AttributeValue
//	                 (once)       roles     tags      encode and decode
//
// Encoding gives what the SDK's package attributevalue gives, except where a
// value would not survive the way back: [][]byte is a list unless the field is
// tagged as a set, times are in UTC, what DynamoDB refuses (NaN, numbers of
// more than 38 digits, invalid UTF-8, more than 32 levels) is an error, and so
// is a field of a type that attributevalue leaves out without a word. Keys of Go
// maps are written by their kind, never by a String method that nothing reads,
// and the names of attributes are compared as they stand, upper and lower case.
package model

import (
	"reflect"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is an item as DynamoDB has it.
type Item = map[string]types.AttributeValue

// Model is a struct type as items of a table. It is immutable, and safe for
// concurrent use.
type Model struct {
	Type   reflect.Type
	Fields []*Field // in the order of declaration, those of embedded structs among them

	Hash, Range                        *Field // Range is nil if the table has no sort key
	TTL, Version, CreatedAt, UpdatedAt *Field // nil if there is none
	Encrypted                          []*Field
	Indexes                            []*Index // in the order of their first field

	registry *Registry
	plan     *structPlan
	backups  sync.Pool // of *reflect.Value: structs that Decode keeps the old value in
}

// Index is a secondary index.
type Index struct {
	Name        string
	Local       bool
	Sparse      bool   // items that lack its keys are meant not to be in it: its key fields are omitted if empty
	Hash, Range *Field // Range is nil if the index has no sort key
}

// Field returns the field of that Go name or, failing that, attribute name.
func (m *Model) Field(name string) (*Field, bool) { return m.plan.field(name) }

// Index returns the index of that name.
func (m *Model) Index(name string) (*Index, bool) {
	for _, index := range m.Indexes {
		if index.Name == name {
			return index, true
		}
	}
	return nil, false
}

// Encode encodes a whole struct, whose encrypted fields are encoded like others.
// An empty key of the table is an error that names the field, as with
// [Model.EncodeKey]; an error of a value is an *EncodeError.
func (m *Model) Encode(v reflect.Value) (Item, error) {
	e := m.registry.encoder()
	defer e.release()
	e.reserve(m.plan.needs, 1)
	item := make(Item, len(m.Fields))
	if !v.CanAddr() {
		v = addressable(v).Elem() // or each field that needs an address would be copied
	}
	if err := m.plan.encode(e, v, item); err != nil {
		return nil, err
	}
	e.finish()
	return item, m.checkKey(e)
}

// EncodeKey encodes only the key of the table. An empty key is an error that
// names the field.
func (m *Model) EncodeKey(v reflect.Value) (Item, error) {
	e := m.registry.encoder()
	defer e.release()
	e.reserve(m.keyNeeds(), 1)
	item := make(Item, 2)
	for _, f := range []*Field{m.Hash, m.Range} {
		if f == nil {
			continue
		}
		av, omitted, err := f.encode(e, v)
		if err != nil {
			return nil, err
		}
		if !omitted {
			item[f.Attribute], e.keys[f.tableKey] = av, av
		}
	}
	e.finish()
	return item, m.checkKey(e)
}

func (m *Model) keyNeeds() needs {
	n := m.Hash.codec.needs
	if m.Range != nil {
		n.add(m.Range.codec.needs)
	}
	return n
}

// EncodeFields encodes some fields of a struct, and returns those that have no
// attribute. An error of a value is an *EncodeError.
func (m *Model) EncodeFields(v reflect.Value, fields []*Field) (item Item, omitted []*Field, err error) {
	e := m.registry.encoder()
	defer e.release()
	var n needs
	for _, f := range fields {
		n.add(f.codec.needs)
	}
	e.reserve(n, 1)
	item = make(Item, len(fields))
	for _, f := range fields {
		av, isOmitted, err := f.encode(e, v)
		switch {
		case err != nil:
			return nil, nil, err
		case isOmitted:
			omitted = append(omitted, f)
		default:
			item[f.Attribute] = av
		}
	}
	e.finish()
	return item, omitted, nil
}

// checkKey refuses what was encoded if DynamoDB would not take its key.
func (m *Model) checkKey(e *encoder) error {
	for _, f := range []*Field{m.Hash, m.Range} {
		if f != nil && isEmptyKey(e.keys[f.tableKey]) {
			return &EncodeError{Path: f.Attribute, Field: f.goName(), Err: errEmptyKey}
		}
	}
	return nil
}

func isEmptyKey(av types.AttributeValue) bool {
	switch av := av.(type) {
	case nil, *types.AttributeValueMemberNULL:
		return true
	case *types.AttributeValueMemberS:
		return av.Value == ""
	case *types.AttributeValueMemberB:
		return len(av.Value) == 0
	}
	return false
}

// KeyOf returns the attributes of an item that are the table's key.
func (m *Model) KeyOf(item Item) Item {
	key := make(Item, 2)
	for _, f := range []*Field{m.Hash, m.Range} {
		if f == nil {
			continue
		}
		if av, ok := item[f.Attribute]; ok {
			key[f.Attribute] = av
		}
	}
	return key
}

// Decode decodes an item into a settable struct. Fields without an attribute
// get their zero value; attributes without a field are passed over. An error is
// a *DecodeError, and leaves the struct as it was.
func (m *Model) Decode(item Item, v reflect.Value) error { return m.decode(item, v, false) }

// DecodeSelected is Decode, but leaves fields alone that have no attribute.
func (m *Model) DecodeSelected(item Item, v reflect.Value) error { return m.decode(item, v, true) }

func (m *Model) decode(item Item, v reflect.Value, selected bool) error {
	backup := m.backups.Get().(*reflect.Value)
	backup.Set(v)
	err := m.plan.decode(item, v, 0, selected)
	if err != nil {
		v.Set(*backup)
	}
	backup.SetZero()
	m.backups.Put(backup)
	return err
}
