package downstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
)

// A Destination is a downstream cache. Implementations are safe for concurrent use.
type Destination interface {
	// Deliver purges a batch and returns nil once the cache has accepted all of it. The
	// error is a [*PermanentError] if no repetition can succeed, or a [*RetryError];
	// other errors count as a RetryError. After an error any part of the batch may have
	// been purged, and Deliver may be called again with the same batch or with parts of
	// it. ctx bounds the call.
	Deliver(ctx context.Context, b Batch) error
	// Limits are the bounds of a batch. They are constant.
	Limits() Limits
}

// Limits are how a destination wants its purges.
type Limits struct {
	// Targets is how many targets a batch has at most, unless a single job has more.
	Targets int
	// Debounce is how long a worker waits for further purges before it sends a batch.
	Debounce time.Duration
}

// A Batch is what one delivery purges.
type Batch struct {
	// ID is the same when the same jobs are delivered again, and different for other
	// jobs. It has at most 64 characters.
	ID string
	// Targets are at least one target, without duplicates.
	Targets []store.PurgeTarget
	// Hard: copies must not be served again. Otherwise a cache that can may serve them
	// stale while it revalidates them.
	Hard bool
}

// part returns the id of a part of the batch, which depends on what is sent, so that an
// id never stands for two requests.
func (b Batch) part(sent ...string) string {
	h := sha256.New()
	for _, s := range append([]string{b.ID}, sent...) {
		_, _ = fmt.Fprintf(h, "%d:%s", len(s), s) // a hash does not fail
	}
	return hex.EncodeToString(h.Sum(nil))
}

// A RetryError is a delivery that may succeed later. Errors of the configuration, such as
// a token that is not accepted, are among them: an operator corrects them.
type RetryError struct {
	// After is when to try again at the earliest, 0 if the destination stated none.
	After time.Duration
	// Busy: the destination is limiting the rate of requests. It does not count as a
	// failed attempt.
	Busy bool
	Err  error
}

func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// A PermanentError is a delivery that would fail again: the destination rejects the purge
// itself.
type PermanentError struct {
	Err error
}

func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PermanentError) Unwrap() error { return e.Err }
