package model

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/cockroachdb/apd/v3"
)

// Bounds of DynamoDB's numbers: significant digits, and the decimal exponent of
// the first one.
const (
	maxDigits   = 38
	minExponent = -130
	maxExponent = 125
	maxText     = 512 // bytes; a number of 38 digits in plain decimal has at most 170
)

var (
	errNoNumber  = errors.New("it is no number: write it as in 12, -0.5 or 1e20")
	errRange     = errors.New("it is out of the range of the type")
	errFraction  = errors.New("it is not integral")
	errNotFinite = errors.New("DynamoDB has no NaN and no infinities")
	errMagnitude = errors.New("it is outside of DynamoDB's numbers: their magnitude is 1E-130 to 9.99E+125")
	errPrecision = errors.New("it needs more than the 38 digits of DynamoDB's numbers")
)

// Number is a number as DynamoDB keeps it: a decimal of up to 38 significant
// digits between 1E-130 and 9.99E+125 in magnitude, in any of the usual forms
// (12, -0.5, 1e20). The empty Number is stored as 0.
type Number string

// String returns the text.
func (n Number) String() string { return string(n) }

// Float64 returns the nearest float.
func (n Number) Float64() (float64, error) { return parseFloat(string(n), 64) }

// Int64 returns the number if it is integral and fits; 5.0 and 1e2 are.
func (n Number) Int64() (int64, error) { return parseInt(string(n)) }

// numberLike is what types of strings have that stand for numbers: Number, that
// of attributevalue, and that of encoding/json.
type numberLike interface {
	Float64() (float64, error)
	Int64() (int64, error)
	String() string
}

// useNumber makes c the codec of a string that stands for a number, if it is one.
func (c *codec) useNumber() bool {
	if c.typ.Kind() != reflect.String || !c.typ.Implements(reflect.TypeFor[numberLike]()) {
		return false
	}
	c.useN(func(b []byte, v reflect.Value) ([]byte, error) {
		s := v.String()
		if s == "" {
			return append(b, '0'), nil
		}
		if _, err := canonical(s); err != nil {
			return nil, fmt.Errorf("the number %s: %w", quote(s), err)
		}
		return append(b, s...), nil
	}, func(s string, v reflect.Value) error {
		if _, err := canonical(s); err != nil {
			return err
		}
		v.SetString(s)
		return nil
	})
	return true
}

// decimal reads a number, and refuses what DynamoDB does not have.
func decimal(s string) (*apd.Decimal, error) {
	if !hasDigitsOnly(s) {
		return nil, errNoNumber
	}
	d, _, err := apd.NewFromString(s)
	if err != nil {
		return nil, errNoNumber
	}
	d.Reduce(d)
	if d.IsZero() {
		return apd.New(0, 0), nil // not -0
	}
	if d.NumDigits() > maxDigits {
		return nil, errPrecision
	}
	if first := int64(d.Exponent) + d.NumDigits() - 1; first < minExponent || first > maxExponent {
		return nil, errMagnitude
	}
	return d, nil
}

// hasDigitsOnly reports whether s may be a number: libraries read words such as
// Inf as well, and forms such as 0x1p-2.
func hasDigitsOnly(s string) bool {
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

// canonical returns the one text for a number: plain decimal without zeros in
// front or at the end.
func canonical(s string) (string, error) {
	if isPlainInteger(s) {
		return s, nil
	}
	d, err := decimal(s)
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
	if digits == "" || len(digits) > maxDigits {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return digits[0] != '0' || s == "0"
}

// parseInt reads an integer in whatever form.
func parseInt(s string) (int64, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	text, err := integer(s)
	if err != nil {
		return 0, err
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errRange
	}
	return i, nil
}

// parseUint reads an integer that is not negative in whatever form.
func parseUint(s string) (uint64, error) {
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		return u, nil
	}
	text, err := integer(s)
	if err != nil {
		return 0, err
	}
	u, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, errRange
	}
	return u, nil
}

// integer returns the plain text of a number that is integral.
func integer(s string) (string, error) {
	d, err := decimal(s)
	if err != nil {
		return "", err
	}
	if d.Exponent < 0 {
		return "", errFraction
	}
	return d.Text('f'), nil
}

// parseFloat reads the nearest float of so many bits.
func parseFloat(s string, bits int) (float64, error) {
	if !hasDigitsOnly(s) {
		return 0, errNoNumber
	}
	f, err := strconv.ParseFloat(s, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errRange
	case err != nil:
		return 0, errNoNumber
	}
	return f, nil
}

// appendFloat appends the shortest decimal that is read as the same float of so
// many bits; it has at most 17 digits.
func appendFloat(b []byte, f float64, bits int) ([]byte, error) {
	magnitude := math.Abs(f)
	switch {
	case magnitude != magnitude, magnitude > math.MaxFloat64:
		return nil, errNotFinite
	case magnitude >= 1e126, magnitude < 1e-130 && magnitude > 0:
		return nil, errMagnitude
	}
	return strconv.AppendFloat(b, f, 'f', -1, bits), nil
}
