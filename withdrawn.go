package isr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/store"
)

// An origin withdraws a page by an answer that says that it is gone, or not to be
// shared any more. That ends the stored copy: an entry that is withdrawn counts as
// missing, for every node and after every restart, until a render is published.
//
//	render -> 401, 403, 404, 410, 451, a redirect, private, no-store, no-cache, Set-Cookie,
//	          or a Cache-Control that cannot be read
//	       -> publish META as withdrawn, with a reload in the log, and give up LOCK
//
// It is a publish like any other: only the holder of the lease can make it, and the
// fence keeps it from undoing what was published since. A pin is a person's word, and
// stronger: a pinned page is not withdrawn. Nor does an answer withdraw a page that
// was never stored: strangers leave no rows.
//
// A storable 404, 410 or redirect needs no such entry, since it takes the page's place
// itself.
//
// If the store cannot be told, this process remembers the withdrawal in the negative
// cache, and tells the store when it renders the page next.

// withdrawable says that there is an entry to be withdrawn.
func (s *search) withdrawable(rec store.Record) bool {
	return rec.Entry != nil && (!rec.Entry.Withdrawn || s.ended) && !s.pinned(rec)
}

// withdraw ends the stored copy, and gives up the lease. overtaken: another writer was
// there first. If we crash before the publish, the copy is as it was, and the next
// render ends it.
func (s *search) withdraw(ctx context.Context, lease store.Lease, read store.Record, seq int64, got rendering, at timing) (o outcome, overtaken bool) {
	_, err := s.c.meta.Publish(ctx, lease, read, s.withdrawal(*read.Entry, at, seq), store.PublishOptions{
		Superseded: s.c.now().Add(s.c.cfg.Retention), Unpin: true, Reload: true, Key: s.key,
	})
	switch {
	case errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved):
		s.c.log.Warn("overtaken while withdrawing", "key", s.key.String(), "error", err)
		if errors.Is(err, store.ErrMoved) {
			s.release(ctx, lease)
		}
		return outcome{refused: got.refused}, !s.force
	case err != nil:
		s.release(ctx, lease)
		s.c.complaints.log("a page was withdrawn, and the store could not be told", "key", s.key.String(), "error", err)
		s.endHere(at, got.refused)
		return outcome{refused: got.refused}, false
	}
	s.c.log.Info("withdrawn", "key", s.key.String(), "reason", got.refused)
	s.c.reload(s.key)
	return s.refused(time.Now(), got.refused), false
}

// withdrawal describes the state of a page that was withdrawn: what nobody serves,
// including clients that do not know Entry.Withdrawn. The body is kept, so that an
// unchanged page that returns is not stored again.
func (s *search) withdrawal(e store.Entry, at timing, seq int64) store.Entry {
	e.GenerationID = s.c.newGenerationID()
	e.GeneratedAt, e.Revalidate, e.Stale = at.generatedAt, 0, 0
	e.Key, e.Route = s.key.Text, s.route.Name
	e.Status, e.ETag, e.Header, e.Tags = http.StatusGone, "", nil, nil
	e.PinnedUntil, e.AssertedAt, e.PurgeSeq, e.Withdrawn = time.Time{}, time.Time{}, seq, true
	e.Expires = expiry(e, s.c.now(), s.c.cfg.Retention)
	return e
}

// endHere has this process serve nothing that was generated before a render which
// withdrew the page, and remembers the refusal, if there is one.
func (s *search) endHere(at timing, refused string) {
	if s.c.memory.get(s.key) != nil {
		s.c.reload(s.key)
	}
	e := &negativeEntry{readAt: time.Now(), refused: refused, ended: at.generatedAt}
	if refused != "" {
		e.until = e.readAt.Add(remembered)
	}
	s.c.negative.put(s.key, e, s.f)
}

// endedHere says that an entry was withdrawn, though the store does not know. A pin
// is stronger.
func (s *search) endedHere(e *store.Entry) bool {
	return e != nil && !e.Withdrawn && !e.PinnedUntil.After(s.c.now()) && s.c.negative.ended(s.key, e.GeneratedAt)
}

func errWithdrawn() error {
	return fmt.Errorf("%w: the page was withdrawn by its origin; roll back to an older generation, or regenerate it", store.ErrNoVersion)
}
