package process

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A build is one way to compile cmd/isr. ./test compiles it once for all packages and passes
// the path in variable; otherwise each package compiles its own.
type build struct {
	variable string
	flags    []string

	mu     sync.Mutex
	folder string // with the binary that this package compiled; guarded by mu
}

var (
	plain = build{variable: "ISR_TEST_ISR"}
	raced = build{variable: "ISR_TEST_ISR_RACE", flags: []string{"-race"}}
)

// Main runs the tests of a package that uses Binary or RaceBinary, deletes what they
// compiled, and returns the exit code.
func Main(m *testing.M) int {
	defer plain.remove()
	defer raced.remove()
	return m.Run()
}

// Binary returns the path of the isr binary as users get it. root is the module's root,
// relative to the folder of the test.
func Binary(t testing.TB, root string) string { return plain.binary(t, root) }

// RaceBinary returns the path of the isr binary with the race detector, for tests that kill it
// or send it many concurrent requests. It is several times slower. Its processes need
// GORACE=atexit_sleep_ms=0 in their environment, or they exit a second late.
func RaceBinary(t testing.TB, root string) string { return raced.binary(t, root) }

func (b *build) binary(t testing.TB, root string) string {
	t.Helper()
	ReadSources(t, root)
	if binary := os.Getenv(b.variable); binary != "" {
		return binary
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.folder == "" {
		folder, err := b.compile()
		if err != nil {
			t.Fatal(err)
		}
		b.folder = folder
	}
	return filepath.Join(b.folder, "isr")
}

func (b *build) compile() (folder string, err error) {
	folder, err = os.MkdirTemp("", "isr-test-")
	if err != nil {
		return "", err
	}
	// The folder is readable by all: one test runs the binary as another user.
	if err := os.Chmod(folder, 0o755); err != nil {
		return "", err
	}
	args := append([]string{"build", "-o", folder}, b.flags...)
	out, err := exec.Command("go", append(args, "github.com/facetheory/isr/cmd/isr")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build cmd/isr: %w\n%s", err, out)
	}
	return folder, nil
}

func (b *build) remove() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.folder != "" {
		_ = os.RemoveAll(b.folder) // best effort: it is in the system's temporary folder
	}
}

// ReadSources reads every source folder below root, for tests of code that is not compiled into
// them. The go command treats a folder that a test reads as an input of the test; without this,
// it would return a cached result although the sources of the binary have changed. Reads by
// TestMain do not count.
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
