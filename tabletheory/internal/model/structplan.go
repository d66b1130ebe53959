package model

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// maxName is DynamoDB's bound on the names of other attributes, in bytes.
const maxName = 64<<10 - 1

// structPlan maps the fields of a struct to the attributes of an item or a map.
// Fields of embedded structs are promoted by Go's rules: the one nearest to the
// top hides others with its Go name, and two at the same depth hide each other.
// The name of an embedded struct itself hides nothing.
type structPlan struct {
	typ         reflect.Type
	naming      naming
	fields      []*Field
	byName      map[string]*Field
	byAttribute map[string]*Field
	needs       needs
	embedded    [][]int // indexes of the embedded pointers, outer ones first
}

// field returns the field with that Go name or, failing that, attribute name.
func (p *structPlan) field(name string) (*Field, bool) {
	if f, ok := p.byName[name]; ok {
		return f, true
	}
	f, ok := p.byAttribute[name]
	return f, ok
}

// plan makes the plan of a struct type. n is the naming unless the type states
// another.
func (k *compiler) plan(t reflect.Type, n naming) (*structPlan, error) {
	n, err := namingOf(t, n)
	if err != nil {
		return nil, err
	}
	p := &structPlan{typ: t, naming: n, byName: map[string]*Field{}, byAttribute: map[string]*Field{}}
	all, err := p.collect(k, t, n, nil, nil)
	if err != nil {
		return nil, err
	}
	for _, d := range visibleFields(all) {
		if err := p.add(k, d); err != nil {
			return nil, err
		}
	}
	for _, f := range p.fields {
		p.needs.add(f.codec.needs)
	}
	return p, nil
}

// namingOf returns the naming that a blank field of the struct states, or n.
func namingOf(t reflect.Type, n naming) (naming, error) {
	for i := range t.NumField() {
		sf := t.Field(i)
		text, tagged := sf.Tag.Lookup(tagName)
		if sf.Name != "_" || !tagged {
			continue
		}
		stated, err := parseNaming(text)
		if err != nil {
			return n, &Error{Type: t, Field: sf.Name, Problem: err.Error()}
		}
		n = stated
	}
	return n, nil
}

// declared is a field as a struct declares it.
type declared struct {
	reflect.StructField // its Index starts at the outermost struct
	owner               reflect.Type
	naming              naming
	tag                 tag
}

// collect returns the fields of a struct and of the structs embedded in it.
// outer are the structs around it.
func (p *structPlan) collect(k *compiler, t reflect.Type, n naming, prefix []int, outer []reflect.Type) ([]declared, error) {
	if slices.Contains(outer, t) {
		return nil, nil // it embeds itself: the outer occurrence hides all of it
	}
	n, err := namingOf(t, n)
	if err != nil {
		return nil, err
	}
	var all []declared
	for i := range t.NumField() {
		sf := t.Field(i)
		sf.Index = append(slices.Clone(prefix), i)
		if sf.Name == "_" {
			continue
		}
		text := sf.Tag.Get(tagName)
		parsed, err := parseTag(text)
		if err != nil {
			return nil, &Error{Type: t, Field: sf.Name, Problem: err.Error()}
		}
		inner, err := p.embeddedStruct(k, t, sf, text != "")
		switch {
		case err != nil:
			return nil, err
		case inner != nil:
			fields, err := p.collect(k, inner, n, sf.Index, append(slices.Clone(outer), t))
			if err != nil {
				return nil, err
			}
			all = append(all, fields...)
		case sf.IsExported():
			all = append(all, declared{sf, t, n, parsed})
		case text != "" && !parsed.skip:
			return nil, &Error{Type: t, Field: sf.Name, Problem: "the field has the tag " + tagName + " but is not exported: export it, or remove the tag"}
		}
	}
	return all, nil
}

// visibleFields returns the fields that are neither hidden by others with the
// same Go name nor skipped by their tag.
func visibleFields(all []declared) []declared {
	nearest := map[string]int{} // smallest depth of the fields with a name
	count := map[string]int{}   // number of fields at that depth
	for _, d := range all {
		depth, ok := nearest[d.Name]
		switch {
		case !ok || len(d.Index) < depth:
			nearest[d.Name], count[d.Name] = len(d.Index), 1
		case len(d.Index) == depth:
			count[d.Name]++
		}
	}
	return slices.DeleteFunc(all, func(d declared) bool {
		return d.tag.skip || len(d.Index) > nearest[d.Name] || count[d.Name] > 1
	})
}

// embeddedStruct returns the type of an embedded struct without a tag, whose
// fields are promoted to the struct t; nil for other fields.
func (p *structPlan) embeddedStruct(k *compiler, t reflect.Type, sf reflect.StructField, tagged bool) (reflect.Type, error) {
	inner := sf.Type
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	if !sf.Anonymous || tagged || inner.Kind() != reflect.Struct || k.isOpaque(inner) {
		return nil, nil
	}
	if sf.Type.Kind() == reflect.Pointer {
		if !sf.IsExported() {
			return nil, &Error{Type: t, Field: sf.Name, Problem: "an embedded pointer to a struct that is not exported cannot be allocated: export the type, or embed it without the pointer"}
		}
		p.embedded = append(p.embedded, sf.Index)
	}
	return inner, nil
}

func (p *structPlan) add(k *compiler, d declared) error {
	sf, t := d.StructField, d.tag
	c, err := k.fieldCodec(sf.Type, t, d.naming)
	if err != nil {
		return inField(d.owner, sf.Name, err)
	}
	f := &Field{
		Name: sf.Name, Attribute: t.attribute, OmitEmpty: t.omitEmpty, Set: t.set, Encrypted: t.encrypted,
		owner: d.owner, index: sf.Index, typ: sf.Type, tag: t, codec: c, registry: k.registry,
	}
	if f.Attribute == "" {
		f.Attribute = d.naming.attribute(sf.Name)
	}
	if t.omitEmpty {
		f.empty = emptyFunc(sf.Type)
	}
	if t.set {
		f.empty = hasNoMembers
	}
	if base := c.base(); t.ttl && f.empty == nil && base.typ.ConvertibleTo(timeType) && base == c {
		f.empty = emptyFunc(sf.Type) // the zero time would mean "expired"
	}
	return p.append(f)
}

func (p *structPlan) append(f *Field) error {
	if n := len(f.Attribute); n == 0 || n > maxName {
		return &Error{Type: f.owner, Field: f.Name, Problem: fmt.Sprintf("the attribute name has %d bytes, but must have 1 to %d", n, maxName)}
	}
	if other, ok := p.byAttribute[f.Attribute]; ok {
		return &Error{Type: f.owner, Field: f.Name, Problem: fmt.Sprintf("field %s has the attribute name %s too: give one of them another name with attr:", other.goName(), f.Attribute)}
	}
	p.fields = append(p.fields, f)
	p.byName[f.Name] = f
	p.byAttribute[f.Attribute] = f
	return nil
}

// inField makes an error an *Error of this field, unless it is already one of an
// inner field.
func inField(owner reflect.Type, name string, err error) error {
	if _, ok := err.(*Error); ok {
		return err
	}
	return &Error{Type: owner, Field: name, Problem: err.Error()}
}

// encode adds the attributes of a struct to an item.
func (p *structPlan) encode(e *encoder, v reflect.Value, item Item) error {
	for _, f := range p.fields {
		var value reflect.Value
		if len(f.index) == 1 {
			value = v.Field(f.index[0])
		} else if value = f.Value(v, false); !value.IsValid() {
			continue
		}
		if f.empty != nil && f.empty(value) {
			continue
		}
		av, err := f.codec.encode(e, value)
		if err != nil {
			return addStep(f.Attribute, f.goName(), err)
		}
		item[f.Attribute] = av
		if f.tableKey != noKey {
			e.keys[f.tableKey] = av
		}
	}
	return nil
}

// decode sets the fields of a struct. Fields without an attribute become zero,
// or are unchanged if selected.
func (p *structPlan) decode(item Item, v reflect.Value, depth int, selected bool) error {
	p.copyEmbedded(v)
	for _, f := range p.fields {
		av, ok := item[f.Attribute]
		if !ok {
			if value := f.Value(v, false); !selected && value.IsValid() {
				value.SetZero()
			}
			continue
		}
		if err := f.codec.decode(av, f.Value(v, true), depth); err != nil {
			return addStep(f.Attribute, f.goName(), err)
		}
	}
	return nil
}

// copyEmbedded replaces embedded pointers by pointers to copies: the struct may
// share what they point to, and must be unchanged if decoding fails.
func (p *structPlan) copyEmbedded(v reflect.Value) {
	for _, index := range p.embedded {
		pointer, err := v.FieldByIndexErr(index)
		if err != nil || pointer.IsNil() {
			continue
		}
		own := reflect.New(pointer.Type().Elem())
		own.Elem().Set(pointer.Elem())
		pointer.Set(own)
	}
}

// useStruct makes c the codec of a struct that becomes a map.
func (k *compiler) useStruct(c *codec, n naming) error {
	c.kind = kindM
	p, err := k.plan(c.typ, n)
	if err != nil {
		return err
	}
	for _, f := range p.fields {
		if f.Encrypted {
			return &Error{Type: f.owner, Field: f.Name, Problem: fmt.Sprintf("an encrypted field must be at the top of an item, but %v is nested here: tag the field of the model that holds it", c.typ)}
		}
	}
	c.fields, c.needs = p, p.needs
	c.needs.maps++
	c.encode = func(e *encoder, v reflect.Value) (types.AttributeValue, error) {
		if e.nesting++; e.nesting > maxNesting {
			return nil, errTooDeep
		}
		encoded := make(Item, len(p.fields))
		if err := p.encode(e, v, encoded); err != nil {
			return nil, err
		}
		e.nesting--
		m := e.maps.take()
		m.Value = encoded
		return m, nil
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, depth int) error {
		switch av := av.(type) {
		case *types.AttributeValueMemberM:
			if depth >= maxNesting {
				return c.invalid(av, errTooDeep)
			}
			return p.decode(av.Value, v, depth+1, false)
		case *types.AttributeValueMemberNULL:
			v.SetZero()
			return nil
		}
		return c.mismatch(av)
	}
	return nil
}
