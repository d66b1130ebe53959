package store

import (
	"errors"
	"fmt"
	"time"
)

// Sentinel errors. Callers branch on them with [errors.Is].
var (
	// ErrLeaseLost: the lease expired or was taken over by another process.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrMoved: another writer changed the entry after it was read.
	ErrMoved = errors.New("the entry was changed by another writer")
	// ErrUnknownOutcome: the store stopped answering before the outcome of a write was
	// settled; the write may or may not have happened.
	ErrUnknownOutcome = errors.New("the outcome of the write is unknown")
	// ErrForeignLease: the lease was granted by another store.
	ErrForeignLease = errors.New("the lease was granted by another store")

	// ErrPinned: the current entry is pinned, and the write does not unpin it.
	ErrPinned = errors.New("the page is pinned")
	// ErrPurged: a hard purge covers the generation, which must never be served again.
	ErrPurged = errors.New("the generation was purged")
	// ErrNoVersion: the generation is not kept.
	ErrNoVersion = errors.New("version not found")

	// ErrDenied: the store refused access, which proves nothing about what it holds.
	ErrDenied = errors.New("access denied")
	// ErrNotFound: the body certainly does not exist.
	ErrNotFound = errors.New("body not found")
	// ErrExists: the key already has a body with other content.
	ErrExists = errors.New("the body key is already used")
	// ErrInvalidKey: the text is not a valid key.
	ErrInvalidKey = errors.New("invalid key")
	// ErrInvalidInput: a value is out of bounds, such as a negative interval, or
	// milliseconds instead of seconds. Nothing was written.
	ErrInvalidInput = errors.New("invalid input")
)

// A HeldError reports that another process holds the lease, or that the page is in
// back-off.
type HeldError struct {
	Lock Lock
}

func (e *HeldError) Error() string {
	until := e.Lock.ExpiresAt.UTC().Format(time.RFC3339)
	if e.Lock.IsBackOff() {
		return fmt.Sprintf("the page is in back-off after %d failures until %s", e.Lock.Failures, until)
	}
	owner := e.Lock.Owner
	if owner == "" {
		owner = "another holder"
	}
	return fmt.Sprintf("the lease is held by %s until %s", owner, until)
}
