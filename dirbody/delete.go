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
// does not sync: after a power failure, or if the process is killed within some ten minutes
// after the body was put, the body may exist again, whole, and can be deleted again.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := store.ValidBodyKey(key); err != nil {
		return fmt.Errorf("dirbody: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return s.failed("delete", key, err)
	}
	err := s.remove(fileName(key))
	if earlier, ok := s.earlierName(key); ok && errors.Is(err, fs.ErrNotExist) {
		err = s.remove(earlier)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.failed("delete", key, err)
	}
	return nil
}

// remove removes a file, and the folders that become empty, except the folders of the bodies of
// pages (see syncFolders).
func (s *Store) remove(name string) error {
	err := s.folder.Remove(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Rmdir fails on a folder that is not empty, and a Put whose folder disappears
	// creates it again, so neither disturbs the other. A remaining empty folder is
	// harmless.
	for parent := path.Dir(name); parent != "." && !isFanOut(parent); parent = path.Dir(parent) {
		if s.folder.Remove(parent) != nil {
			break
		}
	}
	return err
}
