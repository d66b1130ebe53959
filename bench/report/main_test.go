package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPageQuotesTheResults(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	want, err := quote(text, root)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(want) {
		t.Errorf("%s differs from bench/results; write it with: go run -C bench ./report", page)
	}
}

func TestPageWithoutReportIsAnError(t *testing.T) {
	for _, text := range []string{"no comment", "<!-- bench/results/missing.json -->\n<!-- end -->\n"} {
		if _, err := quote([]byte(text), t.TempDir()); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
