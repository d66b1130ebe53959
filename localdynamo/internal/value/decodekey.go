package value

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// DecodeKey decodes the first value of an encoded key, which has the given type (S, N or B), and
// returns it with the rest of the key. It is false for what AppendKey does not write.
func DecodeKey(kind types.ScalarAttributeType, key []byte) (v types.AttributeValue, rest []byte, ok bool) {
	switch kind {
	case types.ScalarAttributeTypeS:
		text, rest, ok := decodeEscaped(key)
		return &types.AttributeValueMemberS{Value: text}, rest, ok
	case types.ScalarAttributeTypeB:
		text, rest, ok := decodeEscaped(key)
		return &types.AttributeValueMemberB{Value: []byte(text)}, rest, ok
	case types.ScalarAttributeTypeN:
		text, rest, ok := decodeNumberKey(key)
		return &types.AttributeValueMemberN{Value: text}, rest, ok
	}
	return nil, nil, false
}

func decodeEscaped(key []byte) (text string, rest []byte, ok bool) {
	var b strings.Builder
	for i := 0; i < len(key); i++ {
		if key[i] != keyZero {
			b.WriteByte(key[i])
			continue
		}
		if i++; i == len(key) {
			return "", nil, false
		}
		switch key[i] {
		case keyEnd:
			return b.String(), key[i+1:], true
		case keyEscaped:
			b.WriteByte(keyZero)
		default:
			return "", nil, false
		}
	}
	return "", nil, false
}

func decodeNumberKey(key []byte) (text string, rest []byte, ok bool) {
	switch {
	case len(key) > 0 && key[0] == keyNull:
		return "0", key[1:], true
	case len(key) < 3 || key[0] != keyPositive && key[0] != keyNegative:
		return "", nil, false
	}
	d, invert := decimal{negative: key[0] == keyNegative}, byte(0)
	if d.negative {
		invert = 0xff
	}
	d.exp = int(key[1]^invert) + 1 + minExponent
	var digits strings.Builder
	for i := 2; i < len(key); i++ {
		pair := key[i] ^ invert
		switch {
		case pair == 0:
			d.digits = strings.TrimRight(digits.String(), "0")
			return d.text(), key[i+1:], true
		case pair > 100:
			return "", nil, false
		}
		digits.WriteByte('0' + (pair-1)/10)
		digits.WriteByte('0' + (pair-1)%10)
	}
	return "", nil, false
}
