package routing

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/facetheory/isr/store"
)

// A Template is a text in which "{name}" stands for what a wildcard of a pattern matches. It
// alternates between texts and names of wildcards, beginning with a text.
type Template []string

// Template parses a template with the wildcards of the pattern.
func (p Pattern) Template(text string) (Template, error) {
	wildcards := p.Names()
	var t Template
	for rest := text; ; {
		literal, after, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return nil, fmt.Errorf("the brace '}' has no '{' before it")
		}
		t = append(t, literal)
		if !found {
			return t, nil
		}
		name, after, closed := strings.Cut(after, "}")
		switch {
		case !closed:
			return nil, fmt.Errorf("the brace '{' is not closed")
		case !slices.Contains(wildcards, name):
			return nil, fmt.Errorf("the pattern has no wildcard {%s}; it has %s", name, wildcardList(wildcards))
		}
		t, rest = append(t, name), after
	}
}

func wildcardList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return "{" + strings.Join(names, "}, {") + "}"
}

// Expand returns the text with the values of the wildcards (see [Pattern.Wildcards]).
func (t Template) Expand(values map[string]string) string {
	var b strings.Builder
	for i, part := range t {
		if i%2 == 1 {
			part = values[part]
		}
		b.WriteString(part)
	}
	return b.String()
}

// Bounds of [PathTags].
const (
	maxTagTemplates = 32
	maxTagTemplate  = 256
)

// PathTags returns a function that makes the tags of a page from its path (see isr.PathTags).
func PathTags(pattern string, templates []string) (func(*http.Request) []string, error) {
	p, err := Parse(pattern)
	if err != nil {
		return nil, fmt.Errorf("isr: the pattern %q: %w", pattern, err)
	}
	if n := len(templates); n == 0 || n > maxTagTemplates {
		return nil, fmt.Errorf("isr: there must be 1 to %d templates of tags (got %d)", maxTagTemplates, n)
	}
	var parsed []Template
	for _, text := range templates {
		t, err := parseTagTemplate(p, text)
		if err != nil {
			return nil, fmt.Errorf("isr: the tag %.300q: %w", text, err)
		}
		parsed = append(parsed, t)
	}
	return func(r *http.Request) []string {
		values := p.Wildcards(r.URL.EscapedPath())
		tags := make([]string, 0, len(parsed))
		for _, t := range parsed {
			tags = append(tags, t.Expand(values))
		}
		return tags
	}, nil
}

func parseTagTemplate(p Pattern, text string) (Template, error) {
	if err := store.ValidTag(text); err != nil {
		return nil, err
	}
	if len(text) > maxTagTemplate {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), maxTagTemplate)
	}
	return p.Template(text)
}
