package dirbody

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/facetheory/isr/internal/localfile"
)

// Unfinished bodies, and the lock that shows whether a live writer may own them. No
// key's file name begins with a dot.
const (
	tempFolder = ".tmp"
	lockFile   = tempFolder + "/lock"
)

// joinWriters takes the shared lock that every open store holds. If no other store holds
// it, all temporary files belong to crashed writers: their journals are replayed, and the
// rest is removed. Otherwise their journals are adopted.
//
// The kernel releases the lock (flock(2), per open file) when the process ends for any
// reason.
func (s *Store) joinWriters() error {
	if err := s.folder.Mkdir(tempFolder, folderMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := s.folder.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	s.writers = lock
	err = s.folder.Lock(lock, false, false)
	shared := errors.Is(err, localfile.ErrLocked) // another store is open: the files may belong to it
	if err == nil {
		err = s.removeLeftovers()
	}
	if err != nil && !shared {
		return err
	}
	// flock releases the exclusive lock before it takes the shared one. Another Open may
	// clean up in between; this store has no temporary files yet.
	if err := s.folder.Lock(lock, true, true); err != nil {
		return err
	}
	if shared {
		s.adoptJournals()
	}
	return nil
}

func (s *Store) removeLeftovers() error {
	entries, err := s.folder.ReadDir(tempFolder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := tempFolder + "/" + entry.Name()
		if name == lockFile || strings.HasPrefix(name, asidePrefix) {
			continue
		}
		if strings.HasPrefix(name, journalPrefix) {
			if err := s.replay(name); err != nil {
				return err
			}
			continue
		}
		if err := s.folder.Remove(name); err != nil {
			return fmt.Errorf("removing a crashed writer's file: %w", err)
		}
	}
	return nil
}

// writeTemp writes a body to a new temporary file, and syncs it if durable is set.
func (s *Store) writeTemp(body []byte, durable bool) (name string, err error) {
	name = tempFolder + "/" + rand.Text()
	f, err := s.folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return "", err
	}
	_, err = f.Write(body)
	if err == nil && durable {
		// A name must never refer to content that is not on disk, so sync before the
		// link.
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		s.removeTemp(name)
		return "", err
	}
	return name, nil
}

// removeTemp removes a temporary file. A remaining file is never read, and the next
// Open removes it.
func (s *Store) removeTemp(name string) {
	_ = s.folder.Remove(name)
}
