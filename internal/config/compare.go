package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"reflect"
	"slices"
	"strings"
)

// Digest returns a digest of what a reload replaces, and of how listeners treat requests,
// together with further settings, each like "memory=256MiB": two servers with the same digest
// treat requests alike. Addresses of listeners and files of certificates, which differ between
// machines, do not count, nor does the log, nor do the values of secrets. It has 12 hexadecimal digits.
func (f *File) Digest(further []string) string {
	h := sha256.New()
	v := reflect.ValueOf(f).Elem()
	for _, field := range fieldsOf(v.Type()) {
		if !field.starts && field.name != "log" || field.name == "listen" || field.name == "acme" {
			digestField(h, field.name, field.typ, v.FieldByIndex(field.index))
		}
	}
	for _, line := range slices.Sorted(slices.Values(further)) {
		fmt.Fprintf(h, "%q\n", line)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

func digestField(h hash.Hash, path string, t reflect.Type, v reflect.Value) {
	section, many := isSection(t)
	switch {
	case t == typeOf[Secret]() || t == typeOf[[]Secret]() || section == typeOf[Certificate]() || path == "listen.address":
	case section == nil:
		fmt.Fprintf(h, "%s=%q\n", path, valueText(v))
	case !many:
		digestSection(h, path, v)
	case v.Kind() == reflect.Slice:
		fmt.Fprintf(h, "%s %d\n", path, v.Len())
		for i := range v.Len() {
			digestSection(h, path, v.Index(i))
		}
	default: // a map by names
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			fmt.Fprintf(h, "%s %q\n", path, key.String())
			digestSection(h, path, v.MapIndex(key))
		}
	}
}

func digestSection(h hash.Hash, path string, v reflect.Value) {
	for _, field := range fieldsOf(v.Type()) {
		digestField(h, join(path, field.name), field.typ, v.FieldByIndex(field.index))
	}
}

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

// Secrets returns the values of all secrets of a file, to leave them out of texts. Those that
// cannot be read are left out.
func (f *File) Secrets() []string {
	var all []string
	var walk func(reflect.Value)
	walk = func(v reflect.Value) {
		if s, ok := v.Interface().(Secret); ok {
			if text, err := s.Read(); err == nil && text != "" {
				all = append(all, text)
			}
			return
		}
		switch v.Kind() {
		case reflect.Struct:
			for _, field := range fieldsOf(v.Type()) {
				walk(v.FieldByIndex(field.index))
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i))
			}
		case reflect.Map:
			for it := v.MapRange(); it.Next(); {
				walk(it.Value())
			}
		}
	}
	walk(reflect.ValueOf(f).Elem())
	return all
}
