package model

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var (
	errEmptyName = errors.New("a map key is empty, and DynamoDB has no empty attribute names")
	errSameName  = errors.New("two map keys have the same text")
)

// useMap makes c the codec of a map: M, whose attribute names are the texts of
// the keys. A nil map is NULL.
func (k *compiler) useMap(c *codec, n naming) error {
	key, err := nameOf(c.typ.Key())
	if err != nil {
		return err
	}
	elem, err := k.codec(c.typ.Elem(), n)
	if err != nil {
		return err
	}
	c.kind, c.elem = kindM, elem
	c.needs.maps = 1
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		if v.IsNil() {
			return null(), nil
		}
		if e.nesting++; e.nesting > maxNesting {
			return nil, errTooDeep
		}
		m, err := e.mapOf(key, elem, v)
		e.nesting--
		return m, err
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, depth int) error {
		if _, isNull := av.(*types.AttributeValueMemberNULL); isNull {
			v.SetZero()
			return nil
		}
		m, ok := av.(*types.AttributeValueMemberM)
		if !ok {
			return c.mismatch(av)
		}
		if depth >= maxNesting {
			return c.invalid(av, errTooDeep)
		}
		return c.decodeMap(key, m.Value, v, depth+1)
	}
	return nil
}

func (e *encoder) mapOf(key name, elem *codec, v reflect.Value) (types.AttributeValue, error) {
	e.reserve(elem.needs, v.Len())
	encoded := make(Item, v.Len())
	k := reflect.New(v.Type().Key()).Elem()
	x := reflect.New(v.Type().Elem()).Elem()
	for entries := v.MapRange(); entries.Next(); {
		k.SetIterKey(entries)
		text, err := key.encode(k)
		if err == nil && text == "" {
			err = errEmptyName
		}
		if err == nil && !utf8.ValidString(text) {
			err = errUTF8
		}
		if err != nil {
			return nil, err
		}
		x.SetIterValue(entries)
		av, err := elem.encode(e, x)
		if err != nil {
			return nil, addStep(text, "", err)
		}
		encoded[text] = av
	}
	if len(encoded) != v.Len() {
		return nil, errSameName
	}
	m := e.maps.take()
	m.Value = encoded
	return m, nil
}

func (c *codec) decodeMap(key name, m Item, v reflect.Value, depth int) error {
	decoded := reflect.MakeMapWithSize(c.typ, len(m))
	k := reflect.New(c.typ.Key()).Elem()
	x := reflect.New(c.typ.Elem()).Elem()
	for text, av := range m {
		k.SetZero()
		if err := key.decode(text, k); err != nil {
			return addStep(text, "", &DecodeError{Found: "name " + quote(text), Wanted: fmt.Sprintf("a key of %v", c.typ), Err: err})
		}
		x.SetZero()
		if err := c.elem.decode(av, x, depth); err != nil {
			return addStep(text, "", err)
		}
		decoded.SetMapIndex(k, x)
	}
	v.Set(decoded)
	return nil
}

// name converts map keys to attribute names and back.
type name struct {
	encode func(reflect.Value) (string, error)
	decode func(string, reflect.Value) error
}

// nameOf returns the name conversion for a key type: text, string, number or
// bool.
func nameOf(t reflect.Type) (name, error) {
	if t.Implements(textMarshaler) {
		return ownName(t), nil
	}
	switch t.Kind() {
	case reflect.String:
		return name{
			func(v reflect.Value) (string, error) { return v.String(), nil },
			func(s string, v reflect.Value) error { v.SetString(s); return nil },
		}, nil
	case reflect.Bool:
		return name{
			func(v reflect.Value) (string, error) { return strconv.FormatBool(v.Bool()), nil },
			func(s string, v reflect.Value) error {
				b, err := strconv.ParseBool(s)
				v.SetBool(b)
				return err
			},
		}, nil
	}
	c := &codec{typ: t}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		c.useInt()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.useUint()
	case reflect.Float32, reflect.Float64:
		c.useFloat()
		return floatName(c), nil
	default:
		return name{}, fmt.Errorf("map keys must be strings, numbers, bools or implement encoding.TextMarshaler, not %v", t)
	}
	return numberName(c), nil
}

func numberName(c *codec) name {
	return name{
		func(v reflect.Value) (string, error) {
			text, err := c.text(nil, v)
			return string(text), err
		},
		func(s string, v reflect.Value) error {
			return c.decode(&types.AttributeValueMemberN{Value: s}, v, 0)
		},
	}
}

// floatName formats floats like fmt, with an exponent for large and small
// numbers, because attributevalue does.
func floatName(c *codec) name {
	n := numberName(c)
	if c.typ.Bits() == 32 {
		n.encode = func(v reflect.Value) (string, error) { return fmt.Sprint(float32(v.Float())), nil }
	} else {
		n.encode = func(v reflect.Value) (string, error) { return fmt.Sprint(v.Float()), nil }
	}
	return n
}

var errNoKeyText = errors.New("the type of the map keys has MarshalText but no UnmarshalText")

func ownName(t reflect.Type) name {
	readable := reflect.PointerTo(t).Implements(textUnmarshaler)
	return name{
		func(v reflect.Value) (string, error) {
			text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
			return string(text), err
		},
		func(s string, v reflect.Value) error {
			if !readable {
				return errNoKeyText
			}
			return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
		},
	}
}
