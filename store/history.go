package store

import (
	"context"
	"time"
)

// Forever is the end of a permanent pin: the last second that the table can store.
func Forever() time.Time { return time.Unix(253402300799, 0).UTC() }

// A HistoryStore keeps older generations of pages that were published with
// [PublishOptions].History, and can make them current again. It keeps the contract of
// [MetaStore].
type HistoryStore interface {
	// Versions returns the kept generations of a partition, newest first, in one strongly
	// consistent read. The current one is included if it was published with history. Rows
	// that cannot be read are skipped.
	Versions(ctx context.Context, pk string) ([]Entry, error)

	// Rollback makes a kept generation the current entry, in one atomic step, and only if
	// the entry is still exactly what read saw (ErrMoved otherwise). It needs no lease: a
	// concurrent regeneration loses on the fence. The entry's PurgeSeq becomes the
	// sequence that was read first, and a row of the log makes every process drop its
	// copy. It returns the new current entry. If the generation is already current it is
	// pinned, as by Pin, whether it is kept or not.
	//
	// ErrNoVersion: the generation is not kept. ErrPurged: a hard purge covers it, of the
	// page or by a mark (a tag, a prefix, the tenant, the site), or a mark that covers it
	// may have expired.
	//
	// Once a change was sent it is completed for some seconds even if ctx ends, and the
	// result is its outcome. A change that is still queued when ctx ends is not made.
	Rollback(ctx context.Context, read Record, to string, a Assertion) (Entry, error)

	// Pin changes how long the current entry is pinned, in one atomic step, and only if
	// the entry is still exactly what read saw (ErrMoved otherwise). A row of the log
	// makes every process read the page again, even if nothing changed. Purges stay in
	// force. Unpinning sets PinnedUntil to now, in whole seconds, if it is later; an entry
	// that was never pinned stays so.
	//
	// ErrNoVersion: there is no entry, or another service wrote it. ErrPurged: as for
	// Rollback, but never when unpinning. ctx: as for Rollback.
	Pin(ctx context.Context, read Record, a Assertion) (Entry, error)

	// RenewPin lets the pin of the current entry outlive the lifetime of purge marks:
	// AssertedAt becomes at, and PurgeSeq the sequence that was read first, if no purge
	// covers the entry. Everything else is as by Pin.
	//
	// ErrNoVersion: there is no entry, another service wrote it, or it is not pinned.
	// ErrPurged: a purge, hard or soft, covers it, or a mark that covers it may have expired.
	RenewPin(ctx context.Context, read Record, k Key, at time.Time) (Entry, error)
}

// An Assertion is an operator's statement about a page: a rollback or a pin.
type Assertion struct {
	// Key is the page, for the log.
	Key Key
	// At is when the statement was made.
	At time.Time
	// PinnedUntil suspends expiry by time until then. Zero: not pinned.
	PinnedUntil time.Time
	// Expires is when the store may delete the entry; zero means never.
	Expires time.Time
	// Superseded is when the store may delete the version that was current before. Zero:
	// with the entry, but after a month at the latest.
	Superseded time.Time
	// Destinations are the downstream caches to which a hard purge of the page is
	// delivered: at most [MaxDestinations] names. See [OutboxStore].
	Destinations []string
}

// PublishOptions are the options of a publish.
type PublishOptions struct {
	// History keeps the generation as a version, next to the current entry, until it is
	// superseded and Superseded has passed.
	History bool
	// Superseded is when the store may delete the version that was current before. Zero:
	// with the entry, but after a month at the latest.
	Superseded time.Time
	// Keep is the least number of versions that are kept for rollbacks, the new one
	// included; older ones are deleted now. Zero: all, until they expire.
	Keep int
	// Unchanged states that the generation has the content of the current entry. With
	// History, its version replaces the version of the current entry: the versions are different
	// contents, however often an unchanged page is regenerated.
	Unchanged bool
	// Renew states that next is the generation of the current entry, whose content its
	// origin has validated: it has the same GenerationID, BodyKey, SHA256 and Length, and
	// another GeneratedAt. Only the entry is written. A version of it that is kept stays as
	// it is, and History, Keep, Superseded and Unchanged are ignored.
	Renew bool
	// Unpin publishes even if the current entry is pinned. If it was, a row of the log
	// makes every process drop its copy, in the same atomic step.
	Unpin bool
	// Reload appends a row to the log that makes every process drop its copy, in the
	// same atomic step.
	Reload bool
	// Key is the page, for the log. It is required with Reload and when a pin is ended,
	// and ignored otherwise.
	Key Key
	// Destinations are the downstream caches to which a hard purge of the page is
	// delivered, if the publish appends to the log: at most [MaxDestinations] names. See
	// [OutboxStore].
	Destinations []string
}
