package config

import (
	"reflect"
	"slices"
	"strings"
)

// unknown reports a field that a section does not have, with the nearest one that it has, or
// the section that has it.
func (d *decoder) unknown(p pair, section reflect.Type, fields []field, path string) {
	at := join(path, p.name)
	for _, f := range fields {
		if slices.Contains(f.other, strings.ToLower(p.name)) {
			d.broken[f.name] = true
			d.fail(p.at, at, "unknown field; it is called %s here", f.name)
			return
		}
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	if guess := nearest(p.name, names); guess != "" {
		d.broken[guess] = true
		d.fail(p.at, at, "unknown field; did you mean %s?", guess)
		return
	}
	if homes := sectionsWith(typeOf[File](), "", p.name); len(homes) > 0 && section != typeOf[File]() || len(homes) > 0 && path == "" {
		d.fail(p.at, at, "unknown field here; it is a field of %s", strings.Join(homes, ", "))
		return
	}
	slices.Sort(names)
	d.fail(p.at, at, "unknown field; expected one of %s", strings.Join(names, ", "))
}

// sectionsWith returns the paths of the sections that have a field with a name.
func sectionsWith(t reflect.Type, path, name string) (homes []string) {
	for _, f := range fieldsOf(t) {
		at := join(path, f.name)
		if f.name == name {
			if path == "" {
				homes = append(homes, "the top level")
			} else {
				homes = append(homes, path)
			}
		}
		section, many := isSection(f.typ)
		switch {
		case section == nil:
		case many && f.typ.Kind() == reflect.Map:
			homes = append(homes, sectionsWith(section, at+".NAME", name)...)
		case many:
			homes = append(homes, sectionsWith(section, at+"[]", name)...)
		default:
			homes = append(homes, sectionsWith(section, at, name)...)
		}
	}
	return homes
}

// didYouMean returns "; did you mean NAME?" for the name nearest to a wrong one; empty if
// none is near.
func didYouMean(wrong string, names []string) string {
	if name := nearest(wrong, names); name != "" {
		return "; did you mean " + name + "?"
	}
	return ""
}

// nearest returns the name nearest to a wrong one; empty if none is near: more than a third
// of its letters, rounded up, would have to change.
func nearest(wrong string, names []string) (best string) {
	limit := (len(wrong) + 2) / 3
	for _, name := range names {
		if n := distance(strings.ToLower(wrong), name, limit); n <= limit && n < len(wrong) {
			best, limit = name, n-1
		}
	}
	return best
}

// distance returns the number of insertions, deletions, replacements and transpositions of
// neighbours between two names (optimal string alignment); more than limit if they differ in
// length by more than that.
func distance(a, b string, limit int) int {
	if max(len(a), len(b))-min(len(a), len(b)) > limit || len(a) > 64 {
		return limit + 1
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replace := 1
			if a[i-1] == b[j-1] {
				replace = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
