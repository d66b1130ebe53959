package localdynamo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// maxFaults is how many faults Check collects before it stops.
const maxFaults = 20

// Check reads the whole file and verifies its invariants: the structure of the
// file is intact; every item decodes, is within the limits, re-encodes to the
// same bytes and is stored under its own key; every index holds exactly the
// entries of its table's items; the tallies of tables and indexes are correct;
// request tokens and their expiry times match. The error wraps ErrCorrupt and
// lists at most 20 faults. Writes block while the file structure is checked;
// the rest is read from a snapshot.
func (db *DB) Check(ctx context.Context) error {
	if err := db.ready(ctx); err != nil {
		return err
	}
	if err := db.flush(ctx); err != nil {
		return err
	}
	if err := db.store.Check(); err != nil {
		return fmt.Errorf("localdynamo: check %s: %w", db.path, err)
	}
	c := &checker{ctx: ctx}
	if err := db.view(ctx, c.run); err != nil {
		return err
	}
	if len(c.faults) > 0 {
		return fmt.Errorf("localdynamo: check %s: %w", db.path, errors.Join(c.faults...))
	}
	return nil
}

type checker struct {
	ctx    context.Context
	faults []error
}

// report records a fault, and returns whether to go on.
func (c *checker) report(format string, args ...any) bool {
	c.faults = append(c.faults, fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...)))
	return len(c.faults) < maxFaults
}

func (c *checker) run(r store.Reader) error {
	tables, err := readCatalogue(r)
	if err != nil {
		return err
	}
	for _, t := range tables {
		r.Range(t.space(), nil, nil, false, func(key, item []byte) bool {
			if c.ctx.Err() != nil {
				return false
			}
			if err := t.checkItem(key, item); err != nil {
				return c.report("table %s, key %x: %v", t.Name, key, err)
			}
			return true
		})
		for _, ix := range t.Indexes {
			c.index(r, t, ix)
		}
		for _, space := range t.spaces() {
			if held, known, err := readTally(r, space); err != nil || !known || held != recount(r, space) {
				c.report("table %s: tally of %s is missing or wrong: %v", t.Name, space, err)
			}
		}
	}
	c.tokens(r)
	return c.ctx.Err()
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
		e, err := ix.entryOf(t, key, value.View(item))
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
