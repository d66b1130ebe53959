package localdynamo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// The segments of a parallel Scan are ranges of keys, so reading all of them reads the
// table once, whatever their number. All requests of a parallel Scan must agree on the
// ranges, and nothing in them tells which Scan they belong to. So the keys at which a
// table or index may be split are chosen when it is first scanned in parallel, and stored
// with it:
//
//	range 0      range 1      range 2      range 3      range 4
//	────────┼────────────┼────────────┼────────────┼────────────
//	     split 0      split 1      split 2      split 3
//	└── segment 0 of 2 ──┘└─────────── segment 1 of 2 ──────────┘

// segmentSpace holds the splits of each table and index, by the name of its space. Older
// versions of this package ignore it.
const segmentSpace = "segments"

// maxRanges is the number of ranges that a large table is split into, at most twice as
// many. More segments than ranges are empty.
const maxRanges = 256

// Splits are chosen anew, because they do not fit the items anymore, if there are
// resplitGrowth times as many items, and not while a Scan may be using them: a Scan of
// few items is short.
const (
	resplitAfter    = 24 * time.Hour
	resplitFewAfter = time.Minute // with fewer than maxRanges items
	resplitGrowth   = 4
)

// splits are the first keys of the ranges of a space, without the first range's.
type splits struct {
	Keys   [][]byte
	Items  int64 // when they were chosen
	Chosen time.Time
}

// segment returns the range of keys [lo, hi) of segment part of total.
func (s *splits) segment(part, total int) (lo, hi []byte) {
	ranges := len(s.Keys) + 1
	first, end := (part*ranges+total-1)/total, ((part+1)*ranges+total-1)/total
	if first == end {
		return nil, []byte{} // nothing is less than the empty key
	}
	if first > 0 {
		lo = s.Keys[first-1]
	}
	if end < ranges {
		hi = s.Keys[end-1]
	}
	return lo, hi
}

// segment returns the range of keys of a segment of a source.
func (db *DB) segment(ctx context.Context, s source, part, total int32) (lo, hi []byte, err error) {
	if total <= 1 {
		return nil, nil, nil
	}
	known, err := db.splitsOf(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	lo, hi = known.segment(int(part), int(total))
	return lo, hi, nil
}

func (db *DB) splitsOf(ctx context.Context, s source) (*splits, error) {
	space := s.space()
	if known, ok := db.splits.Load(space); ok && !db.outdated(known.(*splits), nil) {
		return known.(*splits), nil
	}
	// One request chooses, for all that wait, even if its client is gone.
	chosen, err, _ := db.splitting.Do(space, func() (any, error) { return db.loadSplits(context.WithoutCancel(ctx), s) })
	if err != nil {
		return nil, err
	}
	db.splits.Store(space, chosen)
	return chosen.(*splits), nil
}

// outdated reports whether splits may be chosen anew. held is the tally of their space;
// if it is nil, only their age counts.
func (db *DB) outdated(s *splits, held *tally) bool {
	after := resplitAfter
	if s.Items < maxRanges {
		after = resplitFewAfter
	}
	return db.now().Sub(s.Chosen) > after && (held == nil || held.items > resplitGrowth*max(s.Items, maxRanges))
}

// loadSplits reads the stored splits of a source, or chooses and stores them.
func (db *DB) loadSplits(ctx context.Context, s source) (*splits, error) {
	space := s.space()
	found := &splits{}
	good := false
	err := db.view(ctx, func(r store.Reader) error {
		if err := s.table.checkExists(r); err != nil {
			return err
		}
		held, _, err := readTally(r, space)
		if err != nil {
			return err
		}
		var stored []byte // damaged ones are chosen again
		if store.Catch(func() { stored = r.Get(segmentSpace, []byte(space)) }) == nil && stored != nil {
			if err := json.Unmarshal(stored, found); err != nil {
				return fmt.Errorf("%w: splits of %s: %w", ErrCorrupt, space, err)
			}
			good = !db.outdated(found, &held)
		}
		if !good {
			*found = splits{Keys: s.chooseSplits(r), Items: held.items}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	checked := *found
	if checked.Chosen = db.now(); good {
		return &checked, nil // in memory: looked at again after resplitAfter
	}
	stored, err := json.Marshal(checked)
	if err != nil {
		return nil, err
	}
	return &checked, db.submit(ctx, func(tx *transaction) error {
		t, err := tx.currentTable(s.table)
		if err != nil {
			return err
		}
		if !slices.Contains(t.spaces(), space) {
			return nil // the index is gone
		}
		return tx.Put(segmentSpace, []byte(space), stored)
	})
}

// chooseSplits returns the first keys of ranges of about the same number of items. All items
// of a hash key are in one range.
func (s source) chooseSplits(r store.Reader) [][]byte {
	var keys [][]byte
	step, n := 1, 0
	r.SkipDamaged(func(*store.Damage) {}).Range(s.space(), nil, nil, false, func(key, _ []byte) bool {
		n++
		if n%step != 0 {
			return true
		}
		hash := s.key().hashOf(key)
		if hash == nil || len(keys) > 0 && bytes.Equal(hash, keys[len(keys)-1]) {
			return true
		}
		if keys = append(keys, bytes.Clone(hash)); len(keys) > 2*maxRanges {
			step *= 2
			keys = slices.DeleteFunc(keys, everySecond())
		}
		return true
	})
	if len(keys) > 0 && step == 1 {
		keys = keys[1:] // the first range begins with the first key
	}
	return keys
}

// everySecond returns a function that is true for every second call.
func everySecond() func([]byte) bool {
	odd := true
	return func([]byte) bool {
		odd = !odd
		return odd
	}
}

// hashOf returns the part of an encoded key that is its hash key, or nil if it is damaged.
func (k *keySchema) hashOf(key []byte) []byte {
	rest := key
	for _, a := range k.hashes() {
		var ok bool
		if _, rest, ok = value.DecodeKey(a.Type, rest); !ok {
			return nil
		}
	}
	return key[:len(key)-len(rest)]
}
