package dirbody_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/store"
)

func TestBodyStore(t *testing.T) {
	t.Parallel()
	isrtest.BodyStore(t, func(t *testing.T) store.BodyStore { return open(t, t.TempDir()) })
}

func open(t *testing.T, dir string) *dirbody.Store {
	t.Helper()
	store, err := dirbody.Open(dir, dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// Keys that a file system could confuse stay distinct: a key that is another's folder,
// keys that differ only in letter case or Unicode form, and an element that is longer
// than a file name may be.
func TestKeysThatFileSystemsConfuse(t *testing.T) {
	t.Parallel()
	store := open(t, t.TempDir())
	keys := []string{
		"a", "a/b", "a/b/c", "A", "A/B", "a.body", "a.body/b", "\u00e9", "e\u0301", "%61", "a%", "a%/b",
		strings.Repeat("x", 80), strings.Repeat("x", 80) + "/y", strings.Repeat("x", 81), strings.Repeat("x", 1024),
		strings.Repeat("\u00e9", 512), ".tmp/lock", ".tmp",
	}
	for _, key := range keys {
		if err := store.Put(t.Context(), key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range keys {
		if got := read(t, store, key); got != key {
			t.Errorf("%.40q holds %.40q", key, got)
		}
	}
	for i := range strings.Repeat("x", 200) {
		prefix := strings.Repeat("x", i+1)
		want := 0
		for _, key := range keys {
			if strings.HasPrefix(key, prefix) {
				want++
			}
		}
		if got := len(list(t, store, prefix)); got != want {
			t.Errorf("%d keys begin with %d times x, want %d", got, i+1, want)
		}
	}
	slices.Sort(keys)
	if got := slices.Sorted(slices.Values(list(t, store, ""))); !slices.Equal(got, keys) {
		t.Errorf("listed %.40q, want %.40q", got, keys)
	}
}

func TestFileNamesFollowKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	if err := store.Put(t.Context(), "bodies/03ab/0192-f0c1", []byte("page")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "bodies", "03ab", "0192-f0c1.body"))
	if err != nil || string(got) != "page" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if left := glob(t, dir, ".tmp/*"); len(left) != 1 {
		t.Errorf("left besides the lock: %q", left)
	}
}

func TestDeleteRemovesEmptyFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	for _, key := range []string{"bodies/a/1", "bodies/a/2", "bodies/b/1"} {
		if err := store.Put(t.Context(), key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ key, left string }{
		{"bodies/a/1", "bodies/a bodies/b"},
		{"bodies/a/2", "bodies/b"},
		{"bodies/b/1", ""},
	} {
		if err := store.Delete(t.Context(), step.key); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(glob(t, dir, "bodies/*"), " "); got != step.left {
			t.Errorf("after deleting %s: %q, want %q", step.key, got, step.left)
		}
	}
	if left := glob(t, dir, "*"); !slices.Equal(left, []string{".tmp"}) {
		t.Errorf("left at the end: %q", left)
	}
}

// TestPutRecreatesDeletedFolders puts and deletes bodies in folders that become empty
// all the time: a Put whose folder disappears creates it again, and a List that reads
// the folder continues with the next.
func TestPutRecreatesDeletedFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stores := []*dirbody.Store{open(t, dir), open(t, dir)} // like two processes
	group, ctx := errgroup.WithContext(t.Context())
	for worker := range 8 {
		store := stores[worker%2]
		group.Go(func() error {
			for i := range 50 {
				key := fmt.Sprintf("bodies/%d/%d", i%2, worker)
				if err := store.Put(ctx, key, []byte(key)); err != nil {
					return err
				}
				if _, err := stores[i%2].Stat(ctx, key); err != nil {
					return fmt.Errorf("an acknowledged body: %w", err)
				}
				if err := store.Delete(ctx, key); err != nil {
					return err
				}
			}
			return nil
		})
	}
	listing, stop := context.WithCancel(t.Context())
	var lister errgroup.Group
	lister.Go(func() error {
		for listing.Err() == nil {
			for info, err := range stores[0].List(t.Context(), "") {
				if err != nil {
					return fmt.Errorf("listing, after %q: %w", info.Key, err)
				}
			}
		}
		return nil
	})
	err := group.Wait()
	stop()
	if err := errors.Join(err, lister.Wait()); err != nil {
		t.Error(err)
	}
	if left := glob(t, dir, "*"); !slices.Equal(left, []string{".tmp"}) {
		t.Errorf("left at the end: %q", left)
	}
}

func TestListSkipsForeignFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bodies := open(t, dir)
	if err := bodies.Put(t.Context(), "bodies/1", []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "bodies", "folder.body"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".DS_Store", "README", "bodies/UPPER.body", "bodies/x%2.body", "bodies/%61.body", "bodies/%2e%2e.body", "bodies/1.body~"} {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, bodies, ""); !slices.Equal(got, []string{"bodies/1"}) {
		t.Errorf("listed %q", got)
	}
	if _, _, err := bodies.Open(t.Context(), "bodies/folder"); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("a folder in the place of a body: %v", err)
	}
}

func TestSymbolicLinksStayInside(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	store := open(t, dir)
	if err := os.WriteFile(filepath.Join(outside, "secret.body"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret.body"), filepath.Join(dir, "link.body")); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"out/secret", "link"} {
		if r, _, err := store.Open(t.Context(), key); err == nil {
			t.Errorf("Open(%q) leaves the directory: %v", key, r.Close())
		}
	}
	if err := store.Put(t.Context(), "out/new", []byte("x")); err == nil {
		t.Error("Put leaves the directory")
	}
	if err := store.Delete(t.Context(), "out/secret"); err == nil {
		t.Error("Delete leaves the directory")
	}
	if left := glob(t, outside, "*"); !slices.Equal(left, []string{"secret.body"}) {
		t.Errorf("outside the directory: %q", left)
	}
}

func TestOpenKeepsTemporaryFilesOfLiveWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	leftover := filepath.Join(dir, ".tmp", "LEFTOVER")
	first, err := dirbody.Open(dir, dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(leftover, []byte("half a bo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := list(t, first, ""); len(got) != 0 {
		t.Errorf("a temporary file is listed: %q", got)
	}
	second, err := dirbody.Open(dir, dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(leftover); err != nil {
		t.Errorf("a file that may belong to a live writer was removed: %v", err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	third, err := dirbody.Open(dir, dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if _, err := os.Stat(leftover); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the leftover is still there: %v", err)
	}
}

func TestOpenNamesTheFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		_, err := dirbody.Open(dir, dirbody.Options{})
		if err == nil || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
			t.Errorf("opening %s: %v", dir, err)
		}
	}
}

func TestOpenCreatesMissingFolders(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "isr-data", "deep", "bodies")
	store := open(t, dir)
	if err := store.Put(t.Context(), "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsNameTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := open(t, dir)
	_, err := store.Stat(t.Context(), "bodies/1")
	if want := filepath.Join(dir, "bodies", "1.body"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not name %s", err, want)
	}
}

func read(t *testing.T, store *dirbody.Store, key string) string {
	t.Helper()
	r, _, err := store.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

func list(t *testing.T, store *dirbody.Store, prefix string) []string {
	t.Helper()
	var keys []string
	for info, err := range store.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

// glob returns what matches pattern in dir, relative to it.
func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS(dir), pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
