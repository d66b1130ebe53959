package store

import (
	"context"
	"time"
)

// LogLife is how long the rows of the log are kept unless Config.LogLife says
// otherwise. A node that has not read the log for that long does not know what
// happened.
const LogLife = time.Hour

// A LogStore is the log by which nodes learn of what others did.
type LogStore interface {
	// Sequence returns the current sequence, read strongly.
	Sequence(ctx context.Context) (Sequence, error)
	// Changes returns the log after a sequence, oldest first, in one strongly
	// consistent read of at most some hundred rows. Sequences that are missing
	// in between, or before the first, were forgotten: who finds a gap does not
	// know what happened, nor does who finds a row that is Malformed, if Sequence
	// has come so far.
	Changes(ctx context.Context, after int64) ([]Change, error)
}

// A Change is one row of the log.
type Change struct {
	Seq int64
	// Reload are pages that were rolled back, pinned, unpinned, published over a pin
	// or withdrawn: copies in memory that were read before are to be dropped. Changes
	// that several callers made at the same time may be one row.
	Reload []Key
	// Malformed says why the row could not be read, naming it and the attribute;
	// Seq is then 0 if it could not be told either, and Reload is empty.
	Malformed error
}
