package model

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/facetheory/isr/internal/decimal"
)

var (
	errRange     = errors.New("number out of the range of the type")
	errFraction  = errors.New("number is not an integer")
	errNotFinite = errors.New("DynamoDB has no NaN and no infinities")
)

// Number is a number as DynamoDB stores it: a decimal of up to 38 significant
// digits between 1E-130 and 9.99E+125 in magnitude, in any of the usual forms
// (12, -0.5, 1e20). The empty Number is stored as 0.
type Number string

// String returns the text.
func (n Number) String() string { return string(n) }

// Float64 returns the nearest float.
func (n Number) Float64() (float64, error) { return parseFloat(string(n), 64) }

// Int64 returns the number if it is an integer and fits; 5.0 and 1e2 are
// integers.
func (n Number) Int64() (int64, error) { return parseInt(string(n)) }

// numberLike is implemented by string types that hold numbers: Number, and the types
// of attributevalue and encoding/json.
type numberLike interface {
	Float64() (float64, error)
	Int64() (int64, error)
	String() string
}

// useNumber makes c the codec of a numberLike string. It reports whether c.typ
// is one.
func (c *codec) useNumber() bool {
	if c.typ.Kind() != reflect.String || !c.typ.Implements(reflect.TypeFor[numberLike]()) {
		return false
	}
	c.useN(func(b []byte, v reflect.Value) ([]byte, error) {
		s := v.String()
		if s == "" {
			return append(b, '0'), nil
		}
		if _, err := decimal.Canonical(s); err != nil {
			return nil, fmt.Errorf("number %s: %w", quote(s), err)
		}
		return append(b, s...), nil
	}, func(s string, v reflect.Value) error {
		if _, err := decimal.Canonical(s); err != nil {
			return err
		}
		v.SetString(s)
		return nil
	})
	return true
}

// parseInt parses an integer in any form, such as 1.5E3.
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

// parseUint is parseInt for unsigned integers.
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

// integer returns the plain digits of an integer in any form.
func integer(s string) (string, error) {
	d, err := decimal.Parse(s)
	if err != nil {
		return "", err
	}
	if d.Exponent < 0 {
		return "", errFraction
	}
	return d.Text('f'), nil
}

// parseFloat returns the nearest float of this size.
func parseFloat(s string, bits int) (float64, error) {
	if !decimal.HasDigitsOnly(s) {
		return 0, decimal.ErrSyntax
	}
	f, err := strconv.ParseFloat(s, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errRange
	case err != nil:
		return 0, decimal.ErrSyntax
	}
	return f, nil
}

// appendFloat appends the shortest decimal that parses to the same float of this
// size. It has at most 17 digits.
func appendFloat(b []byte, f float64, bits int) ([]byte, error) {
	magnitude := math.Abs(f)
	switch {
	case magnitude != magnitude, magnitude > math.MaxFloat64:
		return nil, errNotFinite
	case magnitude >= 1e126, magnitude < 1e-130 && magnitude > 0:
		return nil, decimal.ErrMagnitude
	}
	return strconv.AppendFloat(b, f, 'f', -1, bits), nil
}
