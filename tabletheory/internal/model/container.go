package model

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// usePointer makes c the codec of a pointer: nil is NULL, otherwise it is
// encoded as the value that it points to.
func (k *compiler) usePointer(c *codec, n naming) error {
	elem, err := k.codec(c.typ.Elem(), n)
	if err != nil {
		return err
	}
	c.pointTo(elem)
	return nil
}

func (c *codec) pointTo(elem *codec) {
	c.points, c.kind, c.text = elem, elem.kind, nil
	if elem.kind.isScalar() {
		c.needs = elem.needs
	}
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		if v.IsNil() {
			return null(), nil
		}
		if e.indirections++; e.indirections > maxIndirections {
			return nil, errCycle
		}
		if !elem.kind.isScalar() {
			e.reserve(elem.needs, 1)
		}
		av, err := elem.encode(e, v.Elem())
		e.indirections--
		return av, err
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, depth int) error {
		if _, isNull := av.(*types.AttributeValueMemberNULL); isNull {
			v.SetZero()
			return nil
		}
		fresh := reflect.New(c.typ.Elem())
		if err := elem.decode(av, fresh.Elem(), depth); err != nil {
			return err
		}
		v.Set(fresh)
		return nil
	}
}

// useInterface makes c the codec of an interface: nil is NULL, otherwise the
// value is encoded by its own type. Only empty interfaces can be decoded.
func (c *codec) useInterface(n naming) {
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		if v.IsNil() {
			return null(), nil
		}
		if e.indirections++; e.indirections > maxIndirections {
			return nil, errCycle
		}
		elem, err := e.registry.codec(v.Elem().Type(), n)
		if err != nil {
			return nil, err
		}
		e.reserve(elem.needs, 1)
		av, err := elem.encode(e, v.Elem())
		e.indirections--
		return av, err
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, depth int) error {
		if _, isNull := av.(*types.AttributeValueMemberNULL); isNull {
			v.SetZero()
			return nil
		}
		if c.typ.NumMethod() > 0 {
			return c.mismatch(av)
		}
		x, err := decodeAny(c, av, depth)
		if err != nil {
			return err
		}
		v.Set(reflect.ValueOf(x))
		return nil
	}
}

// useSlice makes c the codec of a slice or array: B for bytes, otherwise a list.
func (k *compiler) useSlice(c *codec, n naming) error {
	elem, err := k.codec(c.typ.Elem(), n)
	if err != nil {
		return err
	}
	if isByte(elem) {
		c.useBytes()
		return nil
	}
	c.kind, c.elem = kindL, elem
	c.needs.lists = 1
	slice := c.typ.Kind() == reflect.Slice
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		if slice && v.IsNil() {
			return null(), nil
		}
		if e.nesting++; e.nesting > maxNesting {
			return nil, errTooDeep
		}
		list, err := e.list(elem, v)
		e.nesting--
		return list, err
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, depth int) error {
		if _, isNull := av.(*types.AttributeValueMemberNULL); isNull {
			v.SetZero()
			return nil
		}
		return c.decodeElements(av, v, depth)
	}
	return nil
}

// isByte reports whether a slice of these elements is binary: they are bytes
// without an encoding of their own.
func isByte(elem *codec) bool { return elem.typ.Kind() == reflect.Uint8 && elem.kind == kindN }

func (e *encoder) list(elem *codec, v reflect.Value) (types.AttributeValue, error) {
	n := v.Len()
	e.reserve(elem.needs, n)
	list := make([]types.AttributeValue, n)
	for i := range n {
		av, err := elem.encode(e, v.Index(i))
		if err != nil {
			return nil, addStep(index(i), "", err)
		}
		list[i] = av
	}
	l := e.lists.take()
	l.Value = list
	return l, nil
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// decodeElements decodes a list, or a set that another writer stored, into a
// slice or array.
func (c *codec) decodeElements(av types.AttributeValue, v reflect.Value, depth int) error {
	if depth >= maxNesting {
		return c.invalid(av, errTooDeep)
	}
	elements, ok := elementsOf(av)
	if !ok {
		return c.mismatch(av)
	}
	n := elements.len()
	switch {
	case c.typ.Kind() == reflect.Slice:
		makeSlice(v, n)
	case n > v.Len():
		return c.invalid(av, fmt.Errorf("length %d, want at most %d", n, v.Len()))
	default:
		v.SetZero()
	}
	for i := range n {
		if err := c.elem.decode(elements.at(i), v.Index(i), depth+1); err != nil {
			return addStep(index(i), "", err)
		}
	}
	return nil
}

// makeSlice sets v to a non-nil slice of n zero values. Growing a nil slice
// takes one allocation, where [reflect.MakeSlice] takes two.
func makeSlice(v reflect.Value, n int) {
	if n == 0 {
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		return
	}
	v.SetZero()
	v.Grow(n)
	v.SetLen(n)
	v.SetCap(n)
}

// elements are the elements of a list or a set. An element of a set is valid until the
// next call of at.
type elements struct {
	list   []types.AttributeValue
	texts  []string
	s      *types.AttributeValueMemberS // reused for each text
	n      *types.AttributeValueMemberN
	binary [][]byte
	b      *types.AttributeValueMemberB
}

func elementsOf(av types.AttributeValue) (elements, bool) {
	switch av := av.(type) {
	case *types.AttributeValueMemberL:
		return elements{list: av.Value}, true
	case *types.AttributeValueMemberSS:
		return elements{texts: av.Value, s: &types.AttributeValueMemberS{}}, true
	case *types.AttributeValueMemberNS:
		return elements{texts: av.Value, n: &types.AttributeValueMemberN{}}, true
	case *types.AttributeValueMemberBS:
		return elements{binary: av.Value, b: &types.AttributeValueMemberB{}}, true
	}
	return elements{}, false
}

func (e *elements) len() int { return len(e.list) + len(e.texts) + len(e.binary) }

func (e *elements) at(i int) types.AttributeValue {
	switch {
	case e.s != nil:
		e.s.Value = e.texts[i]
		return e.s
	case e.n != nil:
		e.n.Value = e.texts[i]
		return e.n
	case e.b != nil:
		e.b.Value = e.binary[i]
		return e.b
	}
	return e.list[i]
}
