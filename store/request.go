package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Results of repeating a request that has an idempotency key.
var (
	// ErrRequestCompleted: the request has succeeded; its result is recorded.
	ErrRequestCompleted = errors.New("the request was completed before")
	// ErrRequestInProgress: another caller is executing the request.
	ErrRequestInProgress = errors.New("the request is in progress")
	// ErrRequestMismatch: the key was used for a request with other inputs, whatever its
	// state is.
	ErrRequestMismatch = errors.New("the idempotency key was used for other inputs")
	// ErrResultGone: the request has succeeded, but its result is no longer kept.
	ErrResultGone = errors.New("the result of the request is no longer kept")
)

// A Claim is a request for a regeneration with an idempotency key: it is executed once,
// however often it is made.
type Claim struct {
	// Key is the idempotency key; see [ValidRequestKey].
	Key string
	// Hash is the hex SHA-256 of the inputs; see [HashInputs].
	Hash string
	// Keep is how long the request record is kept after the request was made.
	Keep time.Duration
}

// ValidRequestKey returns an error wrapping [ErrInvalidKey] unless key is a valid
// idempotency key: 1 to 256 bytes of printable ASCII without spaces.
func ValidRequestKey(key string) error {
	const longest = 256
	if key == "" || len(key) > longest {
		return fmt.Errorf("%w: an idempotency key must have 1 to %d bytes (got %d)", ErrInvalidKey, longest, len(key))
	}
	for i := range len(key) {
		if key[i] <= ' ' || key[i] > '~' {
			return fmt.Errorf("%w: the idempotency key %.60q must be printable ASCII without spaces (byte %d is not)", ErrInvalidKey, key, i)
		}
	}
	return nil
}

// A RequestState is the state of a request record.
type RequestState int

// The states of a request record.
const (
	RequestStarted RequestState = iota
	RequestCompleted
	RequestFailed
)

// String returns the state as the table stores it.
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

// A RequestRecord is the stored state of a request with an idempotency key (the REQ# row).
type RequestRecord struct {
	Key, Hash string
	State     RequestState
	// InProgressUntil is when a started request may be taken over, as stored. A time
	// beyond the end of the longest lease is ignored.
	InProgressUntil time.Time
	// BodyKey and GenerationID are the result of a completed request.
	BodyKey, GenerationID string
	// Failure is why a failed request failed.
	Failure string
}

// CheckClaim returns nil if a claim may be executed while this record exists: the request
// failed, or it was started and its holder is gone. Otherwise it returns a *RequestError.
func (r RequestRecord) CheckClaim(c Claim, now time.Time) error {
	switch {
	case r.Hash != c.Hash:
		return &RequestError{Record: r, Err: ErrRequestMismatch}
	case r.State == RequestCompleted:
		return &RequestError{Record: r, Err: ErrRequestCompleted}
	case r.State == RequestStarted && inForce(r.InProgressUntil, now):
		return &RequestError{Record: r, Err: ErrRequestInProgress}
	}
	return nil
}

// A RequestError reports that a request was made before. It wraps ErrRequestCompleted,
// ErrRequestInProgress or ErrRequestMismatch.
type RequestError struct {
	Record RequestRecord
	Err    error
}

func (e *RequestError) Error() string {
	switch {
	case errors.Is(e.Err, ErrRequestInProgress):
		return fmt.Sprintf("request %q: %v until %s", e.Record.Key, e.Err, e.Record.InProgressUntil.UTC().Format(time.RFC3339))
	case errors.Is(e.Err, ErrRequestMismatch):
		return fmt.Sprintf("request %q: %v; use a new key for a new request", e.Record.Key, e.Err)
	}
	return fmt.Sprintf("request %q: %v", e.Record.Key, e.Err)
}

// Unwrap returns the sentinel.
func (e *RequestError) Unwrap() error { return e.Err }

// A RequestEnd is the outcome of a request that did not end in a publish.
type RequestEnd struct {
	// Result is the entry that answers the request; nil if it failed.
	Result *Entry
	// Failure is why it failed; at most 1,024 bytes are kept.
	Failure string
}

// A RequestStore keeps request records next to the leases under which the requests are
// executed. It keeps the contract of [MetaStore].
type RequestStore interface {
	// RequestRecord returns the record of a request, by a strongly consistent read, and
	// whether there is one. An expired record counts as missing. It is a hint: only
	// Acquire makes a claim.
	RequestRecord(ctx context.Context, pk, key string) (RequestRecord, bool, error)

	// EndRequest records the outcome of the request for which a lease was acquired. It
	// does nothing and returns nil if the lease has no request, or another caller has
	// taken the request over. Until EndRequest or a publish completes the request it
	// stays in progress, even if the lease is released or replaced by a back-off.
	EndRequest(ctx context.Context, l Lease, end RequestEnd) error
}
