package dirbody

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// The journal makes small bodies durable with one sync for all that are put at the same
// time (group commit), instead of two for each:
//
//	Put ──> .tmp/journal-<random>  append, fdatasync: now the body is durable
//	             │
//	             └──> a file of its own, written, linked, and not synced
//
// Readers see the file only. After a power failure it may be missing or torn, and the next
// Open restores it from the journal ([Store.replay]). A journal that is full, or maxAge old, is
// replaced by another, and removed as soon as all of its files are on disk (a checkpoint).
//
// Each store that is open has a journal of its own, which exists from its first Put to its
// Close. That of a process that was killed is replayed by the next Open of the directory
// while no other store is open: before that, its files are missing nothing, because no
// machine with an open store has lost its power.
const (
	// maxJournaled is the length of the largest body that is written to the journal. Larger
	// bodies are synced one by one: to write them twice costs more than the sync.
	maxJournaled = 64 << 10
	// maxSegment and maxRecords bound a journal, and so what an Open after a crash restores.
	maxSegment = 32 << 20
	maxRecords = 1 << 14
	// maxAge bounds how long a journal keeps bodies, which may have been deleted since.
	maxAge = 10 * time.Minute
	// maxBatch is the number of bytes from which a batch takes no further records.
	maxBatch = 4 << 20

	journalPrefix = tempFolder + "/journal-"
)

// A record is: a checksum of all that follows, the lengths of key and body, the key, the body.
const recordHeader = 4 + 2 + 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A journal is the journal of an open store.
type journal struct {
	store *Store

	mu    sync.Mutex
	batch *batch // guarded by mu: takes further records; nil without

	writing      sync.Mutex // held by the leader of the batch that is written
	segment      *segment   // guarded by writing: nil before the first batch, and after a failure
	checkpointed chan error // guarded by writing: has the result of the checkpoint in progress; nil without
	failure      error      // guarded by writing: a checkpoint failed
}

// A batch is the records that are written and synced together.
type batch struct {
	data  []byte
	files []string
	// done is closed once the batch is on disk or has failed; segment and err are set before.
	done    chan struct{}
	segment *segment
	err     error
}

// A segment is one file of the journal.
type segment struct {
	file   *os.File
	name   string
	size   int
	files  []string       // the paths of the bodies in it
	placed sync.WaitGroup // the Puts of those that are still being placed
	aging  *time.Timer    // retires it after maxAge
}

// append makes a body durable. After it, the caller places the file, and then calls
// segment.placed.Done.
func (j *journal) append(key, file string, body []byte) (*segment, error) {
	j.mu.Lock()
	b := j.batch
	leader := b == nil || len(b.data) >= maxBatch
	if leader {
		b = &batch{done: make(chan struct{})}
		j.batch = b
	}
	b.data, b.files = appendRecord(b.data, key, body), append(b.files, file)
	j.mu.Unlock()
	if leader {
		j.commit(b)
	}
	<-b.done
	return b.segment, b.err
}

func appendRecord(to []byte, key string, body []byte) []byte {
	at := len(to)
	to = slices.Grow(to, recordHeader+len(key)+len(body))
	to = append(to, 0, 0, 0, 0)
	to = binary.BigEndian.AppendUint16(to, uint16(len(key)))
	to = binary.BigEndian.AppendUint32(to, uint32(len(body)))
	to = append(append(to, key...), body...)
	binary.BigEndian.PutUint32(to[at:], crc32.Checksum(to[at+4:], castagnoli))
	return to
}

// commit writes a batch. While the previous one is written, further Puts join this one.
func (j *journal) commit(b *batch) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mu.Lock()
	if j.batch == b {
		j.batch = nil
	}
	j.mu.Unlock()
	defer close(b.done)
	if b.err = j.write(b); b.err != nil && j.segment != nil {
		// What is at the end of the file is unknown. Its earlier records are on disk.
		b.err = errors.Join(b.err, j.retire())
	}
}

// write returns once a batch is on disk.
func (j *journal) write(b *batch) error {
	if j.segment != nil && (j.segment.size >= maxSegment || len(j.segment.files) >= maxRecords) {
		if err := j.retire(); err != nil {
			return err
		}
	}
	if j.failure != nil {
		return j.failure
	}
	if j.segment == nil {
		s, err := j.store.newSegment()
		if err != nil {
			return err
		}
		j.segment = s
		s.aging = time.AfterFunc(maxAge, func() { j.expire(s) })
	}
	s := j.segment
	if _, err := s.file.Write(b.data); err != nil {
		return err
	}
	if err := dataSync(s.file); err != nil {
		return err
	}
	// If we crash here, the next Open restores bodies that were not acknowledged.
	s.size += len(b.data)
	s.files = append(s.files, b.files...)
	s.placed.Add(len(b.files))
	b.segment = s
	return nil
}

// retire begins the checkpoint of the current segment, after which its file is removed. One
// checkpoint runs at a time, so that the space of all segments is bounded. If a checkpoint
// fails, its segment stays for the next Open, and all further Puts fail: the disk does.
//
// Callers must hold writing.
func (j *journal) retire() error {
	if err := j.awaitCheckpoint(); err != nil {
		return err
	}
	s, done := j.segment, make(chan error, 1)
	s.aging.Stop()
	j.segment, j.checkpointed = nil, done
	go func() { done <- j.store.checkpoint(s) }()
	return nil
}

// expire retires a segment that is old, unless that has begun.
func (j *journal) expire(s *segment) {
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.segment == s {
		_ = j.retire() // a failure is that of the next Put, and of Close
	}
}

func (j *journal) awaitCheckpoint() error {
	if j.checkpointed != nil {
		if err := <-j.checkpointed; err != nil && j.failure == nil {
			j.failure = fmt.Errorf("earlier bodies did not reach the disk: %w", err)
		}
		j.checkpointed = nil
	}
	return j.failure
}

// close waits until all bodies are on disk, and removes the journal.
func (j *journal) close() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.segment != nil {
		if err := j.retire(); err != nil {
			return err
		}
	}
	return j.awaitCheckpoint()
}

// newSegment creates a file for the journal whose name is on disk.
func (s *Store) newSegment() (*segment, error) {
	name := journalPrefix + rand.Text()
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, fileMode)
	if err != nil {
		return nil, err
	}
	if err := s.syncFolders(tempFolder); err != nil {
		return nil, errors.Join(err, f.Close(), s.root.Remove(name))
	}
	return &segment{file: f, name: name}, nil
}

// checkpoint makes the files of a segment durable and removes it. If we crash before the
// removal, the next Open finds that nothing is to be restored.
func (s *Store) checkpoint(old *segment) error {
	old.placed.Wait()
	if err := errors.Join(s.syncFiles(old.files), old.file.Close()); err != nil {
		return err
	}
	return s.root.Remove(old.name)
}

// journaled reports whether a body is made durable by the journal: a small body of a page.
func journaled(key string, body []byte) bool {
	return len(body) <= maxJournaled && pageFile(key) != "" && store.ValidBodyKey(key) == nil
}
