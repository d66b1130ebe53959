package dirbody_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/store"
)

// pageKey returns the key of a body of a page.
func pageKey(page int, generation string) string {
	return fmt.Sprintf("bodies/%064x/%s", page, generation)
}

// A Close leaves no journal, and all bodies in their files.
func TestCloseRemovesTheJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := dirbody.Open(dir, dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for page := range 300 { // more than are synced one by one
		if err := first.Put(t.Context(), pageKey(page, "g"), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if journals := glob(t, dir, ".tmp/journal-*"); len(journals) != 1 {
		t.Errorf("journals before the Close: %q", journals)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if left := glob(t, dir, ".tmp/*"); len(left) != 1 {
		t.Errorf("left besides the lock: %q", left)
	}
	if got := len(list(t, open(t, dir), "")); got != 300 {
		t.Errorf("%d bodies after the Close, want 300", got)
	}
}

// A journal is replaced when it is full, and removed once its bodies are on disk.
func TestJournalsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bodies := open(t, dir)
	body := []byte(strings.Repeat("x", maxJournaled))
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 200 { // 100 MiB together
				if err := bodies.Put(t.Context(), pageKey(worker, fmt.Sprint(i)), body); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	total := int64(0)
	for _, name := range glob(t, dir, ".tmp/journal-*") {
		info, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // it ended since the look
		}
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > 2*(32<<20+8<<20) {
		t.Errorf("the journals have %d bytes", total)
	}
}

// Several Puts of one key with different content: one wins, and its content survives a crash.
func TestJournalHasTheContentThatWon(t *testing.T) {
	t.Parallel()
	dir, copied := t.TempDir(), t.TempDir()
	bodies := open(t, dir)
	for page := range 50 {
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				err := bodies.Put(t.Context(), pageKey(page, "g"), []byte(fmt.Sprint(i)))
				if err != nil && !errors.Is(err, store.ErrExists) {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	// Only the journal is left after the power failure.
	if err := os.CopyFS(filepath.Join(copied, ".tmp"), os.DirFS(filepath.Join(dir, ".tmp"))); err != nil {
		t.Fatal(err)
	}
	restored := open(t, copied)
	for page := range 50 {
		key := pageKey(page, "g")
		if got, want := read(t, restored, key), read(t, bodies, key); got != want {
			t.Errorf("page %d: %q was restored, %q had won", page, got, want)
		}
	}
}

// Bodies that an earlier version has stored in a folder for each page can be read, listed,
// described, put again, and deleted.
func TestEarlierLayout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key, other := pageKey(0xab, "20261121%"), pageKey(7, "new")
	earlier := filepath.Join(dir, filepath.FromSlash(strings.TrimSuffix(key, "%"))+"%25.body")
	if err := os.MkdirAll(filepath.Dir(earlier), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(earlier, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	bodies := open(t, dir)
	if err := bodies.Put(t.Context(), other, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got := read(t, bodies, key); got != "old" {
		t.Errorf("read %q", got)
	}
	if got, err := bodies.ReadLocal(t.Context(), key, 3); err != nil || string(got) != "old" {
		t.Errorf("ReadLocal: %q, %v", got, err)
	}
	if info, err := bodies.Stat(t.Context(), key); err != nil || info.Length != 3 {
		t.Errorf("Stat: %+v, %v", info, err)
	}
	if err := bodies.Put(t.Context(), key, []byte("old")); err != nil {
		t.Errorf("putting it again: %v", err)
	}
	if err := bodies.Put(t.Context(), key, []byte("different")); !errors.Is(err, store.ErrExists) {
		t.Errorf("putting another body: %v, want ErrExists", err)
	}
	for prefix, want := range map[string][]string{
		"": {other, key}, "bodies/": {other, key}, key: {key}, key[:len("bodies/")+3]: {other, key}, key[:71]: {key}, key[:72]: {key},
		other[:72]: {other}, other[:73]: {other}, "bodies/00/": nil,
	} {
		got := list(t, bodies, prefix)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("List(%q) = %q, want %q", prefix, got, want)
		}
	}
	if err := bodies.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := bodies.Stat(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after Delete: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(earlier)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder of the page is left: %v", err)
	}
}

// A journal that is old is removed although it is not full.
func TestJournalAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		bodies := open(t, dir)
		for _, generation := range []string{"first", "second"} {
			if err := bodies.Put(t.Context(), pageKey(1, generation), []byte("x")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(9 * time.Minute)
			if journals := glob(t, dir, ".tmp/journal-*"); len(journals) != 1 {
				t.Errorf("after nine minutes: %q, want a journal", journals)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if journals := glob(t, dir, ".tmp/journal-*"); len(journals) > 0 {
				t.Errorf("after eleven minutes: %q, want none", journals)
			}
		}
	})
}

// What a bad disk has made of a body is replaced by what the journal has.
func TestReplayReplacesWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	dir, copied := t.TempDir(), t.TempDir()
	bodies := open(t, dir)
	key := pageKey(1, "g")
	if err := bodies.Put(t.Context(), key, []byte("content")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(copied, ".tmp"), os.DirFS(filepath.Join(dir, ".tmp"))); err != nil {
		t.Fatal(err)
	}
	files := glob(t, dir, "bodies/*/*")
	if len(files) != 1 {
		t.Fatalf("the files are %q", files)
	}
	if err := os.MkdirAll(filepath.Join(copied, files[0], "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := read(t, open(t, copied), key); got != "content" {
		t.Errorf("read %q", got)
	}
}
