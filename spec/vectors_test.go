// Package spec_test holds the vectors of this folder to what the Go packages do.
// The files have both the questions, which people write, and the answers, which
// -update writes; see README.md.
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

// run reads the vectors of a file, has them answered anew, and compares the file
// with what it should be, or writes it.
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
		t.Errorf("%s is not what the code does (-file +code); if that is meant, go test ./spec -run %s -update:\n%s", path, t.Name(), d)
	}
}

// checkNames demands that a vector can be named.
func checkNames(t *testing.T, path string, text []byte) {
	t.Helper()
	var lists map[string]json.RawMessage
	if err := json.Unmarshal(text, &lists); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for list, text := range lists {
		var vectors []struct{ Name string }
		if json.Unmarshal(text, &vectors) != nil {
			continue // what holds for all of the file
		}
		seen := make(map[string]bool)
		for i, v := range vectors {
			if v.Name == "" || seen[v.Name] {
				t.Errorf("%s: %s[%d] has no name of its own: %q", path, list, i, v.Name)
			}
			seen[v.Name] = true
		}
	}
}

// nameOf is an error in the vocabulary of all languages; empty for none.
func nameOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	if errors.Is(err, tabletheory.ErrInvalidModel) {
		return "InvalidInput" // a value that its model cannot store
	}
	if name := vocabulary.ErrorName(err); name != "" {
		return name
	}
	t.Errorf("an error without a name: %v", err)
	return err.Error()
}

// Durations of the files.

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
