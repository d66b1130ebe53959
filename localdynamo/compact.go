package localdynamo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// ErrCompacting means that a compaction of the file is in progress.
var ErrCompacting = store.ErrCompacting

// CompactOptions are the options of [DB.Compact].
type CompactOptions struct {
	// Discard leaves damaged values out. Otherwise one ends the compaction with a *[DamageError].
	Discard bool
	// Progress, if it is not nil, is called with the bytes that were copied, and an upper estimate of all.
	Progress func(done, total int64)
}

// Compacted is the result of [DB.Compact].
type Compacted struct {
	Before, After int64 // the size of the file, in bytes
	// Discarded are the damaged values that were left out.
	Discarded []*DamageError
}

// Compact replaces the file by a copy without unused space, which has a checksum for each value. Requests go on; writes
// wait at the end, for some milliseconds. It needs free space for the copy. If it fails, or the process ends, the file is as it
// was. If it discards an item of a table with indexes, these are filled again, in the background, as after
// UpdateTable.
func (db *DB) Compact(ctx context.Context, o CompactOptions) (c Compacted, err error) {
	if err := db.ready(ctx); err != nil {
		return c, err
	}
	bolt, ok := db.store.(*store.Bolt)
	if !ok {
		return c, errNoFile
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // Close waits for the compaction
		select {
		case <-db.closing:
			cancel(ErrClosed)
		case <-ctx.Done():
		}
	}()
	if c.Before, err = db.fileSize(); err != nil {
		return c, err
	}
	tables := *db.tables.Load()
	options := store.CompactOptions{Progress: func(bytes int64) {
		if o.Progress != nil {
			o.Progress(bytes, max(bytes, c.Before))
		}
	}}
	if o.Discard {
		options.Discard = func(d *store.Damage) { c.Discarded = append(c.Discarded, nameDamage(tables, d)) }
	}
	err = bolt.Compact(ctx, options)
	if err == nil && len(c.Discarded) > 0 {
		err = db.submit(ctx, func(tx *transaction) error { return tx.recover(c.Discarded) })
		db.backfillWake.wake()
	}
	if err != nil {
		return c, fmt.Errorf("localdynamo: compact %s: %w", db.path, db.withDamage(err))
	}
	c.After, err = db.fileSize()
	return c, err
}

func (db *DB) fileSize() (int64, error) {
	info, err := os.Stat(db.path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// recover makes the indexes and tallies of tables agree with their items after some were discarded.
func (tx *transaction) recover(discarded []*DamageError) error {
	names := make(map[string]bool)
	for _, d := range discarded {
		names[d.Table] = true
	}
	var errs error
	for name := range names {
		t := tx.tables[name]
		if t == nil {
			continue // a record of the engine, or a table that was deleted
		}
		tx.recount(t.space())
		if len(t.Indexes) == 0 {
			continue
		}
		t = t.clone()
		for i, ix := range t.Indexes {
			filling := *ix
			filling.Filling = true
			t.Indexes[i] = &filling
			errs = errors.Join(errs, tx.Drop(ix.space(t)))
			tx.recount(ix.space(t))
		}
		errs = errors.Join(errs, tx.putTable(t))
	}
	return errs
}

// errNoFile is the error of operations on the file of a DB in memory.
var errNoFile = errors.New("localdynamo: the tables are in memory and have no file")

// Snapshot calls start once with the size of the file, in bytes, and writes a copy of the file to the writer that start
// returns: all writes that were acknowledged before the call, and no part of a write. Open opens
// such a copy. Requests go on, but while the copy is written the file does not reuse space, and so
// grows by what is written. Volatile writes that no durable write depends on are not in it.
//
// The copy has what the file has, including damage: see [DB.Verify].
func (db *DB) Snapshot(ctx context.Context, start func(size int64) (io.Writer, error)) error {
	if err := db.ready(ctx); err != nil {
		return err
	}
	file, ok := db.store.(*store.Bolt)
	if !ok {
		return errNoFile
	}
	err := file.Snapshot(func(size int64, write func(io.Writer) error) error {
		w, err := start(size)
		if err != nil {
			return err
		}
		return write(&contextWriter{ctx, w})
	})
	if err != nil {
		return fmt.Errorf("localdynamo: copy %s: %w", db.path, err)
	}
	return nil
}

// A contextWriter fails once its context is done.
type contextWriter struct {
	ctx context.Context
	to  io.Writer
}

func (w *contextWriter) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.to.Write(b)
}
