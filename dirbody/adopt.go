package dirbody

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/localfile"
)

// An open store adopts the journals of processes that have ended while others have the directory
// open: at its Open, and every maxAge. Its lock shows whether a journal has an owner.
//
// If the machine has not been started since, by the name of the journal, nothing is lost:
// the files of all acknowledged bodies are in the memory of the system. Missing ones have been
// deleted, and stay so. They only have to reach the disk; a file that a bad disk has damaged since is written
// again. Otherwise bodies are restored as by an Open while no other store is open.

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
	entries, err := s.folder.ReadDir(tempFolder)
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

// adopt makes the bodies in a journal durable and ends it, unless it has an owner. Two stores
// may adopt the same journal one after the other.
func (s *Store) adopt(name string) (ok bool, err error) {
	_, boot, locked := strings.Cut(strings.TrimPrefix(name, journalPrefix), ".")
	if !locked {
		return false, nil // written by an earlier version, which did not lock it
	}
	f, err := s.folder.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close() // releases the lock
	err = s.folder.Lock(f, false, false)
	if errors.Is(err, localfile.ErrLocked) {
		return false, nil
	}
	if err == nil {
		err = s.salvage(f, name, boot == "" || boot != s.boot)
	}
	return err == nil, err
}

// isElsewhere reports whether another journal has the content of a file. Then two processes have put different
// bodies under one key at the same time, and the file is right.
func (r *repair) isElsewhere(name string) bool {
	if r.elsewhere == nil {
		r.elsewhere = make(map[string]bool)
		r.readOthers()
	}
	content, _, err := r.store.folder.Read(name, maxJournaled)
	return err == nil && r.elsewhere[fileAndSum(name, content)]
}

// readOthers reads the other journals. One that cannot be read is ignored.
func (r *repair) readOthers() {
	entries, _ := r.store.folder.ReadDir(tempFolder)
	for _, entry := range entries {
		name := tempFolder + "/" + entry.Name()
		if !strings.HasPrefix(name, journalPrefix) || name == r.journal {
			continue
		}
		f, err := r.store.folder.OpenFile(name, os.O_RDONLY, 0)
		if err != nil {
			continue
		}
		_, _ = readJournal(f, func(file string, body []byte) error {
			r.elsewhere[fileAndSum(file, body)] = true
			return nil
		})
		_ = f.Close() // read only
	}
}

func fileAndSum(file string, content []byte) string {
	sum := sha256.Sum256(content)
	return file + "\x00" + string(sum[:])
}
