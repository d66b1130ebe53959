// Package dirbody stores response bodies as files in a local directory. It is the
// [store.BodyStore] for a site that runs on one machine.
//
// The problem: for every reader, and after every crash, a body must exist completely
// or not exist, and the content of a key must never change.
//
// The model: a body is written to a temporary file, synced, and then hard-linked to
// its name. POSIX makes the link atomic, and it fails if the name exists:
//
//	Put ──> .tmp/<random>  write, fsync
//	             │ link: the commit point
//	             v
//	        bodies/<hex>/<generation>.body, then fsync of its folder and all parents
//
// The guarantees: a body whose Put returned nil survives a crash of the process or the
// kernel, and a power failure if the disk honours fsync. A crash during Put leaves at
// most a temporary file, which the next Open removes, empty folders, and a complete
// body that was not acknowledged. No name leads outside the directory, not even through
// symbolic links (see [os.Root]).
//
// Several processes may open the directory at once. It needs a file system with hard
// links, flock and case-preserving names of 255 bytes, as on Linux and macOS; Windows
// is not supported. Folders and files have the modes 0700 and 0600.
package dirbody

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/facetheory/isr/store"
)

// Modes of created folders and files.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// A Store is a [store.BodyStore] in a directory. It is safe for concurrent use.
type Store struct {
	dir     string // as given, for messages
	root    *os.Root
	writers *os.File // holds the writers' shared lock
}

var _ store.BodyStore = (*Store)(nil)

// Open opens the directory, and creates it if it does not exist. It removes what
// crashed writers left, unless another process has the directory open, and links one
// test file, so that an unsuitable file system is an error at startup. The caller must
// close the store.
func Open(dir string) (*Store, error) {
	s, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("dirbody: cannot store bodies in %s: %w", dir, err)
	}
	return s, nil
}

func open(dir string) (*Store, error) {
	if err := makeFolder(filepath.Clean(dir)); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, root: root}
	if err := s.joinWriters(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.tryLink(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close releases the directory. Bodies that are open stay readable.
func (s *Store) Close() error {
	var err error
	if s.writers != nil {
		err = s.writers.Close() // releases the lock
	}
	return errors.Join(err, s.root.Close())
}

// tryLink links a temporary file next to itself, as Put links a body.
func (s *Store) tryLink() error {
	temp, err := s.writeTemp(nil)
	if err != nil {
		return err
	}
	defer s.removeTemp(temp)
	linked := temp + "-linked"
	if err := s.root.Link(temp, linked); err != nil {
		return fmt.Errorf("the file system must support hard links: %w", err)
	}
	s.removeTemp(linked)
	return nil
}

// makeFolder creates a folder and its missing parents, and syncs each new name.
func makeFolder(dir string) error {
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s exists and is not a folder", dir)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeFolder(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.Open(parent)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// syncFolders syncs a folder and its parents up to the root.
//
// It syncs all, not only those that this Put created: another writer may have created
// one and not synced it yet, or crashed before it did. Syncing a clean folder is
// cheap.
func (s *Store) syncFolders(folder string) error {
	for {
		f, err := s.root.Open(folder)
		if errors.Is(err, fs.ErrNotExist) {
			// Only Delete removes folders, and only empty ones: the body was deleted after
			// it was placed, so nothing is left to sync.
			return nil
		}
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
		if folder == "." {
			return nil
		}
		folder = path.Dir(folder)
	}
}

// failed adds the operation, the key and the file to an error.
func (s *Store) failed(operation, key string, err error) error {
	return fmt.Errorf("dirbody: %s body %q at %s: %w", operation, key, filepath.Join(s.dir, filepath.FromSlash(fileName(key))), contract(err))
}
