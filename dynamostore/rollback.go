package dynamostore

import (
	"context"
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// Rollback implements [store.MetaStore]. A generation that is current already is
// pinned, or unpinned, as by Pin, whether it is kept or not. It costs eight
// write units if the rows have at most 1 KB, two more if a version is superseded,
// and five read units or more: SEQ, PURGE, the version, and the marks, which are two
// queries (three for a tenant's page), and one read for each tag.
//
// Rollbacks and pins that are made at the same time share a transaction. One that
// waits to be sent is not made if ctx ends, or after SettleTimeout. One that was
// sent is carried through, whatever becomes of ctx: a request without an answer is
// repeated for SettleTimeout at most. If there is no answer even then, the matter
// is settled as by Publish, but by means of the log: the sequence is advanced,
// after which the transaction can no longer land, and the log says whose it was.
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
	// In this order: a hard purge that is not on PURGE or a mark when it is read
	// here has a higher sequence than this one, and so covers what the rollback
	// makes.
	seen, err := s.readSequence(ctx)
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
	if version.OutlivesMarks(seen.MarkLifetime, s.config.Now()) {
		return nil, fmt.Errorf("%w, as far as can be known: it was rendered at %s, and purges by tag are remembered for %s",
			store.ErrPurged, version.GeneratedAt.UTC().Format(time.RFC3339), seen.MarkLifetime)
	}
	if err := s.checkPurged(ctx, version, known.Merge(purged), a.Key); err != nil {
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

// Pin implements [store.MetaStore]. Neither the purge sequence of the entry moves
// nor the time at which it was asserted: what was purged stays so. An entry of
// another service has no place for a pin: regenerate it first. Errors of its own:
// store.ErrNoVersion, if there is no entry that could be pinned, and store.ErrPurged,
// if a hard purge covers it, but never of unpinning. It costs six write units if
// META has at most 1 KB, and a read unit; pinning reads the marks as well, which
// is two units more, and one for each tag of the entry.
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
	switch e := read.Entry; {
	case e == nil:
		return nil, fmt.Errorf("%w: the page has no entry", store.ErrNoVersion)
	case e.Foreign:
		return nil, fmt.Errorf("%w: the entry was written by another service; regenerate the page first", store.ErrNoVersion)
	case a.PinnedUntil.IsZero():
		a.PinnedUntil = s.unpinned(e)
	default:
		if err := s.checkPurged(ctx, e, read.Purges, a.Key); err != nil {
			return nil, err
		}
	}
	next := *read.Entry
	next.PinnedUntil, next.Expires = a.PinnedUntil, a.Expires
	kept := f.meta.text(attrCurrent) == versionPrefix+next.GenerationID
	r, err := s.newReassertion(f, next, kept, a)
	if err != nil {
		return nil, err
	}
	return r.commit(ctx, nil)
}

// checkPurged refuses a generation of the page k that a hard purge covers: one of
// the page itself, or a mark.
func (s *Store) checkPurged(ctx context.Context, e *store.Entry, known store.PurgeState, k store.Key) error {
	marked, err := s.hardMark(ctx, k, e.Tags)
	if err != nil {
		return err
	}
	if hard := max(known.HardSeq, marked); hard > e.PurgeSeq {
		return fmt.Errorf("%w: it was rendered at sequence %d, and purged at %d", store.ErrPurged, e.PurgeSeq, hard)
	}
	return nil
}

// unpinned is the end of an entry's pin once it is unpinned: now, unless it ended
// before. It stays on META, so that readers can tell an entry that outlived its
// windows because of a pin: it may be served in place of a failure.
func (s *Store) unpinned(e *store.Entry) time.Time {
	now := moment(floorSeconds(s.config.Now()))
	if e.PinnedUntil.Before(now) {
		return e.PinnedUntil
	}
	return now
}

// A reassertion is a rollback or a pin: a person's word that a generation is to be
// current, which all nodes learn of by the log.
type reassertion struct {
	swap
	page     store.Key
	restored *store.Entry // the version that returns; nil for a pin
}

var _ loggedChange = (*reassertion)(nil)

func (s *Store) newReassertion(f fence, next store.Entry, kept bool, a store.Assertion) (*reassertion, error) {
	w, err := s.newSwap(f, next, kept, a.Superseded)
	if err != nil {
		return nil, err
	}
	return &reassertion{swap: w, page: a.Key}, nil
}

// commit commits the reassertion. seen is as in [groupCommit.commit].
func (r *reassertion) commit(ctx context.Context, seen *seenSequence) (*store.Entry, error) {
	if err := r.store.log.commit(ctx, r, seen); err != nil {
		return nil, err
	}
	return &r.next, nil
}

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

// write states the same at any sequence. The entry of a rollback keeps the one that
// was read when the rollback began: a purge in between came after it was asked for.
func (r *reassertion) write(context.Context, int64) ([]action, []logTarget, error) {
	actions := append([]action{r.updateMeta()}, r.restoreVersion()...)
	return append(actions, r.retireVersion()...), []logTarget{reloadOf(r.page)}, nil
}

// restoreVersion keeps the version that returns from being collected, on
// condition that it has not been: META must not point at what may be gone.
func (r *reassertion) restoreVersion() []action {
	if r.restored == nil {
		return nil
	}
	row := &contentRow{location: r.store.at(r.fence.pk, r.current)}
	return []action{update(onRestored, row, []string{"Expires"}, tabletheory.IfExists(), tabletheory.Condition("BodyKey", "=", r.restored.BodyKey))}
}

// recognizes reports whether META has the number that it was to get: perhaps by us,
// if DynamoDB had forgotten our token.
func (r *reassertion) recognizes(why refusal) bool {
	v, ok := row(why[onMeta].Item).version()
	return why.has(onMeta) && ok && v == r.next.Version
}

func (r *reassertion) judge(why refusal) error {
	switch {
	case why.has(onMeta):
		return store.ErrMoved
	case why.has(onRestored):
		return fmt.Errorf("%w: version %s was deleted meanwhile", store.ErrNoVersion, r.next.GenerationID)
	case why.has(onSuperseded):
		r.skipSuperseded()
	}
	return nil
}
