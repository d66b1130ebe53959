package localdynamo

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// tallySpace holds the tally of every table and index, by the name of its space.
// With few tables it is so small that bbolt keeps it in a page that every commit
// writes anyway.
const tallySpace = "tallies"

// tally counts the items of a table, or the entries of an index, and the bytes
// that AWS bills for them.
type tally struct{ items, bytes int64 }

func (t *tally) add(d tally) {
	t.items += d.items
	t.bytes += d.bytes
}

func (t tally) encode() []byte {
	return binary.AppendVarint(binary.AppendVarint(nil, t.items), t.bytes)
}

// readTally returns the tally of a space; known is false if none is stored. If the stored one is
// damaged, the error wraps ErrDamaged.
func readTally(r store.Reader, space string) (t tally, known bool, err error) {
	var stored []byte
	if damage := store.Catch(func() { stored = r.Get(tallySpace, []byte(space)) }); damage != nil {
		return tally{}, false, damage
	}
	if stored == nil {
		return tally{}, false, nil
	}
	items, n := binary.Varint(stored)
	if n <= 0 {
		return tally{}, false, fmt.Errorf("%w: tally of %s", ErrCorrupt, space)
	}
	bytes, m := binary.Varint(stored[n:])
	if m <= 0 || n+m != len(stored) {
		return tally{}, false, fmt.Errorf("%w: tally of %s", ErrCorrupt, space)
	}
	return tally{items, bytes}, true, nil
}

// recount computes the tally of a space by reading it. It does not count damaged items.
func recount(r store.Reader, space string) tally {
	var t tally
	r.SkipDamaged(func(*store.Damage) {}).Range(space, nil, nil, false, func(_, item []byte) bool {
		t.add(tally{1, int64(value.View(item).Size())})
		return true
	})
	return t
}

// updateTally records that an item of a space changed from before to after; ""
// stands for no item. If both are "", it creates the tally of a new space.
func (tx *transaction) updateTally(space string, before, after value.Item) {
	var d tally
	if before != "" {
		d.add(tally{-1, -int64(before.Size())})
	}
	if after != "" {
		d.add(tally{1, int64(after.Size())})
	}
	if tx.tallies == nil {
		tx.tallies = make(map[string]tally)
	}
	d.add(tx.tallies[space])
	tx.tallies[space] = d
}

// recount has the tally of a space counted again when the batch is committed.
func (tx *transaction) recount(space string) {
	tx.wrote = true
	tx.updateTally(space, "", "")
	if tx.recounts == nil {
		tx.recounts = make(map[string]bool)
	}
	tx.recounts[space] = true
}

// tally returns the tally of a space, including this batch's changes so far.
func (tx *transaction) tally(space string) (tally, error) {
	if tx.recounts[space] {
		return recount(tx, space), nil
	}
	now, _, err := readTally(tx, space)
	if errors.Is(err, ErrDamaged) {
		return recount(tx, space), nil
	}
	now.add(tx.tallies[space])
	return now, err
}

// readTallies returns the tallies of a table and its indexes, by space.
func (tx *transaction) readTallies(t *table) (map[string]tally, error) {
	all := make(map[string]tally)
	for _, space := range t.spaces() {
		var err error
		if all[space], err = tx.tally(space); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// putTallies stores the changes recorded by updateTally, once per batch.
func (tx *transaction) putTallies() error {
	for space := range tx.tallies {
		now, err := tx.tally(space)
		if err != nil {
			return err
		}
		if err := tx.Put(tallySpace, []byte(space), now.encode()); err != nil {
			return err
		}
	}
	return nil
}

// spaces lists the spaces of a table's items and of its index entries.
func (t *table) spaces() []string {
	all := []string{t.space()}
	for _, ix := range t.Indexes {
		all = append(all, ix.space(t))
	}
	return all
}

// addMissingTallies computes the tallies that a file of an older version lacks, and those that are
// damaged.
func addMissingTallies(s store.Store, tables catalogue) error {
	var unknown []string
	err := s.View(func(r store.Reader) error {
		for _, t := range tables {
			for _, space := range t.spaces() {
				_, known, err := readTally(r, space)
				if err != nil && !errors.Is(err, ErrDamaged) {
					return err
				}
				if !known {
					unknown = append(unknown, space)
				}
			}
		}
		return nil
	})
	if err != nil || len(unknown) == 0 {
		return err
	}
	return s.Update(func(w store.Writer) error {
		for _, space := range unknown {
			if err := w.Put(tallySpace, []byte(space), recount(w, space).encode()); err != nil {
				return err
			}
		}
		return nil
	})
}

// readTallies returns the committed tallies of a table and its indexes, by space.
func (db *DB) readTallies(ctx context.Context, t *table) (map[string]tally, error) {
	all := make(map[string]tally)
	err := db.view(ctx, func(r store.Reader) error {
		for _, space := range t.spaces() {
			n, _, err := readTally(r, space)
			if errors.Is(err, ErrDamaged) {
				n, err = recount(r, space), nil
			}
			if err != nil {
				return err
			}
			all[space] = n
		}
		return nil
	})
	return all, err
}
