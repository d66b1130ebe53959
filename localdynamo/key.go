package localdynamo

import (
	"slices"

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

// keySchema is the primary key of a table, or the key of an index. The hash key of a
// global index has up to maxKeyAttributes attributes, and so has its range key; all others
// have one.
type keySchema struct {
	Hash  attribute
	Range *attribute `json:",omitempty"` // nil if there is only a hash key

	MoreHash  []attribute `json:",omitempty"` // of the hash key, after Hash
	MoreRange []attribute `json:",omitempty"` // of the range key, after Range
}

// maxKeyAttributes is the maximum number of attributes of the hash key, and of the range
// key, of a global index.
const maxKeyAttributes = 4

// hashes returns the attributes of the hash key.
func (k *keySchema) hashes() []attribute {
	return append([]attribute{k.Hash}, k.MoreHash...)
}

// ranges returns the attributes of the range key, or nil if there is only a hash key.
func (k *keySchema) ranges() []attribute {
	if k.Range == nil {
		return nil
	}
	return append([]attribute{*k.Range}, k.MoreRange...)
}

func names(attributes []attribute) []string {
	out := make([]string, len(attributes))
	for i, a := range attributes {
		out[i] = a.Name
	}
	return out
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

// encodeKey concatenates the encoded attributes of the hash and range key. Their types
// have been checked.
func (k *keySchema) encodeKey(from map[string]types.AttributeValue) ([]byte, error) {
	encoded, err := appendKey(make([]byte, 0, 128), k.Hash, from[k.Hash.Name], 0, maxHashSize)
	if err == nil && k.MoreHash != nil {
		encoded, err = appendKeys(encoded, k.MoreHash, from, keySizeOf(from[k.Hash.Name]), maxHashSize)
	}
	if err == nil && k.Range != nil {
		encoded, err = appendKey(encoded, *k.Range, from[k.Range.Name], 0, maxRangeSize)
	}
	if err == nil && k.MoreRange != nil {
		encoded, err = appendKeys(encoded, k.MoreRange, from, keySizeOf(from[k.Range.Name]), maxRangeSize)
	}
	return encoded, err
}

// appendKeys appends the encoded values of attributes; see appendKey.
func appendKeys(dst []byte, attributes []attribute, from map[string]types.AttributeValue, before, limit int) (_ []byte, err error) {
	for _, a := range attributes {
		v := from[a.Name]
		if dst, err = appendKey(dst, a, v, before, limit); err != nil {
			return nil, err
		}
		before += keySizeOf(v)
	}
	return dst, nil
}

// appendKey appends one encoded key value. It and the values before it in the same hash or
// range key, of that many bytes, are limited to limit bytes.
func appendKey(dst []byte, a attribute, v types.AttributeValue, before, limit int) ([]byte, error) {
	if err := checkKeyValue(a, v, before, limit); err != nil {
		return nil, err
	}
	encoded, err := value.AppendKey(dst, v)
	return encoded, asInvalid(err)
}

func checkKeyValue(a attribute, v types.AttributeValue, before, limit int) error {
	size, kind := keySize(v)
	switch {
	case size == 0:
		return errEmptyKey(a, kind)
	case before+size > limit:
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

// keySizeOf returns the size of key values together.
func keySizeOf(values ...types.AttributeValue) int {
	n := 0
	for _, v := range values {
		size, _ := keySize(v)
		n += size
	}
	return n
}

func (k *keySchema) keyLen() int {
	n := 1 + len(k.MoreHash)
	if k.Range != nil {
		n += 1 + len(k.MoreRange)
	}
	return n
}

// keyAttributes returns the attributes of the hash key, then the attributes of the range key if
// there is one.
func (k *keySchema) keyAttributes() []attribute {
	all := append(make([]attribute, 0, k.keyLen()), k.Hash)
	all = append(all, k.MoreHash...)
	if k.Range != nil {
		all = append(append(all, *k.Range), k.MoreRange...)
	}
	return all
}

// has reports whether the attribute is part of the key.
func (k *keySchema) has(name string) bool {
	is := func(a attribute) bool { return a.Name == name }
	return is(k.Hash) || k.Range != nil && is(*k.Range) || slices.ContainsFunc(k.MoreHash, is) || slices.ContainsFunc(k.MoreRange, is)
}

func (k *keySchema) describe() []types.KeySchemaElement {
	var elements []types.KeySchemaElement
	for _, a := range k.hashes() {
		elements = append(elements, types.KeySchemaElement{AttributeName: aws.String(a.Name), KeyType: types.KeyTypeHash})
	}
	for _, a := range k.ranges() {
		elements = append(elements, types.KeySchemaElement{AttributeName: aws.String(a.Name), KeyType: types.KeyTypeRange})
	}
	return elements
}
