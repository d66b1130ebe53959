// Package store is an ordered key-value store in one file, with snapshot reads and
// one durable write transaction at a time. It knows nothing about tables.
//
// The engine accesses the disk only through Store. Bolt implements it on bbolt,
// Memory in memory.
package store

import "errors"

// Errors wrapped by Open and Check.
var (
	ErrLocked  = errors.New("file is in use by another process")
	ErrCorrupt = errors.New("file is damaged or is not a localdynamo file")
	ErrFormat  = errors.New("file was written by a newer version")
)

// ErrBroken is returned by every Update after a commit whose outcome on disk is
// unknown. The file must be reopened to find out.
var ErrBroken = errors.New("an earlier write failed and its outcome is unknown; close and reopen the file")

// ErrUncertain is wrapped by the error of the Update whose commit has an unknown
// outcome. After any other error nothing of the Update is or will be on disk.
var ErrUncertain = errors.New("the outcome of the write is unknown")

// Store is an ordered key-value store. View may be called concurrently with itself
// and with Update. Update must not be called concurrently with itself.
type Store interface {
	// View runs fn on a snapshot, which later writes do not change.
	View(fn func(Reader) error) error

	// Update runs fn in a transaction and commits it. When Update returns nil, all
	// writes are on disk. If fn or the commit fails, none is visible, now or after
	// a crash (but see ErrUncertain).
	Update(fn func(Writer) error) error

	// Check verifies the structure of the file, below the level of keys. It does not verify
	// checksums, as reading does.
	Check() error

	// Close waits for running transactions.
	Close() error
}

// Reader reads within a transaction. The slices it returns must not be modified,
// and must not be used after the transaction ends. Keys are grouped in spaces, each
// ordered by itself. A space that was never written to is empty.
//
// If a value that Get or Range reads is damaged, or a key next to what it looks for, it panics
// with a *Damage, which View and Update return, and Catch. What was written to a Writer before
// stays written if fn goes on.
type Reader interface {
	// Version is the number of the state that a Reader sees. The version of a Writer is the number of
	// the state that its commit makes current. It grows with every commit.
	Version() uint64

	// Get returns the value of key, or nil if key does not exist. An empty value is
	// not nil.
	Get(space string, key []byte) []byte

	// SkipDamaged returns a Reader of the same state whose Range reports damaged values
	// instead of ending, and skips them, and whose Get reports them and returns nil.
	SkipDamaged(report func(*Damage)) Reader

	// Range calls fn for the keys in [lo, hi), ascending or (reverse) descending,
	// until fn returns false. A nil hi is no bound.
	Range(space string, lo, hi []byte, reverse bool, fn func(key, value []byte) bool)
}

// Writer reads and writes within a transaction, and reads its own writes. The fn of
// a Range must not write.
type Writer interface {
	Reader

	// Put sets the value of key, which must have 1 to 32,768 bytes. Neither slice
	// may be modified before the transaction ends.
	Put(space string, key, value []byte) error

	// Delete removes key if it exists.
	Delete(space string, key []byte) error

	// Drop removes all keys of a space. It is far cheaper than deleting them: half a
	// second for a million. The space may be written again, even in the same
	// transaction.
	Drop(space string) error
}
