package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// An Effective is the value that a field has, and where it comes from.
type Effective struct {
	Name   string // such as "negative.404"
	Value  string // as in a file; empty if the field has no value
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

// valueText formats a value as in a file; empty if there is none.
func valueText(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		return formatDuration(value)
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
