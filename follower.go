package isr

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// A follower reads the log, and drops pages that other nodes have changed from memory:
//
//	SEQ ──► cursor ──► LOG after the cursor ──► drop these pages ──► cursor
//	 ▲                    │ a gap, an unreadable row, a trimmed log,
//	 └────────────────────┘ too long without a poll: drop all pages
//
// A page that is read after SEQ includes all changes up to SEQ, since a change and its
// log row are one transaction. A page that was read before the first SEQ may be served
// for a short time (see staleness.go), and is then read again.
type follower struct {
	c   *Cache
	log store.LogStore
	*staleness
	// begun is closed when the first read of SEQ has succeeded or failed. Searches wait
	// for it, so that what they read may be kept.
	begun chan struct{}
	known atomic.Int64 // one more than the cursor of the last successful poll; 0 before

	// The following fields belong to the goroutine of run.

	cursor    int64     // the last sequence of the log that this node has applied
	nextAudit time.Time // when SEQ is read next
	failing   bool      // the last poll failed
	stray     bool      // the last poll found a row beyond the end of the log
}

const (
	// pollTimeout bounds one poll, whatever the store promises.
	pollTimeout = 10 * time.Second
	// auditEvery is the longest interval at which SEQ is read in addition to the log. That
	// detects trimmed rows, and a table that was replaced by an older one. Jitter shortens
	// it by up to a fifth, so that nodes that started together do not drop all pages in
	// the same second.
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

// rest waits until the next poll is due or requested. It returns false if ctx has ended.
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

// pause is the interval, shortened at random by up to a fifth, so that nodes that started
// together do not poll together, and no node polls less often.
func (f *follower) pause() time.Duration {
	every := f.c.cfg.Poll
	return every - time.Duration(f.c.below(uint64(every/5)))
}

// poll applies the log. While the store does not answer, pages are served from memory (see
// staleness.go); missed changes are applied afterwards.
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
		f.c.log.Info("the log can be read again")
	case err != nil && !f.failing:
		f.c.log.Error("failed to read the log: changes by other servers take effect late", "error", err)
	}
	f.failing = err != nil
	f.ended(began, err)
}

// catchUp applies the log from the cursor to its end. Changes that were applied before an
// error are not applied again.
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
	found, err := f.log.Changes(ctx, f.cursor)
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

// endOf reads the end of the log, SEQ, after rows were found beyond the cursor. A row
// beyond SEQ is not part of the log: the change that gets its sequence will replace it.
// The caller reads the rows up to SEQ again, since one of those found may have been
// replaced.
func (f *follower) endOf(ctx context.Context, found []store.Change) (seq int64, err error) {
	now := time.Now()
	sequence, err := f.log.Sequence(ctx)
	if err != nil {
		// The rows may be changes. Reading pages again is better than serving old ones.
		for _, change := range found {
			f.c.reload(change.Reload...)
		}
		return 0, err
	}
	f.auditAfter(now)
	if first := found[0]; sequence.Seq == f.cursor && !f.stray {
		f.stray = true
		f.c.log.Warn("ignoring a row beyond the end of the log", "seq", sequence.Seq, "found", first.Seq, "error", first.Malformed)
	}
	return sequence.Seq, nil
}

// advance applies the log up to seq. If a row is unreadable, or is not the next one, the
// changes are not known, and all pages are dropped.
func (f *follower) advance(ctx context.Context, seq int64) error {
	for f.cursor < seq {
		changes, err := f.log.Changes(ctx, f.cursor)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			return f.lost(ctx, "the end of the log is missing", "cursor", f.cursor, "seq", seq)
		}
		for _, change := range changes {
			switch {
			case f.cursor == seq:
				return nil // rows beyond SEQ are left to a later poll
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

// applied returns a sequence up to which this node has applied the log; false if there is
// none yet.
func (f *follower) applied() (seq int64, ok bool) {
	known := f.known.Load()
	return max(known-1, 0), known > 0
}

// audit reads SEQ every auditEvery; in between it returns the cursor. If SEQ cannot be
// read, one poll fails, and the next ones still apply the log.
func (f *follower) audit(ctx context.Context) (int64, error) {
	now := time.Now()
	if now.Before(f.nextAudit) {
		return f.cursor, nil
	}
	sequence, err := f.log.Sequence(ctx)
	f.auditAfter(now)
	return sequence.Seq, err
}

func (f *follower) auditAfter(now time.Time) {
	f.nextAudit = now.Add(auditEvery - time.Duration(f.c.below(uint64(auditEvery/5))))
}

// lost starts over at the end of the log, and logs the reason.
func (f *follower) lost(ctx context.Context, reason string, args ...any) error {
	if err := f.begin(ctx); err != nil {
		f.nextAudit = time.Time{} // so that the next poll detects it again
		return err
	}
	f.c.log.Warn("dropped all pages from memory: "+reason, args...)
	return nil
}

// begin sets the cursor to SEQ, and drops everything that was read before. If SEQ cannot
// be read, nothing is dropped. A dropped page is read again when it is requested next, and
// its body is not fetched if it is the same.
func (f *follower) begin(ctx context.Context) error {
	now := time.Now()
	sequence, err := f.log.Sequence(ctx)
	if err != nil {
		return err
	}
	f.c.floor.raise(time.Now())
	select {
	case <-f.begun:
		f.c.flights.retireAll()
	default: // no flight has read anything yet
	}
	f.cursor = sequence.Seq
	f.auditAfter(now)
	return nil
}
