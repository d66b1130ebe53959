package dirbody

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/facetheory/isr/store"
)

var _ store.LocalReader = (*Store)(nil)

// ReadLocal reads a whole body, in as few calls of the system as it takes. See
// [store.LocalReader]. It records the use as Open does. It does not look at the context during
// disk I/O.
func (s *Store) ReadLocal(ctx context.Context, key string, limit int64) ([]byte, error) {
	if err := store.ValidBodyKey(key); err != nil {
		return nil, fmt.Errorf("dirbody: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, s.failed("read", key, err)
	}
	name := fileName(key)
	body, modified, err := s.readFile(name, limit)
	if earlier, ok := earlierName(key); ok && errors.Is(err, fs.ErrNotExist) {
		name = earlier
		body, modified, err = s.readFile(name, limit)
	}
	if err != nil {
		return nil, s.failed("read", key, err)
	}
	s.recordUse(name, modified)
	return body, nil
}

// recordUse records that a file was used now, at most every usedEvery.
func (s *Store) recordUse(name string, modified time.Time) {
	if time.Since(modified) > usedEvery {
		_ = s.root.Chtimes(name, time.Time{}, time.Now()) // fails if the directory is read-only for this process
	}
}

// readSlow is readFile by the root.
func (s *Store) readSlow(name string, limit int64) (body []byte, modified time.Time, err error) {
	f, length, err := s.openFile(name)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = f.Close() }() // read only
	if length > limit {
		return nil, time.Time{}, errTooLong(length, limit)
	}
	if info, err := f.Stat(); err == nil {
		modified = info.ModTime()
	}
	body = make([]byte, length)
	_, err = io.ReadFull(f, body)
	return body, modified, err
}

func errTooLong(length, limit int64) error {
	return fmt.Errorf("it has %d bytes, at most %d were expected", length, limit)
}
