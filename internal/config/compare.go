package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"reflect"
	"slices"
	"strings"
)

// digested returns the top-level fields that say how requests are treated. The others are settings of a server, of which the
// caller of Digest adds those that count.
func digested() []string {
	return []string{"preset", "listen", "hosts", "acme", "hsts", "origins", "defaults", "routes", "draft", "country_header", "redirects", "redirects_file", "error_pages", "allow", "allow_file", "deny", "deny_file", "rate_limits"}
}

// Digest returns a digest of how requests are treated, by the hosts, listeners, origins and routes of the file,
// together with further settings, each like "memory=256MiB": two servers with the same digest
// treat requests alike. Addresses of listeners and files of certificates and ticket keys, which differ between
// machines, do not count, nor does the log, nor do the values of secrets. It has 12 hexadecimal digits.
func (f *File) Digest(further []string) string {
	h := sha256.New()
	v := reflect.ValueOf(f).Elem()
	for _, field := range fieldsOf(v.Type()) {
		if slices.Contains(digested(), field.name) {
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
	case t == typeOf[Secret]() || t == typeOf[[]Secret]() || section == typeOf[Certificate]() || path == "listen.address" || path == "listen.tls_policy.ticket_keys":
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

// A Change is a setting that differs between two files. A list or a map of sections is one setting.
type Change struct {
	// Name is its path in the file, like store.table.
	Name string
	// From and To are its values; both are empty if it is a secret, or a list or a map of sections.
	From, To string
	// NeedsRestart: it cannot change while a server runs.
	NeedsRestart bool
}

// String names the setting and, if they can be told, its values.
func (c Change) String() string {
	if c.From == "" && c.To == "" {
		return c.Name
	}
	return fmt.Sprintf("%s (from %s to %s)", c.Name, cmp.Or(c.From, "unset"), cmp.Or(c.To, "unset"))
}

// Changes returns the settings that differ between two files, sorted by their names. Which of them need a restart is
// in the tags of [File], and nowhere else.
func Changes(old, new *File) []Change {
	var all []Change
	var walk func(path string, restart bool, a, b reflect.Value)
	walk = func(path string, restart bool, a, b reflect.Value) {
		for _, f := range fieldsOf(a.Type()) {
			from, to, at := a.FieldByIndex(f.index), b.FieldByIndex(f.index), join(path, f.name)
			if reflect.DeepEqual(from.Interface(), to.Interface()) {
				continue
			}
			needs := restart || f.restart == "yes" || f.restart == "from or to 0" && (from.IsZero() || to.IsZero())
			section, many := isSection(f.typ)
			if section != nil && !many {
				walk(at, needs, from, to)
				continue
			}
			c := Change{Name: at, NeedsRestart: needs}
			if section == nil && f.typ != typeOf[Secret]() && f.typ != typeOf[[]Secret]() {
				c.From, c.To = shownText(from), shownText(to)
			}
			all = append(all, c)
		}
	}
	walk("", false, reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem())
	slices.SortFunc(all, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// maxShown bounds a value in a message, in bytes.
const maxShown = 200

// shownText is a value for people.
func shownText(v reflect.Value) string {
	text := valueText(v)
	if len(text) > maxShown {
		return strings.ToValidUTF8(text[:maxShown], "") + "\u2026"
	}
	return text
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
