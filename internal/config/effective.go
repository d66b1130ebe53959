package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/units"
)

// A Source is where a value comes from.
type Source struct {
	// Preset is the name of the preset; empty if there is none.
	Preset string
	// File and Line are the place in the file; empty and 0 if there is none.
	File string
	Line int
	// Defaults: the place is in the defaults of the file.
	Defaults bool
}

// String describes the source: "isr.yaml:14", "isr.yaml:5 (defaults)", "preset next",
// "isr.yaml:14 and preset next", or "built-in".
func (s Source) String() string {
	text := ""
	if s.Line > 0 {
		text = fmt.Sprintf("%s:%d", s.File, s.Line)
		if s.Defaults {
			text += " (defaults)"
		}
	}
	switch {
	case s.Preset == "" && text == "":
		return "built-in"
	case s.Preset == "":
		return text
	case text == "":
		return "preset " + s.Preset
	}
	return text + " and preset " + s.Preset
}

// Source returns where the value at a path comes from, such as "memory", "origins" (if it
// has any), "origins.site.max_renders" or "routes[2].negative.404".
func (f *File) Source(path string) Source { return f.sources[path] }

// An Effective is the value that a field has, and where it comes from.
type Effective struct {
	Name   string // such as "negative.404"
	Value  string // in the format of the file; empty if the field has no value
	Source Source
}

// Effective returns the settings of a route, by its index, in the order of the
// documentation.
func (f *File) Effective(route int) []Effective {
	return f.effective(reflect.ValueOf(f.Routes[route].Settings), fmt.Sprintf("routes[%d]", route), "")
}

func (f *File) effective(v reflect.Value, path, prefix string) []Effective {
	var all []Effective
	for _, field := range fieldsOf(v.Type()) {
		value, name := v.FieldByIndex(field.index), join(prefix, field.name)
		if section, _ := isSection(field.typ); section != nil {
			all = append(all, f.effective(value, path, name)...)
			continue
		}
		text := valueText(value)
		if text == "" {
			text = field.unset
		}
		all = append(all, Effective{Name: name, Value: text, Source: f.Source(path + "." + name)})
	}
	return all
}

// valueText formats a value as a file has it; empty if there is none.
func valueText(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		return units.Duration(value)
	case []string:
		return strings.Join(value, ", ")
	case Keys:
		var texts []string
		for _, key := range value {
			text := key.Name
			if len(key.Values) > 0 {
				text += " (" + strings.Join(key.Values, ", ") + ")"
			}
			texts = append(texts, text)
		}
		return strings.Join(texts, ", ")
	case map[string]string:
		var texts []string
		for name, text := range value {
			texts = append(texts, name+": "+text)
		}
		slices.Sort(texts)
		return strings.Join(texts, ", ")
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
	return fmt.Sprint(v.Interface())
}
