package spec_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestSchemaDescribesAllNames checks that schema.md names every attribute and every
// kind of row of package dynamostore.
func TestSchemaDescribesAllNames(t *testing.T) {
	schema, err := os.ReadFile("schema.md")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := filepath.Glob("../dynamostore/*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		collect(t, file, names)
	}
	for _, known := range []string{"pk", "s3_key", "render_ms", "lease_token", "VER#", "SEQ"} {
		if !names[known] {
			t.Errorf("%s not found in the sources of dynamostore: fix collect", known)
		}
	}
	for name := range names {
		// In a code span: a whole word, or the prefix of a sort key.
		if !regexp.MustCompile("`(isr\\.)?" + regexp.QuoteMeta(name) + "[^a-z_]").Match(schema) {
			t.Errorf("schema.md does not describe %q", name)
		}
	}
}

// collect adds the names in a file to names: attributes in struct tags and in
// constants, and sort keys.
func collect(t *testing.T, file *ast.File, names map[string]bool) {
	t.Helper()
	isName := regexp.MustCompile("^(attr|sk)[A-Z]|^(pkPurgeLog|pkNodes|nodePrefix|markKeyPrefix|versionPrefix|requestPrefix|logPrefix|jobPrefix)$")
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			if n.Tag == nil {
				return true
			}
			tag := reflect.StructTag(unquote(t, n.Tag)).Get("theorydb")
			for option := range strings.SplitSeq(tag, ",") {
				if name, ok := strings.CutPrefix(option, "attr:"); ok {
					names[name] = true
				}
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if !isName.MatchString(name.Name) || i >= len(n.Values) {
					continue
				}
				if value, ok := n.Values[i].(*ast.BasicLit); ok {
					names[unquote(t, value)] = true
				}
			}
		}
		return true
	})
}

func unquote(t *testing.T, literal *ast.BasicLit) string {
	t.Helper()
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
