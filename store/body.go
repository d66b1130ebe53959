package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"
)

// A BodyStore holds immutable response bodies. Each key is used once.
//
// Contract, checked by isrtest.BodyStore:
//
//   - Consistency: a body can be read, and is listed, once Put has returned nil.
//   - Durability: a body whose Put returned nil survives a crash. Codings (see [CodingsKey])
//     need not, and may be damaged by it.
//   - Atomicity: a reader sees the whole body or [ErrNotFound], never a part.
//   - Absence: ErrNotFound is returned only for a body that certainly does not exist. A
//     store that is not allowed to look returns [ErrDenied], and one that does not know any
//     other error: callers render a missing page again, and override its pin.
//   - Time: a store on the network bounds each call, and each Read, even if the context
//     has no deadline.
//   - Concurrency: all methods are safe for concurrent use. If several Puts store
//     different content under one key, exactly one succeeds.
//
// Keys are relative slash-separated paths (see [ValidBodyKey]). Other keys are refused
// with [ErrInvalidKey] before any I/O.
type BodyStore interface {
	// Put stores a body under a new key. Storing the same bytes again under the same key
	// succeeds (a retry after a lost reply); storing other bytes returns [ErrExists] and
	// changes nothing.
	Put(ctx context.Context, key string, body []byte) error
	// Open opens a body for reading and returns its length in bytes. The caller closes
	// it. Reading returns io.EOF only after the whole body. ErrNotFound: there is none. If the
	// store keeps presentations, the reader is [Presented].
	Open(ctx context.Context, key string) (io.ReadCloser, int64, error)
	// Stat describes a body without reading it. ErrNotFound: there is none.
	Stat(ctx context.Context, key string) (BodyInfo, error)
	// Delete removes a body. Deleting a missing body returns nil.
	Delete(ctx context.Context, key string) error
	// List yields the bodies whose keys begin with prefix, in no particular order, and
	// ends after the first error.
	List(ctx context.Context, prefix string) iter.Seq2[BodyInfo, error]
}

// A LocalReader is a [BodyStore] that has all of its bodies, or some, on a local disk, so that
// reading one is no more than a few calls of the system. It is safe for concurrent use.
type LocalReader interface {
	// ReadLocal returns a body of at most limit bytes. [ErrNotFound]: it is not on the local
	// disk, and may be elsewhere. Any error means that the caller must Open the body to learn
	// more.
	ReadLocal(ctx context.Context, key string, limit int64) ([]byte, error)
}

// CachedRoom is how many bytes of a buffer a [CachedReader] needs for itself.
const CachedRoom = 64

// A CachedReader is a [LocalReader] that can read bodies without waiting for the disk, if the system
// has them in memory. It is safe for concurrent use.
type CachedReader interface {
	LocalReader
	// ReadCached returns a body in a part of a buffer, which must be longer than the body by
	// CachedRoom. Any error means that the caller must call ReadLocal to learn more.
	ReadCached(ctx context.Context, key string, buffer []byte) ([]byte, error)
}

// A LocalKeeper is a [LocalReader] that keeps copies of bodies. It is safe for concurrent use.
type LocalKeeper interface {
	LocalReader
	// KeepLocal keeps a body that ReadLocal did not find, and that came from elsewhere than the
	// store. The caller has verified it, and must not change it. It does not block, and may do nothing.
	KeepLocal(key string, body []byte)
}

// A BatchDeleter is a [BodyStore] that deletes several bodies with fewer calls than one for
// each. It is safe for concurrent use.
type BatchDeleter interface {
	// DeleteBatch removes at most [MaxBatch] bodies, as Delete does, in their order. The first
	// deleted of them are certainly removed; after an error others may be.
	DeleteBatch(ctx context.Context, keys []string) (deleted int, err error)
}

// MaxBatch is how many bodies a [BatchDeleter] deletes with one call, as DeleteObjects of S3
// does.
const MaxBatch = 1000

// DeleteBodies removes bodies: in batches if the store is a [BatchDeleter], else one after the
// other. The first deleted of them are certainly removed; that is all of them unless there is
// an error, after which others may be removed, too.
func DeleteBodies(ctx context.Context, bodies BodyStore, keys []string) (deleted int, err error) {
	batches, ok := bodies.(BatchDeleter)
	if !ok {
		for i, key := range keys {
			if err := bodies.Delete(ctx, key); err != nil {
				return i, err
			}
		}
		return len(keys), nil
	}
	for deleted < len(keys) {
		batch := keys[deleted:min(deleted+MaxBatch, len(keys))]
		n, err := batches.DeleteBatch(ctx, batch)
		if err != nil {
			return deleted + n, err
		}
		deleted += len(batch)
	}
	return deleted, nil
}

// BodyInfo describes a stored body.
type BodyInfo struct {
	Key        string
	Length     int64 // bytes
	ModifiedAt time.Time
	// ListedAt is when a list was made, by the clock of ModifiedAt, if that is not the clock of
	// this machine: the Date of a bucket's response. Zero: it is, or it is not known.
	ListedAt     time.Time
	Presentation Presentation // lists do not have it
}

// A Presentation is what another service keeps, beside a body, of the response that the body
// belongs to: FaceTheory's runtime keeps it in the metadata of the object. Texts are as they
// were found; those that it does not state are empty. The bodies of this package have none,
// since META has their status and header.
type Presentation struct {
	Status, ContentType, ContentSecurityPolicy string
}

// Presented is implemented by the readers of bodies that may have a [Presentation]. A reader that
// wraps one implements it by [PresentationOf].
type Presented interface {
	Presentation() Presentation
}

// PresentationOf returns the presentation of the body that a reader was opened for.
func PresentationOf(rd io.ReadCloser) Presentation {
	if p, ok := rd.(Presented); ok {
		return p.Presentation()
	}
	return Presentation{}
}

// A RangeReader is a [BodyStore] that reads a part of a body without the rest of it. It is safe for
// concurrent use. Contract, checked by isrtest.BodyStore:
//
//   - Integrity: the reader yields exactly the bytes that were asked for, or an error. That they are
//     what was stored cannot be verified by a digest of the whole body: a caller that reads a
//     whole body verifies it, and one that reads a part relies on the store.
//   - Time: a store on the network bounds the call, and each Read, even if the context has no
//     deadline. It does not bound the time between Reads: visitors may be slow.
//   - Absence: a reader of a file stays readable after a Delete.
type RangeReader interface {
	// OpenRange opens length bytes of a body, at least one, from an offset, and returns the
	// length of the whole body in bytes. The caller closes the reader, which returns io.EOF only
	// after the last of these bytes. [ErrNotFound]: there is no body. [ErrInvalidInput]: the body
	// ends before the last of these bytes, or there are none.
	OpenRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, int64, error)
}

// ValidRange returns an error that wraps [ErrInvalidInput] unless a body of size bytes has length
// bytes, at least one, from an offset.
func ValidRange(offset, length, size int64) error {
	if offset < 0 || length <= 0 || offset > size || length > size-offset {
		return fmt.Errorf("%w: %d bytes from %d of a body of %d", ErrInvalidInput, length, offset, size)
	}
	return nil
}

// OpenRange opens a part of a body (see [RangeReader]). If the store is no RangeReader, the bytes before
// the part are read, too.
func OpenRange(ctx context.Context, bodies BodyStore, key string, offset, length int64) (io.ReadCloser, int64, error) {
	if ranges, ok := bodies.(RangeReader); ok {
		return ranges.OpenRange(ctx, key, offset, length)
	}
	rd, size, err := bodies.Open(ctx, key)
	if err != nil {
		return nil, 0, err
	}
	if err = ValidRange(offset, length, size); err == nil {
		_, err = io.CopyN(io.Discard, rd, offset)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("reading a part of %s: %w", key, err), rd.Close())
	}
	return NewRange(rd, length, rd), size, nil
}

// NewRange returns a reader of the next length bytes of rd, which fails if rd ends before. Closing
// it closes c.
func NewRange(rd io.Reader, length int64, c io.Closer) io.ReadCloser {
	return &rangeOf{Closer: c, rd: rd, left: length}
}

type rangeOf struct {
	io.Closer
	rd   io.Reader
	left int64
}

func (r *rangeOf) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n, err := r.rd.Read(p[:min(int64(len(p)), r.left)])
	if r.left -= int64(n); err == io.EOF { //nolint:errorlint // io.Reader returns it as it is
		if err = io.ErrUnexpectedEOF; r.left == 0 {
			err = nil // the next Read returns it
		}
	}
	return n, err
}
