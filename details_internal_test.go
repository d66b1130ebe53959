package isr

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/details"
)

// Each detail of Cache-Status, and each value of its fwd, has a description.
func TestEveryDetailIsDescribed(t *testing.T) {
	words := 0
	for file, prefix := range map[string]string{
		"outcome.go": "detail", "projection.go": "bypass", "internal/httpcache/storable.go": "Refused", "internal/httpcache/cachestatus.go": "Forward",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
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
