package localdynamo

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// source is what a Query or Scan reads: a table or one of its indexes.
type source struct {
	table *table
	index *index // nil for the table itself
}

// source finds the table or index that a request names.
func (db *DB) source(tableName, indexName *string) (source, error) {
	t, err := db.findTable(tableName)
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

// key returns the key schema that orders the source.
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

// unprojected returns the attributes that the source does not project.
func (s source) unprojected(attributes []string) []string {
	var missing []string
	for _, name := range attributes {
		if s.index != nil && !s.index.projects(s.table, name) {
			missing = append(missing, name)
		}
	}
	return missing
}

// cursorAttributes lists the attributes of a LastEvaluatedKey: the source's key,
// then the rest of the table's key.
func (s source) cursorAttributes() []attribute {
	attributes := s.key().keyAttributes()
	if s.index == nil {
		return attributes
	}
	for _, a := range s.table.keyAttributes() {
		if !s.index.has(a.Name) {
			attributes = append(attributes, a)
		}
	}
	return attributes
}

// cursorOf returns the LastEvaluatedKey of a page that ends with item.
func (s source) cursorOf(item value.Item) (map[string]types.AttributeValue, error) {
	key := make(map[string]types.AttributeValue, 4)
	for _, a := range s.cursorAttributes() {
		v, err := item.Lookup(a.Name)
		if err != nil {
			return nil, corrupt(err)
		}
		key[a.Name] = v
	}
	return key, nil
}

// startPosition checks a canonical ExclusiveStartKey and returns its position in
// the source; nil stays nil.
func (s source) startPosition(key map[string]types.AttributeValue) ([]byte, error) {
	if key == nil {
		return nil, nil
	}
	at, err := s.positionOf(key)
	if message, ok := validationMessage(err); ok {
		return nil, invalid("%s: %s", startKeyInvalid, message)
	}
	return at, err
}

// startKeyInvalid begins the errors about an invalid ExclusiveStartKey. For one
// that does not match the key schema, Query returns it without the reason.
const startKeyInvalid = "The provided starting key is invalid"

// positionOf returns the position of a canonical cursor in the source.
func (s source) positionOf(key map[string]types.AttributeValue) ([]byte, error) {
	attributes := s.cursorAttributes()
	if len(key) != len(attributes) {
		return nil, errKeySchema()
	}
	for _, a := range attributes {
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

// wholeItem reads the table's item for an entry of a local index.
func (s source) wholeItem(r store.Reader, entry value.Item) (value.Item, error) {
	key, err := s.cursorOf(entry)
	if err != nil {
		return "", err
	}
	at, err := s.table.encodeKey(key)
	if err != nil {
		return "", corrupt(err)
	}
	return value.View(r.Get(s.table.space(), at)), nil
}
