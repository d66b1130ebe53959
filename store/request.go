package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What becomes of a request with an idempotency key that was made before.
var (
	// ErrRequestCompleted: it has succeeded; its result is recorded.
	ErrRequestCompleted = errors.New("the request was completed before")
	// ErrRequestInProgress: somebody is at it.
	ErrRequestInProgress = errors.New("the request is in progress")
	// ErrRequestMismatch: the key was used before for a request with other
	// inputs. It is refused whatever became of that.
	ErrRequestMismatch = errors.New("the idempotency key was used for other inputs")
	// ErrResultGone: the request has succeeded, and its result is not kept.
	ErrResultGone = errors.New("what it published is not kept any more")
)

// A Claim is a request for a regeneration, named so that it is carried out once
// however often it is made.
type Claim struct {
	// Key names the request; see [ValidRequestKey].
	Key string
	// Hash is the hex sha256 of its inputs; see [HashInputs].
	Hash string
	// Keep is how long the record of it is kept after it was made.
	Keep time.Duration
}

// ValidRequestKey returns an error wrapping [ErrInvalidKey] unless key can name a
// request: 1 to 256 bytes of printable ASCII without spaces.
func ValidRequestKey(key string) error {
	const longest = 256
	if key == "" || len(key) > longest {
		return fmt.Errorf("%w: an idempotency key has 1 to %d bytes, this one has %d", ErrInvalidKey, longest, len(key))
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return fmt.Errorf("%w: the idempotency key %.60q has a byte at %d that is not printable ASCII, or a space", ErrInvalidKey, key, i)
		}
	}
	return nil
}

// A RequestState is how far a request has come.
type RequestState int

// The states of requests.
const (
	RequestStarted RequestState = iota
	RequestCompleted
	RequestFailed
)

// String returns the word that the table has for it.
func (s RequestState) String() string {
	switch s {
	case RequestStarted:
		return "STARTED"
	case RequestCompleted:
		return "COMPLETED"
	case RequestFailed:
		return "FAILED"
	}
	return "unknown"
}

// A RequestRecord is the record of a request.
type RequestRecord struct {
	Key, Hash string
	State     RequestState
	// InProgressUntil is when a started request may be taken over, as it is
	// stored; an end that is later than any lease's does not count.
	InProgressUntil time.Time
	// BodyKey and GenerationID are the result of a completed one.
	BodyKey, GenerationID string
	// Failure is why it failed.
	Failure string
}

// Standing is what somebody is told who makes a claim while this request is on
// record: nil if it may be carried out, again or at last, else a *RequestError.
func (r RequestRecord) CheckClaim(c Claim, now time.Time) error {
	switch {
	case r.Hash != c.Hash:
		return &RequestError{Record: r, Err: ErrRequestMismatch}
	case r.State == RequestCompleted:
		return &RequestError{Record: r, Err: ErrRequestCompleted}
	case r.State == RequestStarted && lasts(r.InProgressUntil, now):
		return &RequestError{Record: r, Err: ErrRequestInProgress}
	}
	return nil
}

// A RequestError says that a request was made before. It wraps one of
// ErrRequestCompleted, ErrRequestInProgress and ErrRequestMismatch.
type RequestError struct {
	Record RequestRecord
	Err    error
}

func (e *RequestError) Error() string {
	switch {
	case errors.Is(e.Err, ErrRequestInProgress):
		return fmt.Sprintf("request %q: %v until %s", e.Record.Key, e.Err, e.Record.InProgressUntil.UTC().Format(time.RFC3339))
	case errors.Is(e.Err, ErrRequestMismatch):
		return fmt.Sprintf("request %q: %v: use a new key for a new request", e.Record.Key, e.Err)
	}
	return fmt.Sprintf("request %q: %v", e.Record.Key, e.Err)
}

// Unwrap returns the sentinel.
func (e *RequestError) Unwrap() error { return e.Err }

// A RequestEnd is what became of a request other than by a publish.
type RequestEnd struct {
	// Result is the entry that answers it; nil if it failed.
	Result *Entry
	// Failure is why it failed, for people; at most 1,024 bytes are kept.
	Failure string
}

// A RequestStore records requests beside the leases that carry them out.
type RequestStore interface {
	// RequestRecord returns the record of a request, read strongly, and whether there
	// is one: a record whose time is over is none. It decides nothing: only
	// Acquire makes a claim.
	RequestRecord(ctx context.Context, pk, key string) (RequestRecord, bool, error)

	// EndRequest records what became of the request for which a lease was
	// acquired. Of a lease without a request, and of a request that somebody
	// else has taken over, it does nothing: no error. Until it is called, or a
	// publish has completed the request, that stays in progress, though the lease
	// be released or backed off from.
	EndRequest(ctx context.Context, l Lease, end RequestEnd) error
}
