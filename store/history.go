package store

import (
	"context"
	"time"
)

// Forever is the end of a pin that does not end by itself: the last second that
// the table can say.
func Forever() time.Time { return time.Unix(253402300799, 0).UTC() }

// A HistoryStore keeps older generations of pages, where they were published
// with [PublishOptions].History, and can make them current again.
type HistoryStore interface {
	// Versions returns the generations that are kept of a partition, the newest
	// first, in one strongly consistent read; the current one is among them if it
	// was published with history. Rows that cannot be read are passed over.
	Versions(ctx context.Context, pk string) ([]Entry, error)

	// Rollback makes the kept generation to the current entry, in one atomic
	// step, and only if the entry is still exactly what read saw (ErrMoved
	// otherwise). It needs no lease: a regeneration that is under way loses on the
	// fence. Its PurgeSeq becomes the sequence read before anything else, and
	// the log tells every node to drop its copy. It returns the new current
	// entry. Errors: ErrNoVersion, if the generation is not kept; ErrPurged, if a
	// hard purge covers it, of the page or by a mark (a tag, a prefix, the tenant,
	// the site), or if a mark that covers it may have been forgotten. A generation
	// that is current already is pinned, as by Pin, whether it is kept or not.
	//
	// A change that was sent is carried through for some seconds even if ctx ends:
	// the answer is what became of it. One that waits for others to be sent, and
	// whose ctx ends, is not made.
	Rollback(ctx context.Context, read Record, to string, a Assertion) (Entry, error)

	// Pin changes how long the current entry is pinned, in one atomic step, and
	// only if the entry is still exactly what read saw (ErrMoved otherwise). The
	// log tells every node to read it again, whether anything changed or not. What
	// was purged stays so. Unpinning sets PinnedUntil to now, in whole seconds, if
	// it is later; an entry that never was pinned has none afterwards either.
	// Errors: ErrNoVersion, if there is no entry, or another service wrote it;
	// ErrPurged, as of Rollback, but never of unpinning.
	//
	// ctx is as of Rollback.
	Pin(ctx context.Context, read Record, a Assertion) (Entry, error)
}

// An Assertion is what a person declares of a page.
type Assertion struct {
	// Key is the page, for the log.
	Key Key
	// At is when it was declared.
	At time.Time
	// PinnedUntil suspends expiry by time until then. Zero: not pinned, or not
	// any more.
	PinnedUntil time.Time
	// Expires is when the store may forget the entry; zero: never.
	Expires time.Time
	// Superseded is when the store may forget the version that was current
	// before. Zero: with the entry, but after a month at the latest.
	Superseded time.Time
}

// PublishOptions says how a generation is published.
type PublishOptions struct {
	// History keeps the generation as a version of its own, beside the current
	// entry, until it is superseded and Superseded has passed.
	History bool
	// Superseded is when the store may forget the version that was current
	// before. Zero: with the entry, but after a month at the latest.
	Superseded time.Time
	// Keep is how many versions are kept at least for rollbacks, the new one
	// counted; older ones are forgotten now. Zero: all, until their time.
	Keep int
	// Unchanged: the generation has the content of the current entry. With
	// History, its version takes the place of that one's, so that the versions
	// are as many different contents, however often an unchanged page is
	// regenerated.
	Unchanged bool
	// Unpin publishes even if the current entry is pinned. If it was, the log tells
	// every node to drop its copy, in the same atomic step.
	Unpin bool
	// Reload has the log tell every node to drop its copy, in the same atomic step.
	Reload bool
	// Key is the page, for the log. It is required with Reload and where a pin is
	// ended, and not looked at otherwise.
	Key Key
}
