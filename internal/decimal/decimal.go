// Package decimal knows the numbers of DynamoDB: decimals of up to 38 significant
// digits, zero or between 1E-130 and 9.99E+125 in magnitude.
//
// One number has many texts (1, 1.0, 01, 10e-1), and one canonical text, as
// DynamoDB returns it: plain decimal, without an exponent, superfluous zeros or a
// plus sign; zero has no sign. Whoever compares numbers, encrypts them or makes
// names of them uses that.
//
// What is read may come from anywhere: its length is bounded, and so is the time
// that reading it takes. All functions are safe for concurrent use.
package decimal

import (
	"errors"

	"github.com/cockroachdb/apd/v3"
)

// Bounds of DynamoDB's numbers: significant digits, and the decimal exponent of the
// first one.
const (
	MaxDigits   = 38
	MinExponent = -130
	MaxExponent = 125
)

// maxText bounds the texts that are read, in bytes; a number of 38 digits in plain
// decimal has at most 170.
const maxText = 512

// Why a text is no number of DynamoDB's.
var (
	ErrSyntax    = errors.New("it is no number: write it as in 12, -0.5 or 1e20")
	ErrMagnitude = errors.New("it is outside of DynamoDB's numbers: their magnitude is 1E-130 to 9.99E+125")
	ErrPrecision = errors.New("it needs more than the 38 digits of DynamoDB's numbers")
)

// Parse reads a number in any of the usual forms, without zeros at its end. The
// error is ErrSyntax, also for a text of more than 512 bytes, ErrMagnitude or
// ErrPrecision.
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

// HasDigitsOnly reports whether s may be a number, from its length and its
// characters: libraries read words such as Inf as well, and forms such as 0x1p-2.
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

// Canonical returns the one text for a number. Errors are those of [Parse].
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

// isPlainInteger reports whether s is canonical, and an integer of few digits,
// as nearly all numbers are.
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
