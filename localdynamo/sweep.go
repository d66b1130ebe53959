package localdynamo

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// A sweep looks at so many items in one snapshot, and deletes so many in one
// write: snapshots keep old pages alive, and writes hold up others.
const (
	sweepRead  = 4096
	sweepWrite = 256
)

// ttlReach is how long after its expiry an item is still removed. An older
// time is taken for something that was never meant as one.
const ttlReach = 5 * 365 * 24 * time.Hour

// sweepEvery removes expired items until the DB is closed. What fails is
// tried again by the next sweep; a failing disk is reported by the writes
// that people wait for.
func (db *DB) sweepEvery(interval time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-db.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_, _ = db.Sweep(ctx)
		case <-db.closing:
			return
		}
	}
}

// Sweep removes the items that have expired by now, in all tables, and
// returns how many. An item has expired when its TTL attribute is a number of
// type N, of epoch seconds, that lies in the past, but not more than five
// years. Until a sweep removes it, it is read and written like any other.
func (db *DB) Sweep(ctx context.Context) (int, error) {
	removed := 0
	for _, t := range *db.tables.Load() {
		if t.TTL == "" {
			continue
		}
		n, err := db.sweepTable(ctx, t)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

func (db *DB) sweepTable(ctx context.Context, t *table) (int, error) {
	removed := 0
	window := windowAt(db.now())
	for from := []byte{}; from != nil; {
		var expired [][]byte
		err := db.view(ctx, func(r store.Reader) error {
			expired, from = t.expired(r, from, window)
			return nil
		})
		if err != nil {
			return removed, err
		}
		for len(expired) > 0 {
			n := min(len(expired), sweepWrite)
			gone, err := db.removeExpired(ctx, t, expired[:n], window)
			removed += gone
			if err != nil {
				return removed, err
			}
			expired = expired[n:]
		}
	}
	return removed, nil
}

// expired looks at the next items from a key on, and returns the keys of
// those that have expired, and where to go on; nil at the end.
func (t *table) expired(r store.Reader, from []byte, w window) (keys [][]byte, next []byte) {
	n := 0
	r.Range(t.space(), from, nil, false, func(key, item []byte) bool {
		if n == sweepRead {
			next = bytes.Clone(key)
			return false
		}
		n++
		if w.holds(item, t.TTL) {
			keys = append(keys, bytes.Clone(key))
		}
		return true
	})
	return keys, next
}

// removeExpired deletes those that are still expired: between the snapshot
// and this write anyone may have given an item a new lease of life.
func (db *DB) removeExpired(ctx context.Context, t *table, keys [][]byte, w window) (int, error) {
	removed, attribute := 0, t.TTL
	err := db.submit(ctx, func(tx *transaction) error {
		t, err := tx.table(t)
		if err != nil || t.TTL != attribute {
			return nil // the table is gone, or its items expire otherwise now
		}
		for _, key := range keys {
			item := tx.Get(t.space(), key)
			if item == nil || !w.holds(item, attribute) {
				continue
			}
			if err := t.remove(tx, key, value.View(item)); err != nil {
				return err
			}
			removed++
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return removed, nil
}

// remove deletes an item, and its entries in the indexes.
func (t *table) remove(tx *transaction, key []byte, item value.Item) error {
	indexes, err := t.reindex(key, item, "")
	if err != nil {
		return err
	}
	return t.replace(tx, key, effect{old: item, indexes: indexes})
}

// window is the span of expiry times, exclusive, in which items are removed;
// both ends are canonical numbers.
type window struct{ oldest, now string }

func windowAt(now time.Time) window {
	return window{
		oldest: strconv.FormatInt(now.Add(-ttlReach).Unix(), 10),
		now:    strconv.FormatInt(now.Unix(), 10),
	}
}

func (w window) holds(item []byte, ttl string) bool {
	v, err := value.View(item).Lookup(ttl)
	if err != nil {
		return false // Check reports it
	}
	n, ok := v.(*types.AttributeValueMemberN)
	return ok && value.CompareNumbers(n.Value, w.now) < 0 && value.CompareNumbers(n.Value, w.oldest) > 0
}
