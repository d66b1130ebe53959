package localdynamo

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Largest key values in bytes.
const (
	maxHashSize  = 2048
	maxRangeSize = 1024
)

// keyOf checks a Key parameter and returns it canonical, and as it orders the
// table's items on disk.
func (t *table) keyOf(given map[string]types.AttributeValue) (map[string]types.AttributeValue, []byte, error) {
	key, err := value.CleanItem(given)
	if err != nil {
		return nil, nil, asInvalid(err)
	}
	if len(key) != t.keyLen() {
		return nil, nil, errKeySchema()
	}
	for _, a := range t.keyAttributes() {
		if v := key[a.Name]; v == nil || value.Type(v) != string(a.Type) {
			return nil, nil, errKeySchema()
		}
	}
	encoded, err := t.encodeKey(key)
	return key, encoded, err
}

func errKeySchema() error {
	return invalid("The provided key element does not match the schema")
}

// keyOfItem returns the key of a canonical item, checked.
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

// encodeKey strings hash and range key together. Both are of the right type.
func (t *table) encodeKey(from map[string]types.AttributeValue) ([]byte, error) {
	encoded, err := appendKey(make([]byte, 0, 128), t.Hash, from[t.Hash.Name], maxHashSize)
	if err != nil || t.Range == nil {
		return encoded, err
	}
	return appendKey(encoded, *t.Range, from[t.Range.Name], maxRangeSize)
}

// appendKey adds one key value within its bounds.
func appendKey(dst []byte, a attribute, v types.AttributeValue, limit int) ([]byte, error) {
	if err := checkKeyValue(a, v, limit); err != nil {
		return nil, err
	}
	encoded, err := value.AppendKey(dst, v)
	return encoded, asInvalid(err)
}

func checkKeyValue(a attribute, v types.AttributeValue, limit int) error {
	size := 1 // numbers are bounded by themselves
	kind := ""
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		size, kind = len(v.Value), "string"
	case *types.AttributeValueMemberB:
		size, kind = len(v.Value), "binary"
	}
	switch {
	case size == 0:
		return invalid("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s", kind, a.Name)
	case size > limit && limit == maxHashSize:
		return invalid("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of2048 bytes")
	case size > limit:
		return invalid("One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of 1024 bytes")
	}
	return nil
}

func (t *table) keyLen() int {
	if t.Range == nil {
		return 1
	}
	return 2
}

// keyAttributes returns the hash key, then the range key if there is one.
func (t *table) keyAttributes() []attribute {
	if t.Range == nil {
		return []attribute{t.Hash}
	}
	return []attribute{t.Hash, *t.Range}
}

// keyFields cuts the key out of an item.
func (t *table) keyFields(item value.Item) (map[string]types.AttributeValue, error) {
	key := make(map[string]types.AttributeValue, 2)
	for _, a := range t.keyAttributes() {
		v, err := item.Lookup(a.Name)
		if err != nil {
			return nil, damaged(err)
		}
		key[a.Name] = v
	}
	return key, nil
}
