package value

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// MaxItemSize is the maximum size of an item in bytes, including attribute names.
const MaxItemSize = 400 << 10

// ItemSize returns the size of an item in bytes as AWS bills it: names and values,
// without storage overhead.
func ItemSize(item map[string]types.AttributeValue) int {
	n := 0
	for name, v := range item {
		n += len(name) + Size(v)
	}
	return n
}

// Size returns the billed size of a canonical value in bytes. A map or list costs
// 3 bytes plus 1 per member; a boolean or null costs 1.
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

// numberSize returns 1 byte, plus 1 per two significant digits on each side of the
// decimal point, plus 1 for a negative sign. Digits on different sides do not share
// a byte. That is measured on AWS: its documentation says two digits per byte, and
// calls that approximate.
func numberSize(canonical string) int {
	digits, sign := canonical, 0
	if rest, negative := strings.CutPrefix(digits, "-"); negative {
		digits, sign = rest, 1
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	switch {
	case fraction == "":
		whole = strings.TrimRight(whole, "0")
	case whole == "0":
		whole, fraction = "", strings.TrimLeft(fraction, "0")
	}
	return 1 + (len(whole)+1)/2 + (len(fraction)+1)/2 + sign
}
