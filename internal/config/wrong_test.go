package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/internal/config"
)

var update = flag.Bool("update", false, "write the expected texts of testdata")

// Each file of testdata/wrong has the errors of the .txt file beside it.
func TestWrongFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/wrong/*.yaml")
	if err != nil || len(files) < 40 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = config.Parse("isr.yaml", text, environment)
			var all *config.Errors
			if !errors.As(err, &all) {
				t.Fatalf("got %v, want errors", err)
			}
			checkGolden(t, strings.TrimSuffix(path, ".yaml")+".txt", err.Error()+"\n")
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("the error contains a secret")
			}
			for _, e := range all.List {
				if e.Path != "" && e.Line < 1 && e.Path != "origins" {
					t.Errorf("no place: %v", e)
				}
			}
		})
	}
}

// checkGolden compares a text with the text of a file, which -update writes.
func checkGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with: go test ./config -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s\nupdate it with: go test ./config -update", path, diff)
	}
}
