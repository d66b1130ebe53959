package localdynamo

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Filling an index looks at no more than so many items, or so many bytes of
// them, in one write: other writes wait that long.
const (
	fillItems = 256
	fillBytes = 1 << 20
)

// fillRetry is the time until a filling that failed, as on a full disk, is
// tried again. The writes that people wait for report such a failure.
const fillRetry = 10 * time.Second

// backfill is the goroutine that fills the indexes which UpdateTable adds, and
// those that were being filled when the DB was last closed; these from the
// beginning, since what they hold already does no harm.
func (db *DB) backfill() {
	for {
		var again <-chan time.Time
		if err := db.fillIndexes(); err != nil {
			again = time.After(fillRetry)
		}
		select {
		case <-db.unfilled:
		case <-again:
		case <-db.closing:
			return
		}
	}
}

// wakeBackfill says that a table has an index to fill.
func (db *DB) wakeBackfill() {
	select {
	case db.unfilled <- struct{}{}:
	default: // it is to look already
	}
}

func (db *DB) fillIndexes() error {
	for _, t := range *db.tables.Load() {
		if ix := t.filling(); ix != nil {
			if err := db.fillIndex(t, ix); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillIndex takes the items of a table in the order of their keys. A crash at
// any point leaves an index that is still being filled.
func (db *DB) fillIndex(t *table, ix *index) error {
	for from := []byte{}; from != nil; {
		err := db.submit(context.Background(), func(tx *transaction) error {
			var err error
			from, err = tx.fill(t, ix.ID, from)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fill adds the entries of the next items, from a key on, and returns where to
// go on; nil when there is nothing left to do. It reads the items as they are
// in this transaction: what was written since the index was added is in the
// index already, and so is every later change of what this adds.
func (tx *transaction) fill(t *table, id int, from []byte) (next []byte, err error) {
	if t, err = tx.table(t); err != nil {
		return nil, nil // the table is gone
	}
	at := slices.IndexFunc(t.Indexes, func(ix *index) bool { return ix.ID == id })
	if at < 0 {
		return nil, nil // the index is gone
	}
	ix := t.Indexes[at]
	entries, next, err := ix.entriesFrom(tx, t, from)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if tx.Get(ix.space(t), e.key) != nil {
			continue // put there by a write since the index was added
		}
		tx.count(ix.space(t), "", e.item)
		if err := tx.Put(ix.space(t), e.key, []byte(e.item)); err != nil {
			return nil, err
		}
	}
	if next != nil {
		return next, nil
	}
	active := *ix
	active.Filling = false
	t = t.clone()
	t.Indexes[at] = &active
	return nil, tx.putTable(t)
}

// entriesFrom returns the entries of the next items from a key on, and the
// key that follows; nil at the end. Items that cannot be in the index have no
// entry: AWS calls them violations of the index key, and leaves them out.
func (ix *index) entriesFrom(tx *transaction, t *table, from []byte) (entries []entry, next []byte, err error) {
	items, size := 0, 0
	tx.Range(t.space(), from, nil, false, func(key, stored []byte) bool {
		if items == fillItems || size >= fillBytes {
			next = bytes.Clone(key)
			return false
		}
		items++
		size += len(stored)
		var e entry
		// A copy: the entry goes back into the store, which owns the bytes.
		if e, err = ix.entryOf(t, key, value.Item(stored)); err != nil {
			return false
		}
		if e.key != nil {
			entries = append(entries, e)
		}
		return true
	})
	return entries, next, err
}
