package dynamostore

import (
	"context"
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// Rollback implements [store.MetaStore]. A generation that is current already is
// pinned, or unpinned, as by Pin, even if it has no version row. It costs eight
// write units if the rows have at most 1 KB, two more if a version is superseded,
// and seven read units or more: SEQ, two for PURGE, the version, two queries for the marks
// (three for a tenant's page), one for each 4 KB of the newest rows of the log, and one for
// each tag.
//
// Concurrent rollbacks and pins share a transaction. One that waits to be sent fails,
// without effect, if ctx ends or after SettleTimeout. One that was sent is completed
// independently of ctx: a transaction whose reply was lost is repeated for at most
// SettleTimeout. If there is still no reply, the outcome is settled by the log: SEQ is
// advanced, after which the transaction can no longer commit, and the log row names
// the transaction that wrote it.
func (s *Store) Rollback(ctx context.Context, read store.Record, to string, a store.Assertion) (store.Entry, error) {
	ctx = s.metered(ctx, "rollback")
	f, err := fenceOf(read)
	if err == nil {
		err = checkPage(a.Key)
	}
	if err != nil {
		return store.Entry{}, fmt.Errorf("roll back to %s: %w", to, err)
	}
	e := read.Entry
	if e != nil && !e.Foreign && e.GenerationID == to {
		e, err = s.pin(ctx, f, read, a)
	} else {
		e, err = s.rollback(ctx, f, read.Purges, to, a)
	}
	if err != nil {
		return store.Entry{}, fmt.Errorf("roll back %s to %s: %w", f.pk, to, err)
	}
	return *e, nil
}

func (s *Store) rollback(ctx context.Context, f fence, known store.PurgeState, to string, a store.Assertion) (*store.Entry, error) {
	// SEQ is read first: a hard purge that was not yet made when PURGE and the marks are
	// read has a higher sequence than this one, and so covers the result of the rollback. One
	// that is being committed is waited for, or found in the log (see serializable.go).
	seen, err := s.readSequence(ctx, true)
	if err != nil {
		return nil, err
	}
	purged, err := s.readPurge(ctx, f.pk)
	if err != nil {
		return nil, err
	}
	version, err := s.findVersion(ctx, f.pk, to)
	if err != nil {
		return nil, err
	}
	recent, err := s.recentPurges(ctx, a.Key, version.Tags, seen.Seq)
	if err != nil {
		return nil, err
	}
	if err := s.checkHardPurge(ctx, version, known.Merge(purged).Merge(recent), seen, a.Key); err != nil {
		return nil, err
	}
	next := *version
	next.PurgeSeq, next.AssertedAt, next.PinnedUntil, next.Expires = seen.Seq, a.At, a.PinnedUntil, a.Expires
	r, err := s.newReassertion(f, next, true, a)
	if err != nil {
		return nil, err
	}
	r.restored = version
	return r.commit(ctx, &seen)
}

// Pin implements [store.MetaStore]. It does not change the purge sequence of the entry
// or AssertedAt, so a purged entry stays purged. A foreign entry cannot store a pin:
// regenerate it first. Errors: store.ErrNoVersion, if there is no entry that can be
// pinned, and store.ErrPurged, if a hard purge covers it (never for unpinning). It
// costs six write units if META has at most 1 KB, and a read unit; pinning also reads
// the marks, which costs two read units, and one for each tag of the entry.
func (s *Store) Pin(ctx context.Context, read store.Record, a store.Assertion) (store.Entry, error) {
	ctx = s.metered(ctx, "pin")
	f, err := fenceOf(read)
	if err == nil {
		err = checkPage(a.Key)
	}
	if err != nil {
		return store.Entry{}, fmt.Errorf("pin: %w", err)
	}
	e, err := s.pin(ctx, f, read, a)
	if err != nil {
		return store.Entry{}, fmt.Errorf("pin %s: %w", f.pk, err)
	}
	return *e, nil
}

func (s *Store) pin(ctx context.Context, f fence, read store.Record, a store.Assertion) (*store.Entry, error) {
	if err := checkPinnable(read.Entry); err != nil {
		return nil, err
	}
	var seen *seenSequence
	if a.PinnedUntil.IsZero() {
		a.PinnedUntil = s.unpinned(read.Entry)
	} else {
		newest, err := s.readSequence(ctx, true)
		if err == nil {
			err = s.checkHardPurge(ctx, read.Entry, read.Purges, newest, a.Key)
		}
		if err != nil {
			return nil, err
		}
		seen = &newest
	}
	next := *read.Entry
	next.PinnedUntil, next.Expires = a.PinnedUntil, a.Expires
	return s.repin(ctx, f, next, a, seen)
}

// checkPinnable refuses an entry that cannot store a pin.
func checkPinnable(e *store.Entry) error {
	switch {
	case e == nil:
		return fmt.Errorf("%w: the page has no entry", store.ErrNoVersion)
	case e.Foreign:
		return fmt.Errorf("%w: the entry was written by another service; regenerate the page first", store.ErrNoVersion)
	}
	return nil
}

// repin commits a change of the current entry that keeps its content.
func (s *Store) repin(ctx context.Context, f fence, next store.Entry, a store.Assertion, seen *seenSequence) (*store.Entry, error) {
	kept := f.meta.text(attrCurrent) == versionPrefix+next.GenerationID
	r, err := s.newReassertion(f, next, kept, a)
	if err != nil {
		return nil, err
	}
	return r.commit(ctx, seen)
}

// RenewPin implements [store.MetaStore]. It costs what Pin costs, and a read unit.
func (s *Store) RenewPin(ctx context.Context, read store.Record, k store.Key, at time.Time) (store.Entry, error) {
	ctx = s.metered(ctx, "renew pin")
	f, err := fenceOf(read)
	if err == nil {
		err = checkPage(k)
	}
	if err != nil {
		return store.Entry{}, fmt.Errorf("renew a pin: %w", err)
	}
	e, err := s.renewPin(ctx, f, read, store.Assertion{Key: k, At: at})
	if err != nil {
		return store.Entry{}, fmt.Errorf("renew the pin of %s: %w", f.pk, err)
	}
	return *e, nil
}

func (s *Store) renewPin(ctx context.Context, f fence, read store.Record, a store.Assertion) (*store.Entry, error) {
	e := read.Entry
	if err := checkPinnable(e); err != nil {
		return nil, err
	}
	if !e.PinnedUntil.After(s.config.Now()) {
		return nil, fmt.Errorf("%w: the entry is not pinned", store.ErrNoVersion)
	}
	// Like a rollback: SEQ is read first, so that a purge that is not found below has a
	// higher sequence than the entry will have. read.Purges is older than SEQ.
	seen, err := s.readSequence(ctx, true)
	if err != nil {
		return nil, err
	}
	purged, err := s.readPurge(ctx, f.pk)
	if err != nil {
		return nil, err
	}
	recent, err := s.recentPurges(ctx, a.Key, e.Tags, seen.Seq)
	if err != nil {
		return nil, err
	}
	state, err := s.coveringState(ctx, e, read.Purges.Merge(purged).Merge(recent), seen, a.Key)
	if err != nil {
		return nil, err
	}
	if newest := max(state.Seq, state.HardSeq); newest > e.PurgeSeq {
		return nil, purgedAt(e, newest)
	}
	next := *e
	next.PurgeSeq, next.AssertedAt = seen.Seq, a.At
	return s.repin(ctx, f, next, a, &seen)
}

// checkHardPurge returns store.ErrPurged for a generation of the page k that a hard purge
// covers, of the page or by a mark, or may have covered.
func (s *Store) checkHardPurge(ctx context.Context, e *store.Entry, known store.PurgeState, seen seenSequence, k store.Key) error {
	state, err := s.coveringState(ctx, e, known, seen, k)
	if err == nil && state.HardSeq > e.PurgeSeq {
		err = purgedAt(e, state.HardSeq)
	}
	return err
}

// coveringState returns the purge state of a generation of the page k; known is the state of
// the page alone. The error is store.ErrPurged if marks that cover it may have expired.
func (s *Store) coveringState(ctx context.Context, e *store.Entry, known store.PurgeState, seen seenSequence, k store.Key) (store.PurgeState, error) {
	if e.OutlivesMarks(seen.MarkLifetime, s.config.Now()) {
		return store.PurgeState{}, fmt.Errorf("%w: %s was rendered at %s, and marks are only kept for %s, so a purge may have covered it",
			store.ErrPurged, e.GenerationID, e.GeneratedAt.UTC().Format(time.RFC3339), seen.MarkLifetime)
	}
	marked, err := s.covering(ctx, k, e.Tags)
	return known.Merge(marked), err
}

func purgedAt(e *store.Entry, seq int64) error {
	return fmt.Errorf("%w: %s was rendered at sequence %d, and purged at %d", store.ErrPurged, e.GenerationID, e.PurgeSeq, seq)
}

// unpinned returns the end of an entry's pin when it is unpinned: now, unless it ended
// before. It stays on META, so that readers recognize an entry that outlived its
// windows because of a pin: it may be served instead of an error.
func (s *Store) unpinned(e *store.Entry) time.Time {
	now := moment(floorSeconds(s.config.Now()))
	if e.PinnedUntil.Before(now) {
		return e.PinnedUntil
	}
	return now
}

// A reassertion is a rollback or a pin: an operator makes a generation current, and
// all nodes learn of it from the log.
type reassertion struct {
	swap
	page     store.Key
	deliver  []string
	restored *store.Entry // the version that returns; nil for a pin
}

var _ loggedChange = (*reassertion)(nil)

func (s *Store) newReassertion(f fence, next store.Entry, kept bool, a store.Assertion) (*reassertion, error) {
	w, err := s.newSwap(f, next, kept, a.Superseded)
	if err != nil {
		return nil, err
	}
	if err := store.ValidDestinations(a.Destinations); err != nil {
		return nil, err
	}
	return &reassertion{swap: w, page: a.Key, deliver: a.Destinations}, nil
}

// commit commits the reassertion. for seen see [groupCommit.commit].
func (r *reassertion) commit(ctx context.Context, seen *seenSequence) (*store.Entry, error) {
	if _, err := r.store.log.commit(ctx, r, seen); err != nil {
		return nil, err
	}
	return &r.next, nil
}

func (r *reassertion) mergeable() bool        { return false }
func (r *reassertion) destinations() []string { return r.deliver }

func (r *reassertion) items() []itemKey {
	items := []itemKey{{r.fence.pk, skMeta}}
	if r.restored != nil {
		items = append(items, itemKey{r.fence.pk, r.current})
	}
	if r.superseded != "" {
		items = append(items, itemKey{r.fence.pk, r.superseded})
	}
	return items
}

// write returns the same actions at any sequence. The entry of a rollback has the
// sequence that was read when the rollback began, so that a purge since then covers it.
func (r *reassertion) write(w *logWrites) []action {
	w.reload = append(w.reload, r.page)
	w.deliver(r.deliver, true, pageTarget(r.page))
	actions := append([]action{r.updateMeta()}, r.restoreVersion()...)
	return append(actions, r.retireVersion()...)
}

// restoreVersion removes the ttl of the version that returns, if its row still exists:
// META must not point to a deleted version.
func (r *reassertion) restoreVersion() []action {
	if r.restored == nil {
		return nil
	}
	row := &contentRow{location: r.store.at(r.fence.pk, r.current)}
	return []action{update(onRestored, row, []string{"Expires"}, tabletheory.IfExists(), tabletheory.Condition("BodyKey", "=", r.restored.BodyKey))}
}

// recognizes reports whether META has the version that this change writes, perhaps by
// an earlier delivery whose client token DynamoDB has forgotten.
func (r *reassertion) recognizes(why refusal) bool {
	v, ok := row(why[onMeta].Item).version()
	return why.has(onMeta) && ok && v == r.next.Version
}

func (r *reassertion) judge(why refusal) error {
	switch {
	case why.has(onMeta):
		return store.ErrMoved
	case why.has(onRestored):
		return fmt.Errorf("%w: version %s was deleted during the rollback", store.ErrNoVersion, r.next.GenerationID)
	case why.has(onSuperseded):
		r.skipSuperseded()
	}
	return nil
}
