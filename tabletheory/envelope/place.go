package envelope

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Place is where an item is stored. Its encrypted attributes can be opened
// nowhere else.
type Place struct {
	Table string         // name or ARN; not empty
	Key   []KeyAttribute // the partition key, then the sort key if the table has one
}

// KeyAttribute is an attribute of an item's primary key: S, N or B.
type KeyAttribute struct {
	Name  string
	Value types.AttributeValue
}

// of returns how errors name an attribute of the item.
func (p Place) of(attribute string) string {
	keys := make([]string, len(p.Key))
	for i, key := range p.Key {
		keys[i] = key.Name + "=" + describe(key.Value)
	}
	return fmt.Sprintf("attribute %q of item {%s} of table %q", attribute, strings.Join(keys, ", "), p.Table)
}

// describe shows a key in an error, cut to a length that can be read.
func describe(v types.AttributeValue) string {
	const most = 64
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return fmt.Sprintf("%.*q", most, v.Value)
	case *types.AttributeValueMemberN:
		return fmt.Sprintf("%.*s", most, v.Value)
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("0x%x", v.Value[:min(len(v.Value), most/2)])
	}
	return "none"
}

// has reports whether an attribute is part of the key.
func (p Place) has(attribute string) bool {
	for _, key := range p.Key {
		if key.Name == attribute {
			return true
		}
	}
	return false
}

// additionalData is what AES-GCM authenticates with an attribute; see the
// package comment.
func (p Place) additionalData(attribute string) ([]byte, error) {
	if p.Table == "" || len(p.Key) < 1 || len(p.Key) > 2 {
		return nil, fmt.Errorf("a place is a table and a key of one or two attributes, not table %q and %d", p.Table, len(p.Key))
	}
	ad := binary.BigEndian.AppendUint32(nil, version)
	ad = appendPrefixed(ad, tableName(p.Table))
	ad = binary.BigEndian.AppendUint32(ad, uint32(len(p.Key)))
	for _, key := range p.Key {
		kind, value, err := keyValue(key.Value)
		if err != nil {
			return nil, fmt.Errorf("key attribute %q: %w", key.Name, err)
		}
		ad = appendPrefixed(ad, key.Name)
		ad = appendPrefixed(ad, kind)
		ad = appendPrefixed(ad, value)
	}
	return appendPrefixed(ad, attribute), nil
}

func appendPrefixed(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(s))), s...)
}

// tableName returns the name in an ARN
// (arn:aws:dynamodb:eu-central-1:123456789012:table/name), so that those who
// know the table by its ARN and those who know its name read the same.
func tableName(table string) string {
	if !strings.HasPrefix(table, "arn:") {
		return table
	}
	if _, name, found := strings.Cut(table, ":table/"); found {
		return name
	}
	return table
}

func keyValue(v types.AttributeValue) (kind, value string, err error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return "S", v.Value, checkText(v.Value)
	case *types.AttributeValueMemberN:
		value, err := canonicalNumber(v.Value)
		return "N", value, err
	case *types.AttributeValueMemberB:
		return "B", string(v.Value), nil
	}
	return "", "", fmt.Errorf("a key is S, N or B, not %T", v)
}
