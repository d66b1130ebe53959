package localdynamo

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// source is what a Query or Scan walks over: a table, or one of its indexes.
type source struct {
	table *table
	index *index // nil for the table itself
}

// source finds what a request names.
func (db *DB) source(tableName, indexName *string) (source, error) {
	t, err := db.lookUp(tableName)
	if err != nil || indexName == nil {
		return source{table: t}, err
	}
	ix := t.index(*indexName)
	if ix == nil {
		return source{}, invalid("The table does not have the specified index: %s", *indexName)
	}
	if ix.Filling {
		return source{}, invalid("Cannot read from backfilling global secondary index: %s", ix.Name)
	}
	return source{table: t, index: ix}, nil
}

// key is what orders the source.
func (s source) key() *keySchema {
	if s.index != nil {
		return &s.index.keySchema
	}
	return &s.table.keySchema
}

func (s source) space() string {
	if s.index != nil {
		return s.index.space(s.table)
	}
	return s.table.space()
}

// global reports whether the source is a global index.
func (s source) global() bool { return s.index != nil && s.index.Global }

// unprojected returns those of the attributes that the source does not hold.
func (s source) unprojected(attributes []string) []string {
	var missing []string
	for _, name := range attributes {
		if s.index != nil && !s.index.projects(s.table, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// names lists the attributes of a LastEvaluatedKey: the source's key, then
// what of the table's is not part of it.
func (s source) names() []attribute {
	names := s.key().keyAttributes()
	if s.index == nil {
		return names
	}
	for _, a := range s.table.keyAttributes() {
		if !s.index.has(a.Name) {
			names = append(names, a)
		}
	}
	return names
}

// lastKey cuts out of an item what lets the next page begin after it.
func (s source) lastKey(item value.Item) (map[string]types.AttributeValue, error) {
	key := make(map[string]types.AttributeValue, 4)
	for _, a := range s.names() {
		v, err := item.Lookup(a.Name)
		if err != nil {
			return nil, damaged(err)
		}
		key[a.Name] = v
	}
	return key, nil
}

// startAfter checks a canonical ExclusiveStartKey and returns the place it
// means; nil stays nil.
func (s source) startAfter(key map[string]types.AttributeValue) ([]byte, error) {
	if key == nil {
		return nil, nil
	}
	at, err := s.placeOf(key)
	if message, ok := validationMessage(err); ok {
		return nil, invalid("%s: %s", startKeyInvalid, message)
	}
	return at, err
}

// startKeyInvalid is all that Query says of a start key that is not like the
// schema; Scan tells why.
const startKeyInvalid = "The provided starting key is invalid"

// placeOf returns where a canonical key is.
func (s source) placeOf(key map[string]types.AttributeValue) ([]byte, error) {
	names := s.names()
	if len(key) != len(names) {
		return nil, errKeySchema()
	}
	for _, a := range names {
		if v := key[a.Name]; v == nil || value.Type(v) != string(a.Type) {
			return nil, errKeySchema()
		}
	}
	at, err := s.key().encodeKey(key)
	if err != nil || s.index == nil {
		return at, err
	}
	own, err := s.table.encodeKey(key)
	return append(at, own...), err
}

// whole returns the table's item of an entry of a local index.
func (s source) whole(r store.Reader, entry value.Item) (value.Item, error) {
	key, err := s.lastKey(entry)
	if err != nil {
		return "", err
	}
	at, err := s.table.encodeKey(key)
	if err != nil {
		return "", damaged(err)
	}
	return value.View(r.Get(s.table.space(), at)), nil
}
