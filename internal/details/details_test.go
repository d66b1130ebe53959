package details_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/details"
)

// An advice names a setting in the way in which it is set.
func TestNaming(t *testing.T) {
	for _, c := range []struct{ word, how, want string }{
		{"no-freshness", "", "send Cache-Control: s-maxage=60, or set revalidate: 60s for the route"},
		{"no-freshness", "--revalidate", "send Cache-Control: s-maxage=60, or set --revalidate 60s for the route"},
		{"no-freshness", "ISR_REVALIDATE", "send Cache-Control: s-maxage=60, or set ISR_REVALIDATE=60s for the route"},
		{"no-freshness", "isr.yaml:12", "send Cache-Control: s-maxage=60, or set revalidate: 60s (isr.yaml:12) for the route"},
		{"query", "--query", "put it in the key (--query NAME), or in --query if the page does not depend on it"},
		{"cookie", "ISR_IGNORE_COOKIE", "list it in ISR_IGNORE_COOKIE if the page does not depend on it"},
	} {
		d, ok := details.Named(c.word, func(string) string { return c.how })
		if !ok || d.Advice != c.want {
			t.Errorf("%s by %q: %q, want %q", c.word, c.how, d.Advice, c.want)
		}
	}
	ctx := details.WithNaming(t.Context(), func(string) string { return "--revalidate" })
	if d, _ := details.Marked("no-freshness"); details.NamingOf(ctx).Advice(d.Advice) != "send Cache-Control: s-maxage=60, or set --revalidate 60s for the route" ||
		details.NamingOf(t.Context()).Advice(d.Advice) != "send Cache-Control: s-maxage=60, or set revalidate: 60s for the route" {
		t.Errorf("%q", d.Advice)
	}
	if d, ok := details.Of("query"); !ok || d.Advice != "put it in the key (query: [NAME]), or in ignore_query if the page does not depend on it" {
		t.Errorf("%q", d.Advice)
	}
	requests, shares, most := details.Bypasses(map[string]int64{"stale": 900, "cookie": 30, "private": 70})
	if d, _ := details.Of(most); requests != 100 || shares != "private 70%, cookie 30%" || most != "private" || d.Advice == "" || d.Do() != d.Advice {
		t.Errorf("%d, %q, %q: %q", requests, shares, most, d.Do())
	}
}

// Each detail of Cache-Status, and each value of its fwd, has a description.
func TestEveryDetailIsDescribed(t *testing.T) {
	words := 0
	for file, prefix := range map[string]string{
		"answer.go": "detail", "internal/fill/outcome.go": "Detail", "internal/cachekey/key.go": "Bypass", "internal/httpcache/storable.go": "Refused", "internal/httpcache/cachestatus.go": "Forward",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				word, _ := strconv.Unquote(value.Value)
				words++
				if d, ok := details.Of(word); !ok || d.Meaning == "" {
					t.Errorf("%s in %s: %q has no description in internal/details", spec.Names[0].Name, file, word)
				}
			}
			return true
		})
	}
	if words < 45 {
		t.Errorf("found only %d details: their constants have moved", words)
	}
	if d, ok := details.Of(""); ok {
		t.Errorf("an empty detail means %+v", d)
	}
}
