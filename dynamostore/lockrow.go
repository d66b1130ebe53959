package dynamostore

import (
	"context"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// lockRow is a lease, or the pause after a failure. It is read as the condition
// of Acquire judges it: whatever other writers left there is a lease or is none,
// and never an error.
type lockRow struct {
	location

	Token     laxText   `theorydb:"attr:lease_token"`
	ExpiresAt leaseEnd  `theorydb:"attr:lease_expires_at"`
	TTL       laxNumber `theorydb:"ttl,attr:ttl"`
	Owner     laxText   `theorydb:"attr:lease_owner,omitempty"`
	Failures  laxNumber `theorydb:"attr:failures,omitempty"`
}

// newLockRow is a row that demands to be left alone until a time in epoch
// seconds, and may be collected some time after that.
func newLockRow(at location, until int64) *lockRow {
	return &lockRow{location: at, ExpiresAt: leaseEnd(until), TTL: laxNumber(until + lockLinger)}
}

// lockRow is the LOCK row of the lease.
func (l *lease) lockRow(expiresAt int64) *lockRow {
	lock := newLockRow(l.store.at(l.pk, skLock), expiresAt)
	lock.Token, lock.Owner = laxText(l.token), laxText(l.store.config.Owner)
	return lock
}

// isFree is true of a LOCK row whose lease is free. A row without a number cannot
// say when it ends, and one that ends later than any lease can, such as in
// milliseconds, was not written by a holder: both are free.
const isFree = "attribute_not_exists(pk) OR NOT attribute_type(lease_expires_at, :number) OR lease_expires_at <= :now OR lease_expires_at > :longest"

// freeAt are the values of isFree.
func freeAt(now time.Time) map[string]any {
	return map[string]any{":number": "N", ":now": floorSeconds(now), ":longest": longestEnd(now)}
}

// longestEnd is the latest end, in epoch seconds, that a lease can have: one of
// the longest duration, by a clock that is a day ahead. [store.Lock.HeldAt] has the
// same bound.
func longestEnd(now time.Time) int64 {
	const skew = 24 * 3600
	return floorSeconds(now) + maxInterval + skew
}

// isFreeAfter demands besides that the row counts as many failures as one that was
// read: a transaction does not tell what it replaces, and a worker that froze after
// it had looked must not take over failures that others have made up for.
func (l *lease) isFreeAfter(read row, now time.Time) tabletheory.Precondition {
	values := freeAt(now)
	failures := "attribute_not_exists(failures)"
	if found, ok := read[attrFailures]; ok {
		failures, values[":failures"] = "failures = :failures", found
	}
	return tabletheory.ConditionExpression("("+isFree+") AND "+failures, values)
}

// readLock reads the LOCK row, strongly: as it is stored, and what it says; nil and
// zero if there is none.
func (s *Store) readLock(ctx context.Context, pk string) (row, lockRow, error) {
	var lock lockRow
	found, err := s.readRow(ctx, true, pk, skLock)
	if err == nil && found != nil {
		err = s.decode(ctx, found, &lock)
	}
	return found, lock, err
}

// lockLinger is how many seconds a LOCK row outlives its lease before DynamoDB
// may collect it: longer than clocks differ.
const lockLinger = 3600

// lock is what isr is told of the row.
func (r *lockRow) lock() store.Lock {
	lock := store.Lock{Owner: string(r.Owner), Failures: r.failures()}
	if r.ExpiresAt > 0 {
		lock.ExpiresAt = time.Unix(int64(r.ExpiresAt), 0).UTC()
	}
	return lock
}

// failures is how many there were in a row, none if the count makes no sense: it
// only shapes a back-off.
func (r *lockRow) failures() int {
	const enough = 1 << 20
	return int(min(max(r.Failures, 0), enough))
}
