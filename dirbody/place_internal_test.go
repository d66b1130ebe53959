package dirbody

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/facetheory/isr/store"
)

// A body is placed in the same way with and without files that have no name yet, which not all
// file systems have.
func TestPlaceWithAndWithoutUnnamedFiles(t *testing.T) {
	t.Parallel()
	const key = store.BodyRoot + "0123456789012345678901234567890123456789012345678901234567890123/g"
	for _, named := range []bool{false, true} {
		s, err := Open(t.TempDir(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		s.named.Store(named)
		name := fileName(key)
		if !s.folder.IsMissing(name) {
			_, err := os.Stat(filepath.Join(s.dir, name))
			t.Logf("the system cannot tell in one call that there is no file: %v", err)
		}
		if err := s.Put(t.Context(), key, []byte("content")); err != nil {
			t.Fatal(err)
		}
		if named && !s.named.Load() || s.folder.IsMissing(name) {
			t.Errorf("named %v: the file is missing", named)
		}
		if s.placeUnnamed(name, []byte("other")) {
			t.Errorf("named %v: a file was replaced", named)
		}
		if got, err := os.ReadFile(filepath.Join(s.dir, name)); string(got) != "content" {
			t.Errorf("named %v: %q, %v", named, got, err)
		}
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil || info.Mode().Perm() != fileMode {
			t.Errorf("named %v: mode %v, error %v", named, info.Mode(), err)
		}
	}
}
