package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxErrors bounds how many errors of a file are reported.
const maxErrors = 50

// Errors are all errors of a file, in the order of their places.
type Errors struct {
	List []Error
	// More is the number of further errors, which are not listed.
	More int
}

// Error implements error, with a paragraph for each error.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, err := range e.List {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(err.Error())
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\n\n%d more errors", e.More)
	}
	return b.String()
}

// An Error is an error at a place in a file.
type Error struct {
	File         string
	Line, Column int    // from 1; 0 if the error has no place
	Path         string // such as "routes[2].stale"; empty for the file as a whole
	Problem      string // what is wrong, and what to do
	Excerpt      string // the line, and a caret below its column; empty if there is no place
}

// Error implements error: "isr.yaml:14:5: routes[2].stael: unknown field; …", and below it
// the excerpt.
func (e Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
	}
	if e.Path != "" {
		text += ": " + e.Path
	}
	text += ": " + e.Problem
	if e.Excerpt != "" {
		text += "\n" + e.Excerpt
	}
	return text
}

// A decoder decodes one file, and collects its errors.
type decoder struct {
	name, text string
	env        func(string) (string, bool)
	lines      []string
	nodes      int             // visited
	literals   []string        // secrets that are written in the file
	broken     map[string]bool // paths with errors
	files      bool            // the files that the file names are checked
	errs       Errors
	sources    map[string]Source
	places     map[string]place // of keys and elements, by path
	from       Source           // added to the sources of this file: the preset
}

func newDecoder(name, text string, env func(string) (string, bool)) *decoder {
	return &decoder{name: name, text: text, env: env, sources: make(map[string]Source), places: make(map[string]place), broken: make(map[string]bool)}
}

// fail records an error.
func (d *decoder) fail(at place, path, format string, args ...any) {
	d.broken[path] = true
	if len(d.errs.List) >= maxErrors {
		d.errs.More++
		return
	}
	e := Error{
		File: d.name, Line: at.line, Column: at.column, Path: path,
		Problem: fmt.Sprintf(format, args...), Excerpt: d.excerpt(at),
	}
	if slices.ContainsFunc(d.errs.List, func(other Error) bool { return other == e }) {
		return // of a value that aliases repeat, or that routes share
	}
	d.errs.List = append(d.errs.List, e)
}

// failAt records an error of the value at a path, or of the nearest section around it that
// is in the file.
func (d *decoder) failAt(path, format string, args ...any) {
	d.fail(d.placeAt(path), path, format, args...)
}

// isBroken reports whether one of these fields, or a field below it or around it, has an error.
func (d *decoder) isBroken(paths ...string) bool {
	within := func(path, section string) bool {
		rest, ok := strings.CutPrefix(path, section)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for broken := range d.broken {
		if slices.ContainsFunc(paths, func(path string) bool { return within(broken, path) || within(path, broken) }) {
			return true
		}
	}
	return false
}

func (d *decoder) placeAt(path string) place {
	for p := path; p != ""; {
		if at, ok := d.places[p]; ok {
			return at
		}
		p = p[:max(strings.LastIndexAny(p, ".["), 0)]
	}
	return place{}
}

// failSetting records an error of a setting of the route at a path, where the file sets it.
func (d *decoder) failSetting(route, name, format string, args ...any) {
	if d.sources[route+"."+name].Defaults {
		route = "defaults"
	}
	d.failAt(route+"."+name, format, args...)
}

// inFile reports whether the section or field at a path is in the file.
func (d *decoder) inFile(path string) bool {
	_, ok := d.places[path]
	return ok
}

// err returns the recorded errors, in the order of the file; nil if there are none.
func (d *decoder) err() error {
	if len(d.errs.List) == 0 {
		return nil
	}
	sort.SliceStable(d.errs.List, func(i, j int) bool {
		a, b := d.errs.List[i], d.errs.List[j]
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
	return &d.errs
}

// secretLine matches a field for a secret, and its value if that is written literally.
var secretLine = regexp.MustCompile(`(?i)((?:token|secrets?|secret_key|access_key|hmac_key|password)["']?\s*:\s*(?:\[\s*)?)("(?:[^"$]|\$[^{])[^"]*"?|'(?:[^'$]|\$[^{])[^']*'?|[^\s"'{\[$&*#][^,}\]]*)`)

// redact hides literal secrets in a line of the file, which are not allowed in it. Those in
// variables and files are not in the text.
func (d *decoder) redact(line string) string {
	for _, literal := range d.literals {
		line = strings.ReplaceAll(line, literal, "…")
	}
	return secretLine.ReplaceAllString(line, "${1}…")
}

// visit counts a visited node. It is false after too many.
func (d *decoder) visit(node *yaml.Node, path string) bool {
	d.nodes++
	if d.nodes == maxNodes {
		d.fail(d.at(node), path, "the file has more than %d values, where an alias counts as its values at each use", maxNodes)
	}
	return d.nodes < maxNodes
}

// section decodes a map into a struct.
func (d *decoder) section(node *yaml.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	pairs, ok := d.pairs(node, path)
	if !ok {
		return
	}
	seen := make(map[string]bool, len(pairs))
	for _, p := range pairs {
		seen[p.name] = true
		f := find(fields, p.name)
		if f == nil {
			d.unknown(p, v.Type(), fields, path)
			continue
		}
		at := join(path, p.name)
		d.places[at] = p.at
		d.value(p.value, v.FieldByIndex(f.index), f, at)
	}
	for _, f := range fields {
		if f.required && !seen[f.name] {
			d.fail(d.at(node), join(path, f.name), "missing; expected %s, like %s: %s", article(f.typeText()), f.name, f.example)
		}
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func article(noun string) string {
	switch {
	case strings.HasPrefix(noun, "one of"), strings.HasPrefix(noun, "true"):
		return noun
	case noun == "text":
		return noun
	}
	return "a " + noun
}

// A pair is an element of a map.
type pair struct {
	name  string
	at    place // of the name
	value *yaml.Node
}

// pairs returns the elements of a map. Names that are given twice are errors.
func (d *decoder) pairs(node *yaml.Node, path string) ([]pair, bool) {
	at := d.at(node)
	if node = d.resolve(node, path); node == nil || !d.visit(node, path) {
		return nil, false
	}
	if node.Kind != yaml.MappingNode {
		d.fail(at, path, "expected a map of fields (name: value), found %s", describe(node))
		return nil, false
	}
	first := make(map[string]int)
	var pairs []pair
	for i := 0; i+1 < len(node.Content); i += 2 {
		at, key := d.at(node.Content[i]), d.resolve(node.Content[i], path)
		switch {
		case key == nil:
			continue
		case key.Kind != yaml.ScalarNode:
			d.fail(at, path, "expected a name, found %s", describe(key))
			continue
		case key.Value == "<<":
			d.fail(at, path, "merge keys (<<) are not supported; use defaults for settings that routes share")
			continue
		}
		p := pair{name: key.Value, at: at, value: node.Content[i+1]}
		if line, twice := first[p.name]; twice {
			d.fail(p.at, join(path, p.name), "given twice, first in line %d; remove one of them", line)
			continue
		}
		first[p.name] = p.at.line
		pairs = append(pairs, p)
	}
	return pairs, true
}

// elements returns the elements of a list.
func (d *decoder) elements(node *yaml.Node, path string) ([]*yaml.Node, bool) {
	at := d.at(node)
	if node = d.resolve(node, path); node == nil || !d.visit(node, path) {
		return nil, false
	}
	if node.Kind != yaml.SequenceNode {
		d.fail(at, path, "expected a list (lines with - , or [a, b]), found %s", describe(node))
		return nil, false
	}
	return node.Content, true
}

// describe names what was found instead of what was expected.
func describe(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a map"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.Tag == "!!null":
		return "nothing; give a value, or remove the line"
	case node.Tag == "!!bool":
		return node.Value
	case node.Tag == "!!int", node.Tag == "!!float":
		return fmt.Sprintf("the number %.60s", node.Value)
	case node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return "a text"
	}
	return fmt.Sprintf("the text %.60q", node.Value)
}

// value decodes a value into a field.
func (d *decoder) value(node *yaml.Node, v reflect.Value, f *field, path string) {
	section, many := isSection(v.Type())
	switch {
	case section != nil && !many:
		d.section(node, v, path)
	case section != nil && v.Kind() == reflect.Slice:
		d.sections(node, v, f, path)
	case section != nil:
		d.namedSections(node, v, f, path)
	default:
		if at := d.at(node); at.line > 0 {
			d.sources[path] = Source{File: d.name, Line: at.line, Preset: d.from.Preset}
		}
		d.leaf(node, v, f, path)
	}
}

// sections decodes a list of structs.
func (d *decoder) sections(node *yaml.Node, v reflect.Value, f *field, path string) {
	elements, ok := d.elements(node, path)
	if !ok || !d.count(node, len(elements), f, path) {
		return
	}
	for i, element := range elements {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.places[at] = d.at(element)
		item := reflect.New(v.Type().Elem()).Elem()
		setDefaults(item)
		d.section(element, item, at)
		v.Set(reflect.Append(v, item))
	}
}

// namedSections decodes a map of structs.
func (d *decoder) namedSections(node *yaml.Node, v reflect.Value, f *field, path string) {
	pairs, ok := d.pairs(node, path)
	if !ok || !d.count(node, len(pairs), f, path) {
		return
	}
	if len(pairs) > 0 {
		d.sources[path] = Source{File: d.name, Line: d.at(node).line}
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, p := range pairs {
		at := join(path, p.name)
		d.places[at] = p.at
		if err := check(f.format, p.name); err != nil {
			d.fail(p.at, path, "%q %v", p.name, err)
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		setDefaults(item)
		d.section(p.value, item, at)
		v.SetMapIndex(reflect.ValueOf(p.name), item)
	}
}

// count checks the number of elements.
func (d *decoder) count(node *yaml.Node, n int, f *field, path string) bool {
	if limit := numberOf(f.max); f.max != "" && n > limit {
		d.fail(d.at(node), path, "has %d elements; at most %d are allowed", n, limit)
		return false
	}
	return true
}

// setDefaults sets the defaults of a struct. Settings have theirs from [layers].
func setDefaults(v reflect.Value) {
	if v.Type() == typeOf[Settings]() {
		return
	}
	for _, f := range fieldsOf(v.Type()) {
		at := v.FieldByIndex(f.index)
		switch section, many := isSection(f.typ); {
		case section != nil && !many:
			setDefaults(at)
		case f.def != "" && !isSetting(v.Type(), f):
			setDefault(at, &f)
		}
	}
}

// isSetting reports whether a field of a struct is one of its embedded Settings.
func isSetting(t reflect.Type, f field) bool {
	return len(f.index) > 1 && t.Field(f.index[0]).Type == typeOf[Settings]()
}

// setDefault sets a field to its default, which a test checks to be valid.
func setDefault(v reflect.Value, f *field) {
	_ = setScalar(v, f, f.def)
}

// unknown reports a field that a section does not have, with the nearest one that it has, or
// the section that has it.
func (d *decoder) unknown(p pair, section reflect.Type, fields []field, path string) {
	at := join(path, p.name)
	if len(d.errs.List) >= maxErrors {
		d.fail(p.at, at, "unknown field") // counted: a file may have very many
		return
	}
	for _, f := range fields {
		if slices.Contains(f.other, strings.ToLower(p.name)) {
			d.broken[join(path, f.name)] = true
			d.fail(p.at, at, "unknown field; it is called %s here", f.name)
			return
		}
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	if name, value, found := strings.Cut(p.name, ":"); found && slices.Contains(names, name) {
		d.broken[join(path, name)] = true
		d.fail(p.at, at, "a space is missing after the colon; write %s: %s", name, value)
		return
	}
	if guess := nearest(p.name, names); guess != "" {
		d.broken[join(path, guess)] = true
		d.fail(p.at, at, "unknown field; did you mean %s?", guess)
		return
	}
	d.broken[path] = d.broken[path] || path != "" // what it was meant to be is not known
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
// of its letters, rounded up, would have to change. Nothing is near a name of two letters: "no" is not "on".
func nearest(wrong string, names []string) (best string) {
	limit := (len(wrong) + 2) / 3
	if len(wrong) < 3 {
		limit = 0
	}
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
