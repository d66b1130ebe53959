package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/units"
	"go.yaml.in/yaml/v4"
)

// leaf decodes a value that has no fields: a scalar, a list or map of texts, or a secret.
func (d *decoder) leaf(node *yaml.Node, v reflect.Value, f *field, path string) {
	switch v.Type() {
	case typeOf[[]string]():
		d.texts(node, v, f, path)
	case typeOf[map[string]string]():
		d.textMap(node, v, f, path)
	case typeOf[[]int]():
		d.numbers(node, v, f, path)
	case typeOf[Keys]():
		d.keys(node, v.Addr().Interface().(*Keys), f, path)
	case typeOf[Secret]():
		d.secret(node, v.Addr().Interface().(*Secret), path)
	case typeOf[[]Secret]():
		d.secrets(node, v.Addr().Interface().(*[]Secret), f, path)
	default:
		d.scalar(node, v, f, path)
	}
}

// scalar decodes a text, number, duration, size, percentage or truth value.
func (d *decoder) scalar(node *yaml.Node, v reflect.Value, f *field, path string) {
	at := d.at(node)
	text, source, ok := d.scalarText(node, f, path)
	if !ok {
		return
	}
	if err := setScalar(v, f, text); err != nil {
		d.fail(at, path, "%s: %v", source, f.withoutValue(err, source))
	}
}

// scalarText returns the text of a scalar, with variables filled in. source quotes it as it
// stands in the file, since a variable may have a secret that was mistaken for something else.
func (d *decoder) scalarText(node *yaml.Node, f *field, path string) (text, source string, ok bool) {
	at := d.at(node)
	node = d.resolve(node, path)
	if node == nil || !d.visit(node, path) {
		return "", "", false
	}
	wantsText := f.typ.Kind() == reflect.String || f.typ == typeOf[[]string]() || f.typ == typeOf[Keys]() || f.typ == typeOf[map[string]string]()
	text = node.Value
	switch {
	case node.Kind != yaml.ScalarNode || node.Tag == "!!null":
		d.fail(at, path, "expected %s, found %s", article(cmp.Or(f.elementText(), f.typeText())), describe(node))
		return "", "", false
	case node.Tag == "!!bool" && wantsText && len(f.enum) > 0:
		d.fail(at, path, "%s: expected %s%s", text, f.typeText(), f.meant(text))
		return "", "", false
	case node.Tag == "!!bool" && wantsText:
		d.fail(at, path, "%s: expected text; write %q in quotes if it is meant as one", text, text)
		return "", "", false
	}
	if len(text) > maxText {
		d.fail(at, path, "the text has %d bytes; at most %d are allowed", len(text), maxText)
		return "", "", false
	}
	source = fmt.Sprintf("%.60q", text)
	text, err := d.interpolate(text)
	if err != nil {
		d.fail(at, path, "%v", err)
		return "", "", false
	}
	return text, source, true
}

// withoutValue returns an error that does not have the value of a variable in its text: it
// may be a secret that was mistaken for something else.
func (f *field) withoutValue(err error, source string) error {
	switch f.format {
	case "address", "addressOrNone", "target", "downstream", "match":
		if strings.Contains(source, "${") {
			return errors.New("is not valid with its variables, whose values are not shown")
		}
	}
	return err
}

// maxText bounds texts, in bytes.
const maxText = 8 << 10

// elementText names the type of the elements of a list of texts.
func (f *field) elementText() string {
	if f.typ == typeOf[[]string]() || f.typ == typeOf[Keys]() || f.typ == typeOf[map[string]string]() {
		return "text"
	}
	return ""
}

// setScalar sets a field to the value that a text has for its type, within its bounds.
func setScalar(v reflect.Value, f *field, text string) error {
	if v.Kind() == reflect.Pointer {
		value := reflect.New(v.Type().Elem())
		if err := setScalar(value.Elem(), f, text); err != nil {
			return err
		}
		v.Set(value)
		return nil
	}
	switch v.Type() {
	case typeOf[time.Duration]():
		return setParsed(v, f, text, ParseDuration, units.Duration)
	case typeOf[Window]():
		w, err := parseWindow(text)
		if err == nil {
			v.Set(reflect.ValueOf(w))
		}
		return err
	case typeOf[Size]():
		return setParsed(v, f, text, parseSize, Size.String)
	case typeOf[Percent]():
		return setParsed(v, f, text, parsePercent, Percent.String)
	case typeOf[int]():
		return setParsed(v, f, text, parseInt, strconv.Itoa)
	case typeOf[float64]():
		return setParsed(v, f, text, parseFloat, func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) })
	case typeOf[bool]():
		if text != "true" && text != "false" {
			return fmt.Errorf("expected true or false%s", f.meant(text))
		}
		v.SetBool(text == "true")
		return nil
	}
	if err := f.checkText(text); err != nil {
		return err
	}
	v.SetString(text)
	return nil
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("expected a whole number")
	}
	return n, nil
}

func parseFloat(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("expected a number")
	}
	return n, nil
}

func setParsed[T cmp.Ordered](v reflect.Value, f *field, text string, parse func(string) (T, error), format func(T) string) error {
	n, err := parse(text)
	if err != nil {
		return err
	}
	least, leastErr := parse(f.min)
	most, mostErr := parse(f.max)
	switch {
	case leastErr == nil && mostErr == nil && (n < least || n > most):
		return fmt.Errorf("must be between %s and %s", format(least), format(most))
	case leastErr == nil && n < least:
		return fmt.Errorf("must be at least %s", format(least))
	case mostErr == nil && n > most:
		return fmt.Errorf("must be at most %s", format(most))
	}
	v.Set(reflect.ValueOf(n))
	return nil
}

// checkText checks a text against the enum and the format of its field.
func (f *field) checkText(text string) error {
	if len(f.enum) > 0 {
		for _, allowed := range f.enum {
			if text == allowed {
				return nil
			}
		}
		if f.removed != "" && text == f.removed {
			return fmt.Errorf("was removed; %s", f.replacement)
		}
		return fmt.Errorf("expected one of %s%s", strings.Join(f.enum, ", "), cmp.Or(f.meant(text), didYouMean(text, f.enum)))
	}
	return check(f.format, text)
}

// meant returns "; write VALUE" for another word for yes or no, with the word that the field has for it; empty if it
// has none.
func (f *field) meant(text string) string {
	yes := slices.Contains([]string{"true", "yes", "on", "y", "enabled", "1"}, strings.ToLower(text))
	if !yes && !slices.Contains([]string{"false", "no", "off", "n", "disabled", "none", "0"}, strings.ToLower(text)) {
		return ""
	}
	words := []string{"off", "none"}
	switch kind := f.typ.Kind(); {
	case kind == reflect.Bool:
		return fmt.Sprintf("; write %t", yes)
	case yes:
		words = []string{"on"}
	}
	for _, word := range words {
		if slices.Contains(f.enum, word) {
			return "; write " + word
		}
	}
	return ""
}

// severalTexts returns "; write [A, B]" for a text that is a list of texts; empty if it is not.
func (f *field) severalTexts(text string) string {
	texts := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' })
	for i := range texts {
		texts[i] = strings.TrimSpace(texts[i])
	}
	if len(texts) < 2 || slices.ContainsFunc(texts, func(text string) bool { return f.checkText(text) != nil }) {
		return ""
	}
	return "; write [" + strings.Join(texts, ", ") + "] for several"
}

// numberOf parses the max tag of a list or map.
func numberOf(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// texts decodes a list of texts, or a single one.
func (d *decoder) texts(node *yaml.Node, v reflect.Value, f *field, path string) {
	resolved := d.resolve(node, path)
	if resolved == nil {
		return
	}
	elements := []*yaml.Node{node}
	switch {
	case resolved.Kind == yaml.SequenceNode:
		var ok bool
		if elements, ok = d.elements(node, path); !ok || !d.count(node, len(elements), f, path) {
			return
		}
	case resolved.Kind == yaml.MappingNode, resolved.Tag == "!!null":
		d.fail(d.at(node), path, "expected a list, like [a, b], found %s", describe(resolved))
		return
	}
	seen := make(map[string]bool)
	texts := make([]string, 0, len(elements))
	for _, element := range elements {
		text, source, ok := d.scalarText(element, f, path)
		if !ok {
			continue
		}
		if err := f.checkText(text); err != nil {
			several := f.severalTexts(text)
			if strings.Contains(source, "${") {
				several = "" // the value of a variable is not shown
			}
			d.fail(d.at(element), path, "%s: %v%s", source, f.withoutValue(err, source), several)
			continue
		}
		if seen[text] {
			d.fail(d.at(element), path, "%s: given twice; remove one of them", source)
			continue
		}
		seen[text] = true
		texts = append(texts, text)
	}
	v.Set(reflect.ValueOf(texts))
}

// numbers decodes a list of numbers, each within the bounds of the field.
func (d *decoder) numbers(node *yaml.Node, v reflect.Value, f *field, path string) {
	elements, ok := d.elements(node, path)
	if !ok {
		return
	}
	number := field{name: f.name, typ: typeOf[int](), min: f.min, max: f.max}
	for _, element := range elements {
		item := reflect.New(number.typ).Elem()
		d.scalar(element, item, &number, path)
		v.Set(reflect.Append(v, item))
	}
}

// textMap decodes a map of texts.
func (d *decoder) textMap(node *yaml.Node, v reflect.Value, f *field, path string) {
	pairs, ok := d.pairs(node, path)
	if !ok || !d.count(node, len(pairs), f, path) {
		return
	}
	texts := make(map[string]string, len(pairs))
	for _, p := range pairs {
		if err := check(f.format, p.name); err != nil {
			d.fail(p.at, path, "%q: %v", p.name, err)
			continue
		}
		text, source, ok := d.scalarText(p.value, f, join(path, p.name))
		if !ok {
			continue
		}
		if err := check("headerValue", text); err != nil {
			d.fail(d.at(p.value), join(path, p.name), "%s: %v", source, err)
			continue
		}
		texts[p.name] = text
	}
	v.Set(reflect.ValueOf(texts))
}

// keys decodes what is part of the cache key: a list of names, a single one, or a map of
// names to values.
func (d *decoder) keys(node *yaml.Node, keys *Keys, f *field, path string) {
	resolved := d.resolve(node, path)
	if resolved == nil {
		return
	}
	if resolved.Kind != yaml.MappingNode {
		var names []string
		d.texts(node, reflect.ValueOf(&names).Elem(), f, path)
		for _, name := range names {
			*keys = append(*keys, Key{Name: name})
		}
		return
	}
	pairs, ok := d.pairs(node, path)
	if !ok || !d.count(node, len(pairs), f, path) {
		return
	}
	values := field{name: f.name, typ: typeOf[[]string](), max: "100", format: "keyValue"}
	for _, p := range pairs {
		if err := check(f.format, p.name); err != nil {
			d.fail(p.at, path, "%q: %v", p.name, err)
			continue
		}
		key := Key{Name: p.name}
		d.places[join(path, p.name)] = p.at
		if p.value.Tag != "!!null" {
			d.texts(p.value, reflect.ValueOf(&key.Values).Elem(), &values, join(path, p.name))
		}
		*keys = append(*keys, key)
	}
}

// secret decodes a secret: {file: PATH} or ${NAME}.
func (d *decoder) secret(node *yaml.Node, s *Secret, path string) {
	resolved := d.resolve(node, path)
	if resolved == nil || !d.visit(resolved, path) {
		return
	}
	if resolved.Kind == yaml.MappingNode {
		var in struct {
			File string `yaml:"file" required:"yes" format:"path" example:"/run/secrets/token"`
		}
		d.section(node, reflect.ValueOf(&in).Elem(), path)
		s.path = in.File
		if d.files && s.path != "" {
			if _, err := s.Read(); err != nil {
				d.failAt(join(path, "file"), "%v%s", err, relativeTo(s.path))
			}
		}
		return
	}
	if !wholeVariable.MatchString(resolved.Value) {
		at := d.at(node)
		at.width = 1
		if literal := strings.TrimSpace(resolved.Value); literal != "" {
			d.literals = append(d.literals, literal)
		}
		d.fail(at, path, "a secret must not be written in the file; give {file: PATH}, or a variable of the environment like ${TOKEN}")
		return
	}
	text, err := d.interpolate(resolved.Value)
	switch {
	case err != nil:
		d.fail(d.at(node), path, "%v", err)
	case text == "":
		d.fail(d.at(node), path, "the variable is empty; set it to the secret")
	}
	s.value = text
}

// secrets decodes a list of secrets, or a single one.
func (d *decoder) secrets(node *yaml.Node, secrets *[]Secret, f *field, path string) {
	elements := []*yaml.Node{node}
	if resolved := d.resolve(node, path); resolved != nil && resolved.Kind == yaml.SequenceNode {
		var ok bool
		if elements, ok = d.elements(node, path); !ok || !d.count(node, len(elements), f, path) {
			return
		}
	}
	for i, element := range elements {
		var s Secret
		d.secret(element, &s, fmt.Sprintf("%s[%d]", path, i))
		*secrets = append(*secrets, s)
	}
}

// variable matches ${NAME} and ${NAME:-default}, and $${ that escapes them.
var variable = regexp.MustCompile(`\$\$\{|\$\{([^}]*)\}?`)

// wholeVariable matches a text that is one variable, without a default.
var wholeVariable = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\}$`)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// maxInterpolated bounds a text after variables are filled in, in bytes.
const maxInterpolated = 64 << 10

// interpolate fills in the variables of a text. Its errors do not contain their values.
func (d *decoder) interpolate(text string) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var err error
	length := len(text)
	text = variable.ReplaceAllStringFunc(text, func(found string) string {
		if found == "$${" {
			return "${"
		}
		body, closed := strings.CutSuffix(strings.TrimPrefix(found, "${"), "}")
		name, fallback, hasFallback := strings.Cut(body, ":-")
		value, set := d.env(name)
		length += len(value)
		switch {
		case err != nil:
		case !closed || !variableName.MatchString(name):
			err = fmt.Errorf("%.60q is not a variable; expected ${NAME} or ${NAME:-default}, or $${ for a literal ${", found)
		case hasFallback && value == "":
			return fallback
		case !set:
			err = fmt.Errorf("the variable %s is not set in the environment; set it, or give a default: ${%s:-value}", name, name)
		case length > maxInterpolated:
			err = fmt.Errorf("the text has more than %d bytes with the value of %s", maxInterpolated, name)
		}
		if err != nil {
			return ""
		}
		return value
	})
	return text, err
}
