package localdynamo

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// taskRetry is the delay before a failed task, as on a full disk, is retried. The
// failure is not logged: requests that write report it too.
const taskRetry = 10 * time.Second

// runTask is the goroutine of work that requests leave behind. It does the work when
// the DB is opened, since Close or a crash may have interrupted it, and when it is woken.
func (db *DB) runTask(woken wakeUp, work func() error) {
	for {
		var retry <-chan time.Time
		if err := work(); err != nil {
			retry = time.After(taskRetry)
		}
		select {
		case <-woken:
		case <-retry:
		case <-db.closing:
			return
		}
	}
}

// A wakeUp holds one element if there is work to do.
type wakeUp chan struct{}

func (w wakeUp) wake() {
	select {
	case w <- struct{}{}:
	default: // a wake-up is already pending
	}
}

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

// abandonedSpace holds the names of the spaces that belong to no table or index anymore.
// Removing millions of keys takes seconds, during which no other table could be written.
// So a deleted table only abandons them, and a background task removes them in pieces. No
// other table gets the same spaces: the IDs in their names are never reused. Older
// versions of this package leave them in the file.
const abandonedSpace = "abandoned"

// Limits of one write of the removal, in keys and bytes. Other writes wait for it.
const (
	removedKeys  = 2048
	removedBytes = 4 << 20
)

// abandon has a space of items or entries removed, and removes its tally and splits.
func (tx *transaction) abandon(space string) error {
	delete(tx.tallies, space)
	delete(tx.recounts, space)
	if err := tx.Delete(tallySpace, []byte(space)); err != nil {
		return err
	}
	if err := tx.Delete(segmentSpace, []byte(space)); err != nil {
		return err
	}
	return tx.Put(abandonedSpace, []byte(space), []byte{})
}

// removeAbandoned removes all abandoned spaces. After a crash at any point the rest of a
// space is still abandoned.
func (db *DB) removeAbandoned() error {
	var spaces []string
	err := db.view(context.Background(), func(r store.Reader) error {
		r.SkipDamaged(func(*store.Damage) {}).Range(abandonedSpace, nil, nil, false, func(space, _ []byte) bool {
			spaces = append(spaces, string(space))
			return true
		})
		return nil
	})
	for _, space := range spaces {
		db.splits.Delete(space)
		for more := true; more && err == nil; {
			err = db.submit(context.Background(), func(tx *transaction) (err error) {
				more, err = tx.removeNext(space)
				return err
			})
		}
	}
	return err
}

// removeNext removes the next keys of an abandoned space, and reports whether there are
// more. With the last it removes the space itself.
func (tx *transaction) removeNext(space string) (more bool, err error) {
	var keys [][]byte
	size := 0
	// What is damaged cannot be removed one by one; it goes with the space.
	tx.SkipDamaged(func(*store.Damage) {}).Range(space, nil, nil, false, func(key, item []byte) bool {
		if more = len(keys) == removedKeys || size >= removedBytes; more {
			return false
		}
		keys = append(keys, bytes.Clone(key))
		size += len(key) + len(item)
		return true
	})
	if more {
		for _, key := range keys {
			if err := tx.Delete(space, key); err != nil {
				return false, err
			}
		}
		return true, nil
	}
	if err := tx.Drop(space); err != nil {
		return false, err
	}
	return false, tx.Delete(abandonedSpace, []byte(space))
}
