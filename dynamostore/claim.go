package dynamostore

import (
	"context"
	"errors"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// acquireWithClaim is acquire with a request record. LOCK and REQ# are written in one
// transaction, so that only a lease holder makes a record STARTED. Both rows are read
// first, because a transaction does not return what it replaces, and a refused one does
// not report everything that is wrong. That costs two read units and four write units;
// a plain acquisition costs one write unit.
func (s *Store) acquireWithClaim(ctx context.Context, pk string, d time.Duration, c *store.Claim) (*lease, error) {
	ctx = s.metered(ctx, "acquire with request")
	l, err := s.newLease(ctx, pk, d)
	if err != nil {
		return nil, err
	}
	if l.claim, err = s.newClaim(c); err != nil {
		return nil, err
	}
	a := &claimAttempt{lease: l, claim: c}
	err = s.execute(ctx, operation{bounded: true, prepare: a.prepare, send: a.send, refused: a.contest, settle: a.settle})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// A claimAttempt acquires a lease with a claim. Each attempt replaces the rows as
// prepare found them.
type claimAttempt struct {
	lease *lease
	claim *store.Claim

	tx        *transaction
	failures  int       // of the LOCK row that it replaces
	expiresAt int64     // of the lease
	started   time.Time // before it was sent, on the monotonic clock
}

// send makes one attempt. If we crash after it was executed, the lease expires, and
// the claim can be taken over at the same time.
func (a *claimAttempt) send(ctx context.Context) error {
	err := a.tx.send(ctx)
	if err == nil {
		a.lease.failures = a.failures
		a.lease.extended(a.expiresAt, a.started)
	}
	return err
}

// prepare reads both rows and states the transaction that replaces them. It returns a
// *store.RequestError or a *store.HeldError if they must not be replaced. done: an
// attempt whose reply was lost has written them.
func (a *claimAttempt) prepare(ctx context.Context) (done bool, err error) {
	l, s := a.lease, a.lease.store
	stored, earlier, err := s.findRequestRecord(ctx, l.pk, a.claim.Key)
	if err != nil {
		return false, err
	}
	storedLock, lock, err := s.readLock(ctx, l.pk)
	if err != nil {
		return false, err
	}
	now, started := s.config.Now(), time.Now()
	if string(lock.Token) == l.token {
		l.extended(int64(lock.ExpiresAt), started)
		return true, nil
	}
	if earlier != nil {
		if err := earlier.CheckClaim(*a.claim, now); err != nil {
			return false, err
		}
	}
	if found := lock.lock(); found.HeldAt(now) {
		return false, &store.HeldError{Lock: found}
	}
	a.failures, a.expiresAt, a.started = lock.failures(), expiry(now, l.duration), started
	r := l.claim.row(s, l.pk, store.RequestStarted, a.expiresAt)
	r.Hash = a.claim.Hash
	a.tx = s.newTransaction([]action{
		put(onLock, l.lockRow(a.expiresAt), l.isFreeAfter(storedLock, now)),
		// An update, which keeps the attributes of other services.
		update(onRequest, r, nil, unchangedRequest(stored)),
	})
	return false, nil
}

// contest reads the rows that failed the conditions: success if they are ours, and
// otherwise another attempt. Its error is the result if other processes win every time.
func (a *claimAttempt) contest(_ context.Context, err error, _ progress) (retry bool, result error) {
	result = a.winner(a.tx.refusal(err, 0), err)
	return result != nil, result
}

// winner returns the error that names the writer of the rows; nil if it is us.
func (a *claimAttempt) winner(why refusal, refused error) error {
	l := a.lease
	if reason, ok := why[onLock]; ok {
		var lock lockRow
		switch err := reason.Decode(&lock); {
		case errors.Is(err, tabletheory.ErrItemNotFound): // released since prepare
			lock.ExpiresAt = leaseEnd(floorSeconds(l.store.config.Now()))
		case err != nil:
			return errors.Join(refused, err)
		case string(lock.Token) == l.token:
			l.extended(int64(lock.ExpiresAt), time.Now())
			return nil
		}
		// It may have expired by now. When it failed the condition it was held, or had
		// the failures of another process.
		return &store.HeldError{Lock: lock.lock()}
	}
	var r requestRow
	if err := why[onRequest].Decode(&r); err != nil {
		return errors.Join(refused, err)
	}
	earlier := *r.record(a.claim.Key)
	if err := earlier.CheckClaim(*a.claim, l.store.config.Now()); err != nil {
		return err
	}
	// Claimed since prepare, whatever its state is now.
	return &store.RequestError{Record: earlier, Err: store.ErrRequestInProgress}
}

// settle gives the lease and the claim back if a lost attempt may have written them.
// Rows of other processes are a definite answer.
func (a *claimAttempt) settle(ctx context.Context, cause error, p progress) error {
	_, claimed := errors.AsType[*store.RequestError](cause)
	_, held := errors.AsType[*store.HeldError](cause)
	if !p.lost || claimed || held {
		return cause
	}
	return a.lease.abandon(ctx, cause)
}
