package envelope

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Location identifies a stored item. Encrypted attributes can only be opened at the
// location for which they were sealed.
type Location struct {
	Table string         // name or ARN; not empty
	Key   []KeyAttribute // the partition key, then the sort key if the table has one
}

// KeyAttribute is an attribute of an item's primary key: S, N or B.
type KeyAttribute struct {
	Name  string
	Value types.AttributeValue
}

// describe names an attribute of the item in errors.
func (l Location) describe(attribute string) string {
	keys := make([]string, len(l.Key))
	for i, key := range l.Key {
		keys[i] = key.Name + "=" + formatKey(key.Value)
	}
	return fmt.Sprintf("attribute %q of item {%s} of table %q", attribute, strings.Join(keys, ", "), l.Table)
}

// formatKey formats a key value for errors, truncated to a readable length.
func formatKey(v types.AttributeValue) string {
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

// hasKey reports whether an attribute is part of the key.
func (l Location) hasKey(attribute string) bool {
	for _, key := range l.Key {
		if key.Name == attribute {
			return true
		}
	}
	return false
}

// additionalData returns the additional data of AES-GCM for an attribute; see the
// package comment.
func (l Location) additionalData(attribute string) ([]byte, error) {
	if l.Table == "" || len(l.Key) < 1 || len(l.Key) > 2 {
		return nil, fmt.Errorf("location with table %q and %d key attributes: expected a table and 1 or 2 key attributes", l.Table, len(l.Key))
	}
	ad := binary.BigEndian.AppendUint32(nil, version)
	ad = appendPrefixed(ad, tableName(l.Table))
	ad = binary.BigEndian.AppendUint32(ad, uint32(len(l.Key)))
	for _, key := range l.Key {
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
// (arn:aws:dynamodb:eu-central-1:123456789012:table/name), so that a table has one
// location whether it is configured by ARN or by name.
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
	return "", "", fmt.Errorf("key of type %T: expected S, N or B", v)
}
