package dirbody

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/store"
)

// replay restores the bodies in the journal of a process that was killed, makes them
// durable, and ends the journal. It may be repeated after a crash. Bodies that were
// deleted since they were written may exist again, and can be deleted again.
func (s *Store) replay(name string) error {
	f, err := s.folder.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.salvage(f, name, true)
}

// salvage makes the bodies in the journal of a process that has ended durable, and ends the journal.
// The machine may have been restarted since: then files are missing, or are not what they were. Otherwise a
// missing file was deleted, and stays so.
func (s *Store) salvage(journal localfile.File, name string, restarted bool) error {
	r, err := s.newRepair(journal, name, restarted)
	if err != nil {
		return err
	}
	found, err := readJournal(journal, r.body)
	if err != nil {
		return fmt.Errorf("restoring bodies from %s: %w", name, err)
	}
	if err := s.syncFiles(journal, found.files); err != nil {
		return err
	}
	return s.endJournal(name, found)
}

// A repair gives the files of bodies the content that a journal has.
type repair struct {
	store     *Store
	journal   string    // its name
	written   time.Time // when the journal was written to: the time of files that are missing
	restarted bool      // see salvage

	elsewhere map[string]bool // what other journals have, see isElsewhere; nil until it is needed
}

func (s *Store) newRepair(journal localfile.File, name string, restarted bool) (*repair, error) {
	info, err := journal.Stat()
	if err != nil {
		return nil, err
	}
	return &repair{store: s, journal: name, written: info.ModTime(), restarted: restarted}, nil
}

// body repairs the file of one body. The content is written again also if the file has it. It is not enough
// to sync files again whose sync may have failed: the system counts what it could not write as
// written, and the second fsync returns success (see "Errors" in fsync(2), and "PostgreSQL's fsync()
// surprise", https://lwn.net/Articles/752063/).
func (r *repair) body(name string, body []byte) error {
	s := r.store
	err := s.compare(name, body)
	switch {
	case err == nil:
		err = s.overwrite(name, body)
		if errors.Is(err, fs.ErrNotExist) && !r.restarted {
			return nil // deleted after the comparison
		}
		return err
	case errors.Is(err, fs.ErrNotExist):
		if !r.restarted {
			return nil // deleted, or its Put was not acknowledged
		}
		return s.restore(name, body, r.written)
	case !r.restarted && !isDamage(err):
		return fmt.Errorf("writing %s again: %w", name, err)
	case !r.restarted && r.isElsewhere(name):
		return nil // the Put of this body failed: the body of another process was placed
	}
	// Only one body is written under a key, so the file is what a power failure, or a bad disk, has left of it.
	return s.replace(name, body, r.written)
}

// isDamage reports whether the error of a comparison means that a file was damaged. Other errors may pass.
func isDamage(err error) bool { return errors.Is(err, store.ErrExists) || errors.Is(err, syscall.EIO) }

// overwrite writes what a file contains, so that readers see no difference.
func (s *Store) overwrite(name string, body []byte) error {
	f, err := s.folder.OpenFile(name, os.O_WRONLY, 0)
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
	_ = s.folder.Chtimes(name, used.ModTime()) // or it counts as used now
	return nil
}

// restore gives a body that has no file one, with the time at which it was written.
func (s *Store) restore(name string, body []byte, written time.Time) error {
	temp, err := s.writeRestored(body, written)
	if err != nil {
		return err
	}
	defer s.removeTemp(temp)
	_, err = s.place(temp, name, body)
	return err
}

// replace replaces a damaged file, of which readers see either content.
func (s *Store) replace(name string, body []byte, written time.Time) error {
	info, err := s.folder.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = s.folder.RemoveAll(name) // Rename does not replace a folder
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	temp, err := s.writeRestored(body, written)
	if err != nil {
		return err
	}
	defer s.removeTemp(temp)
	return s.folder.Rename(temp, name)
}

func (s *Store) writeRestored(body []byte, written time.Time) (temp string, err error) {
	if temp, err = s.writeTemp(body, true); err != nil {
		return "", err
	}
	if err := s.folder.Chtimes(temp, written); err != nil {
		s.removeTemp(temp)
		return "", err
	}
	return temp, nil
}

// maxAside bounds how many damaged journals are kept, each up to maxSegment and one batch long.
const maxAside = 4

// endJournal ends a journal whose bodies are on disk. It is removed, or kept aside if a part of it cannot be
// read, so that an operator can examine it. If we crash before, the bodies are restored again.
func (s *Store) endJournal(name string, found journalContent) error {
	log := s.log.With("folder", s.dir, "journal", name)
	for i, lost := range found.lost {
		switch {
		case found.torn && i == len(found.lost)-1:
			log.Warn("dirbody: a journal ends within a record, which was being written when its process ended, or is damaged",
				"offset", lost.at, "bytes", lost.length)
		case i < maxLogged:
			log.Warn("dirbody: a part of a journal is damaged; the bodies in it are lost unless their files are whole",
				"offset", lost.at, "bytes", lost.length)
		}
	}
	if !found.isDamaged() {
		return s.removeJournal(name)
	}
	aside := asidePrefix + strings.TrimPrefix(name, tempFolder+"/")
	if err := s.folder.Rename(name, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	log.Warn("dirbody: kept a damaged journal aside; it can be removed", "file", aside, "damaged_parts", len(found.lost), "bodies_read", len(found.files))
	return s.pruneAside()
}

// maxLogged bounds the log lines about one journal.
const maxLogged = 16

// pruneAside removes the oldest of the journals that are kept aside, down to maxAside.
func (s *Store) pruneAside() error {
	entries, err := s.folder.ReadDir(tempFolder)
	if err != nil {
		return err
	}
	var kept []fs.FileInfo
	for _, entry := range entries {
		if !strings.HasPrefix(tempFolder+"/"+entry.Name(), asidePrefix) {
			continue
		}
		if info, err := entry.Info(); err == nil { // or another process has removed it
			kept = append(kept, info)
		}
	}
	slices.SortFunc(kept, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, info := range kept[min(len(kept), maxAside):] {
		if err := s.removeJournal(tempFolder + "/" + info.Name()); err != nil {
			return err
		}
	}
	return nil
}

// syncFiles makes files and their names durable. Files that were deleted are skipped. The descriptor was opened
// before the files were written: Linux reports that data could not be written to each descriptor that was
// open then (errseq_t), but to later ones only if no other has reported it, and, of a file, only while the file
// is in memory. So the descriptors that are opened here may miss it, and this one does not: syncfs reports the
// failures of the whole file system to it.
func (s *Store) syncFiles(since localfile.File, files []string) error {
	if len(files) <= maxSyncedSingly {
		if err := s.syncSingly(files); err != nil {
			return err
		}
	}
	ok, err := s.folder.SyncFileSystem(since)
	if !ok && len(files) > maxSyncedSingly {
		return s.syncSingly(files)
	}
	return err
}

// maxSyncedSingly is up to how many files are synced one by one before the file system is, which then has
// less to write at once. Beyond, to sync the whole file system costs less, also if other processes write to it.
const maxSyncedSingly = 256

func (s *Store) syncSingly(files []string) error {
	folders := make(map[string]bool)
	for _, name := range files {
		err := s.syncFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		folders[path.Dir(name)] = true
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if err := s.syncFolders(folder); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) syncFile(name string) error {
	f, err := s.folder.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
