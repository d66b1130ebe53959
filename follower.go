package isr

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// A follower reads the log, so that this node learns what others did to pages
// that it has in memory:
//
//	SEQ ──► cursor ──► LOG after the cursor ──► drop these pages ──► cursor
//	 ▲                    │ a gap, a row that cannot be read, a trimmed log,
//	 └────────────────────┘ too long away: drop all pages
//
// What is read of a page after SEQ was read has seen all that the log says up to
// there, since a change and its row are one transaction. What was read before the
// first SEQ was is good for a short time (see staleness.go), and read again then.
type follower struct {
	c *Cache
	*staleness
	// begun is closed when SEQ was read, or could not be, for the first time.
	// Searches wait for it: what they read then may be kept.
	begun chan struct{}
	known atomic.Int64 // one more than the cursor of the last poll that succeeded; 0 before

	// The rest belongs to the goroutine of run.

	cursor    int64     // what this node has done of the log
	nextAudit time.Time // when SEQ is to be read again
	failing   bool      // the last poll failed
	stray     bool      // the last poll found a row where the log has ended
}

const (
	// pollTimeout bounds one poll, whatever the store promises.
	pollTimeout = 10 * time.Second
	// auditEvery is how often SEQ is read beside the log, at least, which shows that
	// rows were trimmed, or that the table was replaced by an older one. By jitter it
	// is up to a fifth more often: nodes that started together do not find this out,
	// and read their pages again, in the same second.
	auditEvery = time.Minute
)

// run polls until ctx ends.
func (f *follower) run(ctx context.Context) {
	f.poll(ctx)
	close(f.begun)
	for f.rest(ctx) {
		f.poll(ctx)
	}
}

// rest waits until the next poll is due, or wanted at once, and says whether there is
// to be one.
func (f *follower) rest(ctx context.Context) bool {
	timer := time.NewTimer(f.pause())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.wanted:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// pause is a little less than the interval, by a random part of a fifth: nodes
// that started together do not ask together, and none asks less often.
func (f *follower) pause() time.Duration {
	every := f.c.cfg.Poll
	return every - time.Duration(f.c.below(uint64(every/5)))
}

// poll does what the log says. While the store cannot be asked, pages are served
// from memory as they are (see staleness.go); what was missed is made up for afterwards.
func (f *follower) poll(ctx context.Context) {
	began := f.c.moment()
	call, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	err := f.catchUp(call)
	if err == nil {
		f.known.Store(f.cursor + 1)
	}
	switch {
	case ctx.Err() != nil:
		return // closing
	case err == nil && (f.failing || f.said.Load()):
		f.c.log.Info("the log is read again")
	case err != nil && !f.failing:
		f.c.log.Error("the log cannot be read: rollbacks by others are seen late", "error", err)
	}
	f.failing = err != nil
	f.ended(began, err)
}

// catchUp reads the log from the cursor to its end. What was done before an error
// is not repeated.
func (f *follower) catchUp(ctx context.Context) error {
	last := f.polled.Load()
	if last == nil {
		return f.begin(ctx)
	}
	if away := last.before(f.c.now()); away > f.c.cfg.LogLife/2 {
		return f.lost(ctx, "the log was not read for too long", "away", away)
	}
	seq, err := f.audit(ctx)
	if err != nil {
		return err
	}
	found, err := f.c.meta.Changes(ctx, f.cursor)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		if seq, err = f.endOf(ctx, found); err != nil {
			return err
		}
	}
	f.stray = f.stray && len(found) > 0
	if seq < f.cursor {
		return f.lost(ctx, "the log is shorter than it was", "cursor", f.cursor, "seq", seq)
	}
	return f.advance(ctx, seq)
}

// endOf reads where the log ends, rows having been found after the cursor. What
// happened is in the log up to SEQ. A row behind it is none of the log, whoever wrote
// it: the change that comes to its number will replace it. The rows up to SEQ are
// read once more, after SEQ, for one of those found may have been replaced so.
func (f *follower) endOf(ctx context.Context, found []store.Change) (seq int64, err error) {
	now := time.Now()
	sequence, err := f.c.meta.Sequence(ctx)
	if err != nil {
		// It may be news. To read pages again costs less than to serve old ones.
		for _, change := range found {
			f.c.reload(change.Reload...)
		}
		return 0, err
	}
	f.auditAfter(now)
	if first := found[0]; sequence.Seq == f.cursor && !f.stray {
		f.stray = true
		f.c.log.Warn("a row is ignored that is behind the end of the log", "seq", sequence.Seq, "found", first.Seq, "error", first.Malformed)
	}
	return sequence.Seq, nil
}

// advance does what the log says up to seq. A row that cannot be read, or is not the
// next one, means that it is not known what happened.
func (f *follower) advance(ctx context.Context, seq int64) error {
	for f.cursor < seq {
		changes, err := f.c.meta.Changes(ctx, f.cursor)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			return f.lost(ctx, "the end of the log is missing", "cursor", f.cursor, "seq", seq)
		}
		for _, change := range changes {
			switch {
			case f.cursor == seq:
				return nil // what is behind SEQ is for a later poll, or for none
			case change.Malformed != nil:
				return f.lost(ctx, "a row of the log cannot be read", "cursor", f.cursor, "error", change.Malformed)
			case change.Seq != f.cursor+1:
				return f.lost(ctx, "the log has a gap", "cursor", f.cursor, "found", change.Seq)
			}
			f.c.reload(change.Reload...)
			f.cursor = change.Seq
		}
	}
	return nil
}

// applied is a sequence up to which this node has done all that the log says; false if
// there is none yet.
func (f *follower) applied() (seq int64, ok bool) {
	known := f.known.Load()
	return max(known-1, 0), known > 0
}

// audit reads SEQ now and then; in between it is taken to be where the cursor is.
// A SEQ that cannot be read fails one poll, and does not keep the next ones from
// what the log says.
func (f *follower) audit(ctx context.Context) (int64, error) {
	now := time.Now()
	if now.Before(f.nextAudit) {
		return f.cursor, nil
	}
	sequence, err := f.c.meta.Sequence(ctx)
	f.auditAfter(now)
	return sequence.Seq, err
}

func (f *follower) auditAfter(now time.Time) {
	f.nextAudit = now.Add(auditEvery - time.Duration(f.c.below(uint64(auditEvery/5))))
}

// lost begins anew, and says why.
func (f *follower) lost(ctx context.Context, reason string, args ...any) error {
	if err := f.begin(ctx); err != nil {
		f.nextAudit = time.Time{} // so that the next poll finds it out, too
		return err
	}
	f.c.log.Warn("all pages are read anew: "+reason, args...)
	return nil
}

// begin takes SEQ for the cursor. Only once that is known everything that was read
// before is dropped: a store that cannot be asked costs no page. A page that was
// dropped is read again when it is asked for next, and its body is not fetched if it
// is the same.
func (f *follower) begin(ctx context.Context) error {
	now := time.Now()
	sequence, err := f.c.meta.Sequence(ctx)
	if err != nil {
		return err
	}
	f.c.floor.raise(time.Now())
	select {
	case <-f.begun:
		f.c.flights.retireAll()
	default: // they have not read anything yet
	}
	f.cursor = sequence.Seq
	f.auditAfter(now)
	return nil
}
