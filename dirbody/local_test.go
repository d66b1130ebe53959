package dirbody_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/facetheory/isr/store"
)

// ReadLocal returns what Open does, and leaves the directory as little.
func TestReadLocal(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	bodies := open(t, dir)
	long := strings.Repeat("body ", 100_000)
	for key, body := range map[string]string{"bodies/a/1": long, "bodies/a/empty": ""} {
		if err := bodies.Put(t.Context(), key, []byte(body)); err != nil {
			t.Fatal(err)
		}
		if got, err := bodies.ReadLocal(t.Context(), key, int64(len(body))); err != nil || string(got) != body {
			t.Errorf("%s: %d bytes, %v", key, len(got), err)
		}
	}
	file := filepath.Join(dir, "bodies", "a", "1.body")
	if err := errors.Join(
		os.WriteFile(filepath.Join(outside, "secret.body"), []byte("secret"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "out")),
		os.Symlink(filepath.Join(outside, "secret.body"), filepath.Join(dir, "link.body")),
		os.Mkdir(filepath.Join(dir, "folder.body"), 0o700),
		syscall.Mkfifo(filepath.Join(dir, "pipe.body"), 0o600),
		os.Chtimes(file, time.Time{}, time.Now().Add(-time.Hour)),
	); err != nil {
		t.Fatal(err)
	}
	for key, missing := range map[string]bool{"bodies/a/2": true, "bodies/b/1": true, "out/secret": false, "link": false, "folder": false, "pipe": false, "../x": false} {
		got, err := bodies.ReadLocal(t.Context(), key, 1<<20)
		if err == nil || errors.Is(err, store.ErrNotFound) != missing {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	if got, err := bodies.ReadLocal(t.Context(), "bodies/a/1", int64(len(long))-1); err == nil {
		t.Errorf("a body beyond the limit: %d bytes", len(got))
	}
	if _, err := bodies.ReadLocal(t.Context(), "bodies/a/1", int64(len(long))); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(file); err != nil || time.Since(info.ModTime()) > time.Minute {
		t.Errorf("the use of a body was not recorded: %v, %v", info.ModTime(), err)
	}
}
