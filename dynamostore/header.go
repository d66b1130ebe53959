package dynamostore

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	expectedTags   = expectation("a list of strings")
	expectedHeader = expectation("a map of lists of strings")
)

// tagList is an optional list of strings.
type tagList []string

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (l *tagList) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	if isNull(av) {
		return nil
	}
	list, ok := stringList(av)
	if !ok {
		return expectedTags
	}
	*l = list
	return nil
}

// header is the optional header of a response: a map of lower-case names to lists of
// strings.
type header http.Header

// MarshalDynamoDBAttributeValue is for package tabletheory. It writes names in
// lower case. The values of names that differ only in case are joined, in the byte
// order of the names.
func (h header) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	fields := make(row, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		lower := strings.ToLower(name)
		list, joined := fields[lower].(*types.AttributeValueMemberL)
		if !joined {
			list = &types.AttributeValueMemberL{Value: make([]types.AttributeValue, 0, len(h[name]))}
			fields[lower] = list
		}
		for _, value := range h[name] {
			list.Value = append(list.Value, headerValue(value))
		}
	}
	return &types.AttributeValueMemberM{Value: fields}, nil
}

// headerValue returns the value of a header field as a string, or as binary if it is
// not UTF-8 (HTTP allows any bytes above 0x7F).
func headerValue(s string) types.AttributeValue {
	if !utf8.ValidString(s) {
		return &types.AttributeValueMemberB{Value: []byte(s)}
	}
	return &types.AttributeValueMemberS{Value: s}
}

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (h *header) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	if isNull(av) {
		return nil
	}
	stored, ok := av.(*types.AttributeValueMemberM)
	if !ok {
		return expectedHeader
	}
	fields := make(header, len(stored.Value))
	for name, value := range stored.Value {
		values, ok := stringList(value)
		if !ok {
			return expectedHeader + expectation(", and a list at "+name)
		}
		fields[http.CanonicalHeaderKey(name)] = values
	}
	*h = fields
	return nil
}

// stringList converts a list of strings. Binary members are bytes that are not
// valid UTF-8, which DynamoDB's strings cannot hold and header fields can.
func stringList(value types.AttributeValue) ([]string, bool) {
	list, ok := value.(*types.AttributeValueMemberL)
	if !ok {
		return nil, false
	}
	strings := make([]string, len(list.Value))
	for i, member := range list.Value {
		switch m := member.(type) {
		case *types.AttributeValueMemberS:
			strings[i] = m.Value
		case *types.AttributeValueMemberB:
			strings[i] = string(m.Value)
		default:
			return nil, false
		}
	}
	return strings, true
}
