package model

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Path is a resolved document path. It is immutable and safe for concurrent use.
type Path struct {
	Field *Field // the first step
	Steps []Step // the first is the attribute of Field

	codec    *codec // of the value at the path; nil if its type is unknown
	naming   naming
	registry *Registry
}

// Step is an attribute name or, if Name is empty, a list index.
type Step struct {
	Name  string
	Index int
}

// Path resolves a document path (address.city, lines[2].price). Its steps are Go
// names or attribute names, as far as the types are known; the result has
// attribute names and list indexes. An unknown name of a struct field is an
// error that lists the fields. A step into a value without parts is an error.
func (m *Model) Path(path string) (*Path, error) {
	if f, ok := m.Field(path); ok {
		return f.path, nil
	}
	steps, err := parsePath(path)
	if err != nil {
		return nil, err
	}
	f, ok := m.Field(steps[0].Name)
	if !ok {
		return nil, m.plan.noField(steps[0].Name)
	}
	p := &Path{Field: f, Steps: steps, codec: f.codec, naming: m.plan.naming, registry: m.registry}
	p.Steps[0].Name = f.Attribute
	for i := range steps[1:] {
		if err := p.descend(&p.Steps[i+1]); err != nil {
			return nil, fmt.Errorf("path %s: %w", quote(path), err)
		}
	}
	return p, nil
}

// parsePath splits name.name[1].name into steps.
func parsePath(path string) ([]Step, error) {
	var steps []Step
	for part := range strings.SplitSeq(path, ".") {
		name, rest, _ := strings.Cut(part, "[")
		if name == "" {
			return nil, fmt.Errorf("path %s has an empty name: write it like address.city or lines[2].price", quote(path))
		}
		steps = append(steps, Step{Name: name})
		for len(part) > len(name) {
			digits, after, found := strings.Cut(rest, "]")
			i, err := strconv.ParseUint(digits, 10, 31)
			if !found || err != nil || after != "" && after[0] != '[' {
				return nil, fmt.Errorf("path %s has no index in brackets: write it like lines[2].price", quote(path))
			}
			steps = append(steps, Step{Index: int(i)})
			if after == "" {
				break
			}
			rest = after[1:]
		}
	}
	return steps, nil
}

// noField returns the error for an unknown field name.
func (p *structPlan) noField(name string) error {
	names := make([]string, len(p.fields))
	for i, f := range p.fields {
		names[i] = f.Name
	}
	return fmt.Errorf("%v has no field %s: its fields are %s", p.typ, quote(name), strings.Join(names, ", "))
}

// descend resolves one more step, and replaces a Go name by the attribute name.
func (p *Path) descend(step *Step) error {
	at := p.codec.base()
	switch {
	case at == nil || at.kind == "": // of unknown type
		p.codec = nil
	case step.Name != "" && at.fields != nil:
		f, ok := at.fields.field(step.Name)
		if !ok {
			return at.fields.noField(step.Name)
		}
		step.Name, p.codec = f.Attribute, f.codec
	case step.Name != "" && at.kind == kindM, step.Name == "" && at.kind == kindL:
		p.codec = at.elem
	case step.Name != "":
		return fmt.Errorf("%v is stored as %s, which has no attribute %s", at.typ, at.kind, quote(step.Name))
	default:
		return fmt.Errorf("%v is stored as %s, which has no elements", at.typ, at.kind)
	}
	return nil
}

// Encode encodes a value to be stored at the path or compared with the value
// there. A value of the field's type, or of a type of the same kind, is encoded
// like the field. Any other value is encoded by its own type, and it is an error
// if that gives another attribute type than the field's. nil is NULL.
//
// A field with the tag json takes any value, as a JSON document. A field with
// the tag set takes a slice or a map of members. A number field takes a
// time.Time, as epoch seconds.
func (p *Path) Encode(v any) (types.AttributeValue, error) {
	av, err := p.encodeFor(p.codec, reflect.ValueOf(v))
	if err != nil {
		return nil, p.addSteps(err)
	}
	return av, nil
}

// EncodeElement encodes an element of the list or a member of the set at the
// path, or otherwise a part of the string or the bytes there.
func (p *Path) EncodeElement(v any) (types.AttributeValue, error) {
	c := p.codec.base()
	switch {
	case c == nil:
	case c.kind == kindL, c.kind == kindSS, c.kind == kindNS, c.kind == kindBS:
		c = c.elem
	case c.json:
		c = nil // a substring of the document
	}
	av, err := p.encodeFor(c, reflect.ValueOf(v))
	if err != nil {
		return nil, p.addSteps(err)
	}
	return av, nil
}

func (p *Path) addSteps(err error) error {
	var text strings.Builder
	for i, step := range p.Steps {
		switch {
		case step.Name == "":
			text.WriteString(index(step.Index))
		case i > 0:
			text.WriteString("." + step.Name)
		default:
			text.WriteString(step.Name)
		}
	}
	return addStep(text.String(), p.Field.goName(), err)
}

// encodeFor encodes a value like c, if c can encode it.
func (p *Path) encodeFor(c *codec, v reflect.Value) (types.AttributeValue, error) {
	c = c.base()
	for v.Kind() == reflect.Pointer && !v.IsNil() && !v.Type().Implements(attributeValueType) && (c == nil || v.Type() != c.typ) {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return null(), nil
	}
	if c == nil || c.typ.Kind() == reflect.Interface {
		return p.registry.encodeOwn(v, p.naming)
	}
	if v.Type() == c.typ {
		return p.registry.encodeWith(c, v)
	}
	if v.Kind() == c.typ.Kind() && v.CanConvert(c.typ) && !overflows(v, c.typ) {
		return p.registry.encodeWith(c, v.Convert(c.typ))
	}
	return p.encodeOther(c, v)
}

// overflows reports whether v is an array of another length than t.
func overflows(v reflect.Value, t reflect.Type) bool {
	return t.Kind() == reflect.Array && v.Len() != t.Len()
}

// encodeOther encodes a value of another type than the field's.
func (p *Path) encodeOther(c *codec, v reflect.Value) (types.AttributeValue, error) {
	if c.kind == "" {
		return p.registry.encodeOwn(v, p.naming)
	}
	own, err := p.codecFor(c, v.Type())
	if err != nil {
		return nil, err
	}
	av, err := p.registry.encodeWith(own, v)
	if err != nil {
		return nil, err
	}
	if k := kindOf(av); k != c.kind && k != kindNull {
		return nil, fmt.Errorf("want %s for %v, got %s from %v: pass a value of the field's type", c.kind, c.typ, k, v.Type())
	}
	return av, nil
}

// codecFor returns the codec for values of type t in a field of another type.
func (p *Path) codecFor(c *codec, t reflect.Type) (own *codec, err error) {
	isSet := c.kind == kindSS || c.kind == kindNS || c.kind == kindBS
	switch {
	case c.json:
		return jsonCodec(t), nil
	case isSet && !t.Implements(attributeValueType):
		err = p.registry.compile(func(k *compiler) (err error) {
			own, err = k.set(t, p.naming)
			return err
		})
		return own, err
	case c.kind == kindN && t.ConvertibleTo(timeType):
		own = &codec{typ: t}
		own.useTime(true)
		return own, nil
	}
	return p.registry.codec(t, p.naming)
}
