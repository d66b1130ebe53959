package localdynamo

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Maximum sizes of key values, in bytes.
const (
	maxHashSize  = 2048
	maxRangeSize = 1024
)

// attribute is a key attribute.
type attribute struct {
	Name string
	Type types.ScalarAttributeType
}

// keySchema is the primary key of a table, or the key of an index.
type keySchema struct {
	Hash  attribute
	Range *attribute `json:",omitempty"` // nil if there is only a hash key
}

// keyOf checks a canonical Key parameter and encodes it in the byte order of
// the table's items.
func (t *table) keyOf(key map[string]types.AttributeValue) ([]byte, error) {
	if err := t.checkNonEmptyKeys(key); err != nil {
		return nil, err
	}
	return t.keyFrom(key)
}

// checkNonEmptyKeys refuses an empty string or binary for a key attribute of
// the table or of an index. It ignores values of the wrong type, which later
// checks report.
func (t *table) checkNonEmptyKeys(fields map[string]types.AttributeValue) error {
	for _, a := range t.keyAttributes() {
		if v := fields[a.Name]; v != nil && value.Type(v) == string(a.Type) {
			if size, kind := keySize(v); size == 0 {
				return errEmptyKey(a, kind)
			}
		}
	}
	for _, ix := range t.Indexes {
		for _, a := range ix.keyAttributes() {
			if v := fields[a.Name]; v != nil && !t.has(a.Name) && value.Type(v) == string(a.Type) {
				if size, kind := keySize(v); size == 0 {
					return errEmptyIndexKey(ix, a, kind)
				}
			}
		}
	}
	return nil
}

// keyFrom encodes a canonical Key parameter in the byte order of the table's
// items.
func (t *table) keyFrom(key map[string]types.AttributeValue) ([]byte, error) {
	if len(key) != t.keyLen() {
		return nil, errKeySchema()
	}
	if err := t.checkKeyTypes(key); err != nil {
		return nil, err
	}
	return t.encodeKey(key)
}

// checkKeyTypes requires every key attribute, with its declared type.
func (t *table) checkKeyTypes(fields map[string]types.AttributeValue) error {
	for _, a := range t.keyAttributes() {
		if v := fields[a.Name]; v == nil || value.Type(v) != string(a.Type) {
			return errKeySchema()
		}
	}
	return nil
}

func errEmptyKey(a attribute, kind string) error {
	return invalid("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s", kind, a.Name)
}

const keySchemaMismatch = "The provided key element does not match the schema"

func errKeySchema() error { return invalid(keySchemaMismatch) }

// keyOfItem checks and encodes the key of a canonical item.
func (t *table) keyOfItem(item map[string]types.AttributeValue) ([]byte, error) {
	for _, a := range t.keyAttributes() {
		v := item[a.Name]
		if v == nil {
			return nil, invalid("One or more parameter values were invalid: Missing the key %s in the item", a.Name)
		}
		if value.Type(v) != string(a.Type) {
			return nil, invalid("One or more parameter values were invalid: Type mismatch for key %s expected: %s actual: %s", a.Name, a.Type, value.Type(v))
		}
	}
	return t.encodeKey(item)
}

// encodeKey concatenates the encoded hash and range key. Their types have been
// checked.
func (k *keySchema) encodeKey(from map[string]types.AttributeValue) ([]byte, error) {
	encoded, err := appendKey(make([]byte, 0, 128), k.Hash, from[k.Hash.Name], maxHashSize)
	if err != nil || k.Range == nil {
		return encoded, err
	}
	return appendKey(encoded, *k.Range, from[k.Range.Name], maxRangeSize)
}

// appendKey appends one encoded key value of at most limit bytes.
func appendKey(dst []byte, a attribute, v types.AttributeValue, limit int) ([]byte, error) {
	if err := checkKeyValue(a, v, limit); err != nil {
		return nil, err
	}
	encoded, err := value.AppendKey(dst, v)
	return encoded, asInvalid(err)
}

func checkKeyValue(a attribute, v types.AttributeValue, limit int) error {
	size, kind := keySize(v)
	switch {
	case size == 0:
		return errEmptyKey(a, kind)
	case size > limit:
		return errKeyTooLong(limit)
	}
	return nil
}

func errKeyTooLong(limit int) error {
	if limit == maxHashSize {
		return invalid("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes")
	}
	return invalid("One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
}

// keySize returns the size of a string or binary in bytes, and its name in
// error messages. For numbers, whose size is bounded, it returns 1.
func keySize(v types.AttributeValue) (size int, kind string) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value), "string"
	case *types.AttributeValueMemberB:
		return len(v.Value), "binary"
	}
	return 1, ""
}

func (k *keySchema) keyLen() int {
	if k.Range == nil {
		return 1
	}
	return 2
}

// keyAttributes returns the hash key, then the range key if there is one.
func (k *keySchema) keyAttributes() []attribute {
	if k.Range == nil {
		return []attribute{k.Hash}
	}
	return []attribute{k.Hash, *k.Range}
}

// has reports whether the attribute is part of the key.
func (k *keySchema) has(name string) bool {
	return k.Hash.Name == name || k.Range != nil && k.Range.Name == name
}

func (k *keySchema) describe() []types.KeySchemaElement {
	elements := []types.KeySchemaElement{{AttributeName: aws.String(k.Hash.Name), KeyType: types.KeyTypeHash}}
	if k.Range != nil {
		elements = append(elements, types.KeySchemaElement{AttributeName: aws.String(k.Range.Name), KeyType: types.KeyTypeRange})
	}
	return elements
}
