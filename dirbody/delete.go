package dirbody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/facetheory/isr/store"
)

// Delete removes a body and the folders that become empty. See [store.BodyStore]. It
// does not sync: after a power failure the body may exist again, whole, and can be
// deleted again.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := store.ValidBodyKey(key); err != nil {
		return fmt.Errorf("dirbody: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return s.failed("delete", key, err)
	}
	name := fileName(key)
	if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.failed("delete", key, err)
	}
	// Rmdir fails on a folder that is not empty, and a Put whose folder disappears
	// creates it again, so neither disturbs the other. A remaining empty folder is
	// harmless.
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if s.root.Remove(parent) != nil {
			break
		}
	}
	return nil
}
