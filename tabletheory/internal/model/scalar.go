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

var errUTF8 = errors.New("invalid UTF-8: store the value as binary")

// A member is the attribute value of one of DynamoDB's types, such as
// *types.AttributeValueMemberS.
type member[M any] interface {
	*M
	types.AttributeValue
}

// A form is a scalar type of DynamoDB: where its attribute values are allocated,
// and where they hold their content.
type form[M, T any] struct {
	kind    kind
	needs   needs
	slab    func(*encoder) *slab[M]
	content func(*M) *T
}

var (
	formS = form[types.AttributeValueMemberS, string]{
		kindS,
		needs{strings: 1},
		func(e *encoder) *slab[types.AttributeValueMemberS] { return &e.strings },
		func(m *types.AttributeValueMemberS) *string { return &m.Value },
	}
	formN = form[types.AttributeValueMemberN, string]{
		kindN,
		needs{numbers: 1},
		func(e *encoder) *slab[types.AttributeValueMemberN] { return &e.numbers },
		func(m *types.AttributeValueMemberN) *string { return &m.Value },
	}
	formB = form[types.AttributeValueMemberB, []byte]{
		kindB,
		needs{binaries: 1},
		func(e *encoder) *slab[types.AttributeValueMemberB] { return &e.binaries },
		func(m *types.AttributeValueMemberB) *[]byte { return &m.Value },
	}
	formBool = form[types.AttributeValueMemberBOOL, bool]{
		kindBool,
		needs{bools: 1},
		func(e *encoder) *slab[types.AttributeValueMemberBOOL] { return &e.bools },
		func(m *types.AttributeValueMemberBOOL) *bool { return &m.Value },
	}
)

// useScalar makes c the codec of a type that is stored in this form. fill stores
// the content of an attribute value, or has it stored by encoder.finish; parse
// sets a value to a content, which it must not retain. NULL is the zero value.
func useScalar[M, T any, P member[M]](c *codec, f form[M, T], fill func(*encoder, reflect.Value, *T) error, parse func(T, reflect.Value) error) {
	c.kind, c.needs = f.kind, f.needs
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		m := f.slab(e).take()
		if err := fill(e, v, f.content(m)); err != nil {
			return nil, err
		}
		return P(m), nil
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, _ int) error {
		switch av := av.(type) {
		case P:
			if err := parse(*f.content((*M)(av)), v); err != nil {
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

// useN makes c the codec of a type whose values are numbers.
func (c *codec) useN(text textFunc, parse func(string, reflect.Value) error) {
	useScalar(c, formN, fillText(text), parse)
	c.text = text
}

// useS makes c the codec of a type whose values have a text.
func (c *codec) useS(text textFunc, parse func(string, reflect.Value) error) {
	useScalar(c, formS, fillText(text), parse)
	c.text = text
}

// useB makes c the codec of a type whose values are binary. take returns bytes
// that the caller owns; parse must not retain the bytes that it gets. A nil slice
// is NULL.
func (c *codec) useB(take func(reflect.Value) ([]byte, error), parse func([]byte, reflect.Value) error) {
	useScalar(c, formB, func(_ *encoder, v reflect.Value, content *[]byte) (err error) {
		*content, err = take(v)
		return err
	}, parse)
	c.nilIsNull()
}

// fillText stores what text appends.
func fillText(text textFunc) func(*encoder, reflect.Value, *string) error {
	return func(e *encoder, v reflect.Value, content *string) error {
		from := len(e.text)
		appended, err := text(e.text, v)
		if err != nil {
			return err
		}
		e.text = appended
		e.setLater(content, from)
		return nil
	}
}

// nilIsNull makes c encode nil as NULL, if values of its type can be nil.
func (c *codec) nilIsNull() {
	switch c.typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
	default:
		return
	}
	encode := c.encode
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		if v.IsNil() {
			return null(), nil
		}
		return encode(e, v)
	}
}

func (c *codec) useBool() {
	useScalar(c, formBool, func(_ *encoder, v reflect.Value, content *bool) error {
		*content = v.Bool()
		return nil
	}, func(b bool, v reflect.Value) error {
		v.SetBool(b)
		return nil
	})
}

func (c *codec) useString() {
	useScalar(c, formS, func(_ *encoder, v reflect.Value, content *string) error {
		s := v.String()
		if !utf8.ValidString(s) {
			return errUTF8
		}
		*content = s
		return nil
	}, func(s string, v reflect.Value) error {
		v.SetString(s)
		return nil
	})
	c.text = func(b []byte, v reflect.Value) ([]byte, error) {
		if !utf8.ValidString(v.String()) {
			return nil, errUTF8
		}
		return append(b, v.String()...), nil
	}
}

// useInt has an encoder of its own, because most numbers are integers.
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
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		from := len(e.text)
		e.text = strconv.AppendInt(e.text, v.Int(), 10)
		av := e.numbers.take()
		e.setLater(&av.Value, from)
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

// setArray sets an array of bytes, whose element type may be named.
func setArray(v reflect.Value, b []byte) error {
	if len(b) != v.Len() {
		return fmt.Errorf("length %d, want %d", len(b), v.Len())
	}
	for i := range b {
		v.Index(i).SetUint(uint64(b[i]))
	}
	return nil
}
