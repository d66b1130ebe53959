package store

import (
	"context"
	"slices"
	"time"
)

// LogLife is the default lifetime of the rows of the log. A process that has not read the
// log for longer does not know what it missed.
const LogLife = time.Hour

// A LogStore is the log by which every process learns what others changed. It keeps
// the contract of [MetaStore].
type LogStore interface {
	// Sequence returns the current sequence, by a strongly consistent read.
	Sequence(ctx context.Context) (Sequence, error)
	// Changes returns the current sequence, by a strongly consistent read, and the rows of
	// the log after a sequence up to it, oldest first, at most a thousand; none if the
	// current sequence is not higher. Rows that exist are not missing, so a reader that
	// finds a gap, an end before the current sequence or a Malformed row does not know what
	// it missed: rows expire.
	Changes(ctx context.Context, after int64) (Sequence, []Change, error)
	// Recent returns the newest rows of the log up to a sequence that was read before, newest
	// first: all changes up to it that other reads may see in part, because they were
	// committed a moment ago. A reader of SEQ and then of the marks, or of a page, merges
	// them with what it reads. Rows that have expired, and those before them, are left out.
	Recent(ctx context.Context, upTo int64) ([]Change, error)
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
	// Reload lists the pages that were purged by their keys, rolled back, pinned, unpinned,
	// published over a pin or withdrawn: copies in memory that were read before must be dropped. One row may
	// hold the concurrent changes of several callers.
	Reload []Key
	// Marks are the purge marks that the change wrote.
	Marks []Mark
	// Destinations are the downstream caches for which the change's own transaction wrote
	// jobs.
	Destinations []string
	// Confirm asks every process to announce itself once it has applied the change.
	Confirm bool
	// Malformed is why the row cannot be read; it names the row and the attribute. Reload and
	// Marks are then empty, and Seq is 0 if it cannot be read either.
	Malformed error
}

// Undelivered returns what a downstream cache is to purge because of the change, unless the
// change's own transaction wrote a job for it. Pages are purged hard: the log does not record
// how they were purged.
func (c Change) Undelivered(destination string) []JobTarget {
	if slices.Contains(c.Destinations, destination) {
		return nil
	}
	targets := make([]JobTarget, 0, len(c.Reload)+len(c.Marks))
	for _, k := range c.Reload {
		targets = append(targets, JobTarget{PurgeTarget: PurgeTarget{Kind: PurgeKey, Tenant: k.Tenant, Value: k.Text}, Hard: true})
	}
	for _, m := range c.Marks {
		targets = append(targets, JobTarget{PurgeTarget: m.Target, Hard: m.HardSeq == c.Seq})
	}
	return targets
}
