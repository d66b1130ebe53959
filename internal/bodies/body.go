package bodies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

const (
	// maxOpen bounds the bodies that stay open while visitors take them, each by a descriptor or a
	// connection. A further one is opened for each piece, and its response breaks if it is deleted.
	maxOpen = 256
	// maxSuspects bounds the bodies that are known to be suspect.
	maxSuspects = 1024
)

// A Body reads a stored body, or parts of it. Read from its first byte, it is verified: the last
// bytes are returned only if the digest is right. It is for one goroutine.
type Body struct {
	ctx   context.Context //nolint:containedctx // of the request
	r     *Reader
	e     *store.Entry
	field string // Range; empty: the whole body is wanted

	at     int64
	sum    hash.Hash
	summed int64 // sum is the sum of the first bytes
	err    error // of the last Read, unless it is io.EOF

	rd        io.ReadCloser // nil: no part is open
	stays     bool          // rd stays open between reads, and is counted
	next, end int64         // what rd returns next, and where it ends

	buffer *[]byte // of pieces; nil before Begin or Send
	ahead  []byte  // read by Begin, from first on
	first  int64
}

// Open returns a reader of the body of an entry, for a response with a Range field, which may be empty. The
// caller must close it.
func (r *Reader) Open(ctx context.Context, e *store.Entry, field string) *Body {
	return &Body{ctx: ctx, r: r, e: e, field: field, sum: sha256.New()}
}

// Pieces returns the buffers of visitors who take a body.
func (r *Reader) Pieces() *Pieces { return &r.pieces }

// SetMaxOpen sets how many bodies stay open while they are sent, for tests.
func (r *Reader) SetMaxOpen(n int64) { r.mostOpen.Store(n) }

// Sendable reports whether the body of an entry may be sent from the store: it is long, can be verified, and
// is not suspect.
func (r *Reader) Sendable(e *store.Entry) bool {
	return !e.Foreign && e.Length > MaxCached && e.Length <= r.o.MaxBody && len(e.SHA256) == 2*sha256.Size &&
		e.Header.Get("Content-Type") != "" && !r.suspects.has(e.BodyKey)
}

// Suspect has a body, which could not be sent, read and verified as a whole before it is sent again.
func (r *Reader) Suspect(bodyKey string) { r.suspects.add(bodyKey) }

// Begin reads the first bytes that are wanted, so that a body that cannot be read is found before a
// response begins. If that takes longer than the limit, the error wraps guard.ErrSlow.
func (b *Body) Begin(limit time.Duration) error {
	if b.field != "" {
		b.at = httpcache.FirstOfRange(b.field, b.e.Length)
	}
	b.first = b.at
	buffer := b.r.pieces.Get()
	done, left := make(chan error, 1), new(atomic.Bool)
	go func() {
		n, err := b.fetch(*buffer)
		if b.buffer, b.ahead = buffer, (*buffer)[:n]; left.Swap(true) { // the caller has given up
			b.Close()
			return
		}
		done <- err
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case <-timer.C:
		if !left.Swap(true) {
			return fmt.Errorf("reading the body %s: %w", b.e.BodyKey, guard.ErrSlow)
		}
		err = <-done
	case err = <-done:
	}
	if err != nil {
		b.Close()
	}
	return err
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (n int, err error) {
	switch from := b.at - b.first; {
	case b.err != nil:
		return 0, b.err
	case b.at >= b.e.Length:
		return 0, io.EOF
	case from >= 0 && from < int64(len(b.ahead)):
		n = copy(p, b.ahead[from:])
	default:
		n, b.err = b.fetch(p)
	}
	if n > 0 && b.summed == b.at {
		_, _ = b.sum.Write(p[:n]) // it never fails
		if b.summed += int64(n); b.summed == b.e.Length && hex.EncodeToString(b.sum.Sum(nil)) != b.e.SHA256 {
			b.err = wrongContent(b.e)
			return 0, b.err
		}
	}
	b.at += int64(n)
	return n, b.err
}

// Err returns why the last Read failed; nil if it did not. If canceled, the context of the body is done,
// and the error says nothing about the body.
func (b *Body) Err() (err error, canceled bool) { return b.err, b.ctx.Err() != nil } //nolint:revive // the error is the result

// fetch reads from the part that is open, and opens the next one if there is none.
func (b *Body) fetch(p []byte) (n int, err error) {
	if b.r.HasLocal() { // a disk that hangs must not take all threads
		if b.r.localReads.Acquire(b.ctx, 1) != nil {
			return 0, context.Cause(b.ctx)
		}
		defer b.r.localReads.Release(1)
	}
	if b.rd == nil || b.next != b.at {
		if err := b.open(); err != nil {
			return 0, err
		}
	}
	for n == 0 && err == nil {
		n, err = b.rd.Read(p[:min(int64(len(p)), b.end-b.next)])
	}
	switch b.next += int64(n); {
	case b.next == b.end && (err == nil || errors.Is(err, io.EOF)), err == nil && !b.stays:
		err = b.closePart()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		err = fmt.Errorf("reading the body %s: %w", b.e.BodyKey, err)
	}
	return n, err
}

// open opens the part that begins at at.
func (b *Body) open() error {
	_ = b.closePart() // it is read only
	b.next, b.end = b.at, b.e.Length
	if b.field != "" {
		b.end = httpcache.EndOfRange(b.field, b.at, b.e.Length)
	}
	rd, size, err := store.OpenRange(b.ctx, b.r.o.Store, b.e.BodyKey, b.at, b.end-b.at)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey), errors.Is(err, store.ErrInvalidInput):
		return fmt.Errorf("%w: %w", ErrMissing, err)
	case err != nil:
		return fmt.Errorf("opening the body %s: %w", b.e.BodyKey, err)
	case size != b.e.Length:
		return errors.Join(wrongLength(b.e, size), rd.Close())
	}
	b.rd = rd
	if b.stays = b.r.open.Add(1) <= b.r.mostOpen.Load(); !b.stays {
		b.r.open.Add(-1)
	}
	return nil
}

// Seek implements [io.Seeker].
func (b *Body) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += b.at
	case io.SeekEnd:
		offset += b.e.Length
	}
	if offset < 0 {
		return 0, fmt.Errorf("seeking in the body %s: %w", b.e.BodyKey, store.ErrInvalidInput)
	}
	b.at = offset // the next fetch opens another part if it must
	return offset, nil
}

// Send writes the body from the offset of the last Seek to its end, or up to a byte that cannot be read (see
// [Body.Err]). Errors of w end it, too: the visitor went away.
func (b *Body) Send(w io.Writer) {
	if b.buffer == nil {
		b.buffer = b.r.pieces.Get()
	}
	for {
		n, err := b.Read(*b.buffer)
		if n > 0 {
			if _, err := w.Write((*b.buffer)[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Close releases what the reader holds.
func (b *Body) Close() {
	_ = b.closePart() // it is read only
	if b.buffer != nil {
		b.r.pieces.Put(b.buffer)
		b.buffer, b.ahead = nil, nil
	}
}

func (b *Body) closePart() error {
	if b.rd == nil {
		return nil
	}
	if b.stays {
		b.r.open.Add(-1)
	}
	err := b.rd.Close()
	b.rd = nil
	return err
}

// suspects are a bounded set of keys of bodies. They are safe for concurrent use.
type suspects struct {
	mu   sync.Mutex
	keys map[string]struct{} // guarded by mu
}

func (s *suspects) add(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil || len(s.keys) == maxSuspects {
		s.keys = make(map[string]struct{})
	}
	s.keys[key] = struct{}{}
}

func (s *suspects) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, key)
}

func (s *suspects) has(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.keys[key]
	return found
}
