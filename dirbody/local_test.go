package dirbody_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/localfile"
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

// ReadCached returns what ReadLocal does, or an error, and leaves the directory as little. Whether the
// system can tell that a file is in its memory depends on the file system.
func TestReadCached(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bodies := open(t, dir)
	page := store.BodyRoot + strings.Repeat("0a", 32) + "/"
	long := strings.Repeat("body ", 1000)
	for _, key := range []string{page + "1", store.CodingsKey(page + "1"), page + "empty", page + "old", "bodies/a/1"} {
		body := long
		if key == page+"empty" {
			body = ""
		}
		if err := bodies.Put(t.Context(), key, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	fanOut := filepath.Join(dir, "bodies", "0a0")
	name := func(generation string) string {
		return filepath.Join(fanOut, strings.Repeat("0a", 32)[3:]+"."+generation+".body")
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := errors.Join(
		os.Chtimes(name("old"), time.Time{}, hourAgo),
		os.Symlink(name("1"), name("link")), // it leaves the directory: its target is absolute
		os.Mkdir(name("folder"), 0o700),
		syscall.Mkfifo(name("pipe"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, len(long)+store.CachedRoom)
	read := 0
	for _, key := range []string{page + "1", store.CodingsKey(page + "1"), page + "empty"} {
		want := long
		if key == page+"empty" {
			want = ""
		}
		switch got, err := bodies.ReadCached(t.Context(), key, buffer); {
		case errors.Is(err, localfile.ErrWait):
		case err != nil || string(got) != want:
			t.Errorf("%s: %d bytes, %v", key, len(got), err)
		default:
			read++
		}
	}
	t.Logf("%d of 3 bodies were in the memory of the system", read)
	for _, key := range []string{page + "2", page + "link", page + "folder", page + "pipe", page + "old", "bodies/a/1", page + "../x", "../x", ""} {
		if got, err := bodies.ReadCached(t.Context(), key, buffer); err == nil {
			t.Errorf("%s: %q", key, got)
		}
	}
	if got, err := bodies.ReadCached(t.Context(), page+"1", buffer[:len(long)-1]); err == nil {
		t.Errorf("a body that is longer than the buffer: %d bytes", len(got))
	}
	if info, err := os.Stat(name("old")); err != nil || time.Since(info.ModTime()) < time.Minute {
		t.Errorf("a use was recorded: %v, %v", info.ModTime(), err)
	}
}
