package isr

import (
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
)

// pinned reports whether an entry must not be replaced: its pin lasts, no purge covers
// it, and its body exists.
func (s *fill) pinned(rec store.Record) bool {
	e, now := rec.Entry, s.e.Now()
	return e != nil && e.PinnedUntil.After(now) && (e.BodyKey != s.noBody || s.unread) && store.Freshness(e, s.e.Node.RecordPurges(&s.f.State, s.key, rec), now) == store.Fresh
}

// refusedByPin reports, before anything is rendered, whether a pin would refuse the
// publish. Only forced regenerations reach this.
func (s *fill) refusedByPin(rec store.Record) bool {
	return s.force && !s.unpin && s.pinned(rec)
}

func pinnedUntil(e *store.Entry) error {
	if !e.PinnedUntil.Before(store.Forever()) {
		return fmt.Errorf("%w (until it is unpinned)", store.ErrPinned)
	}
	return fmt.Errorf("%w (until %s)", store.ErrPinned, e.PinnedUntil.UTC().Format(time.RFC3339))
}
