package routing

import (
	"fmt"
	"slices"
	"strings"
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
