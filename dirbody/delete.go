package dirbody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/facetheory/isr/store"
)

// Delete removes a body, and the folders that it leaves empty. See
// [store.BodyStore]. It does not force the removal to disk: after a power failure
// the body may be there again, whole, and be deleted again.
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
	// The file system refuses to remove a folder that is not empty, and a Put
	// that loses its folder here makes it again, so neither disturbs the other.
	// An empty folder that stays behind is no failure.
	for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
		if s.root.Remove(parent) != nil {
			break
		}
	}
	return nil
}
