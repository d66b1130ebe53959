package isr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/store"
)

// An origin withdraws a page by a response that says that the page is gone, or must no
// longer be shared. That ends the stored copy: a withdrawn entry counts as missing, on
// every node and after every restart, until a render is published.
//
//	render -> 401, 403, 404, 410, 451, a redirect, private, no-store, no-cache, Set-Cookie,
//	          or a Cache-Control that cannot be parsed
//	       -> publish META as withdrawn, with a reload in the log, and delete LOCK
//
// A withdrawal is a publish like any other: only the holder of the lease can make it, and
// the fence keeps it from undoing a newer publish. A pinned page is not withdrawn,
// because an operator's decision takes precedence. Neither is a page that was never
// stored: requests for invented URLs leave no rows.
//
// A storable 404, 410 or redirect needs no withdrawal, since it replaces the page.
//
// If the store cannot be updated, this process remembers the withdrawal in the negative
// cache, and updates the store at its next render of the page.

// withdrawable reports whether there is an entry to withdraw.
func (s *search) withdrawable(rec store.Record) bool {
	return rec.Entry != nil && (!rec.Entry.Withdrawn || s.ended) && !s.pinned(rec)
}

// withdraw ends the stored copy, and gives up the lease. Nil: another writer was faster.
// If we crash before the publish, the copy is unchanged, and the next render ends it.
func (s *search) withdraw(ctx context.Context, lease store.Lease, read store.Record, seq int64, got rendering, at timing) outcome {
	_, err := s.c.meta.Publish(ctx, lease, read, s.withdrawal(*read.Entry, at, seq), store.PublishOptions{
		Superseded: s.c.now().Add(s.c.cfg.Retention), Unpin: true, Reload: true, Key: s.key,
	})
	switch {
	case errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved):
		s.c.log.Warn("another writer was faster than a withdrawal", "key", s.key.String(), "error", err)
		if errors.Is(err, store.ErrMoved) {
			s.release(ctx, lease)
		}
		if s.force {
			return refusal{got.refused}
		}
		return nil
	case err != nil:
		s.release(ctx, lease)
		s.c.complaints.log("failed to store the withdrawal of a page; this process remembers it", "key", s.key.String(), "error", err)
		s.withdrawHere(at, got.refused)
		return refusal{got.refused}
	}
	s.c.log.Info("withdrawn", "key", s.key.String(), "reason", got.refused)
	s.c.reload(s.key)
	return s.refused(time.Now(), got.refused)
}

// withdrawal describes a withdrawn page. No client serves such an entry, even one that
// does not know Entry.Withdrawn. It keeps the body's key, so that an unchanged page that
// returns is not written again.
func (s *search) withdrawal(e store.Entry, at timing, seq int64) store.Entry {
	e.GenerationID = s.c.newGenerationID()
	e.GeneratedAt, e.Revalidate, e.Stale = at.generatedAt, 0, 0
	e.Key, e.Route = s.key.Text, s.route.Name
	e.Status, e.ETag, e.Header, e.Tags = http.StatusGone, "", nil, nil
	e.PinnedUntil, e.AssertedAt, e.PurgeSeq, e.Build, e.Withdrawn = time.Time{}, time.Time{}, seq, s.c.marks.build.Load(), true
	e.Expires = expiry(e, s.c.now(), s.c.cfg.Retention)
	return e
}

// withdrawHere withdraws, in this process only, all generations from before a render,
// and remembers the refusal, if there is one.
func (s *search) withdrawHere(at timing, refused string) {
	if s.c.memory.get(s.key) != nil {
		s.c.reload(s.key)
	}
	e := &negativeEntry{readAt: time.Now(), seq: s.asOf, refused: refused, ended: at.generatedAt}
	if refused != "" {
		e.until = e.readAt.Add(remembered)
	}
	s.c.negative.put(s.key, e, s.f)
}

// withdrawnHere reports whether an entry was withdrawn in this process only. A pin takes
// precedence.
func (s *search) withdrawnHere(e *store.Entry) bool {
	return e != nil && !e.Withdrawn && !e.PinnedUntil.After(s.c.now()) && s.c.negative.withdrawn(s.key, e.GeneratedAt)
}

func errWithdrawn() error {
	return fmt.Errorf("%w: the page was withdrawn by its origin; roll back to an older generation, or regenerate it", store.ErrNoVersion)
}
