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

// maxFaults is how many faults Check lists before it stops looking.
const maxFaults = 20

// Check reads the whole file and verifies what must always hold: the file's
// own structure; every item decodes, is within the limits, encodes to the
// bytes it was read from, and stands under its own key; every index holds the
// entries of its table's items, and no others; what is counted of tables and
// indexes is what is in them; every request token is found by its time of
// expiry, and nothing else is. Its error wraps
// ErrCorrupt and lists the faults. Writes wait while it looks at the structure
// of the file; all else is read from a snapshot.
func (db *DB) Check(ctx context.Context) error {
	if err := db.ready(ctx); err != nil {
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

// fault notes one, and reports whether to look for more.
func (c *checker) fault(format string, args ...any) bool {
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
				return c.fault("table %s, key %x: %v", t.Name, key, err)
			}
			return true
		})
		for _, ix := range t.Indexes {
			c.index(r, t, ix)
		}
		for _, space := range t.spaces() {
			if held, known, err := readTally(r, space); err != nil || !known || held != measure(r, space) {
				c.fault("table %s: the tally of %s is missing or wrong: %v", t.Name, space, err)
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
		return fmt.Errorf("%d bytes, more than an item may have", n)
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

// index checks that an index holds the entries of all items, and none besides.
// One that is being filled may lack some.
func (c *checker) index(r store.Reader, t *table, ix *index) {
	due, found := 0, 0
	r.Range(t.space(), nil, nil, false, func(key, item []byte) bool {
		e, err := ix.entryOf(t, key, value.View(item))
		if err != nil {
			return true // reported with the item
		}
		if e.key == nil {
			return c.ctx.Err() == nil
		}
		stands := r.Get(ix.space(t), e.key)
		if stands == nil && ix.Filling {
			return true
		}
		due++
		if string(stands) != string(e.item) {
			return c.fault("table %s, index %s: the entry of key %x is missing or differs", t.Name, ix.Name, key)
		}
		return c.ctx.Err() == nil
	})
	r.Range(ix.space(t), nil, nil, false, func([]byte, []byte) bool {
		found++
		return true
	})
	if found != due && c.ctx.Err() == nil && len(c.faults) == 0 {
		c.fault("table %s, index %s: %d entries for %d items", t.Name, ix.Name, found, due)
	}
}

// tokens checks that the two spaces of request tokens name the same ones.
func (c *checker) tokens(r store.Reader) {
	known := 0
	r.Range(tokenSpace, nil, nil, false, func(id, stored []byte) bool {
		known++
		var done completed
		if err := json.Unmarshal(stored, &done); err != nil {
			return c.fault("request token %q: %v", id, err)
		}
		if r.Get(expirySpace, expiryKey(done.Expires, string(id))) == nil {
			return c.fault("request token %q would never be forgotten", id)
		}
		return true
	})
	expiring := 0
	r.Range(expirySpace, nil, nil, false, func([]byte, []byte) bool {
		expiring++
		return true
	})
	if known != expiring {
		c.fault("%d request tokens, but %d times of expiry", known, expiring)
	}
}
