package model

import (
	"fmt"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// codec encodes and decodes the values of one type. It is immutable after its
// compilation. Codecs of recursive types are incomplete during the compilation,
// so their parts are read only when a value is encoded or decoded.
type codec struct {
	typ   reflect.Type
	kind  kind  // of the encoded values; empty if it depends on the value
	needs needs // of one value

	// encode returns the attribute value of v. encoder.finish fills in the texts of
	// numbers and times.
	encode encodeFunc
	// decode sets v, which is settable, to the value of av. On an error v is in an
	// undefined state. depth is the nesting depth of v.
	decode decodeFunc
	// text appends the text of an S or N. It is nil for other kinds.
	text textFunc

	points *codec      // of the value that a pointer points to
	elem   *codec      // of the elements of a list, map or set
	fields *structPlan // of a struct that becomes a map
	json   bool        // the S is a JSON document
}

type (
	encodeFunc func(e *encoder, v reflect.Value) (types.AttributeValue, error)
	decodeFunc func(av types.AttributeValue, v reflect.Value, depth int) error
	textFunc   func(b []byte, v reflect.Value) ([]byte, error)
)

// kind is the type of an attribute value, in DynamoDB's terms.
type kind string

const (
	kindS    kind = "S"
	kindN    kind = "N"
	kindB    kind = "B"
	kindBool kind = "BOOL"
	kindNull kind = "NULL"
	kindL    kind = "L"
	kindM    kind = "M"
	kindSS   kind = "SS"
	kindNS   kind = "NS"
	kindBS   kind = "BS"
)

// kindOf returns the kind of an attribute value, or "" if it is nil or unknown.
func kindOf(av types.AttributeValue) kind {
	switch av.(type) {
	case *types.AttributeValueMemberS:
		return kindS
	case *types.AttributeValueMemberN:
		return kindN
	case *types.AttributeValueMemberB:
		return kindB
	case *types.AttributeValueMemberBOOL:
		return kindBool
	case *types.AttributeValueMemberNULL:
		return kindNull
	case *types.AttributeValueMemberL:
		return kindL
	case *types.AttributeValueMemberM:
		return kindM
	case *types.AttributeValueMemberSS:
		return kindSS
	case *types.AttributeValueMemberNS:
		return kindNS
	case *types.AttributeValueMemberBS:
		return kindBS
	}
	return ""
}

// isScalar reports whether values of the kind can be keys and members of sets.
func (k kind) isScalar() bool { return k == kindS || k == kindN || k == kindB }

// mismatch returns the error for an av of a kind that the codec does not take.
func (c *codec) mismatch(av types.AttributeValue) error {
	found := string(kindOf(av))
	if found == "" {
		found = fmt.Sprintf("%T", av)
	}
	return &DecodeError{Found: found, Wanted: c.wanted()}
}

// invalid returns the error for an av of the right kind with a value that the
// type does not take.
func (c *codec) invalid(av types.AttributeValue, err error) error {
	found := string(kindOf(av))
	switch av := av.(type) {
	case *types.AttributeValueMemberS:
		found += " " + quote(av.Value)
	case *types.AttributeValueMemberN:
		found += " " + quote(av.Value)
	}
	return &DecodeError{Found: found, Wanted: c.wanted(), Err: err}
}

func (c *codec) wanted() string {
	if c.kind == "" {
		return fmt.Sprintf("a value for %v", c.typ)
	}
	return fmt.Sprintf("%s for %v", c.kind, c.typ)
}

// quote quotes a text for an error, shortened.
func quote(s string) string {
	const enough = 64
	if len(s) > enough {
		return fmt.Sprintf("%.*q…", enough, s)
	}
	return fmt.Sprintf("%q", s)
}

// base returns the codec of the type behind all pointers.
func (c *codec) base() *codec {
	for c != nil && c.points != nil {
		c = c.points
	}
	return c
}

type codecKey struct {
	typ    reflect.Type
	naming naming
}

// compiler makes codecs. It runs under the registry's mutex.
type compiler struct {
	registry *Registry
	made     map[codecKey]*codec
}

// codec returns the codec of a type. In a recursive type it may be incomplete.
func (k *compiler) codec(t reflect.Type, n naming) (*codec, error) {
	if known, ok := k.registry.codecs[n].Load(t); ok {
		return known.(*codec), nil
	}
	key := codecKey{t, n}
	if c, ok := k.made[key]; ok {
		return c, nil
	}
	c := &codec{typ: t}
	k.made[key] = c
	return c, k.fill(c, n)
}

// fill completes the codec of c.typ. Converters and methods of the type take
// precedence over its kind.
func (k *compiler) fill(c *codec, n naming) error {
	t := c.typ
	if converter, ok := k.registry.converters[t]; ok {
		c.useConverter(converter)
		return nil
	}
	if t.Implements(attributeValueType) {
		c.useAttributeValue()
		return nil
	}
	if err := k.fillByKind(c, n); err != nil {
		return err
	}
	c.useCommon()
	c.useMarshaler()
	return nil
}

func (k *compiler) fillByKind(c *codec, n naming) error {
	if hasOwnText(c.typ) {
		c.useText()
		return nil
	}
	if c.useBig() || c.useTime(false) || c.useNumber() {
		return nil
	}
	switch c.typ.Kind() {
	case reflect.Bool:
		c.useBool()
	case reflect.String:
		c.useString()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		c.useInt()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		c.useUint()
	case reflect.Float32, reflect.Float64:
		c.useFloat()
	case reflect.Pointer:
		return k.usePointer(c, n)
	case reflect.Interface:
		c.useInterface(n)
	case reflect.Slice, reflect.Array:
		return k.useSlice(c, n)
	case reflect.Map:
		return k.useMap(c, n)
	case reflect.Struct:
		return k.useStruct(c, n)
	default:
		if !hasOwnMarshaler(c.typ) {
			return fmt.Errorf("%v cannot be stored: skip the field with the tag %s:\"-\", or use WithConverter", c.typ, tagName)
		}
	}
	return nil
}
