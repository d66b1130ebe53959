package routing

import (
	"strings"
	"testing"
)

func TestTemplate(t *testing.T) {
	p, err := Parse("GET /blog/{slug}/{rest...}")
	if err != nil {
		t.Fatal(err)
	}
	values := p.Wildcards("/blog/a%2Fb/c/d")
	for text, want := range map[string]string{
		"post": "post", "post-{slug}": "post-a/b", "{slug}{rest}": "a/bc/d", "{rest}: {slug}.": "c/d: a/b.", "": "",
	} {
		template, err := p.Template(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := template.Expand(values); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"a}": "no '{' before it", "{slug": "not closed", "{}": "no wildcard {}", "{other}": "it has {slug}, {rest}", "{slug}}": "no '{' before it",
	} {
		if _, err := p.Template(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
