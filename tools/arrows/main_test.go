package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMeasure counts a module of two packages: a and b name each other, both name c and the package low.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":     "module example.com/m\n\ngo 1.26\n",
		"low/low.go": "package low\n\ntype T struct{ F int }\n",
		"a.go":       "package m\n\nimport (\n\t\"strings\"\n\n\t\"example.com/m/low\"\n)\n\nfunc a(t low.T) string {\n\tb(t.F)\n\treturn strings.ToUpper(c)\n}\n",
		"b.go":       "package m\n\nimport \"example.com/m/low\"\n\nfunc b(n int) {\n\tif n > 0 {\n\t\ta(low.T{F: len(c)})\n\t}\n}\n",
		"c.go":       "package m\n\nconst c = \"c\"\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := measure(dir, []string{"./..."})
	if err != nil {
		t.Fatal(err)
	}
	root, low := m.rooms[0], m.rooms[1]
	if root.files != 3 || root.graph.arrows() != 4 || root.graph.back() != 1 || root.graph.knot() != 2 {
		t.Errorf("package m: %d files, %d arrows, %d back up, knot %d; want 3, 4, 1, 2", root.files, root.graph.arrows(), root.graph.back(), root.graph.knot())
	}
	if low.files != 1 || low.graph.arrows() != 0 || low.graph.knot() != 1 {
		t.Errorf("package low: %d files, %d arrows, knot %d; want 1, 0, 1", low.files, low.graph.arrows(), low.graph.knot())
	}
	if m.all.arrows() != 6 || m.spans[1] != 5 {
		t.Errorf("%d arrows, the longest function has %d lines; want 6, 5", m.all.arrows(), m.spans[1])
	}
	if _, err := measure(dir, []string{"./missing"}); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a package that does not exist: %v", err)
	}
}
