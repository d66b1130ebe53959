package envelope

import (
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// maxDepth is the maximum nesting of values, the same as DynamoDB's.
const maxDepth = 32

var (
	errTooDeep  = fmt.Errorf("value is nested more than %d levels deep", maxDepth)
	errText     = errors.New("string is not valid UTF-8: store it as binary")
	errEmptySet = errors.New("empty set: DynamoDB sets have at least one member")
)

// appendValue appends the canonical JSON of a value; see the package comment. It rejects
// the values that DynamoDB would reject, because DynamoDB sees only the ciphertext.
func appendValue(dst []byte, v types.AttributeValue, depth int) ([]byte, error) {
	if depth > maxDepth {
		return nil, errTooDeep
	}
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return appendScalar(dst, "S", v.Value, checkText(v.Value))
	case *types.AttributeValueMemberN:
		number, err := canonicalNumber(v.Value)
		return appendScalar(dst, "N", number, err)
	case *types.AttributeValueMemberB:
		return appendScalar(dst, "B", base64.StdEncoding.EncodeToString(v.Value), nil)
	case *types.AttributeValueMemberBOOL:
		return append(strconv.AppendBool(append(dst, `{"BOOL":`...), v.Value), '}'), nil
	case *types.AttributeValueMemberNULL:
		if !v.Value {
			return nil, errors.New("NULL is false: DynamoDB allows only true")
		}
		return append(dst, `{"NULL":true}`...), nil
	case *types.AttributeValueMemberSS:
		return appendSet(dst, "SS", v.Value, func(s string) (string, error) { return s, checkText(s) })
	case *types.AttributeValueMemberNS:
		return appendSet(dst, "NS", v.Value, canonicalNumber)
	case *types.AttributeValueMemberBS:
		return appendSet(dst, "BS", v.Value, func(b []byte) (string, error) { return base64.StdEncoding.EncodeToString(b), nil })
	case *types.AttributeValueMemberL:
		return appendList(dst, v.Value, depth)
	case *types.AttributeValueMemberM:
		return appendMap(dst, v.Value, depth)
	}
	return nil, fmt.Errorf("unsupported attribute value %T", v)
}

func appendScalar(dst []byte, kind, text string, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	dst = append(append(append(dst, `{"`...), kind...), `":`...)
	return append(appendString(dst, text), '}'), nil
}

func appendSet[T any](dst []byte, kind string, set []T, text func(T) (string, error)) ([]byte, error) {
	members := make([]string, len(set))
	for i, member := range set {
		var err error
		if members[i], err = text(member); err != nil {
			return nil, err
		}
	}
	if err := checkSet(members); err != nil {
		return nil, err
	}
	slices.SortFunc(members, compareUTF16)
	dst = append(append(append(dst, `{"`...), kind...), `":[`...)
	for i, member := range members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, member)
	}
	return append(dst, `]}`...), nil
}

func appendList(dst []byte, list []types.AttributeValue, depth int) ([]byte, error) {
	dst = append(dst, `{"L":[`...)
	for i, element := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, element, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, `]}`...), nil
}

func appendMap(dst []byte, members map[string]types.AttributeValue, depth int) ([]byte, error) {
	dst = append(dst, `{"M":{`...)
	for i, name := range slices.SortedFunc(maps.Keys(members), compareUTF16) {
		if err := checkText(name); err != nil {
			return nil, err
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendString(dst, name), ':')
		var err error
		if dst, err = appendValue(dst, members[name], depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, `}}`...), nil
}

// checkText rejects strings that JSON cannot represent.
func checkText(s string) error {
	if !utf8.ValidString(s) {
		return errText
	}
	return nil
}

// checkSet rejects sets that DynamoDB does not allow: empty ones and duplicates.
func checkSet(members []string) error {
	if len(members) == 0 {
		return errEmptySet
	}
	seen := make(map[string]bool, len(members))
	for _, member := range members {
		if seen[member] {
			return errors.New("set with a duplicate member")
		}
		seen[member] = true
	}
	return nil
}

// compareUTF16 orders strings by UTF-16 code units, as RFC 8785 and JavaScript do. It
// differs from byte order for characters with surrogates.
func compareUTF16(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// appendString appends a JSON string by RFC 8785, with only the mandatory escapes.
func appendString(dst []byte, s string) []byte {
	const short = "btn\x00fr" // the escapes of U+0008 to U+000D; U+000B has none
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= 0x20:
			dst = append(dst, c)
		case c >= '\b' && c <= '\r' && c != '\v':
			dst = append(dst, '\\', short[c-'\b'])
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xF])
		}
	}
	return append(dst, '"')
}
