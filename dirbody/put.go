package dirbody

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/store"
)

// placeAttempts bounds the attempts of a Put that races with Deletes in the same
// folder. In each lost attempt another call has made progress.
const placeAttempts = 100

// Put stores a body under a new key and returns once it is on disk. See
// [store.BodyStore]. It checks the context between steps, not during disk I/O. Codings (see
// [store.CodingsKey]) may reach the disk later: a power failure may lose or damage them.
func (s *Store) Put(ctx context.Context, key string, body []byte) error {
	if err := store.ValidBodyKey(key); err != nil {
		return fmt.Errorf("dirbody: %w", err)
	}
	_, lazy := store.CodedBody(key)
	var err error
	switch {
	case lazy:
		err = s.put(ctx, fileName(key), body, false)
	case journaled(key, body):
		err = s.putJournaled(ctx, key, body)
	default:
		err = s.put(ctx, fileName(key), body, true)
	}
	if err != nil {
		return s.failed("put", key, err)
	}
	return nil
}

// putJournaled makes the body durable in the journal, and then places its file. The last
// record of a key in the journal is the content of its file, also if several Puts for one
// key run at the same time: only one of them at a time gets past the comparison.
func (s *Store) putJournaled(ctx context.Context, key string, body []byte) error {
	defer s.puts.lock(key)()
	if err := ctx.Err(); err != nil {
		return err
	}
	name := fileName(key)
	err := s.compare(name, body)
	if earlier, ok := s.earlierName(key); ok && errors.Is(err, fs.ErrNotExist) {
		if err = s.compare(earlier, body); err == nil {
			return s.syncFolders(path.Dir(earlier))
		}
	}
	if err == nil {
		// Another process may have put it, whose journal cannot be relied on for this Put.
		return s.persist(name, body)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	segment, err := s.journal.append(key, name, body)
	if err != nil {
		return s.put(ctx, name, body, true) // which returns what is wrong with the disk, if it still is
	}
	defer segment.placed.Done()
	// A crash here leaves a body that the next Open places. It is not acknowledged yet.
	if s.placeUnnamed(name, body) {
		return nil
	}
	temp, err := s.writeTemp(body, false)
	if err != nil {
		return err
	}
	defer s.removeTemp(temp)
	_, err = s.place(temp, name, body)
	return err
}

// persist makes a body durable whose file exists. It writes the file again, see repair.body.
func (s *Store) persist(name string, body []byte) error {
	f, err := s.folder.OpenFile(name, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // deleted after the comparison
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(body, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return s.syncFolders(path.Dir(name))
}

// A keyLocks has a lock for each key in use.
type keyLocks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // guarded by mu: closed when the key is unlocked
}

// lock waits until no other goroutine holds the lock of a key.
func (l *keyLocks) lock(key string) (unlock func()) {
	for {
		l.mu.Lock()
		other := l.held[key]
		if other == nil {
			break
		}
		l.mu.Unlock()
		<-other
	}
	defer l.mu.Unlock()
	done := make(chan struct{})
	if l.held == nil {
		l.held = make(map[string]chan struct{})
	}
	l.held[key] = done
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, key)
		close(done)
	}
}

// put syncs the body and its folders to disk if durable is set.
func (s *Store) put(ctx context.Context, name string, body []byte, durable bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	temp, err := s.writeTemp(body, durable)
	if err != nil {
		return err
	}
	defer s.removeTemp(temp)
	// A crash here leaves a temporary file that no name refers to.
	if err := ctx.Err(); err != nil {
		return err
	}
	placed, err := s.place(temp, name, body)
	if err != nil || !durable {
		return err
	}
	// A crash here leaves the whole body under its name; a power failure may lose the
	// name. The body is not acknowledged yet.
	if !placed {
		return s.persist(name, body)
	}
	return s.syncFolders(path.Dir(name))
}

// placeUnnamed writes a file of the bodies of pages without a temporary file. It reports whether
// it did. If not, it has left nothing, and a temporary file works, or its error is the reason.
func (s *Store) placeUnnamed(name string, body []byte) (placed bool) {
	if s.named.Load() {
		return false
	}
	err := s.folder.Create(name, body, fileMode)
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, localfile.ErrUnsupported) {
		// The folder is new. No Delete removes it.
		if err = s.folder.MkdirAll(path.Dir(name), folderMode); err == nil || errors.Is(err, fs.ErrExist) {
			err = s.folder.Create(name, body, fileMode)
		}
	}
	if errors.Is(err, localfile.ErrUnsupported) {
		s.named.Store(true)
	}
	return err == nil
}

// place links the temporary file to its name, or compares the content if the name
// exists. It reports whether it has linked it.
func (s *Store) place(temp, name string, body []byte) (placed bool, err error) {
	for range placeAttempts {
		err = s.folder.Link(temp, name) // the commit point
		if err == nil {
			return true, nil
		}
		if errors.Is(err, fs.ErrExist) {
			err = s.compare(name, body)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		// The folder is new, or a Delete removed it before Link, or the body before compare.
		if err = s.folder.MkdirAll(path.Dir(name), folderMode); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
		// On those errors, a Delete removed a folder during MkdirAll.
	}
	return false, fmt.Errorf("gave up after %d attempts: %w", placeAttempts, err)
}

// compare returns nil if the file holds exactly body, store.ErrExists if it holds
// anything else, and fs.ErrNotExist if it is gone. An equal file may not be on disk yet, if its
// body is in a journal.
func (s *Store) compare(name string, body []byte) error {
	if s.folder.IsMissing(name) {
		return fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
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
