package store

import (
	"context"
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
//     store that is not allowed to look returns [ErrDenied], and one that cannot tell any
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

// CachedRoom is what a [CachedReader] needs of a buffer for itself, in bytes.
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
	// DeleteBatch removes at most [MaxBatch] bodies, as Delete does, in their order as far as
	// deleted tells: the first deleted of them are certainly removed. After an error others may
	// be.
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
	Key          string
	Length       int64 // bytes
	ModifiedAt   time.Time
	Presentation Presentation // lists do not have it
}

// A Presentation is what another service says, beside a body, of the response that the body
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
