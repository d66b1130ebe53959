package queue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// Version is the version of the format of regeneration requests (spec/regenerations.md).
const Version = 1

// Limits of regeneration requests.
const (
	// MaxRequest bounds the body of a message, in bytes: a key, which has at most
	// [store.MaxKeyLength] bytes, escaped, and the rest.
	MaxRequest = 16 << 10
	// maxLabel bounds the generation, in bytes.
	maxLabel = 256
	// groups is how many message groups a FIFO queue has at most, and so how many renders are in
	// progress at once. The requests of a page are in one group.
	groups = 256
)

// A Request asks for the regeneration of a page: the body of a message, as JSON.
type Request struct {
	V int `json:"v"` // Version
	// Tenant and Key name the page: its cache key.
	Tenant string `json:"tenant,omitempty"`
	Key    string `json:"key"`
	// [isr.StalePage] documents Generation, Fence, PurgeSeq, Failures and Attempt.
	Generation string `json:"generation,omitempty"`
	Fence      int64  `json:"fence,omitempty"`
	PurgeSeq   int64  `json:"purge_seq,omitempty"`
	Failures   int    `json:"failures,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	// Reason is "stale", "purge", "early" or "warm". Pages of "early" are rendered even if they
	// are fresh, unless they have another generation or fence.
	Reason string `json:"reason"`
	// Force renders the page even if it is fresh.
	Force bool `json:"force,omitempty"`
	// Created is when the request was made, in whole seconds, by the clock of its sender.
	Created time.Time `json:"created"`
}

// ErrRequest: the body of a message is not a valid regeneration request.
var ErrRequest = errors.New("not a regeneration request")

// NewRequest returns the request for a stale page.
func NewRequest(p isr.StalePage, now time.Time) Request {
	return Request{
		V: Version, Tenant: p.Key.Tenant, Key: p.Key.Text, Generation: p.Generation, Fence: p.Fence, PurgeSeq: p.PurgeSeq, Failures: p.Failures, Attempt: p.Attempt,
		Reason: p.Reason, Created: now.UTC().Truncate(time.Second),
	}
}

// ParseRequest parses the body of a message. Unknown members are ignored; errors wrap
// [ErrRequest].
func ParseRequest(body []byte) (r Request, err error) {
	if len(body) > MaxRequest {
		return r, fmt.Errorf("%w: it has %d bytes; at most %d are allowed", ErrRequest, len(body), MaxRequest)
	}
	if !utf8.Valid(body) {
		return r, fmt.Errorf("%w: it is not UTF-8", ErrRequest)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&r); err != nil {
		return r, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, fmt.Errorf("%w: more follows the object", ErrRequest)
	}
	return r, r.validate()
}

func (r Request) validate() error {
	switch {
	case r.V != Version:
		return fmt.Errorf("%w: its version is %d, expected %d; upgrade the workers before the servers", ErrRequest, r.V, Version)
	case r.Reason != "stale" && r.Reason != "purge" && r.Reason != "early" && r.Reason != "warm":
		return fmt.Errorf(`%w: unknown reason %.40q; expected "stale", "purge", "early" or "warm"`, ErrRequest, r.Reason)
	case len(r.Generation) > maxLabel:
		return fmt.Errorf("%w: the generation has %d bytes; at most %d are allowed", ErrRequest, len(r.Generation), maxLabel)
	case r.Fence < 0 || r.PurgeSeq < 0 || r.Failures < 0 || r.Attempt < 0:
		return fmt.Errorf("%w: fence, purge_seq, failures and attempt must not be negative", ErrRequest)
	}
	if err := store.ValidKey(r.key()); err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return nil
}

func (r Request) key() store.Key { return store.Key{Tenant: r.Tenant, Text: r.Key} }

// name is the de-duplication id of a request in a FIFO queue, and its idempotency key: requests
// with the same one ask for the same. It has no time: a page that is stale again, for another
// reason or after a failed render, is not held up by an earlier request.
func (r Request) name() string {
	text := fmt.Sprintf("%q %q %q %d %d %d %d", r.Tenant, r.Key, r.Generation, r.Fence, r.PurgeSeq, r.Failures, r.Attempt)
	if r.Reason == "warm" {
		text += fmt.Sprintf(" warm %t %d", r.Force, r.Created.Unix())
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// group is the message group of a request in a FIFO queue.
func (r Request) group() string {
	sum := sha256.Sum256([]byte(r.Tenant + "\x00" + r.Key))
	return fmt.Sprintf("isr-%d", int(sum[0])%groups)
}

// IsFIFO reports whether a queue is a FIFO queue, by its URL or ARN.
func IsFIFO(queue string) bool { return strings.HasSuffix(queue, ".fifo") }

// A Regenerator regenerates pages. *isr.Cache implements it.
type Regenerator interface {
	Regenerate(ctx context.Context, k store.Key, options ...isr.RegenerateOption) (isr.Regeneration, error)
}

// regenerate executes a request, once per message id: duplicates that SQS delivers find the
// record of the first one, if that has rendered.
func (r Request) regenerate(ctx context.Context, cache Regenerator, id string) (isr.Regeneration, error) {
	options := []isr.RegenerateOption{isr.WithIdempotencyKey("sqs:" + id), isr.WithInputs(map[string]string{"request": r.name()})}
	switch {
	case r.Force:
		options = append(options, isr.WithReload())
	case r.Reason == "early":
		options = append(options, isr.WithUnlessFreshExcept(r.Generation, r.Fence))
	default:
		options = append(options, isr.WithUnlessFresh())
	}
	return cache.Regenerate(ctx, r.key(), options...)
}
