package generations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
)

// Rollback makes a generation of a page current again, and pins it for a duration; zero is for ever. The generation
// is named by its id or an unambiguous prefix of it; empty: the one that was published last before the current one. It
// returns the new current entry.
//
// Errors wrap store.ErrNoVersion if there is no such version, or more than one; bodies.ErrMissing; store.ErrPurged;
// store.ErrMoved if other writers kept changing the page; store.ErrInvalidInput for a duration out of bounds; or
// they are the table's. If the error wraps store.ErrUnknownOutcome, the rollback may have been made.
func (op *Operator) Rollback(ctx context.Context, k store.Key, generation string, pin time.Duration) (store.Entry, error) {
	e, err := op.rollback(ctx, k, generation, pin)
	if err != nil {
		return store.Entry{}, fmt.Errorf("rolling back %s: %w", k, err)
	}
	op.o.Log.Info("rolled back", "key", k.String(), "generation", e.GenerationID, "pinned", e.PinnedUntil)
	return e, nil
}

func (op *Operator) rollback(ctx context.Context, k store.Key, generation string, pin time.Duration) (store.Entry, error) {
	a, err := op.assertion(k, pin)
	if err != nil {
		return store.Entry{}, err
	}
	versions, err := op.Versions(ctx, k)
	if err != nil {
		return store.Entry{}, err
	}
	// Chosen once: if another generation is published before the rollback, the one
	// before it is the generation to roll back from.
	target, err := findOr(versions, generation, previous)
	if err == nil && target.Withdrawn {
		err = errWithdrawn()
	}
	if err != nil {
		return store.Entry{}, err
	}
	// Checked before META refers to it. The body cannot be deleted in between: garbage
	// collection keeps the bodies of versions, and the rollback requires that the
	// version exists.
	if err := CheckBody(ctx, op.o.Bodies, &target.Entry); err != nil {
		return store.Entry{}, err
	}
	return op.assert(ctx, k, func(rec store.Record) (store.Entry, error) {
		a := op.withExpiry(a, target.Entry)
		if err := op.o.ListVariant(ctx, k, a.Expires); err != nil {
			return store.Entry{}, err
		}
		return op.o.Table.Rollback(ctx, rec, target.GenerationID, a)
	})
}

// Pin keeps the current entry of a page fresh for d, rounded up to whole seconds; zero is until Unpin. Errors are
// Rollback's.
func (op *Operator) Pin(ctx context.Context, k store.Key, d time.Duration) (store.Entry, error) {
	a, err := op.assertion(k, d)
	if err != nil {
		return store.Entry{}, fmt.Errorf("pinning %s: %w", k, err)
	}
	e, err := op.repin(ctx, k, a)
	if err != nil {
		return store.Entry{}, fmt.Errorf("pinning %s: %w", k, err)
	}
	op.o.Log.Info("pinned", "key", k.String(), "generation", e.GenerationID, "until", e.PinnedUntil)
	return e, nil
}

// Unpin ends the pin of the current entry, if it has one. Errors are Pin's, except store.ErrPurged.
func (op *Operator) Unpin(ctx context.Context, k store.Key) (store.Entry, error) {
	e, err := op.repin(ctx, k, store.Assertion{Key: k, At: op.o.Now()})
	if err != nil {
		return store.Entry{}, fmt.Errorf("unpinning %s: %w", k, err)
	}
	op.o.Log.Info("unpinned", "key", k.String(), "generation", e.GenerationID)
	return e, nil
}

func (op *Operator) repin(ctx context.Context, k store.Key, a store.Assertion) (store.Entry, error) {
	return op.assert(ctx, k, func(rec store.Record) (store.Entry, error) {
		if rec.Entry == nil {
			return store.Entry{}, fmt.Errorf("%w: the page is not stored", store.ErrNoVersion)
		}
		if rec.Entry.Withdrawn {
			return store.Entry{}, errWithdrawn()
		}
		a := op.withExpiry(a, *rec.Entry)
		if err := op.o.ListVariant(ctx, k, a.Expires); err != nil {
			return store.Entry{}, err
		}
		return op.o.Table.Pin(ctx, rec, a)
	})
}

// maxMoves bounds how often an assertion is retried because another writer was faster.
const maxMoves = 5

// assert reads the record of a page and calls declare with it, again if the entry has
// changed since the read. This node drops its copy before assert returns, even on errors: the
// change may have been made. If we crash before that, the other nodes learn of the
// change from the log.
func (op *Operator) assert(ctx context.Context, k store.Key, declare func(store.Record) (store.Entry, error)) (store.Entry, error) {
	pk, err := op.partition(k)
	if err != nil {
		return store.Entry{}, err
	}
	defer op.o.Drop(k)
	for move := 1; ; move++ {
		rec, err := op.o.Read(ctx, k, pk)
		if err != nil {
			return store.Entry{}, err
		}
		e, err := declare(rec)
		if !errors.Is(err, store.ErrMoved) || move == maxMoves {
			if err == nil {
				op.o.Moved()
			}
			return e, err
		}
	}
}

// assertion pins a page for d from now on; zero: for ever.
func (op *Operator) assertion(k store.Key, d time.Duration) (store.Assertion, error) {
	now := op.o.Now()
	a := store.Assertion{Key: k, At: now, PinnedUntil: store.Forever(), Superseded: now.Add(op.o.Retention)}
	switch {
	case d < 0 || d > store.MaxInterval:
		return a, fmt.Errorf("%w: the duration of a pin must be between 1s and ten years, or 0 for no end (got %s)", store.ErrInvalidInput, d)
	case d > 0:
		a.PinnedUntil = now.Add(d + time.Second - 1).Truncate(time.Second)
	}
	return a, nil
}

// withExpiry sets when the table may delete the entry of an assertion.
func (op *Operator) withExpiry(a store.Assertion, e store.Entry) store.Assertion {
	e.PinnedUntil = a.PinnedUntil
	a.Expires = Expiry(e, a.At, op.o.Retention)
	return a
}

func errWithdrawn() error {
	return fmt.Errorf("%w: the page was withdrawn by its origin; roll back to an older generation, or regenerate it", store.ErrNoVersion)
}
