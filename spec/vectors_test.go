// Package spec_test checks the test vectors against the Go packages. The files
// contain the questions, which people write, and the answers, which -update writes;
// see README.md.
package spec_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/tabletheory"
)

var update = flag.Bool("update", false, "write the answers of the test vectors instead of checking them")

// run reads the vectors of a file, computes the answers, and compares them with the
// file. With -update it writes the file instead.
func run[F any](t *testing.T, name string, answer func(file *F)) {
	t.Helper()
	path := filepath.Join("vectors", name)
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, path, stored)
	file := new(F)
	d := json.NewDecoder(bytes.NewReader(stored))
	d.DisallowUnknownFields()
	if err := d.Decode(file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	answer(file)
	text := new(bytes.Buffer)
	e := json.NewEncoder(text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(file); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(string(stored), text.String()); d != "" {
		t.Errorf("%s differs from the code (-file +code); if the change is intended, run go test ./spec -run %s -update:\n%s", path, t.Name(), d)
	}
}

// checkNames checks that every vector has a name that is unique in its list.
func checkNames(t *testing.T, path string, text []byte) {
	t.Helper()
	var lists map[string]json.RawMessage
	if err := json.Unmarshal(text, &lists); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for list, text := range lists {
		var vectors []struct{ Name string }
		if json.Unmarshal(text, &vectors) != nil {
			continue // a value for the whole file, not a list of vectors
		}
		seen := make(map[string]bool)
		for i, v := range vectors {
			if v.Name == "" || seen[v.Name] {
				t.Errorf("%s: %s[%d]: name %q is empty or used twice", path, list, i, v.Name)
			}
			seen[v.Name] = true
		}
	}
}

// nameOf returns the name of an error that all languages share, empty for nil.
func nameOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	if errors.Is(err, tabletheory.ErrInvalidModel) {
		return "InvalidInput" // a value that the model cannot store
	}
	if name := vocabulary.ErrorName(err); name != "" {
		return name
	}
	t.Errorf("error has no name in spec/: %v", err)
	return err.Error()
}

// Durations in the files.

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
