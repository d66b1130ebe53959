package isr

import (
	"context"
	"time"

	"github.com/facetheory/isr/internal/pause"
)

// A follower reads the log, so that this node learns what others did to pages
// that it has in memory:
//
//	SEQ ──► cursor ──► LOG after the cursor ──► drop these pages ──► cursor
//	 ▲                    │ a gap, a row that cannot be read, a trimmed log,
//	 └────────────────────┘ too long away: drop all pages
//
// What is read of a page after SEQ was read has seen all that the log says up to
// there, since a change and its row are one transaction. So nothing is served
// from memory before the first SEQ is known, and nothing that was read before.
type follower struct {
	c *Cache
	// begun is closed when SEQ was read, or could not be, for the first time.
	// Searches wait for it: what they read then may be kept.
	begun chan struct{}

	// The rest belongs to the goroutine of run.

	cursor    int64     // what this node has done of the log
	nextAudit time.Time // when SEQ is to be read again
	// The last poll that succeeded began at this moment of the monotonic clock,
	// and of the wall clock, which goes on while a machine sleeps; zero before
	// the first.
	polled     time.Time
	polledWall time.Time
	failing    bool // the last poll failed
	stray      bool // the last poll found a row where the log has ended
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
	for pause.For(ctx, f.pause()) == nil {
		f.poll(ctx)
	}
}

// pause is a little less than the interval, by a random part of a fifth: nodes
// that started together do not ask together, and none asks less often.
func (f *follower) pause() time.Duration {
	every := f.c.cfg.Poll
	return every - time.Duration(f.c.below(uint64(every/5)))
}

// poll does what the log says. While the store cannot be asked, pages are served
// from memory as they are; what was missed is made up for afterwards.
func (f *follower) poll(ctx context.Context) {
	began, wall := time.Now(), f.c.now()
	call, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	err := f.catchUp(call)
	switch {
	case err == nil:
		f.polled, f.polledWall = began, wall
		if f.failing {
			f.c.log.Info("the log is read again")
		}
	case ctx.Err() != nil:
		return // closing
	case !f.failing:
		f.c.log.Error("the log cannot be read: rollbacks by others are seen late", "error", err)
	}
	f.failing = err != nil
}

// catchUp reads the log from the cursor to its end. What was done before an error
// is not repeated.
func (f *follower) catchUp(ctx context.Context) error {
	switch away := f.away(); {
	case f.polled.IsZero():
		return f.begin(ctx)
	case away > f.c.cfg.LogLife/2:
		return f.lost(ctx, "the log was not read for too long", "away", away)
	}
	seq, err := f.audit(ctx)
	if err != nil {
		return err
	}
	if seq < f.cursor {
		return f.lost(ctx, "the log is shorter than it was", "cursor", f.cursor, "seq", seq)
	}
	for {
		changes, err := f.c.meta.Changes(ctx, f.cursor)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			f.stray = false
			break
		}
		for _, change := range changes {
			if change.Malformed != nil || change.Seq != f.cursor+1 {
				return f.offTrack(ctx, change)
			}
			f.c.reload(change.Reload...)
			f.cursor = change.Seq
		}
	}
	if f.cursor < seq {
		return f.lost(ctx, "the end of the log is missing", "cursor", f.cursor, "seq", seq)
	}
	return nil
}

// offTrack deals with a row that is not the next of the log. If SEQ has gone on,
// what happened is not known. If not, nothing has, and the row is none of the log,
// whoever wrote it: pages are not to be dropped for it, least of all with every
// poll, and the change that comes to its number will replace it.
func (f *follower) offTrack(ctx context.Context, found Change) error {
	sequence, err := f.c.meta.Sequence(ctx)
	switch {
	case err != nil:
		return err
	case sequence.Seq != f.cursor && found.Malformed != nil:
		return f.lost(ctx, "a row of the log cannot be read", "cursor", f.cursor, "error", found.Malformed)
	case sequence.Seq != f.cursor:
		return f.lost(ctx, "the log has a gap", "cursor", f.cursor, "found", found.Seq)
	case !f.stray:
		f.c.log.Warn("a row is ignored that is behind the end of the log", "seq", sequence.Seq, "found", found.Seq, "error", found.Malformed)
	}
	f.stray = true
	return nil
}

// away is how long ago the last successful poll began. A frozen process stops the
// monotonic clock on some systems, and somebody may set the other back: the
// larger is right.
func (f *follower) away() time.Duration {
	return max(time.Since(f.polled), f.c.now().Sub(f.polledWall))
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
