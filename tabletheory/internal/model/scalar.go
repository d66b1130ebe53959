package model

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var errUTF8 = errors.New("the string is not valid UTF-8: store it as binary")

func (c *codec) useBool() {
	c.kind = kindBool
	c.needs.bools = 1
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		av := e.bools.take()
		av.Value = v.Bool()
		return av, nil
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, _ int) error {
		switch av := av.(type) {
		case *types.AttributeValueMemberBOOL:
			v.SetBool(av.Value)
		case *types.AttributeValueMemberNULL:
			v.SetZero()
		default:
			return c.mismatch(av)
		}
		return nil
	}
}

func (c *codec) useString() {
	c.kind = kindS
	c.needs.strings = 1
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		s := v.String()
		if !utf8.ValidString(s) {
			return nil, errUTF8
		}
		av := e.strings.take()
		av.Value = s
		return av, nil
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, _ int) error {
		switch av := av.(type) {
		case *types.AttributeValueMemberS:
			v.SetString(av.Value)
		case *types.AttributeValueMemberNULL:
			v.SetZero()
		default:
			return c.mismatch(av)
		}
		return nil
	}
	c.text = func(b []byte, v reflect.Value) ([]byte, error) {
		if !utf8.ValidString(v.String()) {
			return nil, errUTF8
		}
		return append(b, v.String()...), nil
	}
}

func (c *codec) useInt() {
	c.useN(func(b []byte, v reflect.Value) ([]byte, error) {
		return strconv.AppendInt(b, v.Int(), 10), nil
	}, func(s string, v reflect.Value) error {
		i, err := parseInt(s)
		if err == nil && v.OverflowInt(i) {
			err = errRange
		}
		if err != nil {
			return err
		}
		v.SetInt(i)
		return nil
	})
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) { // most numbers are these
		from := len(e.text)
		e.text = strconv.AppendInt(e.text, v.Int(), 10)
		av := e.numbers.take()
		e.later(&av.Value, from)
		return av, nil
	}
}

func (c *codec) useUint() {
	c.useN(func(b []byte, v reflect.Value) ([]byte, error) {
		return strconv.AppendUint(b, v.Uint(), 10), nil
	}, func(s string, v reflect.Value) error {
		u, err := parseUint(s)
		if err == nil && v.OverflowUint(u) {
			err = errRange
		}
		if err != nil {
			return err
		}
		v.SetUint(u)
		return nil
	})
}

func (c *codec) useFloat() {
	bits := c.typ.Bits()
	c.useN(func(b []byte, v reflect.Value) ([]byte, error) {
		return appendFloat(b, v.Float(), bits)
	}, func(s string, v reflect.Value) error {
		f, err := parseFloat(s, bits)
		if err != nil {
			return err
		}
		v.SetFloat(f)
		return nil
	})
}

// useN makes c the codec of a type whose values are numbers.
func (c *codec) useN(text func([]byte, reflect.Value) ([]byte, error), parse func(string, reflect.Value) error) {
	c.kind = kindN
	c.needs.numbers = 1
	c.text = text
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		from := len(e.text)
		appended, err := text(e.text, v)
		if err != nil {
			return nil, err
		}
		e.text = appended
		av := e.numbers.take()
		e.later(&av.Value, from)
		return av, nil
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, _ int) error {
		switch av := av.(type) {
		case *types.AttributeValueMemberN:
			if err := parse(av.Value, v); err != nil {
				return c.invalid(av, err)
			}
		case *types.AttributeValueMemberNULL:
			v.SetZero()
		default:
			return c.mismatch(av)
		}
		return nil
	}
}

// useS makes c the codec of a type whose values are strings by way of a text.
func (c *codec) useS(text func([]byte, reflect.Value) ([]byte, error), parse func(string, reflect.Value) error) {
	c.kind = kindS
	c.needs.strings = 1
	c.text = text
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		from := len(e.text)
		appended, err := text(e.text, v)
		if err != nil {
			return nil, err
		}
		e.text = appended
		av := e.strings.take()
		e.later(&av.Value, from)
		return av, nil
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, _ int) error {
		switch av := av.(type) {
		case *types.AttributeValueMemberS:
			if err := parse(av.Value, v); err != nil {
				return c.invalid(av, err)
			}
		case *types.AttributeValueMemberNULL:
			v.SetZero()
		default:
			return c.mismatch(av)
		}
		return nil
	}
}

// useBytes makes c the codec of a slice or array of bytes.
func (c *codec) useBytes() {
	array := c.typ.Kind() == reflect.Array
	c.useB(func(v reflect.Value) ([]byte, error) {
		if !array {
			return bytes.Clone(v.Bytes()), nil
		}
		b := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(b), v)
		return b, nil
	}, func(b []byte, v reflect.Value) error {
		if array {
			return setArray(v, b)
		}
		clone := make([]byte, len(b))
		copy(clone, b)
		v.SetBytes(clone)
		return nil
	})
}

// setArray sets an array of bytes, which may be of a named type.
func setArray(v reflect.Value, b []byte) error {
	if len(b) != v.Len() {
		return fmt.Errorf("the length is %d, not %d", len(b), v.Len())
	}
	for i := range b {
		v.Index(i).SetUint(uint64(b[i]))
	}
	return nil
}

// useB makes c the codec of a type whose values are binary. take gives bytes
// that nobody else has; put may not keep those that it is given.
func (c *codec) useB(take func(reflect.Value) ([]byte, error), put func([]byte, reflect.Value) error) {
	c.kind = kindB
	c.needs.binaries = 1
	slice := c.typ.Kind() == reflect.Slice
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		if slice && v.IsNil() {
			return null(), nil
		}
		b, err := take(v)
		if err != nil {
			return nil, err
		}
		av := e.binaries.take()
		av.Value = b
		return av, nil
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, _ int) error {
		switch av := av.(type) {
		case *types.AttributeValueMemberB:
			if err := put(av.Value, v); err != nil {
				return c.invalid(av, err)
			}
		case *types.AttributeValueMemberNULL:
			v.SetZero()
		default:
			return c.mismatch(av)
		}
		return nil
	}
}
