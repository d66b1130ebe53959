package dirbody

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/localfile"
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
// Close, and is locked until then (flock). The journal of a process that was killed is replayed by
// the next Open of the directory if no other store is open, and adopted by the others if one
// is (see adopt.go). A damaged part of a journal is skipped and logged, and the file is kept aside,
// see [Store.endJournal].
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
	// maxBuffer is the size of the largest buffer that is kept for other batches.
	maxBuffer = 1 << 20

	journalPrefix = tempFolder + "/journal-"
	// asidePrefix begins the names of damaged journals, which are kept, see endJournal.
	asidePrefix = tempFolder + "/damaged-"
)

// A journal is the journal of an open store.
type journal struct {
	store *Store

	mu     sync.Mutex
	batch  *batch   // guarded by mu: takes further records; nil if there is none
	unused [][]byte // guarded by mu: buffers of batches, for the next ones

	writing    sync.Mutex  // held by the leader of the batch that is written
	segment    *segment    // guarded by writing: nil before the first batch, and after a failure
	checkpoint *checkpoint // guarded by writing: in progress; nil if there is none
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
	file   localfile.File // open for reading too, and locked until its owner ends
	name   string
	size   int            // of the batches that are on disk
	broken bool           // what follows them is unknown
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
		b = &batch{data: j.buffer(), done: make(chan struct{})}
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
	b.err = j.write(b)
	j.reuse(b)
}

// buffer returns an empty buffer for a batch. Callers must hold mu.
func (j *journal) buffer() []byte {
	n := len(j.unused)
	if n == 0 {
		return nil
	}
	b := j.unused[n-1]
	j.unused = j.unused[:n-1]
	return b
}

// reuse keeps the buffer of a batch: one batch is written while another takes records.
func (j *journal) reuse(b *batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.unused) < 2 && cap(b.data) <= maxBuffer {
		j.unused = append(j.unused, b.data[:0])
	}
	b.data = nil
}

// write returns once a batch is on disk.
func (j *journal) write(b *batch) error {
	if s := j.segment; s != nil && (s.broken || s.size >= maxSegment || len(s.files) >= maxRecords) {
		if err := j.retire(); err != nil {
			return err
		}
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
	_, err := s.file.Write(b.data)
	if err == nil {
		err = j.store.folder.DataSync(s.file)
	}
	if err != nil {
		s.broken = true
		return errors.Join(err, j.retire())
	}
	// If we crash here, the next Open restores bodies that were not acknowledged.
	s.size += len(b.data)
	s.files = append(s.files, b.files...)
	s.placed.Add(len(b.files))
	b.segment = s
	return nil
}

// retire begins the checkpoint of the current segment, after which its file is removed. One
// checkpoint runs at a time, so that the space of all segments is bounded: while one fails, the
// current segment stays, and once it is full, it takes no further records.
//
// Callers must hold writing.
func (j *journal) retire() error {
	if err := j.awaitCheckpoint(); err != nil {
		return err
	}
	j.segment.aging.Stop()
	j.checkpoint = j.store.startCheckpoint(j.segment)
	j.segment = nil
	return nil
}

// expire retires a segment that is old, unless that has begun.
func (j *journal) expire(s *segment) {
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.segment == s && j.retire() != nil {
		s.aging.Reset(maxAge) // an earlier checkpoint is being retried, which is in the log
	}
}

// awaitCheckpoint waits until the checkpoint in progress has succeeded, and fails if an attempt
// of it has failed and no other has succeeded since.
func (j *journal) awaitCheckpoint() error {
	if j.checkpoint == nil {
		return nil
	}
	if err := j.checkpoint.wait(); err != nil {
		return fmt.Errorf("earlier bodies did not reach the disk: %w", err)
	}
	j.checkpoint = nil
	return nil
}

// close waits until all bodies are on disk, and removes the journal. The store is closing, so
// that a checkpoint that fails is attempted once more, and its journal then stays.
func (j *journal) close() error {
	j.writing.Lock()
	defer j.writing.Unlock()
	var err error
	if j.checkpoint != nil {
		<-j.checkpoint.done
		err = j.awaitCheckpoint()
		j.checkpoint = nil
	}
	if j.segment == nil {
		return err
	}
	_ = j.retire() // there is no other checkpoint
	<-j.checkpoint.done
	return errors.Join(err, j.awaitCheckpoint())
}

// newSegment creates a file for the journal whose name is on disk. It is locked before it has the
// name of a journal, so that no other process takes it for one whose owner has ended.
func (s *Store) newSegment() (*segment, error) {
	random := rand.Text()
	temp, name := tempFolder+"/"+random, journalPrefix+random+"."+s.boot
	f, err := s.folder.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, fileMode)
	if err != nil {
		return nil, err
	}
	if err = s.folder.Lock(f, false, false); err == nil {
		err = s.folder.Rename(temp, name)
	}
	if err == nil {
		err = s.syncFolders(tempFolder)
	}
	if err != nil {
		s.removeTemp(temp)
		s.removeTemp(name)
		return nil, errors.Join(err, f.Close())
	}
	return &segment{file: f, name: name}, nil
}

// journaled reports whether a body is made durable by the journal: a small body of a page.
func journaled(key string, body []byte) bool {
	return len(body) <= maxJournaled && pageFile(key) != "" && store.ValidBodyKey(key) == nil
}
