package gc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
)

// A PinStore is the part of a metadata store that [RenewPins] uses.
type PinStore interface {
	store.Reader
	store.HistoryStore
	store.LogStore
	store.Inventory
}

// RenewOptions are the options of [RenewPins]. The zero value is useful.
type RenewOptions struct {
	// Partition derives the partition keys. Nil means store.HashedPartition.
	Partition store.Partition
	// DryRun only counts.
	DryRun bool
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time
}

// Renewed is the result of [RenewPins].
type Renewed struct {
	Pins   int // renewed, or to be renewed
	Purged int // pins that a purge has ended, or may have ended
}

// RenewPins renews the permanent pins that were asserted more than half of the lifetime of
// purge marks ago. An entry that is older than the marks is not trusted, because a purge
// that covers it may have been forgotten: without this a permanent pin would end then. An
// entry that a purge covers is left as it is.
//
// It scans the whole table once, unless nothing was ever purged. It may run concurrently
// with any number of caches; a page that changes during the scan is left to the next time. The
// first error ends it; the result has what was done.
func RenewPins(ctx context.Context, meta PinStore, opts RenewOptions) (Renewed, error) {
	if opts.Partition == nil {
		opts.Partition = store.HashedPartition
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	var done Renewed
	seq, err := meta.Sequence(ctx)
	if err == nil && seq.MarkLifetime > 0 {
		err = renewPins(ctx, meta, opts, seq.MarkLifetime/2, &done)
	}
	if err != nil {
		return done, fmt.Errorf("renewing pins: %w", err)
	}
	return done, nil
}

func renewPins(ctx context.Context, meta PinStore, opts RenewOptions, due time.Duration, done *Renewed) error {
	for pk, err := range meta.PinnedForever(ctx) {
		if err == nil {
			err = renewPin(ctx, meta, opts, due, pk)
		}
		switch {
		case errors.Is(err, errNotDue), errors.Is(err, store.ErrMoved), errors.Is(err, store.ErrNoVersion):
		case errors.Is(err, store.ErrPurged):
			done.Purged++
		case err != nil:
			return err
		default:
			done.Pins++
		}
	}
	return nil
}

// errNotDue: the pin need not be renewed now, or cannot be.
var errNotDue = errors.New("the pin is not due")

func renewPin(ctx context.Context, meta PinStore, opts RenewOptions, due time.Duration, pk string) error {
	rec, err := meta.Read(ctx, pk)
	if err != nil {
		return err
	}
	e, now := rec.Entry, opts.Now()
	if e == nil || e.Withdrawn || !e.PinnedUntil.Equal(store.Forever()) || now.Sub(e.Asserted()) < due {
		return errNotDue
	}
	k, ok := store.KeyOf(opts.Partition, pk, e.Key)
	if !ok {
		return errNotDue
	}
	if opts.DryRun {
		return nil
	}
	_, err = meta.RenewPin(ctx, rec, k, now)
	return err
}
