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
//	        its name, such as bodies/<hex>.<generation>.body, then fsync of its folder and
//	        all parents
//
// Small bodies of pages reach the disk in a journal first, many with one sync (see
// journal.go), and their own files are synced later. On Linux these files have no name before
// the link (O_TMPFILE), where the file system has such files.
//
// The guarantees: a body whose Put returned nil survives a crash of the process or the
// kernel, and a power failure if the disk honours fsync. If the disk damages a journal, the bodies
// of the damaged records are lost, which is logged with the file, the offset and the length, and up to four
// damaged journals stay as .tmp/damaged-journal-…. A crash during Put leaves at
// most a temporary file, which the next Open removes, empty folders, and a complete
// body that was not acknowledged. No name leads outside the directory, not even through
// symbolic links (see [os.Root]).
//
// Several processes may open the directory at once. It needs a file system with hard
// links, flock and case-preserving names of 255 bytes, as on Linux and macOS; Windows
// is not supported. Folders and files have the modes 0700 and 0600.
package dirbody

// The files:
//
//	dirbody.go     the store: put, open, delete, list
//	journal.go     small bodies become durable by group commit
//	checkpoint.go  syncs their files later, and retries
//	records.go     reads a journal past damaged records
//	replay.go      restores bodies after a power failure
//	adopt.go       takes over the journals of killed processes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/facetheory/isr/internal/localfile"
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
	log     *slog.Logger
	boot    string // see bootID
	folder  localfile.FS
	writers localfile.File // holds the writers' shared lock; nil before
	journal journal
	named   atomic.Bool // files need a name from the beginning, see placeUnnamed
	earlier bool        // bodies of pages may be where earlier versions stored them
	puts    keyLocks    // of the bodies that are put by way of the journal

	closing  context.Context // done once Close begins
	close    context.CancelFunc
	adopting sync.WaitGroup // adoptUntilClosed

	mu      sync.Mutex
	durable map[string]bool // guarded by mu: folders whose names are on disk, and stay
}

var _ store.BodyStore = (*Store)(nil)

// Options are the options of [Open].
type Options struct {
	// Logger logs when bodies in the journal fail to reach the disk, and when they have after all,
	// of journals of processes that were killed, and of damaged journals. Nil means [slog.Default].
	Logger *slog.Logger
}

// Open opens the directory, and creates it if it does not exist. It removes what
// crashed writers left, unless another process has the directory open, when it makes the bodies in
// their journals durable, now and every ten minutes. It links one test file, so that an unsuitable
// file system is an error at startup. The caller must close the store.
func Open(dir string, o Options) (*Store, error) {
	s, err := open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("dirbody: cannot store bodies in %s: %w", dir, err)
	}
	return s, nil
}

func open(dir string, o Options) (*Store, error) {
	if err := makeFolder(filepath.Clean(dir)); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	folder, err := localfile.Open(root)
	if err != nil {
		return nil, err
	}
	return openIn(folder, dir, bootID(), o)
}

// openIn opens the store in a folder, which belongs to it from now on, also if it fails.
func openIn(folder localfile.FS, dir, boot string, o Options) (s *Store, err error) {
	s = &Store{dir: dir, log: cmp.Or(o.Logger, slog.Default()), boot: boot, folder: folder, durable: make(map[string]bool)}
	s.closing, s.close = context.WithCancel(context.Background())
	s.journal.store = s
	if s.earlier, err = hasEarlier(folder); err == nil {
		err = s.joinWriters()
	}
	if err == nil {
		err = s.tryLink()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.adopting.Go(s.adoptUntilClosed)
	return s, nil
}

// Close waits until the files of all bodies are on disk, and releases the directory. If they do
// not reach the disk, it returns an error, and the journal stays for the next Open. Bodies
// that are open stay readable. No Put may be in progress.
func (s *Store) Close() error {
	s.close()
	s.adopting.Wait()
	err := s.journal.close()
	if s.writers != nil {
		err = errors.Join(err, s.writers.Close()) // releases the lock
	}
	return errors.Join(err, s.folder.Close())
}

// tryLink links a temporary file next to itself, as Put links a body.
func (s *Store) tryLink() error {
	temp, err := s.writeTemp(nil, true)
	if err != nil {
		return err
	}
	defer s.removeTemp(temp)
	linked := temp + "-linked"
	if err := s.folder.Link(temp, linked); err != nil {
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
	return localfile.SyncFolder(parent)
}

// syncFolders syncs a folder and its parents up to the root.
//
// It syncs all, not only those that this Put created: another writer may have created
// one and not synced it yet, or crashed before it did. The names of the folders for the
// bodies of pages are synced once, because no Delete removes these folders.
func (s *Store) syncFolders(folder string) error {
	for at := folder; ; at = path.Dir(at) {
		err := s.syncFile(at)
		if errors.Is(err, fs.ErrNotExist) {
			// Only Delete removes folders, and only empty ones: the body was deleted after
			// it was placed, so nothing is left to sync.
			return nil
		}
		if err != nil {
			return err
		}
		if at == "." || s.isDurable(at) {
			break
		}
	}
	if isFanOut(folder) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.durable[folder] = true
	}
	return nil
}

func (s *Store) isDurable(folder string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.durable[folder]
}

// failed adds the operation, the key and the file to an error.
func (s *Store) failed(operation, key string, err error) error {
	return fmt.Errorf("dirbody: %s body %q at %s: %w", operation, key, filepath.Join(s.dir, filepath.FromSlash(fileName(key))), contract(err))
}
