package config

import (
	"reflect"
	"slices"
)

// NeedRestart returns the names of the top-level fields that differ between two files and
// cannot change while a server runs.
func NeedRestart(old, new *File) []string {
	var names []string
	a, b := reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem()
	for _, f := range fieldsOf(a.Type()) {
		if f.starts && !reflect.DeepEqual(a.FieldByIndex(f.index).Interface(), b.FieldByIndex(f.index).Interface()) {
			names = append(names, f.name)
		}
	}
	slices.Sort(names)
	return names
}
