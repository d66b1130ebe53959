package localdynamo

import (
	"bytes"
	"context"
	"slices"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Limits of one backfill write, in items and bytes read. Other writes wait for it.
const (
	backfillItems = 256
	backfillBytes = 1 << 20
)

// backfillAll backfills the indexes that UpdateTable has added. A backfill that Close
// interrupted starts from the beginning after Open; entries that exist already are
// skipped.
func (db *DB) backfillAll() error {
	for name := range *db.tables.Load() {
		for {
			t := (*db.tables.Load())[name]
			if t == nil || t.backfillingIndex() == nil {
				break
			}
			if err := db.backfillIndex(t, t.backfillingIndex()); err != nil {
				return err
			}
		}
	}
	return nil
}

// backfillIndex walks the items of a table in key order. After a crash at any
// point the index is still marked as Filling.
func (db *DB) backfillIndex(t *table, ix *index) error {
	for from := []byte{}; from != nil; {
		err := db.submit(context.Background(), func(tx *transaction) error {
			var err error
			from, err = tx.backfillNext(t, ix.ID, from)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// backfillNext adds the entries of the next items from a key on, and returns the
// key to continue with, or nil at the end. It reads the items in the same
// transaction, so it cannot overwrite a newer entry: writes since the index was
// added have updated it already, and later writes will.
func (tx *transaction) backfillNext(t *table, id int, from []byte) (next []byte, err error) {
	if t, err = tx.currentTable(t); err != nil {
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
			continue // written since the index was added
		}
		tx.updateTally(ix.space(t), "", e.item)
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

// entriesFrom returns the entries of the next items from a key on, and the key
// that follows, or nil at the end. Items that cannot be indexed have no entry;
// AWS calls them index key violations and skips them too.
func (ix *index) entriesFrom(tx *transaction, t *table, from []byte) (entries []entry, next []byte, err error) {
	items, size := 0, 0
	intact := tx.SkipDamaged(func(*store.Damage) {}) // damaged items have no entry; replaced ones get theirs
	intact.Range(t.space(), from, nil, false, func(key, stored []byte) bool {
		if items == backfillItems || size >= backfillBytes {
			next = bytes.Clone(key)
			return false
		}
		items++
		size += len(stored)
		var e entry
		// Copies the item: the entry is written back, and the store owns stored.
		if e, err = ix.entryOf(t, key, &document{item: value.Item(stored)}); err != nil {
			return false
		}
		if e.key != nil {
			entries = append(entries, e)
		}
		return true
	})
	return entries, next, err
}
