package dynamostore

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/tabletheory"
	"github.com/facetheory/isr/tabletheory/core"
)

// Rollback implements [isr.MetaStore]. A generation that is current already is
// pinned, or unpinned, as by Pin, whether it is kept or not. It costs eight
// write units if the rows have at most 1 KB, two more if a version is superseded,
// and three read units.
//
// Requests without an answer, and those that others' changes of the log have
// overtaken, are repeated for SettleTimeout at most. If there is no answer even
// then, the matter is settled as by Publish, but by means of the log: the
// sequence is advanced, after which the transaction can no longer land, and the
// log says whose it was.
func (s *Store) Rollback(ctx context.Context, read isr.Record, to string, a isr.Assertion) (isr.Entry, error) {
	ctx = s.during(ctx, "rollback")
	f, err := fenceOf(read)
	if err != nil {
		return isr.Entry{}, fmt.Errorf("roll back to %s: %w", to, err)
	}
	e := read.Entry
	if e != nil && !e.Foreign && e.GenerationID == to {
		e, err = s.pin(ctx, f, read, a)
	} else {
		e, err = s.rollback(ctx, f, read.Cover, to, a)
	}
	if err != nil {
		return isr.Entry{}, fmt.Errorf("roll back %s to %s: %w", f.pk, to, err)
	}
	return *e, nil
}

func (s *Store) rollback(ctx context.Context, f fence, known isr.Cover, to string, a isr.Assertion) (*isr.Entry, error) {
	// In this order: a hard purge of the page that is not on PURGE when it is read
	// here has a higher sequence than this one, and so covers what the rollback
	// makes. Other purges, by tag or site, are those that the caller knew.
	seen, err := s.readSequence(ctx)
	if err != nil {
		return nil, err
	}
	cover, err := s.readCover(ctx, f.pk)
	if err != nil {
		return nil, err
	}
	version, err := s.findVersion(ctx, f.pk, to)
	if err != nil {
		return nil, err
	}
	if err := checkPurged(version, known.Merge(cover)); err != nil {
		return nil, err
	}
	next := *version
	next.PurgeSeq, next.AssertedAt, next.PinnedUntil, next.Expires = seen.Seq, a.At, a.PinnedUntil, a.Expires
	r, err := s.newReassertion(f, next, true, seen, a)
	if err != nil {
		return nil, err
	}
	r.restored = version
	return r.carryOut(ctx)
}

// Pin implements [isr.MetaStore]. Neither the purge sequence of the entry moves
// nor the time at which it was asserted: what was purged stays so. An entry of
// another service has no place for a pin: regenerate it first. Errors of its own:
// isr.ErrNoVersion, if there is no entry that could be pinned, and isr.ErrPurged,
// if a hard purge covers it, but never of unpinning.
func (s *Store) Pin(ctx context.Context, read isr.Record, a isr.Assertion) (isr.Entry, error) {
	ctx = s.during(ctx, "pin")
	f, err := fenceOf(read)
	if err != nil {
		return isr.Entry{}, fmt.Errorf("pin: %w", err)
	}
	e, err := s.pin(ctx, f, read, a)
	if err != nil {
		return isr.Entry{}, fmt.Errorf("pin %s: %w", f.pk, err)
	}
	return *e, nil
}

func (s *Store) pin(ctx context.Context, f fence, read isr.Record, a isr.Assertion) (*isr.Entry, error) {
	switch e := read.Entry; {
	case e == nil:
		return nil, fmt.Errorf("%w: the page has no entry", isr.ErrNoVersion)
	case e.Foreign:
		return nil, fmt.Errorf("%w: the entry was written by another service; regenerate the page first", isr.ErrNoVersion)
	case !a.PinnedUntil.IsZero():
		if err := checkPurged(e, read.Cover); err != nil {
			return nil, err
		}
	}
	seen, err := s.readSequence(ctx)
	if err != nil {
		return nil, err
	}
	next := *read.Entry
	next.PinnedUntil, next.Expires = a.PinnedUntil, a.Expires
	kept := f.meta.text(attrCurrent) == versionPrefix+next.GenerationID
	r, err := s.newReassertion(f, next, kept, seen, a)
	if err != nil {
		return nil, err
	}
	return r.carryOut(ctx)
}

// checkPurged refuses a generation that a hard purge covers.
func checkPurged(e *isr.Entry, c isr.Cover) error {
	if c.HardSeq > e.PurgeSeq {
		return fmt.Errorf("%w: it was rendered at sequence %d, and purged at %d", isr.ErrPurged, e.PurgeSeq, c.HardSeq)
	}
	return nil
}

// A reassertion is a rollback or a pin: somebody's word that a generation is to
// be current, which all nodes learn of by the log.
type reassertion struct {
	swap
	assertion isr.Assertion
	restored  *isr.Entry   // the version that returns; nil for a pin
	seen      seenSequence // from which the next request advances
	asked     seenSequence // from which the latest one does
	id        string       // in the log
	until     time.Time    // when it is given up
}

var _ change = (*reassertion)(nil)

func (s *Store) newReassertion(f fence, next isr.Entry, kept bool, seen seenSequence, a isr.Assertion) (*reassertion, error) {
	if err := isr.ValidKey(a.Key); err != nil {
		return nil, fmt.Errorf("the page that the assertion is about: %w", err)
	}
	w, err := s.newSwap(f, next, kept, a.Superseded)
	if err != nil {
		return nil, err
	}
	return &reassertion{swap: w, assertion: a, seen: seen, id: rand.Text(), until: time.Now().Add(s.config.SettleTimeout)}, nil
}

func (r *reassertion) carryOut(ctx context.Context) (*isr.Entry, error) {
	if err := r.store.carryOut(ctx, r); err != nil {
		return nil, err
	}
	return &r.next, nil
}

func (r *reassertion) name() []any {
	return []any{slog.String("write", "rollback or pin"), slog.String("pk", r.fence.pk), slog.String("generation", r.next.GenerationID)}
}

func (r *reassertion) request() *request {
	r.asked = r.seen
	actions := append([]action{r.moveMeta()}, r.restoreVersion()...)
	actions = append(actions, r.retireVersion()...)
	reload := []logTarget{{Kind: kindReload, Tenant: r.assertion.Key.Tenant, Key: r.assertion.Key.Text}}
	return r.store.newRequest(append(actions, r.store.advance(r.seen, r.id, reload)...))
}

// restoreVersion keeps the version that returns from being collected, on
// condition that it has not been: META must not point at what may be gone.
func (r *reassertion) restoreVersion() []action {
	if r.restored == nil {
		return nil
	}
	row := &contentRow{location: r.store.at(r.fence.pk, r.current)}
	return []action{{opRestored, func(tx core.TransactionBuilder) {
		tx.Update(row, []string{"Expires"}, tabletheory.IfExists(), tabletheory.Condition("BodyKey", "=", r.restored.BodyKey))
	}}}
}

func (r *reassertion) running() bool { return time.Now().Before(r.until) }

func (r *reassertion) judge(ctx context.Context, why refusal) (again bool, err error) {
	switch {
	case why.of(opMeta):
		if v, ok := row(why[opMeta].Item).version(); ok && v == r.next.Version {
			// Perhaps by us: DynamoDB had forgotten our token.
			switch landed, err := r.landed(ctx, nil); {
			case err != nil:
				return false, fmt.Errorf("%w: %w; looking whose change it was: %w", isr.ErrUnknownOutcome, isr.ErrMoved, err)
			case landed:
				return false, nil
			}
		}
		return false, isr.ErrMoved
	case why.of(opRestored):
		return false, fmt.Errorf("%w any more", isr.ErrNoVersion)
	}
	if why.of(opSuperseded) {
		r.forget()
	}
	if why.of(opSequence) {
		// Somebody else wrote the log. The entry keeps the sequence from before:
		// a purge in between came after the rollback was asked for.
		if r.seen, err = r.store.readSequence(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

// preclude advances the sequence, with nothing to tell, unless it has moved: from
// then on no request of ours can land, since each demands the sequence that was
// seen.
func (r *reassertion) preclude(ctx context.Context, cause error) (answer, err error) {
	void := r.store.newRequest(r.store.advance(r.asked, rand.Text(), []logTarget{}))
	err = r.store.repeat(ctx, false, void.send)
	if tabletheory.OutcomeOf(err) == tabletheory.ConditionFailed {
		err = nil
	}
	return cause, err
}

// landed looks for our id in the log, where the latest request would have written
// it: there was another one before it only if those until then had not happened.
func (r *reassertion) landed(ctx context.Context, _ []*request) (bool, error) {
	return r.store.passed(ctx, r.asked, r.id)
}
