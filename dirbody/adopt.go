package dirbody

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

// An open store adopts the journals of processes that have ended while others have the directory
// open: at its Open, and every maxAge. Its lock tells whether a journal has an owner.
//
// If the machine has not been started since, as the name of the journal tells, nothing is lost:
// the files of all acknowledged bodies are in the memory of the system. Missing ones have been
// deleted, and stay so. They only have to reach the disk. Otherwise bodies are restored as by an
// Open while no other store is open.

// maxAdopted bounds how many journals are adopted at a time, each up to maxSegment and one batch
// long.
const maxAdopted = 4

// adoptUntilClosed adopts journals every maxAge.
func (s *Store) adoptUntilClosed() {
	for backoff.Wait(s.closing, maxAge) == nil {
		s.adoptJournals()
	}
}

// adoptJournals logs what fails, and leaves it for later.
func (s *Store) adoptJournals() {
	log := s.log.With("folder", s.dir)
	entries, err := fs.ReadDir(s.root.FS(), tempFolder)
	if err != nil {
		log.Warn("dirbody: failed to look for journals of processes that have ended", "err", err)
		return
	}
	adopted := 0
	for _, entry := range entries {
		name := tempFolder + "/" + entry.Name()
		if !strings.HasPrefix(name, journalPrefix) || adopted == maxAdopted || s.closing.Err() != nil {
			continue
		}
		ok, err := s.adopt(name)
		switch {
		case err != nil:
			log.Warn("dirbody: failed to adopt the journal of a process that has ended; retrying later", "journal", name, "err", err)
		case ok:
			adopted++
			log.Info("dirbody: adopted the journal of a process that has ended", "journal", name)
		}
	}
}

// adopt makes the bodies in a journal durable and removes it, unless it has an owner. Two stores
// may adopt the same journal one after the other.
func (s *Store) adopt(name string) (ok bool, err error) {
	_, boot, locked := strings.Cut(strings.TrimPrefix(name, journalPrefix), ".")
	if !locked {
		return false, nil // written by an earlier version, which did not lock it
	}
	f, err := s.root.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // releases the lock
	err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err == nil {
		if boot != "" && boot == s.boot {
			_, err = s.rewrite(f)
		} else {
			err = s.restoreAll(f)
		}
	}
	if err != nil {
		return false, err
	}
	return true, s.removeJournal(name)
}

// rewrite writes the bodies of a journal to their files again, and syncs them. It is not enough
// to sync files again whose sync may have failed: the system counts what it could not write as
// written, and the second fsync returns success (see "Errors" in fsync(2), and "PostgreSQL's fsync()
// surprise", https://lwn.net/Articles/752063/).
func (s *Store) rewrite(in io.Reader) (files []string, err error) {
	if files, err = readRecords(in, s.rewriteBody); err != nil {
		return nil, err
	}
	return files, s.syncFiles(files)
}

// rewriteBody writes what a file contains, so that readers see no difference. It leaves files that
// are missing, which were deleted or whose Put was not acknowledged.
func (s *Store) rewriteBody(name string, body []byte) error {
	err := s.compare(name, body)
	var f *os.File
	if err == nil {
		f, err = s.root.OpenFile(name, os.O_WRONLY, 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing %s again: %w", name, err)
	}
	used, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(body, 0)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	_ = s.root.Chtimes(name, time.Time{}, used.ModTime()) // or it counts as used now
	return nil
}
