package process

import (
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Build compiles cmd/isr into a folder, with the race detector or as users get it.
func Build(dir string, race bool) (binary string, err error) {
	binary = filepath.Join(dir, "isr")
	args := []string{"build", "-o", binary}
	if race {
		args = append(args, "-race")
	}
	out, err := exec.Command("go", append(args, "github.com/facetheory/isr/cmd/isr")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build cmd/isr: %w\n%s", err, out)
	}
	return binary, nil
}

// ReadSources looks into every folder of sources below the module's root, which it
// is given relative to the test's. The go command takes a folder that a test looks
// into for an input of the test; without that it would answer from its cache
// although the sources of the binary have changed. What TestMain reads does not
// count, so that every test that uses the binary does this.
func ReadSources(t testing.TB, root string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || path == root {
			return err
		}
		if name := d.Name(); strings.HasPrefix(name, ".") || name == "node_modules" || name == "sites" {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
