package model

import (
	"reflect"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Codecs of []string and map[string]string that do without reflection for each
// element. They behave like the general codecs, which handle every unusual value.

var (
	stringsType   = reflect.TypeFor[[]string]()
	stringMapType = reflect.TypeFor[map[string]string]()
)

// useCommon replaces the functions of a finished codec of one of these types.
func (c *codec) useCommon() {
	switch {
	case c.elem == nil || c.elem.typ != reflect.TypeFor[string]():
	case c.typ == stringsType && c.kind == kindL:
		c.encode, c.decode = encodeStrings(c.encode), decodeStrings(c.decode)
	case c.typ == stringsType && c.kind == kindSS:
		c.decode = decodeStrings(c.decode)
	case c.typ == stringMapType && c.kind == kindM:
		c.encode, c.decode = encodeStringMap(c.encode), decodeStringMap(c.decode)
	}
}

func encodeStrings(general encodeFunc) encodeFunc {
	return func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		if v.IsNil() || !v.CanAddr() || e.nesting >= maxNesting {
			return general(e, v)
		}
		values := *v.Addr().Interface().(*[]string)
		e.strings.reserve(len(values))
		list := make([]types.AttributeValue, len(values))
		for i, s := range values {
			if !utf8.ValidString(s) {
				return nil, addStep(index(i), "", errUTF8)
			}
			av := e.strings.take()
			av.Value = s
			list[i] = av
		}
		l := e.lists.take()
		l.Value = list
		return l, nil
	}
}

func decodeStrings(general decodeFunc) decodeFunc {
	return func(av types.AttributeValue, v reflect.Value, depth int) error {
		var decoded []string
		switch av := av.(type) {
		case *types.AttributeValueMemberSS:
			decoded = append(make([]string, 0, len(av.Value)), av.Value...)
		case *types.AttributeValueMemberL:
			decoded = make([]string, len(av.Value))
			for i, elem := range av.Value {
				s, ok := elem.(*types.AttributeValueMemberS)
				if !ok {
					return general(av, v, depth)
				}
				decoded[i] = s.Value
			}
		default:
			return general(av, v, depth)
		}
		*v.Addr().Interface().(*[]string) = decoded
		return nil
	}
}

func encodeStringMap(general encodeFunc) encodeFunc {
	return func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		if v.IsNil() || !v.CanAddr() || e.nesting >= maxNesting {
			return general(e, v)
		}
		values := *v.Addr().Interface().(*map[string]string)
		e.strings.reserve(len(values))
		encoded := make(Item, len(values))
		for name, s := range values {
			if name == "" || !utf8.ValidString(name) || !utf8.ValidString(s) {
				return general(e, v)
			}
			av := e.strings.take()
			av.Value = s
			encoded[name] = av
		}
		m := e.maps.take()
		m.Value = encoded
		return m, nil
	}
}

func decodeStringMap(general decodeFunc) decodeFunc {
	return func(av types.AttributeValue, v reflect.Value, depth int) error {
		m, ok := av.(*types.AttributeValueMemberM)
		if !ok {
			return general(av, v, depth)
		}
		decoded := make(map[string]string, len(m.Value))
		for name, elem := range m.Value {
			s, ok := elem.(*types.AttributeValueMemberS)
			if !ok {
				return general(av, v, depth)
			}
			decoded[name] = s.Value
		}
		*v.Addr().Interface().(*map[string]string) = decoded
		return nil
	}
}
