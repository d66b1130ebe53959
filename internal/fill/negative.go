package fill

import (
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/generations"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/nodecache"
	"github.com/facetheory/isr/store"
)

const (
	// Remembered is how long a refusal is remembered.
	Remembered = 2 * time.Minute
	// maxNegativeWindow bounds how long a negative answer is kept, whatever the
	// response says: this node does not learn from others that the page has appeared.
	maxNegativeWindow = 5 * time.Minute
)

// refused ends a fill whose page is not cacheable, and remembers that. readAt is when
// the read of the page began that led to the render.
func (s *Fill) refused(readAt time.Time, reason string) Outcome {
	s.e.Log.Debug("not cacheable", "key", s.Key.String(), "reason", reason)
	if reason == DetailNoMemory { // which says nothing of the page
		return Refusal{reason}
	}
	s.e.Node.Negative.Put(s.Key, &nodecache.NegativeEntry{ReadAt: readAt, Seq: s.asOf, Until: time.Now().Add(Remembered), Refused: reason}, &s.f.State)
	return Refusal{reason}
}

// tooLarge ends a fill whose page has a body that other nodes keep and this one does
// not: requests for it pass through. The stored page is good, and may be pinned, so it is
// not rendered over.
func (s *Fill) tooLarge(err error) Outcome {
	s.e.Complaints.Log("requests for a stored page pass through, because its body exceeds this node's limit", "key", s.Key.String(), "error", err)
	return s.refused(s.latest.Began, httpcache.RefusedTooLarge)
}

// isNegative reports whether a storable status means that there is no page.
func isNegative(status int) bool { return status >= http.StatusBadRequest }

// staysInMemory reports whether a rendered page is not published. Visitors can request
// any number of invented URLs, and each would become a row and a body. An entry that
// exists, even one that cannot be read, is replaced.
func (s *Fill) staysInMemory(rec store.Record, next *store.Entry) bool {
	return isNegative(next.Status) && rec.Entry == nil && rec.Malformed == nil && !s.Force && !s.Policy.StoreNegative
}

// knownNegative returns what another flight of this process has found since this flight's
// leader looked for a negative entry: that the page is not cacheable, or a negative answer;
// nil if there is neither.
func (s *Fill) knownNegative(rec store.Record) Outcome {
	if s.Force {
		return nil
	}
	e := s.e.Node.Negative.Get(s.Key, time.Now())
	if e != nil && e.Refused != "" {
		return Refusal{e.Refused}
	}
	if rec.Entry != nil || e == nil || e.Page == nil || store.Freshness(&e.Page.Entry, s.e.Node.Purges(&s.f.State, e.Page, s.e.Now()).Merge(rec.Purges), s.e.Now()) != store.Fresh {
		return nil
	}
	return StoredPage{Page: e.Page}
}

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
func (s *Fill) withdrawable(rec store.Record) bool {
	return rec.Entry != nil && (!rec.Entry.Withdrawn || s.ended) && !s.pinned(rec)
}

// withdrawal describes a withdrawn page. No client serves such an entry, even one that
// does not know Entry.Withdrawn. It keeps the body's key, so that an unchanged page that
// returns is not written again.
func (s *Fill) withdrawal(e store.Entry, at timing, seq int64) store.Entry {
	e.GenerationID = s.e.newGenerationID()
	e.GeneratedAt, e.Revalidate, e.Stale = at.generatedAt, 0, 0
	e.Key, e.Route = s.Key.Text, s.Policy.Name
	e.Status, e.ETag, e.Header, e.Tags = http.StatusGone, "", nil, nil
	e.PinnedUntil, e.AssertedAt, e.PurgeSeq, e.Build, e.Withdrawn = time.Time{}, time.Time{}, seq, s.e.Node.Build(), true
	e.Expires = generations.Expiry(e, s.e.Now(), s.e.Retention)
	return e
}

// withdrawHere withdraws, in this process only, all generations from before a render,
// and remembers the refusal, if there is one.
func (s *Fill) withdrawHere(at timing, refused string) {
	if s.e.Node.Known(s.Key) != nil {
		s.e.Node.Invalidate(s.Key)
	}
	e := &nodecache.NegativeEntry{ReadAt: time.Now(), Seq: s.asOf, Refused: refused, Ended: at.generatedAt}
	if refused != "" {
		e.Until = e.ReadAt.Add(Remembered)
	}
	s.e.Node.Negative.Put(s.Key, e, &s.f.State)
}

// withdrawnHere reports whether an entry was withdrawn in this process only. A pin takes
// precedence.
func (s *Fill) withdrawnHere(e *store.Entry) bool {
	return e != nil && !e.Withdrawn && !e.PinnedUntil.After(s.e.Now()) && s.e.Node.Negative.Withdrawn(s.Key, e.GeneratedAt)
}
