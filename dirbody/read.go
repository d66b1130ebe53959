package dirbody

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/store"
)

// usedEvery is the resolution of the recorded time of use.
const usedEvery = 10 * time.Minute

// Open opens a body. See [store.BodyStore]. The reader is an [*os.File], which net/http
// sends without copying. It stays readable after a Delete and after the store's Close.
//
// Open records the use in the file's modification time, at most every ten minutes.
// [gc.Evict] evicts by that time, also after a restart.
func (s *Store) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	f, length, err := s.openBody(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	return f, length, nil
}

func (s *Store) openBody(ctx context.Context, key string) (localfile.File, int64, error) {
	if err := store.ValidBodyKey(key); err != nil {
		return nil, 0, fmt.Errorf("dirbody: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, s.failed("open", key, err)
	}
	name := fileName(key)
	f, length, err := s.openFile(name)
	if earlier, ok := s.earlierName(key); ok && errors.Is(err, fs.ErrNotExist) {
		name = earlier
		f, length, err = s.openFile(name)
	}
	if err != nil {
		return nil, 0, s.failed("open", key, err)
	}
	if info, err := f.Stat(); err == nil {
		s.recordUse(name, info.ModTime())
	}
	return f, length, nil
}

var _ store.RangeReader = (*Store)(nil)

// Stat describes a body. See [store.BodyStore].
func (s *Store) Stat(ctx context.Context, key string) (store.BodyInfo, error) {
	if err := store.ValidBodyKey(key); err != nil {
		return store.BodyInfo{}, fmt.Errorf("dirbody: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return store.BodyInfo{}, s.failed("stat", key, err)
	}
	info, err := s.folder.Lstat(fileName(key))
	if earlier, ok := s.earlierName(key); ok && errors.Is(err, fs.ErrNotExist) {
		info, err = s.folder.Lstat(earlier)
	}
	if err == nil {
		err = mustBeRegular(info)
	}
	if err != nil {
		return store.BodyInfo{}, s.failed("stat", key, err)
	}
	return store.BodyInfo{Key: key, Length: info.Size(), ModifiedAt: info.ModTime()}, nil
}

func (s *Store) openFile(name string) (localfile.File, int64, error) {
	f, err := s.folder.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil {
		err = mustBeRegular(info)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func mustBeRegular(info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("expected a regular file, found %s", info.Mode().Type())
	}
	return nil
}

// contract wraps the file system's errors for missing and inaccessible files in the
// contract's. Other failures, such as EIO or a stale mount, do not show whether the
// file exists.
func contract(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", store.ErrNotFound, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	}
	return err
}

// OpenRange opens a part of a body. See [store.RangeReader]. It records the use as Open does. The
// reader stays readable after a Delete and after the store's Close.
func (s *Store) OpenRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, int64, error) {
	f, size, err := s.openBody(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	if err := store.ValidRange(offset, length, size); err != nil {
		return nil, 0, s.failed("read a part of", key, errors.Join(err, f.Close()))
	}
	return store.NewRange(io.NewSectionReader(f, offset, length), length, f), size, nil
}
