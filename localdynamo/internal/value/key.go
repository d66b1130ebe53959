package value

import (
	"bytes"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Bytes that terminate or escape a string inside a key. The terminator sorts below
// every escaped zero byte, so a string sorts before its extensions.
const (
	keyZero    = 0x00
	keyEnd     = 0x01
	keyEscaped = 0xff
)

// First byte of a number inside a key: its sign.
const (
	keyNegative = 0x7f
	keyNull     = 0x80
	keyPositive = 0x81
)

var errNotKey = errors.New("not a key type")

// AppendKey appends an order-preserving, self-delimiting encoding of the canonical
// scalar v (S, N or B): bytewise order is value order, and encodings can be
// concatenated.
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

// AppendKeyPrefix appends the prefix that the keys of exactly those strings (or
// binaries) share that begin with v.
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

// appendNumberKey appends the sign, the exponent (one byte: there are 256), the
// digits as two per byte (values 1 to 100), and a zero byte. For a negative number
// everything after the sign is inverted, so that larger magnitudes sort first.
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

// PrefixEnd returns the smallest key greater than every key that begins with
// prefix, or nil if no such key exists.
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
