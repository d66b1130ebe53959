// Package clients has the clients in other languages; each is a folder.
package clients

import (
	"os"
	"regexp"
	"testing"
)

// TestVersions: the clients and isr itself have the newest version in the changelog.
func TestVersions(t *testing.T) {
	want := versionIn(t, "../CHANGELOG.md", `(?m)^## (\d+\.\d+\.\d+)`)
	for file, pattern := range map[string]string{
		"typescript/package.json":        `"version": "(.*)"`,
		"python/theorydb_py/__init__.py": `__version__ = "(.*)"`,
		"../internal/version/version.go": `Number = "(.*)"`,
	} {
		if got := versionIn(t, file, pattern); got != want {
			t.Errorf("%s has version %s, and the changelog %s", file, got, want)
		}
	}
}

// versionIn is what a file names first by a pattern.
func versionIn(t *testing.T, file, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s names no version", file)
	}
	return string(found[1])
}
