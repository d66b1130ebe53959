package wire

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"time"
	"unicode/utf8"
)

// appendString appends a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for {
		plain := plainLength(s)
		dst = append(dst, s[:plain]...)
		if s = s[plain:]; s == "" {
			return append(dst, '"')
		}
		dst, s = appendSpecial(dst, s)
	}
}

// plainLength returns the length of the ASCII prefix that needs no escaping. It tests
// eight bytes at a time (SWAR): a byte is less than n if subtracting n borrows into its
// highest bit, and equals c if its xor with c is less than 1.
func plainLength(s string) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	text := []byte(s) // not copied: the compiler sees no writes
	at := 0
	for ; at+8 <= len(text); at += 8 {
		x := binary.LittleEndian.Uint64(text[at:])
		quote, backslash := x^(ones*'"'), x^(ones*'\\')
		control := (x - ones*' ') &^ x
		found := x | control | (quote-ones)&^quote | (backslash-ones)&^backslash
		if found &= highest; found != 0 {
			// Borrows propagate only upwards, so the lowest hit is exact.
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for ; at < len(text); at++ {
		if c := text[at]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return at
}

// appendSpecial appends the prefix of s that is not plain and returns the rest.
func appendSpecial(dst []byte, s string) ([]byte, string) {
	const hex = "0123456789abcdef"
	for at, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		case r < utf8.RuneSelf:
			return dst, s[at:]
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst, ""
}

// appendFloat writes integers with a fraction of zero, as AWS does. Without it clients
// in some languages decode another type.
func appendFloat(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.AppendFloat(dst, f, 'f', 1, 64)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// appendEpoch appends seconds since 1970 with millisecond precision.
func appendEpoch(dst []byte, t time.Time) []byte {
	return strconv.AppendFloat(dst, float64(t.UnixMilli())/1000, 'f', 3, 64)
}
