package model

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/decimal"
)

var errEmptySet = errors.New("DynamoDB has no empty sets: remove the attribute")

// set makes the codec of a field with the tag set: a slice, an array, or a map
// whose keys are the members (of a map to bool, the keys that are true). Members
// that are equal to DynamoDB are stored once. Members of a slice keep their
// order; the elements of a map are sorted.
func (k *compiler) set(t reflect.Type, n naming) (*codec, error) {
	var member reflect.Type
	switch {
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		member = t.Elem()
	case t.Kind() == reflect.Map && (t.Elem().Kind() == reflect.Bool || t.Elem() == reflect.TypeFor[struct{}]()):
		member = t.Key()
	default:
		return nil, fmt.Errorf("a set must be a slice, an array, or a map to struct{} or bool, not %v", t)
	}
	elem, err := k.codec(member, n)
	if err != nil {
		return nil, err
	}
	if !elem.kind.isScalar() || elem.points != nil || t.Kind() != reflect.Map && isByte(elem) {
		return nil, fmt.Errorf("members of a set must be strings, numbers or []byte, not %v", member)
	}
	c := &codec{typ: t, kind: elem.kind + "S", elem: elem}
	c.encode = c.encodeSet
	c.decode = func(av types.AttributeValue, v reflect.Value, depth int) error {
		switch {
		case kindOf(av) == kindNull:
			v.SetZero()
			return nil
		case t.Kind() == reflect.Map:
			return c.decodeMembers(av, v, depth)
		}
		return c.decodeElements(av, v, depth)
	}
	c.useCommon()
	return c, nil
}

// hasNoMembers reports whether a set is empty.
func hasNoMembers(v reflect.Value) bool {
	if v.Kind() != reflect.Map || v.Type().Elem().Kind() != reflect.Bool {
		return v.Len() == 0
	}
	for entries := v.MapRange(); entries.Next(); {
		if entries.Value().Bool() {
			return false
		}
	}
	return true
}

func (c *codec) encodeSet(e *encoder, v reflect.Value) (types.AttributeValue, error) {
	if hasNoMembers(v) {
		return nil, errEmptySet
	}
	if c.kind == kindBS {
		return c.binarySet(e, v)
	}
	start := len(e.pending)
	seen := newSeen(v.Len())
	err := eachMember(v, func(m reflect.Value) error { return c.appendMember(e, m, start, seen) })
	if err != nil {
		return nil, err
	}
	texts := e.pending[start:]
	if v.Kind() == reflect.Map {
		slices.SortFunc(texts, func(a, b pending) int { return bytes.Compare(e.text[a.from:a.to], e.text[b.from:b.to]) })
	}
	members := make([]string, len(texts))
	for i := range texts {
		texts[i].target = &members[i]
	}
	if c.kind == kindNS {
		return &types.AttributeValueMemberNS{Value: members}, nil
	}
	return &types.AttributeValueMemberSS{Value: members}, nil
}

// appendMember appends the text of a member, unless it equals one of the pending
// members from start on.
func (c *codec) appendMember(e *encoder, m reflect.Value, start int, seen map[string]struct{}) error {
	from := len(e.text)
	text, err := c.elem.text(e.text, m)
	if err != nil {
		return err
	}
	if c.kind == kindNS {
		plain, err := decimal.Canonical(string(text[from:]))
		if err != nil {
			return err
		}
		text = append(text[:from], plain...)
	}
	if !isNew(seen, text[from:], func(member []byte) bool {
		return slices.ContainsFunc(e.pending[start:], func(p pending) bool {
			return bytes.Equal(member, e.text[p.from:p.to])
		})
	}) {
		return nil
	}
	e.text = text
	e.setLater(nil, from)
	return nil
}

// fewMembers is the number of members up to which a linear search finds
// duplicates; larger sets use a map.
const fewMembers = 8

func newSeen(n int) map[string]struct{} {
	if n <= fewMembers {
		return nil
	}
	return make(map[string]struct{}, n)
}

func isNew(seen map[string]struct{}, member []byte, contains func([]byte) bool) bool {
	if seen == nil {
		return !contains(member)
	}
	if _, ok := seen[string(member)]; ok {
		return false
	}
	seen[string(member)] = struct{}{}
	return true
}

func (c *codec) binarySet(e *encoder, v reflect.Value) (types.AttributeValue, error) {
	members := make([][]byte, 0, v.Len())
	seen := newSeen(v.Len())
	err := eachMember(v, func(m reflect.Value) error {
		av, err := c.elem.encode(e, m)
		if err != nil {
			return err
		}
		b, ok := av.(*types.AttributeValueMemberB)
		if !ok {
			return errors.New("nil cannot be a member of a set")
		}
		if isNew(seen, b.Value, func(member []byte) bool {
			return slices.ContainsFunc(members, func(other []byte) bool { return bytes.Equal(member, other) })
		}) {
			members = append(members, b.Value)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if v.Kind() == reflect.Map {
		slices.SortFunc(members, bytes.Compare)
	}
	return &types.AttributeValueMemberBS{Value: members}, nil
}

// eachMember calls visit with each member of a set.
func eachMember(v reflect.Value, visit func(reflect.Value) error) error {
	if v.Kind() != reflect.Map {
		for i := range v.Len() {
			if err := visit(v.Index(i)); err != nil {
				return addStep(index(i), "", err)
			}
		}
		return nil
	}
	for entries := v.MapRange(); entries.Next(); {
		if x := entries.Value(); x.Kind() == reflect.Bool && !x.Bool() {
			continue
		}
		if err := visit(entries.Key()); err != nil {
			return err
		}
	}
	return nil
}

// decodeMembers decodes a set, or a list that another writer stored, into a map.
func (c *codec) decodeMembers(av types.AttributeValue, v reflect.Value, depth int) error {
	elements, ok := elementsOf(av)
	if !ok {
		return c.mismatch(av)
	}
	decoded := reflect.MakeMapWithSize(c.typ, elements.len())
	member := reflect.New(c.typ.Key()).Elem()
	present := reflect.New(c.typ.Elem()).Elem()
	if present.Kind() == reflect.Bool {
		present.SetBool(true)
	}
	for i := range elements.len() {
		member.SetZero()
		if err := c.elem.decode(elements.at(i), member, depth+1); err != nil {
			return addStep(index(i), "", err)
		}
		decoded.SetMapIndex(member, present)
	}
	v.Set(decoded)
	return nil
}
