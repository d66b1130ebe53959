// Package store keeps ordered keys and values in one file, with snapshot reads
// and one durable write transaction at a time. It knows nothing of tables.
//
// Store is the whole seam between the engine and the disk; bbolt is behind it.
package store

import "errors"

// Errors that Open and Check wrap.
var (
	ErrLocked  = errors.New("file is in use by another process")
	ErrCorrupt = errors.New("file is damaged or is not a localdynamo file")
	ErrFormat  = errors.New("file was written by a newer version")
)

// ErrBroken is returned by Update after a commit failed in such a way that
// nobody can tell what is on disk. Only opening the file again tells.
var ErrBroken = errors.New("an earlier write failed and its outcome is unknown; close and reopen the file")

// ErrUncertain is in the error of the one Update whose commit failed in that way.
// After any other error of Update nothing of it is on disk, nor ever will be.
var ErrUncertain = errors.New("the outcome of the write is unknown")

// Store is an ordered key-value store. View may be called concurrently with
// itself and with Update; Update is for one goroutine at a time.
type Store interface {
	// View runs fn on a snapshot that no later write changes.
	View(fn func(Reader) error) error

	// Update runs fn and commits what it wrote. If fn or the commit fails,
	// nothing of it is visible, then or after a crash. When Update returns
	// nil, all of it is on disk.
	Update(fn func(Writer) error) error

	// Check verifies the structure of the file itself, below keys.
	Check() error

	// Close waits for running transactions.
	Close() error
}

// Reader reads within one transaction. Slices that it returns belong to the
// file: they must not be written to, nor used once the transaction is over.
// Keys are grouped in spaces, each with an order of its own. A space that was
// never written to is empty.
type Reader interface {
	// Get returns the value of key, or nil. A value that is empty is not nil.
	Get(space string, key []byte) []byte

	// Range calls fn for the keys from lo (inclusive) up to hi (exclusive; nil
	// is no bound) in order, or in reverse, until fn returns false.
	Range(space string, lo, hi []byte, reverse bool, fn func(key, value []byte) bool)
}

// Writer also writes. What it wrote, it reads. Nothing may be written from
// within the fn of a Range.
type Writer interface {
	Reader

	// Put sets the value of key, which has from 1 to 32,768 bytes. The slices
	// must not change until the transaction is over.
	Put(space string, key, value []byte) error

	// Delete removes key, if it is there.
	Delete(space string, key []byte) error

	// Drop removes all keys of a space, at far less than the cost of deleting
	// them: half a second for a million. The space may be written to again, in
	// the same transaction too.
	Drop(space string) error
}
