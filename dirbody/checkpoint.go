package dirbody

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

// Delays between the attempts of a checkpoint.
const (
	minRetry = time.Second
	maxRetry = time.Minute
)

// A checkpoint makes the files of a segment durable, and removes the segment. It is attempted
// until it succeeds or the store closes. If we crash before the removal, the next Open finds
// that nothing is to be restored.
type checkpoint struct {
	store   *Store
	segment *segment
	failed  chan struct{} // closed after the first attempt if it fails
	failure error         // of the first attempt; set before failed is closed
	done    chan struct{} // closed when there will be no further attempt
	err     error         // of the last attempt; set before done is closed
}

func (s *Store) startCheckpoint(old *segment) *checkpoint {
	c := &checkpoint{store: s, segment: old, failed: make(chan struct{}), done: make(chan struct{})}
	go c.run()
	return c
}

// wait returns once the first attempt has ended: nil if an attempt has succeeded.
func (c *checkpoint) wait() error {
	select {
	case <-c.done:
		return c.err
	case <-c.failed:
	}
	select {
	case <-c.done:
		return c.err
	default:
		return c.failure
	}
}

func (c *checkpoint) run() {
	defer close(c.done)
	defer c.segment.file.Close() // releases its lock, when it is removed or the store closes
	if c.err = c.sync(); c.err == nil {
		return
	}
	began := time.Now()
	log := c.store.log.With("folder", c.store.dir, "journal", c.segment.name)
	log.Error("dirbody: stored bodies did not reach the disk; retrying, and syncing further bodies one by one once the journal is full", "err", c.err)
	c.failure = c.err
	close(c.failed)
	for retries := 0; c.err != nil; retries++ {
		delay := backoff.Jitter(backoff.Exponential(minRetry, maxRetry, retries), rand.Uint64())
		last := backoff.Wait(c.store.closing, delay) != nil
		if c.err = c.rewrite(); last {
			break
		}
	}
	if c.err == nil {
		log.Info("dirbody: stored bodies have reached the disk after retries", "after", time.Since(began))
	}
}

// sync is the first attempt. The descriptor of the segment is older than all that was written to its files.
func (c *checkpoint) sync() error {
	c.segment.placed.Wait()
	if err := c.store.syncFiles(c.segment.file, c.segment.files); err != nil {
		return err
	}
	return c.store.removeJournal(c.segment.name)
}

// rewrite is every further attempt.
func (c *checkpoint) rewrite() error {
	r, err := c.store.newRepair(c.segment.file, c.segment.name, false)
	if err != nil {
		return err
	}
	found, err := readJournal(io.NewSectionReader(c.segment.file, 0, int64(c.segment.size)), r.body)
	if err != nil {
		return err
	}
	if err := c.rewriteRest(found.files); err != nil {
		return err
	}
	if err := c.store.syncFiles(c.segment.file, c.segment.files); err != nil {
		return err
	}
	return c.store.endJournal(c.segment.name, found)
}

// rewriteRest writes files again whose records are damaged. What the system has of them is all there is.
func (c *checkpoint) rewriteRest(rewritten []string) error {
	if len(rewritten) == len(c.segment.files) {
		return nil
	}
	done := make(map[string]bool, len(rewritten))
	for _, file := range rewritten {
		done[file] = true
	}
	for _, file := range c.segment.files {
		if done[file] {
			continue
		}
		content, _, err := c.store.folder.Read(file, maxJournaled)
		if err == nil {
			err = c.store.overwrite(file, content)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EIO) {
			return err
		}
	}
	return nil
}

// removeJournal removes a journal whose bodies are on disk. Another process may have done so.
func (s *Store) removeJournal(name string) error {
	if err := s.folder.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
