package model

import (
	"errors"
	"math/big"
	"reflect"

	"github.com/facetheory/isr/internal/decimal"
)

// maxBits bounds the numerator and the denominator of a number that may fit into
// 38 digits. Without it a huge exponent would be written out in full.
const maxBits = 1024

// floatPrecision is the precision of a decoded big.Float, in bits: more than 38
// digits.
const floatPrecision = 256

// isBig reports whether t is a number type of math/big.
func isBig(t reflect.Type) bool {
	return t == reflect.TypeFor[big.Int]() || t == reflect.TypeFor[big.Rat]() || t == reflect.TypeFor[big.Float]()
}

// useBig makes c the codec of a number type of math/big, which stores the exact
// value in up to 38 digits or returns an error. It reports whether c.typ is one.
func (c *codec) useBig() bool {
	switch c.typ {
	case reflect.TypeFor[big.Int]():
		c.useN(func(b []byte, v reflect.Value) ([]byte, error) {
			return appendRat(b, new(big.Rat).SetInt(addressable(v).Interface().(*big.Int)))
		}, func(s string, v reflect.Value) error {
			text, err := integer(s)
			if err != nil {
				return err
			}
			return setBig(new(big.Int).SetString(text, 10))(v)
		})
	case reflect.TypeFor[big.Rat]():
		c.useN(func(b []byte, v reflect.Value) ([]byte, error) {
			return appendRat(b, addressable(v).Interface().(*big.Rat))
		}, func(s string, v reflect.Value) error {
			text, err := decimal.Canonical(s)
			if err != nil {
				return err
			}
			return setBig(new(big.Rat).SetString(text))(v)
		})
	case reflect.TypeFor[big.Float]():
		c.useN(func(b []byte, v reflect.Value) ([]byte, error) {
			f := addressable(v).Interface().(*big.Float)
			if f.IsInf() {
				return nil, errNotFinite
			}
			if exponent := f.MantExp(nil); exponent > maxBits || exponent < -maxBits {
				return nil, decimal.ErrMagnitude
			}
			exact, _ := f.Rat(nil)
			return appendRat(b, exact)
		}, func(s string, v reflect.Value) error {
			text, err := decimal.Canonical(s)
			if err != nil {
				return err
			}
			return setBig(new(big.Float).SetPrec(floatPrecision).SetString(text))(v)
		})
	default:
		return false
	}
	return true
}

// appendRat appends the exact decimal of r.
func appendRat(b []byte, r *big.Rat) ([]byte, error) {
	if r.Num().BitLen() > maxBits || r.Denom().BitLen() > maxBits {
		return nil, decimal.ErrPrecision
	}
	digits, exact := r.FloatPrec()
	if !exact {
		return nil, errors.New("the number has infinitely many decimal digits")
	}
	text, err := decimal.Canonical(r.FloatString(digits))
	if err != nil {
		return nil, err
	}
	return append(b, text...), nil
}

// setBig sets a value to the result of SetString.
func setBig[T any](x *T, ok bool) func(reflect.Value) error {
	return func(v reflect.Value) error {
		if !ok {
			return decimal.ErrSyntax
		}
		v.Set(reflect.ValueOf(x).Elem())
		return nil
	}
}

// addressable returns a pointer to v, or to a copy if v is not addressable.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v.Addr()
	}
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p
}
