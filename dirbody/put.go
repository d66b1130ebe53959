package dirbody

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/facetheory/isr/store"
)

// placeAttempts bounds the attempts of a Put that races with Deletes in the same
// folder. In each lost attempt another call has made progress.
const placeAttempts = 100

// Put stores a body under a new key and returns once it is on disk. See
// [store.BodyStore]. It checks the context between steps, not during disk I/O.
func (s *Store) Put(ctx context.Context, key string, body []byte) error {
	if err := store.ValidBodyKey(key); err != nil {
		return fmt.Errorf("dirbody: %w", err)
	}
	if err := s.put(ctx, fileName(key), body); err != nil {
		return s.failed("put", key, err)
	}
	return nil
}

func (s *Store) put(ctx context.Context, name string, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	temp, err := s.writeTemp(body)
	if err != nil {
		return err
	}
	defer s.removeTemp(temp)
	// A crash here leaves a temporary file that no name refers to.
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.place(temp, name, body); err != nil {
		return err
	}
	// A crash here leaves the whole body under its name; a power failure may lose the
	// name. The body is not acknowledged yet.
	return s.syncFolders(path.Dir(name))
}

// place links the temporary file to its name, or compares the content if the name
// exists.
func (s *Store) place(temp, name string, body []byte) error {
	var err error
	for range placeAttempts {
		if err = s.root.MkdirAll(path.Dir(name), folderMode); err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
				continue // a Delete removed a folder during MkdirAll
			}
			return err
		}
		err = s.root.Link(temp, name) // the commit point
		if err == nil {
			return nil
		}
		if errors.Is(err, fs.ErrExist) {
			err = s.compare(name, body)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// A Delete removed the folder before Link, or the body before compare.
	}
	return fmt.Errorf("gave up after %d attempts: %w", placeAttempts, err)
}

// compare returns nil if the file holds exactly body, store.ErrExists if it holds
// anything else, and fs.ErrNotExist if it is gone. A file is synced before it is
// linked, so an equal one is on disk.
func (s *Store) compare(name string, body []byte) error {
	f, length, err := s.openFile(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if length != int64(len(body)) {
		return store.ErrExists
	}
	buffer := make([]byte, min(len(body), 64<<10))
	for len(body) > 0 {
		n, err := io.ReadFull(f, buffer[:min(len(body), len(buffer))])
		if err != nil {
			return err
		}
		if !bytes.Equal(buffer[:n], body[:n]) {
			return store.ErrExists
		}
		body = body[n:]
	}
	return nil
}
