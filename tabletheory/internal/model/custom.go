package model

import (
	"encoding"
	"errors"
	"reflect"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Marshaler is implemented by types that encode themselves. It is the interface
// of the SDK's package attributevalue.
type Marshaler interface {
	MarshalDynamoDBAttributeValue() (types.AttributeValue, error)
}

// Unmarshaler is implemented by types that decode themselves. It is the
// interface of the SDK's package attributevalue. It gets NULL too.
type Unmarshaler interface {
	UnmarshalDynamoDBAttributeValue(types.AttributeValue) error
}

var (
	attributeValueType = reflect.TypeFor[types.AttributeValue]()
	marshalerType      = reflect.TypeFor[Marshaler]()
	unmarshalerType    = reflect.TypeFor[Unmarshaler]()
	textMarshaler      = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler    = reflect.TypeFor[encoding.TextUnmarshaler]()
)

var errNoValue = errors.New("the type's encoder returned nil: return NULL instead")

// hasMethods reports whether a pointer to t implements the interface. Values in
// fields are addressable, so their pointer methods apply.
func hasMethods(t, iface reflect.Type) bool {
	return t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(iface)
}

// hasOwnMarshaler reports whether values of t encode themselves.
func hasOwnMarshaler(t reflect.Type) bool { return hasMethods(t, marshalerType) }

// hasOwnText reports whether values of t are stored as text that can be read
// back.
func hasOwnText(t reflect.Type) bool {
	return hasMethods(t, textMarshaler) && hasMethods(t, textUnmarshaler) && t != timeType && !isBig(t)
}

// isOpaque reports whether a struct type is not stored field by field.
func (k *compiler) isOpaque(t reflect.Type) bool {
	_, converted := k.registry.converters[t]
	return converted || hasOwnMarshaler(t) || hasOwnText(t) || isBig(t) || t.ConvertibleTo(timeType)
}

func (c *codec) useConverter(converter Converter) {
	c.encode = func(_ *encoder, v reflect.Value) (types.AttributeValue, error) {
		av, err := converter.Encode(v)
		if err == nil && kindOf(av) == "" {
			err = errNoValue
		}
		return av, err
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, _ int) error {
		if kindOf(av) == "" {
			return c.mismatch(av)
		}
		if err := converter.Decode(av, v); err != nil {
			return c.invalid(av, err)
		}
		return nil
	}
}

// useMarshaler uses the type's own Marshaler and Unmarshaler, if it has them.
func (c *codec) useMarshaler() {
	if hasOwnMarshaler(c.typ) {
		c.kind, c.needs, c.text = "", needs{}, nil
		c.encode = func(_ *encoder, v reflect.Value) (types.AttributeValue, error) {
			av, err := addressable(v).Interface().(Marshaler).MarshalDynamoDBAttributeValue()
			if err == nil && kindOf(av) == "" {
				err = errNoValue
			}
			return av, err
		}
	}
	if hasMethods(c.typ, unmarshalerType) {
		c.decode = func(av types.AttributeValue, v reflect.Value, _ int) error {
			if kindOf(av) == "" {
				return c.mismatch(av)
			}
			if err := v.Addr().Interface().(Unmarshaler).UnmarshalDynamoDBAttributeValue(av); err != nil {
				return c.invalid(av, err)
			}
			return nil
		}
	}
}

// useText makes c the codec of a type with MarshalText and UnmarshalText.
func (c *codec) useText() {
	c.useS(appendOwnText, func(s string, v reflect.Value) error {
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s))
	})
	c.nilIsNull()
}

func appendOwnText(b []byte, v reflect.Value) ([]byte, error) {
	text, err := addressable(v).Interface().(encoding.TextMarshaler).MarshalText()
	if err == nil && !utf8.Valid(text) {
		err = errUTF8
	}
	return append(b, text...), err
}

// useAttributeValue makes c the codec of types.AttributeValue or of a type that
// implements it. Decoding copies the value.
func (c *codec) useAttributeValue() {
	c.encode = func(_ *encoder, v reflect.Value) (types.AttributeValue, error) {
		if v.IsNil() || v.Kind() == reflect.Interface && v.Elem().IsNil() {
			return null(), nil
		}
		return v.Interface().(types.AttributeValue), nil
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, depth int) error {
		if kindOf(av) == kindNull && c.typ != attributeValueType {
			v.SetZero()
			return nil
		}
		copied, err := clone(av, depth)
		if err != nil {
			return c.invalid(av, err)
		}
		if value := reflect.ValueOf(copied); copied != nil && value.Type().AssignableTo(c.typ) {
			v.Set(value)
			return nil
		}
		return c.mismatch(av)
	}
}

// clone returns a deep copy of an attribute value, or nil for an unknown type.
func clone(av types.AttributeValue, depth int) (types.AttributeValue, error) {
	if depth > maxNesting {
		return nil, errTooDeep
	}
	switch av := av.(type) {
	case *types.AttributeValueMemberS:
		return &types.AttributeValueMemberS{Value: av.Value}, nil
	case *types.AttributeValueMemberN:
		return &types.AttributeValueMemberN{Value: av.Value}, nil
	case *types.AttributeValueMemberB:
		return &types.AttributeValueMemberB{Value: cloneBytes(av.Value)}, nil
	case *types.AttributeValueMemberBOOL:
		return &types.AttributeValueMemberBOOL{Value: av.Value}, nil
	case *types.AttributeValueMemberNULL:
		return &types.AttributeValueMemberNULL{Value: av.Value}, nil
	case *types.AttributeValueMemberSS:
		return &types.AttributeValueMemberSS{Value: append([]string{}, av.Value...)}, nil
	case *types.AttributeValueMemberNS:
		return &types.AttributeValueMemberNS{Value: append([]string{}, av.Value...)}, nil
	case *types.AttributeValueMemberBS:
		return &types.AttributeValueMemberBS{Value: cloneSlices(av.Value)}, nil
	case *types.AttributeValueMemberL:
		list := make([]types.AttributeValue, len(av.Value))
		for i, elem := range av.Value {
			copied, err := clone(elem, depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = copied
		}
		return &types.AttributeValueMemberL{Value: list}, nil
	case *types.AttributeValueMemberM:
		m := make(Item, len(av.Value))
		for name, elem := range av.Value {
			copied, err := clone(elem, depth+1)
			if err != nil {
				return nil, err
			}
			m[name] = copied
		}
		return &types.AttributeValueMemberM{Value: m}, nil
	}
	return nil, nil
}

// cloneBytes copies bytes. The result is never nil.
func cloneBytes(b []byte) []byte { return append([]byte{}, b...) }

func cloneSlices(all [][]byte) [][]byte {
	cloned := make([][]byte, len(all))
	for i, b := range all {
		cloned[i] = cloneBytes(b)
	}
	return cloned
}
