package isr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
)

// A RollbackOption adjusts [Cache.Rollback].
type RollbackOption func(*rollback)

type rollback struct {
	to  string
	pin time.Duration
}

// RollbackTo chooses the generation, by its id or a beginning of it that no other
// version has. The default is the one that was published last before the current.
func RollbackTo(generation string) RollbackOption {
	return func(r *rollback) { r.to = generation }
}

// PinFor has the pin end by itself after so long, in whole seconds. Zero is the
// default: it holds until [Cache.Unpin].
func PinFor(d time.Duration) RollbackOption {
	return func(r *rollback) { r.pin = d }
}

// Rollback makes an older generation of a page current again, and pins it. It
// returns the new current entry. Other nodes follow within a poll of the log (see
// Config.Poll).
//
// It waits for nobody: a regeneration that is under way loses, and those who wait
// for it get what was rolled back to. Nor does one begin for as long as the pin
// holds, unless a purge covers the page, or its body is lost. There is no rollback
// without a pin: a generation that has expired would be regenerated for the next
// visitor.
//
// A rollback to the current generation pins it. Errors: wrapping [store.ErrNoVersion],
// if there is none to roll back to, or not one alone; [ErrNoBody], if its body is
// not there as it was published; [store.ErrPurged], if it was purged hard; [store.ErrMoved],
// if others change the page again and again; else what the store said. The change
// may have been made all the same if the error wraps [store.ErrUnknownOutcome].
func (c *Cache) Rollback(ctx context.Context, k store.Key, opts ...RollbackOption) (store.Entry, error) {
	var r rollback
	for _, opt := range opts {
		opt(&r)
	}
	e, err := c.rollback(ctx, k, r)
	if err != nil {
		return store.Entry{}, fmt.Errorf("rolling back %s: %w", k, err)
	}
	c.log.Info("rolled back", "key", k.String(), "generation", e.GenerationID, "pinned", e.PinnedUntil)
	return e, nil
}

func (c *Cache) rollback(ctx context.Context, k store.Key, r rollback) (store.Entry, error) {
	a, err := c.assertion(k, r.pin)
	if err != nil {
		return store.Entry{}, err
	}
	versions, err := c.Versions(ctx, k)
	if err != nil {
		return store.Entry{}, err
	}
	// Chosen once: should another generation be published before the rollback,
	// the one before that is the very one that is to be left.
	target, err := previous(versions)
	if r.to != "" {
		target, err = find(versions, r.to)
	}
	if err == nil && target.Withdrawn {
		err = errWithdrawn()
	}
	if err != nil {
		return store.Entry{}, err
	}
	// Before META points at it. It cannot go until then: a collection deletes no
	// body that a version names, and the rollback demands that the version is
	// there.
	if err := c.checkBody(ctx, target.Entry); err != nil {
		return store.Entry{}, err
	}
	return c.assert(ctx, k, func(rec store.Record) (store.Entry, error) {
		return c.meta.Rollback(ctx, rec, target.GenerationID, c.lasting(a, target.Entry))
	})
}

// Pin keeps the current entry of a page from being replaced because of its age:
// it is fresh, and not regenerated, for d, in whole seconds; zero means until it
// is unpinned. An earlier pin is replaced. A purge is stronger than a pin. The
// errors are those of Rollback; ErrNoVersion: there is no entry, or it was written
// by another service.
func (c *Cache) Pin(ctx context.Context, k store.Key, d time.Duration) (store.Entry, error) {
	a, err := c.assertion(k, d)
	if err != nil {
		return store.Entry{}, fmt.Errorf("pinning %s: %w", k, err)
	}
	e, err := c.repin(ctx, k, a)
	if err != nil {
		return store.Entry{}, fmt.Errorf("pinning %s: %w", k, err)
	}
	c.log.Info("pinned", "key", k.String(), "generation", e.GenerationID, "until", e.PinnedUntil)
	return e, nil
}

// Unpin lets the current entry of a page age, and be replaced, as others do. Should
// its windows have ended while it was pinned, it is served in place of a failure
// until a new one has been rendered. Of an entry that is not pinned, every node
// drops its copy, which may be of a time when it was: no error. The errors are those
// of Pin, without ErrPurged.
func (c *Cache) Unpin(ctx context.Context, k store.Key) (store.Entry, error) {
	e, err := c.repin(ctx, k, store.Assertion{Key: k, At: c.now()})
	if err != nil {
		return store.Entry{}, fmt.Errorf("unpinning %s: %w", k, err)
	}
	c.log.Info("unpinned", "key", k.String(), "generation", e.GenerationID)
	return e, nil
}

func (c *Cache) repin(ctx context.Context, k store.Key, a store.Assertion) (store.Entry, error) {
	return c.assert(ctx, k, func(rec store.Record) (store.Entry, error) {
		if rec.Entry == nil {
			return store.Entry{}, fmt.Errorf("%w: the page is not stored", store.ErrNoVersion)
		}
		if rec.Entry.Withdrawn {
			return store.Entry{}, errWithdrawn()
		}
		return c.meta.Pin(ctx, rec, c.lasting(a, *rec.Entry))
	})
}

// maxMoves bounds how often an assertion is repeated because another writer was
// there first.
const maxMoves = 5

// assert carries out what somebody declares of a page, of the entry as it is
// then: a generation that is published meanwhile is replaced as the one before
// would have been. This node drops its copy before assert returns, whatever the
// outcome: it may have happened all the same. If we crash before, the log tells
// the others.
func (c *Cache) assert(ctx context.Context, k store.Key, declare func(store.Record) (store.Entry, error)) (store.Entry, error) {
	pk, err := c.partition(k)
	if err != nil {
		return store.Entry{}, err
	}
	defer c.reload(k)
	for move := 1; ; move++ {
		rec, _, err := c.read(ctx, k, pk)
		if err != nil {
			return store.Entry{}, err
		}
		e, err := declare(rec)
		if !errors.Is(err, store.ErrMoved) || move == maxMoves {
			return e, err
		}
	}
}

// assertion says that a page is pinned for d from now on.
func (c *Cache) assertion(k store.Key, d time.Duration) (store.Assertion, error) {
	now := c.now()
	a := store.Assertion{Key: k, At: now, PinnedUntil: store.Forever(), Superseded: now.Add(c.cfg.Retention)}
	switch {
	case d < 0 || d > store.MaxInterval:
		return a, fmt.Errorf("%w: a pin for %s is not possible: between a second and ten years are, or zero for one that does not end", store.ErrInvalidInput, d)
	case d > 0:
		a.PinnedUntil = now.Add(d + time.Second - 1).Truncate(time.Second)
	}
	return a, nil
}

// lasting has an assertion keep an entry in the table for as long as it is needed.
func (c *Cache) lasting(a store.Assertion, e store.Entry) store.Assertion {
	e.PinnedUntil = a.PinnedUntil
	a.Expires = expiry(e, a.At, c.cfg.Retention)
	return a
}
