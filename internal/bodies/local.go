package bodies

import (
	"context"
	"fmt"

	"golang.org/x/sync/singleflight"

	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/store"
)

const (
	// MaxCached is the length of the longest body that is read from the page cache for one response, in
	// bytes. It bounds the buffers, of which each processor keeps a few. A visitor of such a body costs
	// less than his connection does, so that no budget counts it.
	MaxCached = 64 << 10
	// maxLocalReads bounds the concurrent reads of a local disk. Each takes a thread of the system, and
	// a disk that hangs does not give it back: the runtime ends a process that has 10,000.
	maxLocalReads = 64
)

// HasLocal reports whether there is a local disk of bodies.
func (r *Reader) HasLocal() bool { return r.o.Local != nil }

// HasCached reports whether [Reader.Cached] may find a body.
func (r *Reader) HasCached() bool { return r.o.Cached != nil }

// Cached reads a file of at most n bytes from the page cache of the operating system, without waiting. The
// caller verifies it. It is valid until the buffer, which grows as needed, is used again. There must be
// a page cache (see [Reader.HasCached]).
func (r *Reader) Cached(ctx context.Context, key string, n int64, buffer *[]byte) ([]byte, error) {
	const step = 16 << 10
	if need := n + store.CachedRoom; int64(len(*buffer)) < need {
		*buffer = make([]byte, (need+step-1)/step*step)
	}
	return r.o.Cached.ReadCached(ctx, key, *buffer)
}

// Load reads the body of an entry from the local disk, or joins a read for the same page in progress. The
// result is the result of make, which is called once, with the body, to verify it and to make a page of it. The
// read goes on if a caller does not wait for it: it has a deadline of its own.
func (r *Reader) Load(k store.Key, e *store.Entry, make func(ctx context.Context, body []byte) (any, error)) <-chan singleflight.Result {
	return r.loads.DoChan(k.Tenant+"\x00"+k.Text, func() (any, error) {
		ctx, cancel := context.WithTimeout(r.ctx, guard.BodyTime(e.Length))
		defer cancel()
		free, err := r.reserve(ctx, e.Length)
		if err != nil {
			return nil, err
		}
		defer free()
		body, err := r.Local(ctx, e)
		if err != nil {
			return nil, err
		}
		r.o.LocalRead()
		return make(ctx, body)
	})
}

// Local reads a body from the local disk, which there must be (see [Reader.HasLocal]). The caller verifies
// it.
func (r *Reader) Local(ctx context.Context, e *store.Entry) ([]byte, error) {
	if r.localReads.Acquire(ctx, 1) != nil {
		return nil, context.Cause(ctx)
	}
	defer r.localReads.Release(1)
	return r.o.Local.ReadLocal(ctx, e.BodyKey, e.Length)
}

// LocalTooSlow records that a visitor has waited for a body of the local disk in vain: a disk that hangs returns
// no error. It counts in the circuit breaker of the store, so that others do not wait.
func (r *Reader) LocalTooSlow(e *store.Entry) {
	r.o.LocalSlow(e.BodyKey, fmt.Errorf("reading the body %s from the local disk: %w", e.BodyKey, guard.ErrSlow))
}
