package dirbody

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
)

// replay restores the bodies in the journal of a process that was killed, makes them
// durable, and removes the journal. It may be repeated after a crash. Bodies that were
// deleted since they were written may exist again, and can be deleted again.
func (s *Store) replay(name string) error {
	f, err := s.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := s.restoreAll(f); err != nil {
		return err
	}
	return s.removeJournal(name)
}

// restoreAll restores the bodies in a journal and makes them durable.
func (s *Store) restoreAll(journal *os.File) error {
	written, err := journal.Stat()
	if err != nil {
		return err
	}
	files, err := readRecords(journal, func(name string, body []byte) error { return s.restore(name, body, written.ModTime()) })
	if err != nil {
		return fmt.Errorf("restoring bodies from %s: %w", journal.Name(), err)
	}
	return s.syncFiles(files)
}

// readRecords calls do with each record of a journal, and returns the files of their bodies.
func readRecords(from io.Reader, do func(file string, body []byte) error) (files []string, err error) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		key, body, err := readRecord(in)
		if errors.Is(err, errNoRecord) {
			return files, nil // the end, or what was being written by a Put that was not acknowledged
		}
		if err == nil {
			err = do(fileName(key), body)
		}
		if err != nil {
			return nil, err
		}
		files = append(files, fileName(key))
	}
}

// restore gives a file the content that it had before the crash, and the time.
func (s *Store) restore(name string, body []byte, written time.Time) error {
	switch err := s.compare(name, body); {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		// Other content, or none that can be read. Only one body is written under a key, so it is
		// what a power failure, or a bad disk, has left of it.
		if err := s.root.RemoveAll(name); err != nil {
			return err
		}
	}
	temp, err := s.writeTemp(body, true)
	if err != nil {
		return err
	}
	defer s.removeTemp(temp)
	if err := s.root.Chtimes(temp, time.Time{}, written); err != nil {
		return err
	}
	return s.place(temp, name, body)
}

// errNoRecord: no complete record follows.
var errNoRecord = errors.New("no further record")

func readRecord(in io.Reader) (key string, body []byte, err error) {
	var header [recordHeader]byte
	if err := readFull(in, header[:]); err != nil {
		return "", nil, err
	}
	keyLength, bodyLength := int(binary.BigEndian.Uint16(header[4:])), int(binary.BigEndian.Uint32(header[6:]))
	if bodyLength > maxJournaled {
		return "", nil, errNoRecord
	}
	rest := make([]byte, keyLength+bodyLength)
	if err := readFull(in, rest); err != nil {
		return "", nil, err
	}
	sum := crc32.Update(crc32.Checksum(header[4:], castagnoli), castagnoli, rest)
	key, body = string(rest[:keyLength]), rest[keyLength:]
	if sum != binary.BigEndian.Uint32(header[:]) || !journaled(key, body) {
		return "", nil, errNoRecord
	}
	return key, body, nil
}

func readFull(in io.Reader, to []byte) error {
	_, err := io.ReadFull(in, to)
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return errNoRecord
	}
	return err
}

// syncFiles makes files and their names durable. Files that were deleted are skipped.
func (s *Store) syncFiles(files []string) error {
	if len(files) > maxSyncedSingly {
		if ok, err := s.syncFileSystem(); ok {
			return err
		}
	}
	folders := make(map[string]bool)
	for _, name := range files {
		err := s.syncFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		folders[path.Dir(name)] = true
	}
	for folder := range folders {
		if err := s.syncFolders(folder); err != nil {
			return err
		}
	}
	return nil
}

// maxSyncedSingly is up to how many files are synced one by one. Beyond, to sync the whole
// file system costs less, also if other processes write to it.
const maxSyncedSingly = 256

func (s *Store) syncFile(name string) error {
	f, err := s.root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
