package store

import (
	"errors"
	"fmt"
	"time"
)

// What callers branch on.
var (
	// ErrLeaseLost: the lease expired or was taken by another holder.
	ErrLeaseLost = errors.New("the lease is lost")
	// ErrMoved: the entry is no longer what was read before the write; another
	// writer was there first.
	ErrMoved = errors.New("the entry was changed by another writer")
	// ErrUnknownOutcome: the store stopped answering before a write could be
	// settled; it may or may not have happened.
	ErrUnknownOutcome = errors.New("the outcome of the write is unknown")
	// ErrForeignLease: the lease was made by another store than the one asked.
	ErrForeignLease = errors.New("the lease is not one of this store's")

	// ErrPinned: the current entry is pinned, and the write does not unpin it.
	ErrPinned = errors.New("the page is pinned")
	// ErrPurged: a hard purge covers the generation, which may never be served
	// again.
	ErrPurged = errors.New("the generation was purged")
	// ErrNoVersion: the generation is not kept.
	ErrNoVersion = errors.New("no such version is kept")

	// ErrDenied: the store refused access, which says nothing about what is there.
	ErrDenied = errors.New("access is denied")
	// ErrNotFound: there certainly is no such body.
	ErrNotFound = errors.New("no such body")
	// ErrExists: the key already has a body with other content.
	ErrExists = errors.New("the body key is already used")
	// ErrInvalidKey: the text cannot be a key.
	ErrInvalidKey = errors.New("invalid key")
	// ErrInvalidInput: a value that cannot be meant, such as a negative interval,
	// or milliseconds where seconds belong. Nothing was written.
	ErrInvalidInput = errors.New("invalid input")
)

// A HeldError says that somebody else has the lease.
type HeldError struct {
	Lock Lock
}

func (e *HeldError) Error() string {
	who := e.Lock.Owner
	switch {
	case e.Lock.IsBackOff():
		return fmt.Sprintf("the page is in back-off after %d failures until %s", e.Lock.Failures, e.Lock.ExpiresAt.UTC().Format(time.RFC3339))
	case who == "":
		who = "another holder"
	}
	return fmt.Sprintf("the lease is held by %s until %s", who, e.Lock.ExpiresAt.UTC().Format(time.RFC3339))
}
