package config

import (
	"reflect"
	"testing"
)

// Each field has a help, a valid default and a valid example.
func TestFields(t *testing.T) {
	seen := 0
	var walk func(section reflect.Type, path string)
	walk = func(section reflect.Type, path string) {
		names := make(map[string]bool)
		for _, f := range fieldsOf(section) {
			seen++
			at := join(path, f.name)
			if f.name == "" || f.help == "" || names[f.name] {
				t.Errorf("%s has no name of its own, or no help", at)
			}
			names[f.name] = true
			if inner, _ := isSection(f.typ); inner != nil {
				walk(inner, at)
				continue
			}
			value := reflect.New(f.typ).Elem()
			if f.def != "" {
				if err := setScalar(value, &f, f.def); err != nil {
					t.Errorf("the default of %s: %v", at, err)
				}
			}
			if f.example == "" {
				if f.required {
					t.Errorf("%s is required and has no example", at)
				}
				continue
			}
			d := newDecoder("example", f.name+": "+f.example, func(string) (string, bool) { return "value", true })
			pairs, ok := d.pairs(d.parseYAML(), "")
			if !ok || len(pairs) != 1 {
				t.Errorf("the example of %s: %v", at, d.err())
				continue
			}
			d.value(pairs[0].value, value, &f, at)
			if err := d.err(); err != nil {
				t.Errorf("the example of %s: %v", at, err)
			}
		}
	}
	walk(typeOf[File](), "")
	if seen < 100 {
		t.Errorf("saw %d fields", seen)
	}
}
