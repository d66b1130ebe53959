// Package docs_test checks the pages of the documentation against each other and
// against the files that they refer to.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestRelativeLinksPointToFiles(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	for _, page := range pages(t) {
		text := code.ReplaceAllString(read(t, page), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), match[1])); err != nil {
				t.Errorf("%s: broken link: %v", page, err)
			}
		}
	}
}

func TestPathsInCodeExist(t *testing.T) {
	path := regexp.MustCompile("`([a-z0-9]+(?:/[A-Za-z0-9_.-]+)+\\.(?:go|md|json))`")
	for _, page := range pages(t) {
		for _, match := range path.FindAllStringSubmatch(code.ReplaceAllString(read(t, page), ""), -1) {
			if _, err := os.Stat(filepath.Join("..", match[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
}

// TestGlossaryTermsHaveDefinitions checks that ARCHITECTURE.md defines every term that
// glossary.md explains.
func TestGlossaryTermsHaveDefinitions(t *testing.T) {
	_, glossary, found := strings.Cut(read(t, "../ARCHITECTURE.md"), "\n## Glossary\n")
	if !found {
		t.Fatal("ARCHITECTURE.md has no section Glossary")
	}
	row := regexp.MustCompile(`(?m)^\| (\*\*[^|]+\*\*) \|`)
	terms := row.FindAllStringSubmatch(read(t, "glossary.md"), -1)
	if len(terms) < 25 {
		t.Errorf("glossary.md has %d terms, want at least 25", len(terms))
	}
	for _, term := range terms {
		if !strings.Contains(glossary, "| "+term[1]+" |") {
			t.Errorf("ARCHITECTURE.md does not define %s", term[1])
		}
	}
}

// code matches blocks of code, which contain neither links nor paths of this repository.
var code = regexp.MustCompile("(?s)```.*?```")

// pages returns the paths of all pages, relative to this folder.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "../*.md", "../spec/*.md", "../localdynamo/*.md", "../clients/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) < 20 {
		t.Fatalf("found only the pages %v", all)
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
