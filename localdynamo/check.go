package localdynamo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// maxFaults is how many faults Check collects before it stops.
const maxFaults = 20

// Check reads the whole file and verifies its invariants: the structure of the
// file is intact, and so is all that [DB.Verify] verifies. The error wraps ErrCorrupt and
// lists at most 20 faults. Writes block while the file structure is checked;
// the rest is read from a snapshot.
func (db *DB) Check(ctx context.Context) error {
	if err := db.CheckStructure(ctx); err != nil {
		return err
	}
	return db.Verify(ctx, nil)
}

// CheckStructure verifies the structure of the file, below the level of items: its pages, and which of them are
// free. The error wraps ErrCorrupt. Writes block until it returns.
func (db *DB) CheckStructure(ctx context.Context) error {
	if err := db.ready(ctx); err != nil {
		return err
	}
	if err := db.flush(ctx); err != nil {
		return err
	}
	if err := db.store.Check(); err != nil {
		return fmt.Errorf("localdynamo: check %s: %w", db.path, err)
	}
	return nil
}

// Verify reads all that is stored, from a snapshot, and verifies it: the checksum of every value
// and the order of keys; every item decodes, is within the limits, re-encodes to the
// same bytes and is stored under its own key; every index holds exactly the
// entries of its table's items; the tallies of tables and indexes are correct;
// request tokens and their expiry times match. The error wraps ErrCorrupt and
// lists at most 20 faults. It delays no writes, but the file does not reuse space while it runs.
// progress, if it is not nil, is called with the number of items and index entries that have been
// verified, and the number of all, about every thousand.
func (db *DB) Verify(ctx context.Context, progress func(done, total int64)) error {
	c := &checker{ctx: ctx, progress: progress, damaged: make(map[string]bool)}
	if err := db.view(ctx, c.run); err != nil {
		return err
	}
	if len(c.faults) > 0 {
		return fmt.Errorf("localdynamo: check %s: %w", db.path, errors.Join(c.faults...))
	}
	return nil
}

type checker struct {
	ctx         context.Context
	progress    func(done, total int64)
	done, total int64
	tables      catalogue
	damaged     map[string]bool // spaces with damaged values
	faults      []error
}

// report records a fault, and returns whether to go on.
func (c *checker) report(format string, args ...any) bool {
	return c.add(fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...)))
}

func (c *checker) add(fault error) bool {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fault)
	}
	return len(c.faults) < maxFaults
}

// damage records a damaged value.
func (c *checker) damage(d *store.Damage) {
	c.damaged[d.Space] = true
	c.add(nameDamage(c.tables, d))
}

// step counts an item or entry, and returns whether to go on.
func (c *checker) step() bool {
	if c.done++; c.progress != nil && c.done%1024 == 0 {
		c.progress(c.done, max(c.done, c.total))
	}
	return c.ctx.Err() == nil && len(c.faults) < maxFaults
}

func (c *checker) run(r store.Reader) error {
	all := r.SkipDamaged(c.damage)
	known := r.SkipDamaged(func(*store.Damage) {}) // for what has been read by all
	tables, err := readCatalogue(all)
	if err != nil {
		return err
	}
	c.tables = tables
	c.count(known)
	for _, space := range []string{counterSpace, tallySpace, segmentSpace, abandonedSpace} {
		all.Range(space, nil, nil, false, func(_, _ []byte) bool { return true })
	}
	if err := checkSpaces(known, tables); err != nil {
		c.add(err)
	}
	for _, t := range tables {
		c.items(all, t)
		for _, ix := range t.Indexes {
			c.entries(all, ix.space(t))
			if !c.damaged[t.space()] && !c.damaged[ix.space(t)] {
				c.index(known, t, ix)
			}
		}
		for _, space := range t.spaces() {
			if c.damaged[space] || c.damaged[tallySpace] {
				continue
			}
			if held, found, err := readTally(known, space); err != nil || !found || held != recount(known, space) {
				c.report("table %s: tally of %s is missing or wrong: %v", t.Name, space, err)
			}
		}
	}
	c.tokens(all)
	return c.ctx.Err()
}

// count computes the number of all steps.
func (c *checker) count(r store.Reader) {
	for _, t := range c.tables {
		for _, space := range t.spaces() {
			n, _, _ := readTally(r, space) // only for the progress
			c.total += n.items
		}
	}
}

func (c *checker) items(r store.Reader, t *table) {
	r.Range(t.space(), nil, nil, false, func(key, item []byte) bool {
		if err := t.checkItem(key, item); err != nil {
			c.report("table %s, key %x: %v", t.Name, key, err)
		}
		return c.step()
	})
}

func (c *checker) entries(r store.Reader, space string) {
	r.Range(space, nil, nil, false, func(_, _ []byte) bool { return c.step() })
}

// checkSpaces finds spaces that are missing although their tallies are not zero: those whose names are damaged.
func checkSpaces(r store.Reader, tables catalogue) error {
	var missing []string
	first := func(space string) (found bool) {
		r.SkipDamaged(func(*store.Damage) { found = true }).Range(space, nil, nil, false, func(_, _ []byte) bool {
			found = true
			return false
		})
		return found
	}
	if len(tables) == 0 && first(tallySpace) {
		missing = append(missing, tableSpace)
	}
	for _, t := range tables {
		for _, space := range t.spaces() {
			if held, _, err := readTally(r, space); err == nil && held.items > 0 && !first(space) {
				missing = append(missing, space)
			}
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s are missing", ErrCorrupt, strings.Join(missing, ", "))
	}
	return nil
}

func (t *table) checkItem(key, stored []byte) error {
	fields, err := decode(value.View(stored))
	if err != nil {
		return err
	}
	canonical, err := value.NormalizeItem(fields)
	if err != nil {
		return err
	}
	if !bytes.Equal(value.Encode(nil, canonical), stored) {
		return errors.New("not in canonical form")
	}
	if n := value.ItemSize(fields); n > value.MaxItemSize {
		return fmt.Errorf("the item has %d bytes, more than %d", n, value.MaxItemSize)
	}
	own, err := t.keyOfItem(fields)
	if err != nil {
		return err
	}
	if !bytes.Equal(own, key) {
		return fmt.Errorf("the item's own key is %x", own)
	}
	return nil
}

// index checks that an index holds the entries of all items and no others. An
// index that is being backfilled may lack some.
func (c *checker) index(r store.Reader, t *table, ix *index) {
	due, found := 0, 0
	r.Range(t.space(), nil, nil, false, func(key, item []byte) bool {
		e, err := ix.entryOf(t, key, &document{item: value.View(item)})
		if err != nil {
			return true // already reported by checkItem
		}
		if e.key == nil {
			return c.ctx.Err() == nil
		}
		stored := r.Get(ix.space(t), e.key)
		if stored == nil && ix.Filling {
			return true
		}
		due++
		if string(stored) != string(e.item) {
			return c.report("table %s, index %s: the entry of key %x is missing or differs", t.Name, ix.Name, key)
		}
		return c.ctx.Err() == nil
	})
	r.Range(ix.space(t), nil, nil, false, func([]byte, []byte) bool {
		found++
		return true
	})
	if found != due && c.ctx.Err() == nil && len(c.faults) == 0 {
		c.report("table %s, index %s: %d entries for %d items", t.Name, ix.Name, found, due)
	}
}

// tokens checks that the two spaces of request tokens hold the same tokens.
func (c *checker) tokens(r store.Reader) {
	known := 0
	r.Range(tokenSpace, nil, nil, false, func(id, stored []byte) bool {
		known++
		var done tokenRecord
		if err := json.Unmarshal(stored, &done); err != nil {
			return c.report("request token %q: %v", id, err)
		}
		if r.Get(expirySpace, expiryKey(done.Expires, string(id))) == nil {
			return c.report("request token %q has no expiry entry", id)
		}
		return true
	})
	expiring := 0
	r.Range(expirySpace, nil, nil, false, func([]byte, []byte) bool {
		expiring++
		return true
	})
	if known != expiring {
		c.report("%d request tokens, but %d expiry entries", known, expiring)
	}
}
