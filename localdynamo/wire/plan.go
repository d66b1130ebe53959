package wire

import (
	"fmt"
	"reflect"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/go-faster/jx"
)

// plan encodes and decodes the values of one SDK type.
type plan struct {
	decode func(*decoder, reflect.Value) error // the value is addressable; the JSON is not null
	encode func([]byte, reflect.Value) []byte

	absent  func(reflect.Value) bool // reports whether a value is omitted; nil means never
	elem    *plan                    // of a pointer, list or map
	members *members                 // of a struct
	checks  bool                     // it has required members, directly or nested
}

// members are the fields of a struct that are members of the JSON object.
type members struct {
	list   []member
	byName map[string]*member
}

// member is a field of a struct.
type member struct {
	name     string
	prefix   []byte // the encoded name with its colon
	index    int
	required bool
	plan     *plan
}

// plans holds the plans by type. New fills it; later it is only read.
type plans map[reflect.Type]*plan

// of returns the plan for a type, compiling it on first use. It returns an error for
// kinds of types that the SDK does not use.
func (ps plans) of(t reflect.Type) (*plan, error) {
	if p := ps[t]; p != nil {
		return p, nil
	}
	p := &plan{}
	ps[t] = p // first: types may be recursive
	if leaf(t, p) {
		return p, nil
	}
	var err error
	switch t.Kind() {
	case reflect.Pointer:
		err = ps.pointer(t, p)
	case reflect.Slice:
		err = ps.slice(t, p)
	case reflect.Map:
		err = ps.dictionary(t, p)
	case reflect.Struct:
		err = ps.structure(t, p)
	default:
		err = fmt.Errorf("type %s: no JSON encoding", t)
	}
	return p, err
}

// leaf fills in plans that need no other plan and reports whether t has one. The first
// ones are for types in every message and avoid reflection.
func leaf(t reflect.Type, p *plan) bool {
	switch t {
	case reflect.TypeFor[map[string]types.AttributeValue]():
		direct(p, func(d *decoder) (map[string]types.AttributeValue, error) { return d.attributes(0) }, appendAttributes)
		p.absent = reflect.Value.IsNil
		return true
	case reflect.TypeFor[types.AttributeValue]():
		direct(p, func(d *decoder) (types.AttributeValue, error) { return d.attribute(0) }, appendAttribute)
		p.absent = reflect.Value.IsNil
		return true
	case reflect.TypeFor[[]string]():
		direct(p, func(d *decoder) ([]string, error) { return d.strings(d.str) },
			func(dst []byte, list []string) []byte { return appendList(dst, list, appendString) })
		p.absent = reflect.Value.IsNil
		return true
	case reflect.TypeFor[time.Time]():
		direct(p, (*decoder).epoch, appendEpoch)
		return true
	case reflect.TypeFor[[]byte]():
		direct(p, (*decoder).blob, appendBlob)
		p.absent = reflect.Value.IsNil
		return true
	case reflect.TypeFor[string]():
		direct(p, (*decoder).str, appendString)
		return true
	case reflect.TypeFor[bool]():
		direct(p, (*decoder).boolean, strconv.AppendBool)
		return true
	case reflect.TypeFor[float64]():
		direct(p, (*decoder).float, appendFloat)
		return true
	}
	return kindLeaf(t, p)
}

// direct fills in the plan for a type with typed codec functions.
func direct[T any](p *plan, decode func(*decoder) (T, error), encode func([]byte, T) []byte) {
	p.decode = func(d *decoder, v reflect.Value) error {
		read, err := decode(d)
		*v.Addr().Interface().(*T) = read
		return err
	}
	p.encode = func(dst []byte, v reflect.Value) []byte {
		if v.CanAddr() {
			return encode(dst, *v.Addr().Interface().(*T))
		}
		return encode(dst, v.Interface().(T)) // a map value
	}
}

// kindLeaf fills in plans for integers and for the SDK's named string types, which are
// absent if empty.
func kindLeaf(t reflect.Type, p *plan) bool {
	switch t.Kind() {
	case reflect.String:
		p.decode = func(d *decoder, v reflect.Value) error {
			s, err := d.str()
			v.SetString(s)
			return err
		}
		p.encode = func(dst []byte, v reflect.Value) []byte { return appendString(dst, v.String()) }
		p.absent = func(v reflect.Value) bool { return v.Len() == 0 }
	case reflect.Int32, reflect.Int64:
		name := map[reflect.Kind]string{reflect.Int32: "Integer", reflect.Int64: "Long"}[t.Kind()]
		p.decode = func(d *decoder, v reflect.Value) error {
			n, err := d.integer(name, t.Bits())
			v.SetInt(n)
			return err
		}
		p.encode = func(dst []byte, v reflect.Value) []byte { return strconv.AppendInt(dst, v.Int(), 10) }
	default:
		return false
	}
	return true
}

func (ps plans) pointer(t reflect.Type, p *plan) (err error) {
	p.absent = reflect.Value.IsNil
	if p.elem, err = ps.of(t.Elem()); err != nil {
		return err
	}
	if t.Elem() == reflect.TypeFor[string]() { // most pointers are
		direct(p, func(d *decoder) (*string, error) {
			s, err := d.str()
			return &s, err
		}, func(dst []byte, s *string) []byte { return appendString(dst, *s) })
		return nil
	}
	p.decode = func(d *decoder, v reflect.Value) error {
		v.Set(reflect.New(t.Elem()))
		return p.elem.decode(d, v.Elem())
	}
	p.encode = func(dst []byte, v reflect.Value) []byte { return p.elem.encode(dst, v.Elem()) }
	return nil
}

func (ps plans) slice(t reflect.Type, p *plan) (err error) {
	p.absent = reflect.Value.IsNil
	if p.elem, err = ps.of(t.Elem()); err != nil {
		return err
	}
	p.decode = func(d *decoder, v reflect.Value) error {
		if err := d.expectList(); err != nil {
			return err
		}
		v.Set(reflect.MakeSlice(t, 0, 0))
		return d.list(func() error {
			v.Grow(1)
			v.SetLen(v.Len() + 1)
			return d.decodeElement(p.elem, v.Index(v.Len()-1))
		})
	}
	p.encode = func(dst []byte, v reflect.Value) []byte {
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = p.elem.encode(dst, v.Index(i))
		}
		return append(dst, ']')
	}
	return nil
}

// decodeElement decodes an element of a list or map. A null struct is decoded as empty,
// so that checkRequired reports its missing members.
func (d *decoder) decodeElement(p *plan, v reflect.Value) error {
	if p.members == nil && v.Kind() != reflect.Interface {
		if absent, err := d.nullElement(); absent || err != nil {
			return err
		}
	} else if p.members != nil {
		if absent, err := d.null(); absent || err != nil {
			return err
		}
	}
	return p.decode(d, v)
}

func (ps plans) dictionary(t reflect.Type, p *plan) (err error) {
	p.absent = reflect.Value.IsNil
	if p.elem, err = ps.of(t.Elem()); err != nil {
		return err
	}
	p.decode = func(d *decoder, v reflect.Value) error {
		class := "java.util.Map<java.lang.String, " + javaClass(t.Elem()) + ">"
		if err := d.expect(jx.Object, class, "Unexpected field type"); err != nil {
			return err
		}
		v.Set(reflect.MakeMap(t))
		entries, err := d.json.ObjIter()
		if err != nil {
			return notJSON(err)
		}
		for entries.Next() {
			key := reflect.ValueOf(string(entries.Key())).Convert(t.Key())
			value := reflect.New(t.Elem()).Elem()
			if err := d.decodeElement(p.elem, value); err != nil {
				return err
			}
			v.SetMapIndex(key, value)
		}
		return notJSON(entries.Err())
	}
	p.encode = func(dst []byte, v reflect.Value) []byte {
		dst = append(dst, '{')
		for i, entries := 0, v.MapRange(); entries.Next(); i++ {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendString(dst, entries.Key().String())
			dst = append(dst, ':')
			dst = p.elem.encode(dst, entries.Value())
		}
		return append(dst, '}')
	}
	return nil
}

// javaClass returns the name of a type in AWS's messages.
func javaClass(t reflect.Type) string {
	if t.Kind() == reflect.String {
		return "java.lang.String"
	}
	return "com.amazonaws.dynamodb.v20120810." + t.Name()
}

func (ps plans) structure(t reflect.Type, p *plan) error {
	m := &members{byName: make(map[string]*member)}
	p.members = m
	required := requiredMembers()[t.Name()]
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Type == reflect.TypeFor[middleware.Metadata]() {
			continue
		}
		of, err := ps.of(f.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		m.list = append(m.list, member{
			name: f.Name, prefix: strconv.AppendQuote(nil, f.Name), index: i, plan: of, required: required[f.Name],
		})
	}
	for i := range m.list {
		m.list[i].prefix = append(m.list[i].prefix, ':')
		m.byName[m.list[i].name] = &m.list[i]
	}
	class := "class com.amazonaws.dynamodb.v20120810." + t.Name()
	p.decode = func(d *decoder, v reflect.Value) error {
		if err := d.expect(jx.Object, class, "Unexpected value type in payload"); err != nil {
			return err
		}
		return m.decode(d, v)
	}
	p.encode = m.encode
	return nil
}

// decode sets the fields of v and ignores unknown members.
func (m *members) decode(d *decoder, v reflect.Value) error {
	return d.object(func(key []byte) error {
		f := m.byName[string(key)]
		if f == nil {
			return d.skip()
		}
		return f.plan.decode(d, v.Field(f.index))
	})
}

func (m *members) encode(dst []byte, v reflect.Value) []byte {
	dst = append(dst, '{')
	first := true
	for i := range m.list {
		f := &m.list[i]
		field := v.Field(f.index)
		if f.plan.absent != nil && f.plan.absent(field) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, f.prefix...)
		dst = f.plan.encode(dst, field)
	}
	return append(dst, '}')
}

// lowerFirst returns the name of a member as AWS's messages have it.
func lowerFirst(name string) string {
	r, size := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(r)) + name[size:]
}
