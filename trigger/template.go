package trigger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/purgetarget"
	"github.com/facetheory/isr/store"
)

// MaxTemplates is how many templates one source has at most.
const MaxTemplates = 32

// maxTemplate bounds the text of a template, in bytes.
const maxTemplate = 4096

// A Template makes a purge target of a JSON payload:
//
//	tag:product-{payload.id}
//	url:https://example.com/products/{payload.slug.current}
//	tag@{payload.site}:article           of the tenant in the payload
//	tag:{payload.tags.*}                 one target for each element of an array
//	all
//
// The kinds are tag, url, prefix, host, tenant and all. A placeholder is "payload" and the
// names of members or the indexes of elements, separated by dots, or a JSON pointer (RFC
// 6901) into the payload, such as {/fields/sku/en-US}. One name after a dot may be *, for each element
// of an array, which may be empty. The value must be a string, a number or
// a boolean. In a URL or prefix it is percent-encoded where a browser encodes it, and '?' and '#'
// are too, unless the placeholder is at the very beginning; what is encoded already stays as it
// is. A Template is immutable.
type Template struct {
	text   string
	kind   string
	tenant []part
	value  []part
}

// A part is a literal text or a placeholder.
type part struct {
	literal string
	name    string // of the placeholder, as written
	path    []string
}

// ParseTemplate parses a template. Errors say what is expected.
func ParseTemplate(text string) (Template, error) {
	t := Template{text: text}
	if len(text) > maxTemplate {
		return t, fmt.Errorf("the target %.40q... has %d bytes; at most %d are allowed", text, len(text), maxTemplate)
	}
	selector, value, hasValue := cutOutside(text)
	var tenant string
	var hasTenant bool
	t.kind, tenant, hasTenant = strings.Cut(selector, "@")
	switch {
	case !slices.Contains(purgetarget.Kinds(), t.kind):
		return t, fmt.Errorf("the target %q must begin with one of %s, such as tag:product-{payload.id}", text, strings.Join(purgetarget.Kinds(), ", "))
	case t.kind == "all" && (hasValue || hasTenant):
		return t, fmt.Errorf("the target %q: all takes no value and no tenant", text)
	case t.kind != "all" && value == "":
		return t, fmt.Errorf("the target %q needs a value, such as %s:product-{payload.id}", text, t.kind)
	case t.kind == "tenant" && hasTenant, hasTenant && tenant == "":
		return t, fmt.Errorf("the target %q: expected tag@TENANT:VALUE or tenant:TENANT", text)
	}
	var err error
	if t.tenant, err = parseParts(tenant); err == nil {
		t.value, err = parseParts(value)
	}
	if err == nil {
		err = t.checkWildcards()
	}
	if err != nil {
		return t, fmt.Errorf("the target %q: %w", text, err)
	}
	return t, nil
}

// checkWildcards bounds what one template makes: the elements of one array.
func (t Template) checkWildcards() error {
	found := 0
	for _, p := range slices.Concat(t.tenant, t.value) {
		for i := range p.path {
			if p.isWildcard(i) {
				found++
			}
		}
	}
	if found > 1 {
		return fmt.Errorf("has %d wildcards (*); expected at most one", found)
	}
	return nil
}

// isWildcard reports whether a name of the path means each element of an array. In a JSON pointer * is the name of a
// member.
func (p part) isWildcard(i int) bool { return p.path[i] == wildcard && !strings.HasPrefix(p.name, "/") }

const wildcard = "*"

// cutOutside cuts a text at its first colon outside braces.
func cutOutside(text string) (before, after string, found bool) {
	depth := 0
	for i, r := range text {
		switch {
		case r == '{':
			depth++
		case r == '}':
			depth--
		case r == ':' && depth == 0:
			return text[:i], text[i+1:], true
		}
	}
	return text, "", false
}

func parseParts(text string) (parts []part, err error) {
	for text != "" {
		literal, rest, found := strings.Cut(text, "{")
		if strings.Contains(literal, "}") {
			return nil, fmt.Errorf("a closing brace without an opening one")
		}
		if literal != "" {
			parts = append(parts, part{literal: literal})
		}
		if !found {
			return parts, nil
		}
		var name string
		if name, text, found = strings.Cut(rest, "}"); !found {
			return nil, fmt.Errorf("the brace before %q is not closed", rest)
		}
		path, err := parsePath(name)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{name: name, path: path})
	}
	return parts, nil
}

// parsePath returns the member names and indexes of a placeholder.
func parsePath(name string) ([]string, error) {
	var path []string
	pointer, isPointer := strings.CutPrefix(name, "/")
	dotted := strings.Split(name, ".")
	switch {
	case isPointer:
		unescape := strings.NewReplacer("~1", "/", "~0", "~") // RFC 6901, section 4
		for _, token := range strings.Split(pointer, "/") {
			path = append(path, unescape.Replace(token))
		}
	case dotted[0] == "payload" && len(dotted) > 1:
		path = dotted[1:]
	default:
		return nil, fmt.Errorf("{%s} is not a path into the payload; expected one such as {payload.id} or {/id}", name)
	}
	if slices.Contains(path, "") {
		return nil, fmt.Errorf("{%s} has an empty name", name)
	}
	return path, nil
}

// String returns the template as it was parsed.
func (t Template) String() string { return t.text }

// elements returns the templates that a wildcard stands for: t itself if it has none.
func (t Template) elements(payload any) ([]Template, error) {
	for _, parts := range []*[]part{&t.tenant, &t.value} {
		for at, p := range *parts {
			i := 0
			for i < len(p.path) && !p.isWildcard(i) {
				i++
			}
			if i == len(p.path) {
				continue
			}
			value, err := find(payload, p, i)
			if err != nil {
				return nil, fmt.Errorf("target %q: %w", t.text, err)
			}
			list, ok := value.([]any)
			switch {
			case !ok:
				return nil, fmt.Errorf("target %q: %w: %q of the payload is %s; expected an array", t.text, store.ErrInvalidInput, strings.Join(p.path[:i], "."), typeName(value))
			case len(list) > store.MaxPurgeTargets:
				return nil, fmt.Errorf("target %q: %w: %q of the payload has %d elements; at most %d can be purged together", t.text, store.ErrInvalidInput, strings.Join(p.path[:i], "."), len(list), store.MaxPurgeTargets)
			}
			whole := *parts
			var each []Template
			for n := range list {
				*parts = slices.Clone(whole)
				(*parts)[at].path = slices.Clone(p.path)
				(*parts)[at].path[i] = strconv.Itoa(n)
				each = append(each, t)
			}
			return each, nil
		}
	}
	return []Template{t}, nil
}

// expand returns the target of a payload. Errors wrap store.ErrInvalidInput or
// store.ErrInvalidKey, and name the template.
func (t Template) expand(payload any) (store.PurgeTarget, error) {
	tenant, err := fill(t.tenant, payload, verbatim)
	if err != nil {
		return store.PurgeTarget{}, fmt.Errorf("target %q: %w", t.text, err)
	}
	escape := verbatim
	if t.kind == "url" || t.kind == "prefix" {
		escape = inURL
	}
	value, err := fill(t.value, payload, escape)
	if err != nil {
		return store.PurgeTarget{}, fmt.Errorf("target %q: %w", t.text, err)
	}
	target, err := purgetarget.Parse(t.kind, tenant, value)
	if err != nil {
		return store.PurgeTarget{}, fmt.Errorf("target %q: %w", t.text, err)
	}
	return target, nil
}

// Expand returns the targets that templates make of a JSON payload, as encoding/json decodes it
// into an any. Errors wrap [store.ErrInvalidInput] or [store.ErrInvalidKey], and name the
// template.
func Expand(templates []Template, payload any) ([]store.PurgeTarget, error) {
	targets := make([]store.PurgeTarget, 0, len(templates))
	for _, t := range templates {
		each, err := t.elements(payload)
		if err != nil {
			return nil, err
		}
		for _, t := range each {
			target, err := t.expand(payload)
			if err != nil {
				return nil, err
			}
			targets = append(targets, target)
		}
	}
	return targets, nil
}

func fill(parts []part, payload any, escape func(before, value string) string) (string, error) {
	var b strings.Builder
	for _, p := range parts {
		if p.path == nil {
			b.WriteString(p.literal)
			continue
		}
		value, err := lookUp(payload, p)
		if err != nil {
			return "", err
		}
		b.WriteString(escape(b.String(), value))
	}
	return b.String(), nil
}

func verbatim(_, value string) string { return value }

// inURL escapes a value that follows some text of a URL. One at the beginning is a URL, or
// the beginning of one.
func inURL(before, value string) string {
	switch {
	case before == "":
		return value
	case strings.Contains(before, "?"):
		return canonical.EncodeQuery(value)
	}
	return canonical.EncodePath(value)
}

// find returns the value that the first names of a placeholder lead to.
func find(payload any, p part, names int) (value any, err error) {
	value = payload
	for i, name := range p.path[:names] {
		var found bool
		switch in := value.(type) {
		case map[string]any:
			value, found = in[name]
		case []any:
			n, err := strconv.Atoi(name)
			if found = err == nil && n >= 0 && n < len(in); found {
				value = in[n]
			}
		}
		if !found {
			return nil, fmt.Errorf("%w: the payload has no {%s}: %q is missing", store.ErrInvalidInput, p.name, strings.Join(p.path[:i+1], "."))
		}
	}
	return value, nil
}

// lookUp returns the text of the value that a placeholder names.
func lookUp(payload any, p part) (string, error) {
	value, err := find(payload, p, len(p.path))
	if err != nil {
		return "", err
	}
	switch v := value.(type) {
	case string:
		if v == "" {
			return "", fmt.Errorf("%w: {%s} of the payload is empty", store.ErrInvalidInput, p.name)
		}
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", fmt.Errorf("%w: {%s} of the payload is %s; expected a string, a number or a boolean", store.ErrInvalidInput, p.name, typeName(value))
}

func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "a single value"
}
