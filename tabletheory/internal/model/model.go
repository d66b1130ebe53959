// Package model maps Go structs to items: which field is which attribute, which
// fields are keys, and how values are encoded and decoded. It compiles each type
// once.
//
//	reflect.Type ──▶ Registry ──▶ Model ──▶ Field ──▶ codec ──▶ AttributeValue
//	                 (once)       roles     tags      encode and decode
//
// Values are encoded as by the SDK's package attributevalue, except where they
// would not survive a round trip: [][]byte is a list unless the field is tagged
// as a set, times are in UTC, and what DynamoDB refuses (NaN, numbers of more
// than 38 digits, invalid UTF-8, more than 32 levels) is an error, as are fields
// of types that attributevalue omits silently. Keys of Go maps are written by
// their kind, not by a String method, which cannot be read back. Attribute names
// are case-sensitive.
package model

import (
	"reflect"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Item is a DynamoDB item.
type Item = map[string]types.AttributeValue

// Model maps a struct type to the items of a table. It is immutable and safe for
// concurrent use.
type Model struct {
	Type   reflect.Type
	Fields []*Field // in the order of declaration, including fields of embedded structs

	Hash, Range                        *Field // Range is nil if the table has no sort key
	TTL, Version, CreatedAt, UpdatedAt *Field // nil if there is none
	Encrypted                          []*Field
	Indexes                            []*Index // in the order of their first fields

	registry *Registry
	plan     *structPlan
	backups  sync.Pool // of *reflect.Value: where Decode saves the old value
}

// Index is a secondary index.
type Index struct {
	Name        string
	Local       bool
	Sparse      bool   // empty key fields are omitted, so that their items are not in the index
	Hash, Range *Field // Range is nil if the index has no sort key
}

// Field returns the field with that Go name or, failing that, attribute name.
func (m *Model) Field(name string) (*Field, bool) { return m.plan.field(name) }

// Index returns the index with that name.
func (m *Model) Index(name string) (*Index, bool) {
	for _, index := range m.Indexes {
		if index.Name == name {
			return index, true
		}
	}
	return nil, false
}

// Encode encodes a whole struct; encrypted fields are still in plain. An empty
// table key is an error that names the field, as with [Model.EncodeKey]. An
// error of a value is an *EncodeError.
func (m *Model) Encode(v reflect.Value) (Item, error) {
	e := m.registry.encoder()
	defer e.release()
	e.reserve(m.plan.needs, 1)
	item := make(Item, len(m.Fields))
	if !v.CanAddr() {
		v = addressable(v).Elem() // one copy instead of one for each field that needs an address
	}
	if err := m.plan.encode(e, v, item); err != nil {
		return nil, err
	}
	e.finish()
	return item, m.checkKey(e)
}

// EncodeKey encodes only the table key. An empty key is an error that names the
// field.
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

// EncodeFields encodes some fields of a struct and returns those that are
// omitted. An error of a value is an *EncodeError.
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

// checkKey returns an error if the encoded table key is empty.
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

// KeyOf returns the attributes of the table key in an item.
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
// become zero; attributes without a field are ignored. On an error, a
// *DecodeError, the struct is unchanged.
func (m *Model) Decode(item Item, v reflect.Value) error { return m.decode(item, v, false) }

// DecodeSelected is Decode, but fields without an attribute are unchanged.
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
