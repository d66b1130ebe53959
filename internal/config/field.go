package config

import (
	"reflect"
	"strings"
	"time"
)

// A field is a row of the table of fields.
type field struct {
	name                       string
	help, def, unset, min, max string
	format, example            string
	enum, other                []string // other: names of it in other programs
	removed, replacement       string   // a text that was in enum once, and what to write instead
	restart                    string   // when a change needs a restart: "", "yes", or "from or to 0"
	required, addsToPreset     bool
	typ                        reflect.Type
	index                      []int // for reflect.Value.FieldByIndex
}

// fieldsOf returns the fields of a struct in the file, in order.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		name, option, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if option == "inline" {
			for _, f := range fieldsOf(sf.Type) {
				f.index = append([]int{i}, f.index...)
				fields = append(fields, f)
			}
			continue
		}
		removed, replacement, _ := strings.Cut(sf.Tag.Get("removed"), ": ")
		fields = append(fields, field{
			name: name, help: sf.Tag.Get("help"), def: sf.Tag.Get("default"), unset: sf.Tag.Get("unset"),
			min: sf.Tag.Get("min"), max: sf.Tag.Get("max"), format: sf.Tag.Get("format"), example: sf.Tag.Get("example"),
			enum: list(sf.Tag.Get("enum")), other: list(sf.Tag.Get("other")), removed: removed, replacement: replacement,
			required: sf.Tag.Get("required") != "", addsToPreset: sf.Tag.Get("preset") == "add", restart: sf.Tag.Get("restart"),
			typ: sf.Type, index: []int{i},
		})
	}
	return fields
}

func list(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// find returns the field with a name; nil if there is none.
func find(fields []field, name string) *field {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// isSection reports whether a field has fields of its own, and returns their struct. many:
// it is a list of them, or a map.
func isSection(t reflect.Type) (section reflect.Type, many bool) {
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t, many = t.Elem(), true
	}
	if t.Kind() != reflect.Struct || t == typeOf[Secret]() || t == typeOf[Key]() || t == typeOf[Window]() {
		return nil, false
	}
	return t, many
}

// typeText names a type to people.
func (f *field) typeText() string {
	switch t := f.typ; {
	case len(f.enum) > 0 && t.Kind() == reflect.String:
		return "one of " + strings.Join(f.enum, ", ")
	case t == typeOf[time.Duration]() || t == typeOf[*time.Duration]():
		return "duration"
	case t == typeOf[Size]() || t == typeOf[*Size]():
		return "size"
	case t == typeOf[Window]():
		return "duration, or auto with two of them"
	case t == typeOf[Percent]():
		return "percentage"
	case t == typeOf[Secret]():
		return "secret"
	case t == typeOf[[]Secret]():
		return "list of secrets"
	case t == typeOf[Keys]():
		return "list of names, or map of names to values"
	case t == typeOf[[]string]() && len(f.enum) > 0:
		return "list of " + strings.Join(f.enum, ", ")
	case t == typeOf[[]string]():
		return "list of texts"
	case t == typeOf[[]int]():
		return "list of numbers"
	case t == typeOf[map[string]string]():
		return "map of texts"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct:
		return "map"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int:
		return "number"
	case t.Kind() == reflect.Float64:
		return "number"
	}
	return "text"
}
