// Package docs_test checks the pages of the documentation against each other and
// against the files that they refer to.
package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRelativeLinks checks that links lead to files and folders, and to headings of pages.
func TestRelativeLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]+))?[^)]*\)`)
	for _, page := range pages(t) {
		text := code.ReplaceAllString(read(t, page), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			target := page
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(page), match[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: broken link: %v", page, err)
			} else if match[2] != "" && !slices.Contains(anchors(read(t, target)), match[2]) {
				t.Errorf("%s: broken link: %s has no heading #%s", page, target, match[2])
			}
		}
	}
}

// anchors returns the anchors that GitHub gives the headings of a page.
func anchors(text string) (all []string) {
	seen := map[string]int{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ +(.*)$`).FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
		title := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
		title = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`).ReplaceAllString(strings.ToLower(title), "")
		anchor := strings.ReplaceAll(strings.TrimSpace(title), " ", "-")
		if n := seen[anchor]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			all = append(all, anchor)
		}
		seen[anchor]++
	}
	return all
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

// TestGlossary checks that every term has a meaning and a place in the code, and that the files which
// the last column names without a folder are in the root.
func TestGlossary(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| \*\*([^|]+)\*\* \|([^|]*)\|(.*)\|$`)
	file := regexp.MustCompile("`([a-z_0-9]+\\.go)`")
	terms := row.FindAllStringSubmatch(read(t, "glossary.md"), -1)
	if len(terms) < 50 {
		t.Errorf("glossary.md has %d terms, want at least 50", len(terms))
	}
	for _, term := range terms {
		if strings.TrimSpace(term[2]) == "" || strings.TrimSpace(term[3]) == "" {
			t.Errorf("%s lacks a meaning or a place in the code", term[1])
		}
		for _, name := range file.FindAllStringSubmatch(term[3], -1) {
			if _, err := os.Stat(filepath.Join("..", name[1])); err != nil {
				t.Errorf("%s: %v", term[1], err)
			}
		}
	}
}

// code matches blocks of code, which contain neither links nor paths of this repository.
var code = regexp.MustCompile("(?s)```.*?```")

// pages returns the paths of all pages, relative to this folder.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "../*.md", "../spec/*.md", "../localdynamo/*.md", "../clients/*.md", "../clients/*/README.md", "../deploy/*/*/README.md", "../e2e/sites/*/README.md"} {
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
