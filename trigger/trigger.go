// Package trigger purges pages when other systems change content: webhooks of content
// management systems, messages of a queue, events of DynamoDB and S3.
//
//	webhook ── signature ──┐
//	queue   ── envelope  ──┼─► templates ─► Debouncer ─► one Purge per burst ─► acknowledgements
//	Lambda  ── event     ──┘   payload to    window,
//	                           targets       message ids
//
// A message is acknowledged only after its purge is committed; one that fails is not, and its
// sender delivers it again. So no message is lost, and one may be executed twice, which costs
// freshness and nothing else.
//
// A message that was executed is recorded under its source, id and targets, as a completed
// request record (see [Records]). The record is written after the purge, never before: a crash
// in between leaves no record, and the next delivery purges again. A later delivery that finds
// the record does nothing. The targets are part of the name, so that a delivery that is
// repeated because its templates were wrong is executed.
package trigger

// The files:
//
//	trigger.go                the rules of a trigger
//	webhook.go, signature.go  receive webhooks and verify their signatures
//	event.go                  reads events of AWS
//	template.go               makes purge targets of payloads
//	debounce.go               merges a burst of messages into one purge
//	past.go                   remembers executed messages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A Purger purges pages: the part of [*isr.Cache] that triggers need. It must be safe for
// concurrent use.
type Purger interface {
	// Purge purges all targets in one atomic step. Once it has returned nil, the purge is
	// durable.
	Purge(ctx context.Context, p isr.Purge) (store.Receipt, error)
	// NotStored returns the pages among the targets of a purge of which none is stored.
	NotStored(ctx context.Context, targets []store.PurgeTarget) ([]store.Key, error)
}

var _ Purger = (*isr.Cache)(nil)

// Records keeps the messages that were executed as request records, each in a partition of
// its own, so that messages do not wait for each other's leases. It is a part of
// [store.MetaStore].
type Records interface {
	RequestRecord(ctx context.Context, pk, key string) (store.RequestRecord, bool, error)
	Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error)
	EndRequest(ctx context.Context, l store.Lease, end store.RequestEnd) error
	Release(ctx context.Context, l store.Lease) error
}

// Errors of [Debouncer.Submit]. The message was not executed, and should be delivered again.
var (
	// ErrBusy: too many messages are waiting.
	ErrBusy = errors.New("too many messages are waiting to be purged")
	// ErrClosed: the Debouncer was closed.
	ErrClosed = errors.New("triggers are shutting down")
)

// Permanent reports whether a message that failed with err would fail again: it is invalid,
// or it would purge a pinned page.
func Permanent(err error) bool {
	return errors.Is(err, store.ErrInvalidInput) || errors.Is(err, store.ErrInvalidKey) || errors.Is(err, store.ErrPinned)
}

// A Message asks for a purge.
type Message struct {
	// Source names the sender, such as a hook or a queue: ids of different sources are
	// unrelated.
	Source string
	// ID identifies the message among the messages of its source, in all of its deliveries.
	// Messages without an ID are executed at every delivery.
	ID string
	// Targets are 1 to [store.MaxPurgeTargets] targets, which are purged together or not. A
	// page counts twice, since its variants may have to be purged too.
	Targets []store.PurgeTarget
	// Hard is the mode (see [isr.Purge]).
	Hard bool
}

// An Outcome is the result of a message that was executed.
type Outcome struct {
	// Receipt is the receipt of the purge, which may include the targets of other messages. It is
	// zero if the message was executed by an earlier delivery.
	Receipt store.Receipt
	// Duplicate: another delivery of the message was executed.
	Duplicate bool
	// NotStored are the pages among the message's targets of which none was stored: their URLs
	// may be wrong. It is nil if the message was executed by an earlier delivery, and if the
	// store did not answer.
	NotStored []store.Key
}

// valid returns an error wrapping store.ErrInvalidInput or store.ErrInvalidKey unless the
// message can be executed.
func (m Message) valid() error {
	if len(m.Targets) == 0 {
		return fmt.Errorf("%w: the message has no targets", store.ErrInvalidInput)
	}
	if n := weight(m.Targets); n > store.MaxPurgeTargets {
		return fmt.Errorf("%w: the message has %d targets, where a page counts twice; at most %d can be purged together", store.ErrInvalidInput, n, store.MaxPurgeTargets)
	}
	return store.Purge{Targets: m.Targets}.Validate()
}

// weight returns how many targets a purge has: two for a page, which has a prefix for its
// variants.
func weight(targets []store.PurgeTarget) int {
	n := len(targets)
	for _, t := range targets {
		if t.Kind == store.PurgeKey {
			n++
		}
	}
	return n
}

// name returns the hex SHA-256 of the message, which names its record; empty if there is no ID.
func (m Message) name() string {
	if m.ID == "" {
		return ""
	}
	// An array of strings and structs of strings has one JSON text.
	text, err := json.Marshal([]any{m.Source, m.ID, m.Targets, m.Hard})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// size returns the bytes that the message takes while it waits.
func (m Message) size() int {
	const overhead = 256
	n := overhead + len(m.ID)
	for _, t := range m.Targets {
		n += overhead + len(t.Value)
	}
	return n
}

// distinct returns the message with each target once, in the order of their first
// occurrences.
func (m Message) distinct() Message {
	seen := make(map[store.PurgeTarget]bool, len(m.Targets))
	var targets []store.PurgeTarget
	for _, t := range m.Targets {
		if !seen[t] {
			seen[t] = true
			targets = append(targets, t)
		}
	}
	m.Targets = targets
	return m
}
