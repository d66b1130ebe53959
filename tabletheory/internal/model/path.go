package model

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Path is a resolved document path. It is immutable, and may be shared.
type Path struct {
	Field *Field // that it begins with
	Steps []Step // the first is the attribute of Field

	codec    *codec // of what is there; nil if nothing is known of it
	naming   naming
	registry *Registry
}

// Step is an attribute name, or, if Name is empty, a list index.
type Step struct {
	Name  string
	Index int
}

// Path resolves a document path (address.city, lines[2].price), whose steps are
// Go names or attribute names as far as the types are known, into attribute
// names and list indexes, and tells how a value at its end is encoded. A name
// that is that of no field of a struct is an error that names the fields there
// are, and so is a step into what has no parts.
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
			return nil, fmt.Errorf("the path %s: %w", quote(path), err)
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
			return nil, fmt.Errorf("the path %s has an empty name: write it as in address.city or lines[2].price", quote(path))
		}
		steps = append(steps, Step{Name: name})
		for len(part) > len(name) {
			digits, after, found := strings.Cut(rest, "]")
			i, err := strconv.ParseUint(digits, 10, 31)
			if !found || err != nil || after != "" && after[0] != '[' {
				return nil, fmt.Errorf("the path %s has no index between brackets: write it as in lines[2].price", quote(path))
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

// noField is the error that a struct has no field of that name.
func (p *structPlan) noField(name string) error {
	names := make([]string, len(p.fields))
	for i, f := range p.fields {
		names[i] = f.Name
	}
	return fmt.Errorf("%v has no field %s: there are %s", p.typ, quote(name), strings.Join(names, ", "))
}

// descend takes one step further, and makes an attribute name of a Go name.
func (p *Path) descend(step *Step) error {
	at := p.codec.base()
	switch {
	case at == nil || at.kind == "": // whatever there is
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
		return fmt.Errorf("%v is %s, and has no attribute %s", at.typ, at.kind, quote(step.Name))
	default:
		return fmt.Errorf("%v is %s, and has no elements to be counted", at.typ, at.kind)
	}
	return nil
}

// Encode encodes a value to be stored at, or compared with, what is at the path:
// as the field's type would be if the value has that type or one of the same
// kind, and by its own type otherwise, if that gives the field's kind of
// attribute; else it is an error that names both. nil is NULL.
//
// A field with the tag json takes any value, as a JSON document. One with the
// tag set takes a slice or map of members. One of numbers takes a time.Time, as
// epoch seconds.
func (p *Path) Encode(v any) (types.AttributeValue, error) {
	av, err := p.encodeFor(p.codec, reflect.ValueOf(v))
	if err != nil {
		return nil, p.within(err)
	}
	return av, nil
}

// EncodeElement encodes an element of the list or member of the set at the path,
// or, if there is neither, a part of the string or of the bytes there.
func (p *Path) EncodeElement(v any) (types.AttributeValue, error) {
	c := p.codec.base()
	switch {
	case c == nil:
	case c.kind == kindL, c.kind == kindSS, c.kind == kindNS, c.kind == kindBS:
		c = c.elem
	case c.json:
		c = nil // a part of the document's text
	}
	av, err := p.encodeFor(c, reflect.ValueOf(v))
	if err != nil {
		return nil, p.within(err)
	}
	return av, nil
}

func (p *Path) within(err error) error {
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
	return within(text.String(), p.Field.goName(), err)
}

// encodeFor encodes a value as c would, if it can.
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

// overflows reports whether the types are of one kind, but not of one length.
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
		return nil, fmt.Errorf("it is %s for %v, and the value is %s, a %v: give a value of the field's type", c.kind, c.typ, k, v.Type())
	}
	return av, nil
}

// codecFor returns the codec of a value's type for a field of another type.
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
