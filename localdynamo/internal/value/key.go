package value

import (
	"bytes"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Bytes that end or escape a string inside a key. The end sorts below every
// escaped zero byte, hence a string sorts before every longer one it begins.
const (
	keyZero    = 0x00
	keyEnd     = 0x01
	keyEscaped = 0xff
)

// First byte of a number inside a key.
const (
	keyNegative = 0x7f
	keyNull     = 0x80
	keyPositive = 0x81
)

var errNotKey = errors.New("not a key type")

// AppendKey appends a form of the canonical scalar v (S, N or B) whose byte
// order is the order of values, and which says itself where it ends, so that
// several can be strung together.
func AppendKey(dst []byte, v types.AttributeValue) ([]byte, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return append(appendEscaped(dst, v.Value), keyZero, keyEnd), nil
	case *types.AttributeValueMemberB:
		return append(appendEscaped(dst, string(v.Value)), keyZero, keyEnd), nil
	case *types.AttributeValueMemberN:
		return appendNumberKey(dst, v.Value)
	}
	return nil, errNotKey
}

// AppendKeyPrefix appends what the keys of all strings (or binaries) that
// begin with v have in common, and nothing else has.
func AppendKeyPrefix(dst []byte, v types.AttributeValue) ([]byte, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return appendEscaped(dst, v.Value), nil
	case *types.AttributeValueMemberB:
		return appendEscaped(dst, string(v.Value)), nil
	}
	return nil, errNotKey
}

func appendEscaped(dst []byte, s string) []byte {
	for {
		i := strings.IndexByte(s, keyZero)
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(append(dst, s[:i]...), keyZero, keyEscaped)
		s = s[i+1:]
	}
}

// appendNumberKey writes sign, exponent (one byte holds all 256 of them), the
// digits two to a byte from 1 to 100, and a zero byte. For a negative number
// all but the sign is inverted, so that the larger magnitude sorts first.
func appendNumberKey(dst []byte, canonical string) ([]byte, error) {
	d, err := parse(canonical)
	if err != nil {
		return nil, err
	}
	if d.digits == "" {
		return append(dst, keyNull), nil
	}
	sign, invert := byte(keyPositive), byte(0)
	if d.negative {
		sign, invert = keyNegative, 0xff
	}
	dst = append(dst, sign, byte(d.exp-1-minExponent)^invert)
	for i := 0; i < len(d.digits); i += 2 {
		pair := (d.digits[i] - '0') * 10
		if i+1 < len(d.digits) {
			pair += d.digits[i+1] - '0'
		}
		dst = append(dst, (pair+1)^invert)
	}
	return append(dst, invert), nil
}

// PrefixEnd returns the least key above every key that begins with prefix, or nil
// if there is none.
func PrefixEnd(prefix []byte) []byte {
	n := len(prefix)
	for n > 0 && prefix[n-1] == 0xff {
		n--
	}
	if n == 0 {
		return nil
	}
	end := bytes.Clone(prefix[:n])
	end[n-1]++
	return end
}
