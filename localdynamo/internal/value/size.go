package value

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// MaxItemSize is the largest item in bytes, attribute names included.
const MaxItemSize = 400 << 10

// ItemSize returns the bytes that AWS bills for an item: names and values,
// without the overhead of storage.
func ItemSize(item map[string]types.AttributeValue) int {
	n := 0
	for name, v := range item {
		n += len(name) + Size(v)
	}
	return n
}

// Size returns the bytes of one canonical value: three for a map or list and
// one more for each member, one for a boolean or null.
func Size(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return numberSize(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberL:
		n := 3
		for _, e := range v.Value {
			n += 1 + Size(e)
		}
		return n
	case *types.AttributeValueMemberM:
		n := 3
		for name, e := range v.Value {
			n += 1 + len(name) + Size(e)
		}
		return n
	case *types.AttributeValueMemberSS:
		n := 0
		for _, s := range v.Value {
			n += len(s)
		}
		return n
	case *types.AttributeValueMemberNS:
		n := 0
		for _, s := range v.Value {
			n += numberSize(s)
		}
		return n
	case *types.AttributeValueMemberBS:
		n := 0
		for _, b := range v.Value {
			n += len(b)
		}
		return n
	}
	return 1 // BOOL, NULL
}

// numberSize is one byte for two significant digits, one more, and one for
// the sign of a negative number.
func numberSize(canonical string) int {
	digits, sign := canonical, 0
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		digits, sign = rest, 1
	}
	point := 0
	if strings.IndexByte(digits, '.') >= 0 {
		point = 1
		digits = strings.TrimLeft(digits, "0.")
		if strings.IndexByte(digits, '.') < 0 {
			point = 0
		}
	} else {
		digits = strings.TrimRight(digits, "0")
	}
	return (len(digits)-point+1)/2 + 1 + sign
}
