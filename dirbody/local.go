package dirbody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/store"
)

var _ store.CachedReader = (*Store)(nil)

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
	body, modified, err := s.folder.Read(name, limit)
	if earlier, ok := s.earlierName(key); ok && errors.Is(err, fs.ErrNotExist) {
		name = earlier
		body, modified, err = s.folder.Read(name, limit)
	}
	if err != nil {
		return nil, s.failed("read", key, err)
	}
	s.recordUse(name, modified)
	return body, nil
}

// ReadCached reads the body of a page, or its codings, from the memory of the system. See
// [store.CachedReader]. It does not read one whose use is to be recorded.
func (s *Store) ReadCached(_ context.Context, key string, buffer []byte) ([]byte, error) {
	name := pageFile(key)
	if name == "" {
		return nil, fmt.Errorf("dirbody: %w: %q is not the body of a page", localfile.ErrWait, key)
	}
	body, modified, err := s.folder.ReadCached(name, buffer)
	switch {
	case err != nil:
		return nil, s.failed("read", key, err)
	case isUseDue(modified):
		return nil, fmt.Errorf("dirbody: %w: the use of %q is to be recorded", localfile.ErrWait, key)
	}
	return body, nil
}

func isUseDue(modified time.Time) bool { return time.Since(modified) > usedEvery }

// recordUse records that a file was used now, at most every usedEvery.
func (s *Store) recordUse(name string, modified time.Time) {
	if isUseDue(modified) {
		_ = s.folder.Chtimes(name, time.Now()) // fails if the directory is read-only for this process
	}
}
