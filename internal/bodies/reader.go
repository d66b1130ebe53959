package bodies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

var (
	// ErrMissing: the body is gone, or not what was published.
	ErrMissing = errors.New("the body is missing or damaged")
	// ErrUnreadable: the body exists and the store answers, but reading it fails.
	ErrUnreadable = errors.New("the body cannot be read")
	// ErrTooLarge: the body was stored by a node with a larger limit, and was not read.
	ErrTooLarge = errors.New("the body exceeds this node's limit")
)

const (
	// maxReads is how often a body is read before it counts as unreadable.
	maxReads = 3
	// firstReread and maxReread are the means of the first and the longest pause of the exponential
	// backoff between reads.
	firstReread, maxReread = 50 * time.Millisecond, time.Second
)

// Options are what a [Reader] needs. All functions must be safe for concurrent use.
type Options struct {
	// Store has all bodies. Its calls have deadlines and count in a circuit breaker.
	Store store.BodyStore
	// Local reads bodies of a local disk, Cached those that the operating system has in memory, and
	// Keeper keeps bodies there that peers have sent. Nil if the store has no local disk, or cannot.
	Local  store.LocalReader
	Cached store.CachedReader
	Keeper store.LocalKeeper
	// LocalRead is called after a body was read for [Reader.Load], and LocalSlow with the error of one
	// that was not read in time.
	LocalRead func()
	LocalSlow func(bodyKey string, err error)

	// Peers are the other processes. Ask asks one of them for a body, and Asked is called with the
	// result: "hit", "absent", "busy", "wrong", "slow" or "failed".
	Peers Peers
	Ask   func(ctx context.Context, at netip.AddrPort, b store.PeerBody) ([]byte, error)
	Asked func(result string, bytes int64)

	// Reuse returns the body of an entry if another read has put it into memory since.
	Reuse func(k store.Key, e *store.Entry) (body []byte, ok bool)

	// MaxBody is the length of the longest body that is read, in bytes, and Reads is how many are read
	// at once.
	MaxBody int64
	Reads   int
	// Memory is the budget of bodies while they are read.
	Memory *buffers.Budget
	Jitter func(time.Duration) time.Duration
}

// Peers are the other processes of a fleet; package fleet documents the methods.
type Peers interface {
	Holders(k store.Key, publisher netip.AddrPort) []netip.AddrPort
	Begin(at netip.AddrPort) bool
	Answered(at netip.AddrPort)
	Failed(at netip.AddrPort, wrong bool)
}

// A Reader reads bodies. All methods are safe for concurrent use.
type Reader struct {
	o   Options
	ctx context.Context //nolint:containedctx // of the reads that Load shares

	turns      turns               // of reads of the store
	localReads *semaphore.Weighted // bounds the concurrent reads of the local disk
	loads      singleflight.Group  // by page

	suspects suspects
	pieces   Pieces
	// open counts the bodies that stay open while they are sent, mostOpen bounds them.
	open, mostOpen atomic.Int64
}

// New returns a Reader. The reads that requests share end with ctx.
func New(ctx context.Context, o Options) *Reader {
	r := &Reader{o: o, ctx: ctx, turns: turns{free: o.Reads}, localReads: semaphore.NewWeighted(maxLocalReads)}
	r.mostOpen.Store(maxOpen)
	return r
}

// Read reads and verifies the body of an entry, from a peer or from the store, in its turn. A failed read is
// retried as long as the store answers. If the entry is of another service, it is completed by what is
// stored beside the body. Errors wrap [ErrMissing], [ErrUnreadable], [ErrTooLarge], or say nothing about
// the body.
func (r *Reader) Read(ctx context.Context, k store.Key, e *store.Entry) ([]byte, error) {
	end, err := r.begin(ctx, e.Length)
	if err != nil {
		return nil, fmt.Errorf("reading the body %s: %w", e.BodyKey, err)
	}
	defer end()
	body, err := r.retry(ctx, e, func() ([]byte, error) { return r.fetch(ctx, k, e) })
	if err == nil {
		r.suspects.remove(e.BodyKey)
	}
	return body, err
}

// ReadOnce is Read without a retry.
func (r *Reader) ReadOnce(ctx context.Context, k store.Key, e *store.Entry) ([]byte, error) {
	end, err := r.begin(ctx, e.Length)
	if err != nil {
		return nil, fmt.Errorf("reading the body %s: %w", e.BodyKey, err)
	}
	defer end()
	return r.fetch(ctx, k, e)
}

// ReadStored is Read from the store alone, without waiting for a turn: for operators.
func (r *Reader) ReadStored(ctx context.Context, e *store.Entry) ([]byte, error) {
	return r.retry(ctx, e, func() ([]byte, error) { return r.fromStore(ctx, e) })
}

// Check is Read of a body that is not kept.
func (r *Reader) Check(ctx context.Context, e *store.Entry) error {
	if err := r.turns.acquire(ctx); err != nil {
		return fmt.Errorf("reading the body %s: %w", e.BodyKey, err)
	}
	defer r.turns.release()
	_, err := r.retry(ctx, e, func() ([]byte, error) {
		b := r.Open(ctx, e, "")
		defer b.Close()
		_, err := io.CopyBuffer(io.Discard, struct{ io.Reader }{b}, make([]byte, pieceLength))
		return nil, err
	})
	return err
}

// begin waits until a body of n bytes may be read, and acquires its memory. The caller calls end after that.
func (r *Reader) begin(ctx context.Context, n int64) (end func(), err error) {
	free, err := r.reserve(ctx, n)
	if err != nil {
		return nil, err
	}
	if err := r.turns.acquire(ctx); err != nil {
		free()
		return nil, err
	}
	return func() { r.turns.release(); free() }, nil
}

// reserve waits for the memory of a body of n bytes that is read as a whole. The caller returns it by free.
func (r *Reader) reserve(ctx context.Context, n int64) (free func(), err error) {
	if n <= MaxCached {
		return func() {}, nil
	}
	_, total := r.o.Memory.Usage()
	n = min(n, total)
	if err := r.o.Memory.Acquire(ctx, netip.Prefix{}, n); err != nil {
		return nil, err
	}
	return func() { r.o.Memory.Release(netip.Prefix{}, n) }, nil
}

// retry calls once until it succeeds, or fails for a reason that says something about the body.
func (r *Reader) retry(ctx context.Context, e *store.Entry, once func() ([]byte, error)) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		body, err := once()
		if err == nil || errors.Is(err, ErrMissing) || errors.Is(err, ErrTooLarge) || errors.Is(err, store.ErrDenied) || errors.Is(err, context.DeadlineExceeded) {
			return body, err
		}
		if _, outage := r.o.Store.Stat(ctx, e.BodyKey); outage != nil {
			return nil, err
		}
		if attempt == maxReads {
			return nil, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		if backoff.Wait(ctx, r.o.Jitter(backoff.Exponential(firstReread, maxReread, attempt-1))) != nil {
			return nil, err
		}
	}
}

// fromStore reads and verifies the body of an entry from the store. If the entry is of another
// service, it is completed by what is stored beside the body.
func (r *Reader) fromStore(ctx context.Context, e *store.Entry) ([]byte, error) {
	rd, length, err := r.o.Store.Open(ctx, e.BodyKey)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey):
		return nil, fmt.Errorf("%w: %w", ErrMissing, err)
	case err != nil:
		return nil, fmt.Errorf("opening the body %s: %w", e.BodyKey, err)
	}
	defer func() { _ = rd.Close() }() // read only
	if e.Foreign {
		err = Present(e, store.PresentationOf(rd))
	} else if length != e.Length {
		err = wrongLength(e, length)
	}
	if err != nil {
		return nil, err
	}
	if length > r.o.MaxBody {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are read (Config.MaxBody)", ErrTooLarge, e.BodyKey, length, r.o.MaxBody)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(rd, body); err != nil {
		return nil, fmt.Errorf("reading the body %s: %w", e.BodyKey, err)
	}
	return body, Verify(e, body)
}

// Verify returns an error wrapping [ErrMissing] unless a body is what was published. Of the bodies of other
// services nothing is known.
func Verify(e *store.Entry, body []byte) error {
	if e.Foreign {
		return nil
	}
	if int64(len(body)) != e.Length {
		return wrongLength(e, int64(len(body)))
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != e.SHA256 {
		return wrongContent(e)
	}
	return nil
}

func wrongLength(e *store.Entry, n int64) error {
	return fmt.Errorf("%w: %s has %d bytes, %d were published", ErrMissing, e.BodyKey, n, e.Length)
}

func wrongContent(e *store.Entry) error {
	return fmt.Errorf("%w: %s does not have the published content", ErrMissing, e.BodyKey)
}

// Present completes an entry of another service by what is stored beside its body. If a response like that
// is not served, the error wraps [ErrMissing].
func Present(e *store.Entry, p store.Presentation) error {
	status, header, err := httpcache.Presented(p.Status, p.ContentType, p.ContentSecurityPolicy)
	if err != nil {
		return fmt.Errorf("%w: %s cannot be served as its metadata says: %w", ErrMissing, e.BodyKey, err)
	}
	e.Status, e.Header = status, header
	return nil
}
