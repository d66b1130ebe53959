package store

import (
	"context"
	"time"
)

// LogLife is the default lifetime of the rows of the log. A process that has not read the
// log for longer does not know what it missed.
const LogLife = time.Hour

// A LogStore is the log by which every process learns what others changed. Its contract is
// that of [MetaStore].
type LogStore interface {
	// Sequence returns the current sequence, by a strongly consistent read.
	Sequence(ctx context.Context) (Sequence, error)
	// Changes returns the rows of the log after a sequence, oldest first, in one strongly
	// consistent read of at most a few hundred rows. Expired rows are missing. A reader
	// that finds a gap does not know what it missed; nor does one that finds a Malformed
	// row at or before Sequence.
	Changes(ctx context.Context, after int64) ([]Change, error)
}

// A Sequence is the state of the log.
type Sequence struct {
	// Seq is the number of the newest row, 0 if the log is empty.
	Seq int64
	// MarkLifetime is how long purge marks are kept, 0 if there are none.
	MarkLifetime time.Duration
}

// A Change is one row of the log.
type Change struct {
	Seq int64
	// Reload lists the pages that were rolled back, pinned, unpinned, published over a pin
	// or withdrawn: copies in memory that were read before must be dropped. One row may
	// hold the concurrent changes of several callers.
	Reload []Key
	// Malformed is why the row cannot be read; it names the row and the attribute. Reload
	// is then empty, and Seq is 0 if it cannot be read either.
	Malformed error
}
