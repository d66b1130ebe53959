package model

import (
	"fmt"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// maxKeyName is DynamoDB's bound on the names of key attributes, in bytes.
const maxKeyName = 255

// compileModel compiles the model of a struct type.
func (r *Registry) compileModel(t reflect.Type) (*Model, error) {
	if t.Kind() != reflect.Struct {
		return nil, &Error{Type: t, Problem: "a model must be a struct"}
	}
	m := &Model{Type: t, registry: r}
	err := r.compile(func(k *compiler) (err error) {
		m.plan, err = k.plan(t, camelCase)
		return err
	})
	if err != nil {
		return nil, err
	}
	m.Fields = m.plan.fields
	for _, f := range m.Fields {
		f.path = &Path{Field: f, Steps: []Step{{Name: f.Attribute}}, codec: f.codec, naming: m.plan.naming, registry: r}
		if err := m.assignRoles(f); err != nil {
			return nil, &Error{Type: f.owner, Field: f.Name, Problem: err.Error()}
		}
	}
	if m.Range != nil {
		m.Range.tableKey = rangeKey
	}
	if m.Hash == nil {
		return nil, &Error{Type: t, Problem: "no partition key: give one field the tag " + tagName + ":\"pk\""}
	}
	m.Hash.tableKey = hashKey
	if err := m.completeIndexes(); err != nil {
		return nil, err
	}
	m.backups.New = func() any {
		v := reflect.New(t).Elem()
		return &v
	}
	return m, nil
}

// assignRoles assigns the roles in a field's tag.
func (m *Model) assignRoles(f *Field) error {
	roles := []struct {
		stated bool
		role   **Field
		word   string
		check  func(*Field) error
	}{
		{f.tag.hash, &m.Hash, "pk", (*Field).makeTableKey},
		{f.tag.sort, &m.Range, "sk", (*Field).makeTableKey},
		{f.tag.ttl, &m.TTL, "ttl", (*Field).checkTTL},
		{f.tag.version, &m.Version, "version", (*Field).checkVersion},
		{f.tag.createdAt, &m.CreatedAt, "created_at", (*Field).checkTime},
		{f.tag.updatedAt, &m.UpdatedAt, "updated_at", (*Field).checkTime},
	}
	for _, r := range roles {
		if !r.stated {
			continue
		}
		if *r.role != nil {
			return fmt.Errorf("field %s already has the role %s, which only one field can have", (*r.role).Name, r.word)
		}
		if err := r.check(f); err != nil {
			return err
		}
		*r.role = f
	}
	if f.Encrypted {
		m.Encrypted = append(m.Encrypted, f)
	}
	for _, role := range f.tag.indexes {
		if err := m.assignIndex(f, role); err != nil {
			return err
		}
	}
	return nil
}

// makeTableKey makes the field a table key, which is never omitted: an empty key
// is an error. The number 0 is not empty.
func (f *Field) makeTableKey() error {
	f.OmitEmpty, f.empty = false, nil
	return f.makeKey()
}

// makeKey sets the key type of the field.
func (f *Field) makeKey() error {
	k := f.codec.kind
	if k == "" {
		// A type that encodes itself shows its kind by its zero value.
		if av, err := f.registry.encodeWith(f.codec, reflect.Zero(f.typ)); err == nil {
			k = kindOf(av)
		}
	}
	if !k.isScalar() {
		return fmt.Errorf("a key must be a string, a number or binary, not %v", f.typ)
	}
	if len(f.Attribute) > maxKeyName {
		return fmt.Errorf("the attribute name has %d bytes, but the name of a key has at most %d", len(f.Attribute), maxKeyName)
	}
	f.Key = types.ScalarAttributeType(k)
	return nil
}

func (f *Field) checkTTL() error {
	base := f.codec.base()
	if isInteger(base.typ) || base.typ.ConvertibleTo(timeType) && base.kind == kindN {
		return nil
	}
	return fmt.Errorf("a ttl must be an integer (epoch seconds) or a time.Time, not %v", f.typ)
}

func (f *Field) checkVersion() error {
	if isInteger(f.typ) && f.codec.kind == kindN {
		return nil
	}
	return fmt.Errorf("a version must be an integer, not %v", f.typ)
}

func (f *Field) checkTime() error {
	isTime := f.typ.Kind() == reflect.Struct && f.typ.ConvertibleTo(timeType)
	if (isTime || f.typ.Kind() == reflect.String) && f.codec.kind == kindS || isInteger(f.typ) && f.codec.kind == kindN {
		return nil
	}
	return fmt.Errorf("created_at and updated_at must be a time.Time, a string or an integer (epoch seconds), not %v", f.typ)
}

func isInteger(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	}
	return false
}

// assignIndex gives a field a role in an index.
func (m *Model) assignIndex(f *Field, role indexRole) error {
	index, ok := m.Index(role.name)
	if !ok {
		index = &Index{Name: role.name, Local: role.local}
		m.Indexes = append(m.Indexes, index)
	}
	if index.Local != role.local {
		return fmt.Errorf("%s is both an index: and an lsi: keep one", role.name)
	}
	key, word := &index.Hash, "pk"
	if role.sort {
		key, word = &index.Range, "sk"
	}
	if *key != nil {
		return fmt.Errorf("index %s already has the %s %s", role.name, word, (*key).Name)
	}
	*key = f
	index.Sparse = index.Sparse || role.sparse
	return f.makeKey()
}

// completeIndexes checks the indexes after all fields have their roles.
func (m *Model) completeIndexes() error {
	for _, index := range m.Indexes {
		switch {
		case index.Local && m.Range == nil:
			return &Error{Type: m.Type, Field: index.Range.Name, Problem: fmt.Sprintf("local index %s needs a table with a sort key: give one field the tag sk, or write index:%s", index.Name, index.Name)}
		case index.Local:
			index.Hash = m.Hash
		case index.Hash == nil:
			return &Error{Type: m.Type, Field: index.Range.Name, Problem: fmt.Sprintf("index %s has no partition key: give one field the tag index:%s,pk", index.Name, index.Name)}
		}
		m.omitKeys(index)
	}
	return nil
}

// omitKeys makes empty keys of a sparse index omitted, and nil keys of any
// index, because DynamoDB refuses NULL there.
func (m *Model) omitKeys(index *Index) {
	for _, f := range []*Field{index.Hash, index.Range} {
		switch {
		case f == nil, f == m.Hash, f == m.Range:
		case index.Sparse:
			f.OmitEmpty, f.empty = true, emptyFunc(f.typ)
		case f.empty == nil && f.typ.Kind() == reflect.Pointer:
			f.empty = reflect.Value.IsNil
		}
	}
}
