package localdynamo

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// UpdateTimeToLive sets the attribute that holds the expiry time of a table's
// items, or disables TTL. It takes effect at once.
func (db *DB) UpdateTimeToLive(ctx context.Context, in *dynamodb.UpdateTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error) {
	in = orEmpty(in)
	name, err := tableName(in.TableName)
	if err != nil {
		return nil, err
	}
	want := in.TimeToLiveSpecification
	if want == nil || want.Enabled == nil || aws.ToString(want.AttributeName) == "" || len(*want.AttributeName) > maxKeyName {
		return nil, invalid("1 validation error detected: 'timeToLiveSpecification' must have 'enabled' and an 'attributeName' of 1 to %d characters", maxKeyName)
	}
	err = db.submit(ctx, func(tx *transaction) error {
		t, err := tx.tableForUpdate(name)
		if err != nil {
			return err
		}
		switch {
		case *want.Enabled && t.TTL == *want.AttributeName:
			return invalid("TimeToLive is already enabled")
		case *want.Enabled && t.TTL != "", !*want.Enabled && t.TTL != "" && t.TTL != *want.AttributeName:
			return invalid("TimeToLive is active on a different AttributeName: current AttributeName is %s", t.TTL)
		case !*want.Enabled && t.TTL == "":
			return invalid("TimeToLive is already disabled")
		case *want.Enabled:
			t.TTL = *want.AttributeName
		default:
			t.TTL = ""
		}
		return tx.putTable(t)
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.UpdateTimeToLiveOutput{TimeToLiveSpecification: &types.TimeToLiveSpecification{
		AttributeName: aws.String(*want.AttributeName),
		Enabled:       aws.Bool(*want.Enabled),
	}}, nil
}

// DescribeTimeToLive returns the TTL attribute, and ENABLED or DISABLED.
func (db *DB) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	t, err := db.findDefinition(orEmpty(in).TableName)
	if err != nil {
		return nil, err
	}
	d := &types.TimeToLiveDescription{TimeToLiveStatus: types.TimeToLiveStatusDisabled}
	if t.TTL != "" {
		d.TimeToLiveStatus = types.TimeToLiveStatusEnabled
		d.AttributeName = aws.String(t.TTL)
	}
	return &dynamodb.DescribeTimeToLiveOutput{TimeToLiveDescription: d}, nil
}

// Items per snapshot and deletes per write of a sweep. Long snapshots keep old
// bbolt pages alive, and long writes delay others.
const (
	sweepRead  = 4096
	sweepWrite = 256
)

// ttlReach is the maximum age of an expiry time. As on AWS, items with older
// times are kept, because the attribute probably does not hold a time.
const ttlReach = 5 * 365 * 24 * time.Hour

// runSweeps runs Sweep periodically until the DB is closed. Errors are not
// logged: the next sweep retries, and requests that write report a failing disk.
func (db *DB) runSweeps(interval time.Duration) {
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

// Sweep removes the expired items of all tables and returns their number. An
// item has expired if its TTL attribute has type N and is a time in epoch
// seconds in the past, by at most five years. Until a sweep removes it, it is
// read and written like any other.
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
	window := expiryWindowAt(db.now())
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

// expired reads the next items from a key on, and returns the keys of expired
// items and the key to continue with, or nil at the end.
func (t *table) expired(r store.Reader, from []byte, w expiryWindow) (keys [][]byte, next []byte) {
	n := 0
	// A damaged item never expires: whether it has is unknown.
	r.SkipDamaged(func(*store.Damage) {}).Range(t.space(), from, nil, false, func(key, item []byte) bool {
		if n == sweepRead {
			next = bytes.Clone(key)
			return false
		}
		n++
		if w.contains(item, t.TTL) {
			keys = append(keys, bytes.Clone(key))
		}
		return true
	})
	return keys, next
}

// removeExpired deletes the items that are still expired. Another write may have
// extended an item's expiry since the snapshot.
func (db *DB) removeExpired(ctx context.Context, t *table, keys [][]byte, w expiryWindow) (int, error) {
	removed, attribute := 0, t.TTL
	err := db.submit(ctx, func(tx *transaction) error {
		t, err := tx.currentTable(t)
		if err != nil || t.TTL != attribute {
			return nil // the table was deleted, or its TTL attribute changed
		}
		for _, key := range keys {
			tx.touch(t.space(), key)
			var item []byte
			if store.Catch(func() { item = tx.Get(t.space(), key) }) != nil || item == nil || !w.contains(item, attribute) {
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

// remove deletes an item and its index entries.
func (t *table) remove(tx *transaction, key []byte, item value.Item) error {
	indexes, err := t.indexChanges(key, item, "")
	if err != nil {
		return err
	}
	return t.replace(tx, key, effect{before: item, indexes: indexes})
}

// expiryWindow is the open interval of expiry times that a sweep removes. Both
// ends are canonical numbers.
type expiryWindow struct{ oldest, now string }

func expiryWindowAt(now time.Time) expiryWindow {
	return expiryWindow{
		oldest: strconv.FormatInt(now.Add(-ttlReach).Unix(), 10),
		now:    strconv.FormatInt(now.Unix(), 10),
	}
}

func (w expiryWindow) contains(item []byte, ttl string) bool {
	v, err := value.View(item).Lookup(ttl)
	if err != nil {
		return false // Check reports it
	}
	n, ok := v.(*types.AttributeValueMemberN)
	return ok && value.CompareNumbers(n.Value, w.now) < 0 && value.CompareNumbers(n.Value, w.oldest) > 0
}
