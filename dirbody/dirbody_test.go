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
	isrtest.BodyStore(t, func(t *testing.T) store.BodyStore { return open(t, t.TempDir()) })
}

func open(t *testing.T, dir string) *dirbody.Store {
	t.Helper()
	store, err := dirbody.Open(dir)
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

// Keys that other stores could confuse are told apart here: a key that is
// another's folder, keys that differ in letter case or in Unicode form alone,
// and an element that is longer than a file name may be.
func TestKeysThatFileSystemsConfuse(t *testing.T) {
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

func TestBodiesAreFilesWhereOneExpectsThem(t *testing.T) {
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
		t.Errorf("beside the lock there is %q", left)
	}
}

func TestDeleteTidiesUp(t *testing.T) {
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
			t.Errorf("after the end of %s there is %q, want %q", step.key, got, step.left)
		}
	}
	if left := glob(t, dir, "*"); !slices.Equal(left, []string{".tmp"}) {
		t.Errorf("at the end there is %q", left)
	}
}

// TestDeleteTakesNoFolderFromAPut lets bodies come and go in folders that become
// empty all the time: a Put whose folder goes away makes it again, and a List that
// is reading it goes on elsewhere.
func TestDeleteTakesNoFolderFromAPut(t *testing.T) {
	dir := t.TempDir()
	stores := []*dirbody.Store{open(t, dir), open(t, dir)} // as two processes
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
		t.Errorf("at the end there is %q", left)
	}
}

func TestForeignFilesArePassedOver(t *testing.T) {
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

func TestSymbolicLinksDoNotLeadOut(t *testing.T) {
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
			t.Errorf("Open(%q) leads out: %v", key, r.Close())
		}
	}
	if err := store.Put(t.Context(), "out/new", []byte("x")); err == nil {
		t.Error("Put leads out")
	}
	if err := store.Delete(t.Context(), "out/secret"); err == nil {
		t.Error("Delete leads out")
	}
	if left := glob(t, outside, "*"); !slices.Equal(left, []string{"secret.body"}) {
		t.Errorf("outside there is %q", left)
	}
}

func TestLeftoversAreRemovedOnlyWithoutLiveWriters(t *testing.T) {
	dir := t.TempDir()
	leftover := filepath.Join(dir, ".tmp", "LEFTOVER")
	first, err := dirbody.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(leftover, []byte("half a bo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := list(t, first, ""); len(got) != 0 {
		t.Errorf("a temporary file is listed: %q", got)
	}
	second, err := dirbody.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(leftover); err != nil {
		t.Errorf("a file that could be a live writer's was removed: %v", err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	third, err := dirbody.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close()
	if _, err := os.Stat(leftover); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the leftover is still there: %v", err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		_, err := dirbody.Open(dir)
		if err == nil || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
			t.Errorf("opening %s: %v", dir, err)
		}
	}
}

func TestOpenMakesMissingFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "isr-data", "deep", "bodies")
	store := open(t, dir)
	if err := store.Put(t.Context(), "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsNameTheFile(t *testing.T) {
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
