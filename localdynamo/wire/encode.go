package wire

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// appendString writes a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := len(dst)
	dst = append(dst, s...)
	if !plain(dst[start:]) {
		dst = appendEscaped(dst[:start], s)
	}
	return append(dst, '"')
}

// plain reports whether the text is ASCII that needs no escaping. It looks at
// eight bytes at a time: a byte is below n if taking n off borrows into its
// highest bit, and equal to c if its exclusive or with c is below 1.
func plain(text []byte) bool {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	for len(text) >= 8 {
		x := binary.LittleEndian.Uint64(text)
		quote, backslash := x^(ones*'"'), x^(ones*'\\')
		control := (x - ones*' ') &^ x
		found := x | control | (quote-ones)&^quote | (backslash-ones)&^backslash
		if found&highest != 0 {
			return false
		}
		text = text[8:]
	}
	for _, c := range text {
		if c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func appendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return dst
}

// appendFloat writes whole numbers with a fraction of zero, as AWS does:
// clients of some languages take it for another type without.
func appendFloat(dst []byte, f float64) []byte {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.AppendFloat(dst, f, 'f', 1, 64)
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// appendEpoch writes seconds since 1970, to the millisecond.
func appendEpoch(dst []byte, t time.Time) []byte {
	return strconv.AppendFloat(dst, float64(t.UnixMilli())/1000, 'f', 3, 64)
}
