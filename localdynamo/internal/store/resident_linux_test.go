package store_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// A range over a file of 64 MB, and many short ranges, leave a small part of it mapped into memory.
func TestRangesGiveMemoryBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	b, err := store.Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const values = 16_384
	putValues(t, b, values)
	scan := func(lo, hi []byte) (seen int) {
		t.Helper()
		if err := b.View(func(r store.Reader) error {
			r.Range("items", lo, hi, false, func(_, value []byte) bool {
				seen += len(value) / length
				return value[length-1] == 0
			})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return seen
	}
	for name, all := range map[string]func() int{
		"one range": func() int { return scan(nil, nil) },
		"short ranges": func() (seen int) {
			for i := 0; i < values; i += 64 {
				seen += scan(key(i), key(i+64))
			}
			return seen
		},
	} {
		if seen := all(); seen != values {
			t.Errorf("%s: %d values, expected %d", name, seen, values)
		}
		if got := mapped(t, path); got > values*length/4 {
			t.Errorf("%s: %d KiB of the file are in the memory of the process", name, got>>10)
		}
	}
}

// What single reads have mapped is given back after a while, and can be read again.
func TestReadsGiveMemoryBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	synctest.Test(t, func(t *testing.T) {
		b, err := store.Open(path, true)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		const values = 4096
		putValues(t, b, values)
		for range 2 {
			for i := range values {
				if err := b.View(func(r store.Reader) error {
					if got := len(r.Get("items", key(i))); got != length {
						t.Errorf("value %d has %d bytes", i, got)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
			if got := mapped(t, path); got < values*length {
				t.Errorf("%d KiB are mapped after all was read: the test measures something else", got>>10)
			}
			time.Sleep(3 * time.Second) // longer than residentFor
			synctest.Wait()
			if got := mapped(t, path); got > values*length/16 {
				t.Errorf("%d KiB of the file are in the memory of the process", got>>10)
			}
		}
	})
}

// length is the length of the values of putValues.
const length = 4096

// putValues puts n values.
func putValues(t *testing.T, b *store.Bolt, n int) {
	t.Helper()
	if err := b.Update(func(w store.Writer) error {
		for i := range n {
			if err := w.Put("items", key(i), make([]byte, length)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// key returns the key of a value of putValues.
func key(i int) []byte { return fmt.Appendf(nil, "%08d", i) }

// mapped returns how much of a file the kernel counts as memory of this process, in bytes.
func mapped(t *testing.T, path string) (bytes int64) {
	t.Helper()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	inFile := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if first, _, _ := strings.Cut(line, " "); strings.Contains(first, "-") {
			inFile = strings.HasSuffix(line, path)
		}
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "Rss: %d kB", &kilobytes); err == nil && inFile {
			bytes += kilobytes << 10
		}
	}
	return bytes
}
