package localdynamo

import (
	"bytes"
	"context"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

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
