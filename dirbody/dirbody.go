// Package dirbody keeps response bodies as files in a directory of this
// machine. It is the [store.BodyStore] of a site that needs nothing but a disk.
//
// The problem: a body must be whole or not there at all, for every reader and
// after every crash, and a key must never get a second content.
//
// The model: a body is written to a temporary file, forced to disk, and then
// given its name by a hard link, which POSIX makes atomic and which fails if the
// name is taken:
//
//	Put ──> .tmp/<random>  write, fsync
//	             │ link: the commit point
//	             v
//	        bodies/<hex>/<generation>.body, then fsync of its folder and all above
//
// The guarantees: a body whose Put returned nil is there, whole, after a crash
// of the process, of the kernel, or of the power supply, as far as the disk does
// what fsync asks. A crash before that leaves at most a temporary file, which
// the next Open removes, empty folders, and a body that was not acknowledged
// but is whole. No name leads out of the directory, through symbolic links
// neither (see [os.Root]).
//
// Several processes may have the directory open at once. It needs a file
// system with hard links, flock and case-preserving names of 255 bytes, as on
// Linux and macOS; Windows is not supported. Folders and files are made
// readable to their owner alone (modes 0700 and 0600).
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

// Modes of what the store makes.
const (
	folderMode = 0o700
	fileMode   = 0o600
)

// A Store is an [store.BodyStore] in a directory. It is safe for concurrent use.
type Store struct {
	dir     string // as given, for messages
	root    *os.Root
	writers *os.File // holds the shared lock of the live writers
}

var _ store.BodyStore = (*Store)(nil)

// Open opens the directory, and makes it if there is none. It removes what
// crashed writers left unfinished, unless another process has the directory
// open too, and tries once whether a body can be placed at all, so that an
// unfit file system is found at the start. The caller closes the store.
func Open(dir string) (*Store, error) {
	s, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("dirbody: cannot use %s as the folder of bodies: %w", dir, err)
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

// Close gives the directory back. Bodies that are still open stay readable.
func (s *Store) Close() error {
	var err error
	if s.writers != nil {
		err = s.writers.Close() // and so unlocked
	}
	return errors.Join(err, s.root.Close())
}

// tryLink places a temporary file beside itself, as Put would place a body.
func (s *Store) tryLink() error {
	temp, err := s.writeTemp(nil)
	if err != nil {
		return err
	}
	defer s.removeTemp(temp)
	linked := temp + "-linked"
	if err := s.root.Link(temp, linked); err != nil {
		return fmt.Errorf("the file system must have hard links: %w", err)
	}
	s.removeTemp(linked)
	return nil
}

// makeFolder makes a folder with all that is missing above it, and forces each
// new name to disk.
func makeFolder(dir string) error {
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", dir)
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

// syncFolders forces a folder and all above it, up to the root, to disk.
//
// All, and not only those that this Put has made: another writer may have made
// one a moment ago, or just before it crashed, and not have forced it yet. What
// is on disk already costs little.
func (s *Store) syncFolders(folder string) error {
	for {
		f, err := s.root.Open(folder)
		if errors.Is(err, fs.ErrNotExist) {
			// Only Delete removes folders, and only empty ones: the body has
			// been deleted since it was placed, and needs to survive nothing.
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

// failed says which operation failed, on which key and which file.
func (s *Store) failed(operation, key string, err error) error {
	return fmt.Errorf("dirbody: %s body %q at %s: %w", operation, key, filepath.Join(s.dir, filepath.FromSlash(fileName(key))), contract(err))
}
