package dynamostore

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

const (
	// Sort keys continue with the destination.
	outboxCursorPrefix = "CURSOR#"

	// maxEnqueued bounds the jobs of one transaction. Their targets come from one result
	// page, of at most 1 MB.
	maxEnqueued = 90
)

// outboxCursorRow is up to where in the log the changes have the jobs of a destination.
type outboxCursorRow struct {
	location

	Seq count `theorydb:"attr:seq"`
}

var requiredOfOutboxCursor = []required{{attrSeq, expectedCount}}

// An enqueuing writes the jobs of a part of the log, and moves the cursor beyond it.
type enqueuing struct {
	store       *Store
	destination string
	id          string // of the jobs
	from        row    // CURSOR as it was read; nil if there is none
	to          int64  // the sequence at which the cursor will be
	jobs        []*jobRow
}

// Enqueue implements [store.OutboxStore]. It costs two read units; for a part of the log a
// read unit more, and two write units for each job and for the cursor.
func (s *Store) Enqueue(ctx context.Context, destination string) error {
	ctx = s.metered(ctx, "outbox")
	err := store.ValidDestination(destination)
	for more := true; more && err == nil; {
		more, err = s.enqueue(ctx, destination)
	}
	if err != nil {
		return fmt.Errorf("write the jobs of %s: %w", destination, err)
	}
	return nil
}

// enqueue reads one part of the log. more: there may be more of it.
func (s *Store) enqueue(ctx context.Context, destination string) (more bool, err error) {
	// The cursor is read first: it can never be beyond a SEQ that is read later, unless the
	// table was replaced by an older one.
	cursor, err := s.readRow(ctx, true, pkOutbox, outboxCursorPrefix+destination)
	if err != nil {
		return false, err
	}
	q := &enqueuing{store: s, destination: destination, id: rand.Text(), from: cursor}
	after, known, err := q.cursor(ctx)
	if err != nil {
		return false, err
	}
	if !known {
		return false, q.execute(ctx)
	}
	seen, changes, err := s.changes(ctx, after)
	if err != nil || seen.Seq == after {
		return false, err
	}
	q.collect(after, seen.Seq, changes)
	return q.to < seen.Seq, q.execute(ctx)
}

// cursor decodes the cursor. If it is not known, the enqueuing moves it to the end of the log.
func (q *enqueuing) cursor(ctx context.Context) (after int64, known bool, err error) {
	malformed := q.from.check("", q.from, requiredOfOutboxCursor)
	if q.from != nil && malformed == nil {
		var r outboxCursorRow
		err := q.store.decode(ctx, q.from, &r)
		return int64(r.Seq), true, err
	}
	seen, err := q.store.readSequence(ctx, true)
	if err != nil {
		return 0, false, err
	}
	if q.to = seen.Seq; q.from != nil {
		q.everything(seen.Seq, malformed.Error())
	}
	return 0, false, nil
}

// collect makes the jobs of the changes after a sequence up to end, or of the first of them.
func (q *enqueuing) collect(after, end int64, changes []store.Change) {
	q.to = after
	for _, c := range changes {
		switch {
		case c.Malformed != nil:
			q.everything(end, c.Malformed.Error())
			return
		case c.Seq != q.to+1:
			q.everything(end, "rows of the log are missing")
			return
		case len(q.jobs) == maxEnqueued:
			return
		}
		q.to = c.Seq
		if targets := c.Undelivered(q.destination); len(targets) > 0 {
			q.add(c.Seq, targets)
		}
	}
	switch q.to {
	case end:
	case after:
		reason := "rows of the log are missing"
		if end < after {
			reason = "the log is shorter than it was"
		}
		q.everything(end, reason)
	}
}

// everything replaces the jobs by a hard purge of everything: it is not known what changed.
func (q *enqueuing) everything(end int64, reason string) {
	q.store.config.Logger.Warn("isr: a downstream cache is purged entirely: "+reason, slog.String("destination", q.destination), slog.Int64("seq", end))
	q.to, q.jobs = end, nil
	q.add(end, []store.JobTarget{{PurgeTarget: store.PurgeTarget{Kind: store.PurgeSite}, Hard: true}})
}

func (q *enqueuing) add(seq int64, targets []store.JobTarget) {
	row := &jobRow{
		location: q.store.at(pkOutbox, jobKey(jobRowPrefix, q.destination, seq)), ID: laxText(q.id),
		Created: instant(floorSeconds(q.store.config.Now())),
	}
	for _, t := range targets {
		row.Targets = addJobTarget(row.Targets, jobTarget{string(t.Kind), t.Tenant, t.Value, flag(t.Hard)})
	}
	q.jobs = append(q.jobs, row)
}

// execute writes the jobs, unless another process does: then the cursor has moved.
func (q *enqueuing) execute(ctx context.Context) error {
	unmoved := tabletheory.IfNotExists()
	if q.from != nil {
		var same sameness
		same.require(attrSeq, ":old", q.from[attrSeq])
		unmoved = same.condition()
	}
	cursor := &outboxCursorRow{location: q.store.at(pkOutbox, outboxCursorPrefix+q.destination), Seq: count(q.to)}
	actions := []action{update(onCursor, cursor, []string{"Seq"}, unmoved)}
	for _, row := range q.jobs {
		// No condition: the transaction that moves the cursor owns the rows. A job that it
		// replaces has a part of the targets. The process that delivers that one cannot end
		// this one, which has another id.
		a := put(onJob, row)
		a.item = itemKey{row.PK, row.SK}
		actions = append(actions, a)
	}
	tx := q.store.newTransaction(actions)
	return q.store.execute(ctx, operation{bounded: true, send: tx.send, refused: ignoreRefusal})
}
