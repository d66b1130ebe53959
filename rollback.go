package isr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/store"
)

// A RollbackOption adjusts [Cache.Rollback].
type RollbackOption func(*rollback)

type rollback struct {
	to  string
	pin time.Duration
}

// RollbackTo selects the generation, by its id or a unique prefix of it. The default is
// the version that was published last before the current one.
func RollbackTo(generation string) RollbackOption {
	return func(r *rollback) { r.to = generation }
}

// PinFor ends the pin after d, rounded up to whole seconds. Zero, the default, pins until
// [Cache.Unpin].
func PinFor(d time.Duration) RollbackOption {
	return func(r *rollback) { r.pin = d }
}

// Rollback makes an older generation of a page current again, and pins it. It
// returns the new current entry. Other nodes follow within a poll of the log (see
// Config.Poll).
//
// It waits for no lease: a regeneration in progress fails to publish, and its waiting
// requests get the restored generation. No regeneration starts while the pin lasts,
// unless a purge covers the page or its body is lost. A rollback always pins: otherwise
// a generation that has expired would be regenerated for the next visitor.
//
// A rollback to the current generation pins it. Errors wrap [store.ErrNoVersion] if there
// is no such version, or more than one; [ErrNoBody] if its body is missing or damaged;
// [store.ErrPurged] if it was purged hard; [store.ErrMoved] if other writers kept changing
// the page; or they are the store's own. If the error wraps [store.ErrUnknownOutcome],
// the rollback may have been made.
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
	// Chosen once: if another generation is published before the rollback, the one
	// before it is the generation to roll back from.
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
	// Checked before META refers to it. The body cannot be deleted in between: garbage
	// collection keeps the bodies of versions, and the rollback requires that the
	// version exists.
	if err := c.engine.CheckBody(ctx, target.Entry); err != nil {
		return store.Entry{}, err
	}
	return c.assert(ctx, k, func(rec store.Record) (store.Entry, error) {
		a := c.withExpiry(a, target.Entry)
		if err := c.engine.ListVariant(ctx, k, a.Expires); err != nil {
			return store.Entry{}, err
		}
		return c.meta.Rollback(ctx, rec, target.GenerationID, a)
	})
}

// Pin keeps the current entry of a page fresh for d, rounded up to whole seconds: it does
// not expire and is not regenerated. Zero means until [Cache.Unpin]. An earlier pin is
// replaced. A purge takes precedence over a pin. Errors are Rollback's;
// [store.ErrNoVersion]: there is no entry, or another service wrote it.
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

// Unpin ends the pin of the current entry, which then expires like any other. If its
// windows ended during the pin, it is served while renders fail, until one
// succeeds. It is no error if the entry is not pinned: every node then drops its copy,
// which may have been read while it was. Errors are Pin's, except ErrPurged.
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
		a := c.withExpiry(a, *rec.Entry)
		if err := c.engine.ListVariant(ctx, k, a.Expires); err != nil {
			return store.Entry{}, err
		}
		return c.meta.Pin(ctx, rec, a)
	})
}

// maxMoves bounds how often an assertion is retried because another writer was faster.
const maxMoves = 5

// assert reads the record of a page and calls declare with it, again if the entry has
// changed since the read. This node drops its copy before assert returns, even on errors: the
// change may have been made. If we crash before that, the other nodes learn of the
// change from the log.
func (c *Cache) assert(ctx context.Context, k store.Key, declare func(store.Record) (store.Entry, error)) (store.Entry, error) {
	pk, err := c.partition(k)
	if err != nil {
		return store.Entry{}, err
	}
	defer c.node.Invalidate(k)
	for move := 1; ; move++ {
		rec, _, err := c.node.Read(ctx, k, pk)
		if err != nil {
			return store.Entry{}, err
		}
		e, err := declare(rec)
		if !errors.Is(err, store.ErrMoved) || move == maxMoves {
			if err == nil {
				c.peers.Tell(c.follower.Committed() + 1) // at least
			}
			return e, err
		}
	}
}

// assertion pins a page for d from now on; zero: for ever.
func (c *Cache) assertion(k store.Key, d time.Duration) (store.Assertion, error) {
	now := c.now()
	a := store.Assertion{Key: k, At: now, PinnedUntil: store.Forever(), Superseded: now.Add(c.cfg.Retention)}
	switch {
	case d < 0 || d > store.MaxInterval:
		return a, fmt.Errorf("%w: the duration of a pin must be between 1s and ten years, or 0 for no end (got %s)", store.ErrInvalidInput, d)
	case d > 0:
		a.PinnedUntil = now.Add(d + time.Second - 1).Truncate(time.Second)
	}
	return a, nil
}

// withExpiry sets when the table may delete the entry of an assertion.
func (c *Cache) withExpiry(a store.Assertion, e store.Entry) store.Assertion {
	e.PinnedUntil = a.PinnedUntil
	a.Expires = fill.Expiry(e, a.At, c.cfg.Retention)
	return a
}

func errWithdrawn() error {
	return fmt.Errorf("%w: the page was withdrawn by its origin; roll back to an older generation, or regenerate it", store.ErrNoVersion)
}
