package value

import (
	"errors"
	"math/big"
	"strconv"
	"strings"
)

// Bounds of a number: its significant digits, and the exponent of the first one.
const (
	maxDigits   = 38
	minExponent = -130
	maxExponent = 125
)

// Errors for numbers out of range. The messages are AWS's.
var (
	errOverflow  = errors.New("Number overflow. Attempting to store a number with magnitude larger than supported range")
	errUnderflow = errors.New("Number underflow. Attempting to store a number with magnitude smaller than supported range")
	errPrecision = errors.New("Attempting to store more than 38 significant digits in a Number")
)

// decimal is ±0.d₁d₂…dₙ × 10^exp, where d₁ and dₙ are not zero. Zero has no digits.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

// Canonical returns the canonical text of the number s: plain decimal, without
// redundant zeros or exponent, and never "-0".
func Canonical(s string) (string, error) {
	if isCanonicalInteger(s) {
		return s, nil
	}
	d, err := parse(s)
	if err != nil {
		return "", err
	}
	return d.check()
}

// isCanonicalInteger is the fast path; nearly every stored number takes it.
func isCanonicalInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if len(digits) == 0 || len(digits) > maxDigits || digits[0] == '0' {
		return s == "0"
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

// parse parses [sign]digits[.digits][(e|E)[sign]digits]. The digits on one side of
// the point may be missing. Zero has no significant digits, so its range check uses
// the exponent as written.
func parse(s string) (decimal, error) {
	var d decimal
	rest := s
	d.negative = strings.HasPrefix(rest, "-")
	if d.negative || strings.HasPrefix(rest, "+") {
		rest = rest[1:]
	}
	exponent := 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		var ok bool
		if exponent, ok = parseExponent(rest[i+1:]); !ok {
			return d, notNumber(s)
		}
		rest = rest[:i]
	}
	whole, fraction, _ := strings.Cut(rest, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return d, notNumber(s)
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return d, notNumber(s)
		}
	}
	d.exp = len(whole) + exponent
	d.normalize(digits)
	if d.digits == "" {
		return d, checkExponent(exponent)
	}
	return d, nil
}

// parseExponent accepts exponents of up to 64 bits, as AWS does. The result
// saturates far outside the valid range, so that sums do not overflow.
func parseExponent(s string) (int, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	const enough = 1 << 40
	return int(min(max(n, -enough), enough)), err == nil
}

func (d *decimal) normalize(digits string) {
	trimmed := strings.TrimLeft(digits, "0")
	d.exp -= len(digits) - len(trimmed)
	d.digits = strings.TrimRight(trimmed, "0")
	if d.digits == "" {
		*d = decimal{}
	}
}

// check enforces the bounds and returns the canonical text.
func (d decimal) check() (string, error) {
	switch {
	case d.digits == "":
		return "0", nil
	case len(d.digits) > maxDigits:
		return "", errPrecision
	}
	if err := checkExponent(d.exp - 1); err != nil {
		return "", err
	}
	return d.text(), nil
}

func checkExponent(exponent int) error {
	switch {
	case exponent > maxExponent:
		return errOverflow
	case exponent < minExponent:
		return errUnderflow
	}
	return nil
}

func (d decimal) text() string {
	var b strings.Builder
	if d.negative {
		b.WriteByte('-')
	}
	switch {
	case d.exp <= 0:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -d.exp))
		b.WriteString(d.digits)
	case d.exp >= len(d.digits):
		b.WriteString(d.digits)
		b.WriteString(strings.Repeat("0", d.exp-len(d.digits)))
	default:
		b.WriteString(d.digits[:d.exp])
		b.WriteByte('.')
		b.WriteString(d.digits[d.exp:])
	}
	return b.String()
}

// CompareNumbers orders two canonical numbers.
func CompareNumbers(a, b string) int {
	an, bn := strings.HasPrefix(a, "-"), strings.HasPrefix(b, "-")
	switch {
	case an && bn:
		return compareMagnitudes(b[1:], a[1:])
	case an:
		return -1
	case bn:
		return 1
	}
	return compareMagnitudes(a, b)
}

// compareMagnitudes relies on the canonical form: if the integer parts have the
// same length, the decimal points align and text order is numeric order.
func compareMagnitudes(a, b string) int {
	if d := wholeLen(a) - wholeLen(b); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

func wholeLen(s string) int {
	if i := strings.IndexByte(s, '.'); i >= 0 {
		return i
	}
	return len(s)
}

// Add returns the exact sum of two canonical numbers. It never rounds: a sum of
// more than 38 significant digits is an error, which AWS reports as an overflow.
func Add(a, b string) (string, error) {
	x, errX := strconv.ParseInt(a, 10, 63)
	y, errY := strconv.ParseInt(b, 10, 63)
	if errX == nil && errY == nil {
		return strconv.FormatInt(x+y, 10), nil // 63 bits each: no overflow
	}
	return addExact(a, b)
}

// Subtract returns a - b; see Add.
func Subtract(a, b string) (string, error) {
	return Add(a, negate(b))
}

func negate(n string) string {
	if n == "0" {
		return n
	}
	if rest, negative := strings.CutPrefix(n, "-"); negative {
		return rest
	}
	return "-" + n
}

// addExact scales both numbers to integers of at most 256 digits.
func addExact(a, b string) (string, error) {
	x, err := parse(a)
	if err != nil {
		return "", err
	}
	y, err := parse(b)
	if err != nil {
		return "", err
	}
	scale := min(x.exp-len(x.digits), y.exp-len(y.digits))
	sum := x.scaled(scale)
	sum.Add(sum, y.scaled(scale))
	digits := new(big.Int).Abs(sum).String()
	out := decimal{negative: sum.Sign() < 0, exp: len(digits) + scale}
	out.normalize(digits)
	text, err := out.check()
	if errors.Is(err, errPrecision) {
		return "", errOverflow
	}
	return text, err
}

// scaled returns d × 10^-scale as an integer. scale must not exceed
// d.exp-len(d.digits).
func (d decimal) scaled(scale int) *big.Int {
	n := new(big.Int)
	if d.digits == "" {
		return n
	}
	n.SetString(d.digits+strings.Repeat("0", d.exp-len(d.digits)-scale), 10)
	if d.negative {
		n.Neg(n)
	}
	return n
}
