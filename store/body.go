package store

import (
	"context"
	"io"
	"iter"
	"time"
)

// A BodyStore holds immutable response bodies under keys that are used once.
//
// Contract, checked by isrtest.BodyStore:
//
//   - Consistency: a body can be read, and is listed, once Put has returned nil.
//   - Durability: a body whose Put returned nil survives a crash.
//   - Atomicity: a reader sees the whole body or [ErrNotFound], never a part.
//   - Absence: ErrNotFound is said of a body that is definitely not there. A
//     store that is not allowed to look says [ErrDenied], and one that cannot
//     tell returns any other error: callers render what is missing anew, and
//     override its pin.
//   - Time: a store on the network bounds each call, and each Read, also when
//     the context has no deadline.
//   - Concurrency: all methods are safe for concurrent use; of several Puts
//     under one key with different content, exactly one wins.
//
// Keys are relative slash-separated paths, as [ValidBodyKey] says; another key is
// refused before any I/O with [ErrInvalidKey].
type BodyStore interface {
	// Put stores a body under a new key. Storing the same bytes again under the
	// same key succeeds (a retry whose first reply was lost); storing other
	// bytes is [ErrExists] and changes nothing.
	Put(ctx context.Context, key string, body []byte) error
	// Open opens a body for reading, with its length in bytes. The caller closes
	// it. ErrNotFound if there is none. Reading ends with io.EOF only after the
	// whole body.
	Open(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// Stat describes a body without reading it. ErrNotFound if there is none.
	Stat(ctx context.Context, key string) (BodyInfo, error)
	// Delete removes a body. Removing one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// List yields the bodies whose keys begin with prefix, in no given order,
	// and ends after the first error.
	List(ctx context.Context, prefix string) iter.Seq2[BodyInfo, error]
}

// BodyInfo describes a stored body.
type BodyInfo struct {
	Key        string
	Length     int64 // bytes
	ModifiedAt time.Time
}
