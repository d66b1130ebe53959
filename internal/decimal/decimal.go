// Package decimal parses and formats DynamoDB numbers: decimals of up to 38 significant
// digits that are zero or have a magnitude of 1E-130 to 9.99E+125.
//
// A number has many texts (1, 1.0, 01, 10e-1) and one canonical text, the one that
// DynamoDB returns: plain decimal without exponent, redundant zeros or plus sign; zero
// has no sign. Use it to compare numbers, encrypt them or derive names from them.
//
// Input is untrusted: its length is bounded, and so is the time to parse it. All
// functions are safe for concurrent use.
package decimal

import (
	"errors"

	"github.com/cockroachdb/apd/v3"
)

// Bounds of DynamoDB numbers: the significant digits, and the decimal exponent of the
// first digit.
const (
	MaxDigits   = 38
	MinExponent = -130
	MaxExponent = 125
)

// maxText is the maximum length of an input in bytes. A plain decimal in range has at
// most 170.
const maxText = 512

// Errors for texts that are not DynamoDB numbers.
var (
	ErrSyntax    = errors.New("not a number: expected a number such as 12, -0.5 or 1e20")
	ErrMagnitude = errors.New("number out of range: expected zero or a magnitude of 1E-130 to 9.99E+125")
	ErrPrecision = errors.New("number has too many digits: expected at most 38 significant digits")
)

// Parse parses a number with an optional sign, fraction and exponent, and removes
// trailing zeros. The error is ErrSyntax (also for a text of more than 512 bytes),
// ErrMagnitude or ErrPrecision.
func Parse(s string) (*apd.Decimal, error) {
	if !HasDigitsOnly(s) {
		return nil, ErrSyntax
	}
	d, _, err := apd.NewFromString(s)
	if err != nil {
		return nil, ErrSyntax
	}
	d.Reduce(d)
	if d.IsZero() {
		return apd.New(0, 0), nil // not -0
	}
	if d.NumDigits() > MaxDigits {
		return nil, ErrPrecision
	}
	if first := int64(d.Exponent) + d.NumDigits() - 1; first < MinExponent || first > MaxExponent {
		return nil, ErrMagnitude
	}
	return d, nil
}

// HasDigitsOnly reports whether the length and characters of s allow it to be a number.
// It excludes inputs such as Inf and 0x1p-2, which number parsers of libraries accept.
func HasDigitsOnly(s string) bool {
	digits := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E':
		default:
			return false
		}
	}
	return digits > 0 && len(s) <= maxText
}

// Canonical returns the canonical text of a number. [Parse] lists the errors.
func Canonical(s string) (string, error) {
	if isPlainInteger(s) {
		return s, nil
	}
	d, err := Parse(s)
	if err != nil {
		return "", err
	}
	return d.Text('f'), nil
}

// isPlainInteger reports whether s is a canonical integer. It is the fast path, which
// nearly all numbers take.
func isPlainInteger(s string) bool {
	digits := s
	if len(s) > 1 && s[0] == '-' {
		digits = s[1:]
	}
	if digits == "" || len(digits) > MaxDigits {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return digits[0] != '0' || s == "0"
}
