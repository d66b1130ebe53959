package dynamostore

import (
	"context"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// lockRow is a lease, or the back-off row after a failure. It is read as the condition
// of Acquire reads it: a row of another writer is a lease or free, and never an error.
type lockRow struct {
	location

	Token     laxText   `theorydb:"attr:lease_token"`
	ExpiresAt leaseEnd  `theorydb:"attr:lease_expires_at"`
	TTL       laxNumber `theorydb:"ttl,attr:ttl"`
	Owner     laxText   `theorydb:"attr:lease_owner,omitempty"`
	Failures  laxNumber `theorydb:"attr:failures,omitempty"`
}

// newLockRow returns a row that blocks acquisitions until a time in epoch seconds. Its
// TTL is lockLinger later.
func newLockRow(at location, until int64) *lockRow {
	return &lockRow{location: at, ExpiresAt: leaseEnd(until), TTL: laxNumber(until + lockLinger)}
}

// lockRow returns the LOCK row of the lease.
func (l *lease) lockRow(expiresAt int64) *lockRow {
	lock := newLockRow(l.store.at(l.pk, skLock), expiresAt)
	lock.Token, lock.Owner = laxText(l.token), laxText(l.store.config.Owner)
	return lock
}

// isFree is true of a LOCK row whose lease is free. That includes a row without a
// numeric expiry, and one that expires later than any lease can, such as one in
// milliseconds: a holder has written neither.
const isFree = "attribute_not_exists(pk) OR NOT attribute_type(lease_expires_at, :number) OR lease_expires_at <= :now OR lease_expires_at > :longest"

// freeAt returns the values of isFree.
func freeAt(now time.Time) map[string]any {
	return map[string]any{":number": "N", ":now": floorSeconds(now), ":longest": longestEnd(now)}
}

// longestEnd returns the latest expiry that a lease can have, in epoch seconds: the expiry of
// the longest duration, by a clock that is a day ahead. [store.Lock.HeldAt] has the
// same bound.
func longestEnd(now time.Time) int64 {
	const skew = 24 * 3600
	return floorSeconds(now) + maxInterval + skew
}

// isFreeAfter also requires that the row has as many failures as the one that was read:
// a transaction does not return what it replaces, and a process that froze after its
// read must not restore a count that others have reset.
func (l *lease) isFreeAfter(read row, now time.Time) tabletheory.Precondition {
	values := freeAt(now)
	failures := "attribute_not_exists(failures)"
	if found, ok := read[attrFailures]; ok {
		failures, values[":failures"] = "failures = :failures", found
	}
	return tabletheory.ConditionExpression("("+isFree+") AND "+failures, values)
}

// readLock reads the LOCK row with a strongly consistent read, as stored and decoded;
// nil and zero if there is none.
func (s *Store) readLock(ctx context.Context, pk string) (row, lockRow, error) {
	var lock lockRow
	found, err := s.readRow(ctx, true, pk, skLock)
	if err == nil && found != nil {
		err = s.decode(ctx, found, &lock)
	}
	return found, lock, err
}

// lockLinger is how many seconds after its expiry TTL may delete a LOCK row: more than
// clocks differ.
const lockLinger = 3600

// lock returns the row as a [store.Lock].
func (r *lockRow) lock() store.Lock {
	lock := store.Lock{Owner: string(r.Owner), Failures: r.failures()}
	if r.ExpiresAt > 0 {
		lock.ExpiresAt = time.Unix(int64(r.ExpiresAt), 0).UTC()
	}
	return lock
}

// failures returns the count of consecutive failures, limited to 0 to 2^20. It only
// determines the length of a back-off.
func (r *lockRow) failures() int {
	const enough = 1 << 20
	return int(min(max(r.Failures, 0), enough))
}
