package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// acquireFor is acquire with a request: LOCK and REQ# are written in one
// transaction, so that a request is STARTED by a holder of the lease and by
// nobody else. Both rows are read before, which costs two read units and four
// write units where a plain acquisition costs one write unit: what a transaction
// replaces is not told, and it is refused without saying all that is wrong.
func (s *Store) acquireFor(ctx context.Context, pk string, d time.Duration, c *store.Claim) (*lease, error) {
	ctx = s.during(ctx, "acquire with request")
	l, err := s.newLease(ctx, pk, d)
	if err != nil {
		return nil, err
	}
	if l.attempt, err = s.newAttempt(c); err != nil {
		return nil, err
	}
	if err := l.claim(ctx, c); err != nil {
		return nil, err
	}
	return l, nil
}

// claim asks until there is an answer, or for as long as an ordinary operation.
func (l *lease) claim(ctx context.Context, c *store.Claim) error {
	s, started := l.store, time.Now()
	var next *claiming
	unanswered := false // what was asked may have been carried out
	for attempt := 1; ; attempt++ {
		if next == nil {
			var err error
			if next, err = l.look(ctx, c); err != nil {
				return l.claimFailed(ctx, err, unanswered)
			}
		}
		if next.mine {
			return nil
		}
		err := s.call(ctx, next.request.send)
		switch tabletheory.OutcomeOf(err) {
		case tabletheory.Applied:
			l.failures = next.failures
			l.granted(next.expiresAt, next.asked)
			return nil
		case tabletheory.Refused:
			return l.claimFailed(ctx, err, unanswered)
		case tabletheory.ConditionFailed:
			// Somebody was faster, perhaps an earlier request of ours.
			if err = l.contestClaim(next.request.refusal(err), c, err); err == nil {
				return nil
			}
			next = nil
		case tabletheory.Cancelled:
			next = nil
		case tabletheory.Unknown:
			unanswered = true
		}
		if s.spent(attempt, started) || !s.pause(ctx, attempt) {
			return l.claimFailed(ctx, err, unanswered)
		}
	}
}

// contestClaim reads the rows that refused us: nil if they are ours. Otherwise it
// is what is said to somebody for whom others are faster time and again.
func (l *lease) contestClaim(why refusal, c *store.Claim, refused error) error {
	if reason, ok := why[opLock]; ok {
		var lock lockRow
		switch err := reason.Decode(&lock); {
		case errors.Is(err, tabletheory.ErrItemNotFound): // given up since we looked
			lock.ExpiresAt = leaseEnd(floorSeconds(l.store.config.Now()))
		case err != nil:
			return errors.Join(refused, err)
		case string(lock.Token) == l.token:
			l.granted(int64(lock.ExpiresAt), time.Now())
			return nil
		}
		// Its time may be over by now: it was held, or another's failure, when it
		// refused us.
		return &store.HeldError{Lock: lock.lock()}
	}
	var r requestRow
	if err := why[opRequest].Decode(&r); err != nil {
		return errors.Join(refused, err)
	}
	earlier := *r.request(c.Key)
	if err := earlier.CheckClaim(*c, l.store.config.Now()); err != nil {
		return err
	}
	// Claimed since we looked, whatever became of it.
	return &store.RequestError{Record: earlier, Err: store.ErrRequestInProgress}
}

// claimFailed is the error of a claim. The rows of others are an answer; after
// anything else a request that was not answered may have made them ours.
func (l *lease) claimFailed(ctx context.Context, err error, unanswered bool) error {
	_, answered := errors.AsType[*store.RequestError](err)
	_, held := errors.AsType[*store.HeldError](err)
	if !unanswered || answered || held {
		return err
	}
	return l.store.abandon(ctx, l, err)
}

// A claiming is one request for a lease and a claim, made of the rows as they
// were found.
type claiming struct {
	mine      bool // they are ours already, by a request whose reply was lost
	request   *request
	failures  int       // of the lease that it replaces
	expiresAt int64     // of the lease that it asks for
	asked     time.Time // before it was sent, on the monotonic clock
}

// look reads what there is, and prepares to replace it: a *store.RequestError or a
// *store.HeldError if it is not to be replaced.
func (l *lease) look(ctx context.Context, c *store.Claim) (*claiming, error) {
	s := l.store
	stored, earlier, err := s.findRequest(ctx, l.pk, c.Key)
	if err != nil {
		return nil, err
	}
	storedLock, lock, err := s.readLock(ctx, l.pk)
	if err != nil {
		return nil, err
	}
	now, asked := s.config.Now(), time.Now()
	if string(lock.Token) == l.token {
		l.granted(int64(lock.ExpiresAt), asked)
		return &claiming{mine: true}, nil
	}
	if earlier != nil {
		if err := earlier.CheckClaim(*c, now); err != nil {
			return nil, err
		}
	}
	if found := lock.lock(); found.HeldAt(now) {
		return nil, &store.HeldError{Lock: found}
	}
	expiresAt := expiry(now, l.duration)
	return &claiming{
		request: l.claimRequest(c, storedLock, stored, now, expiresAt), failures: lock.failures(), expiresAt: expiresAt, asked: asked,
	}, nil
}

// claimRequest states both rows. If we crash once it is carried out, the lease
// expires, and the request may be taken over at the same moment.
func (l *lease) claimRequest(c *store.Claim, storedLock, stored row, now time.Time, expiresAt int64) *request {
	s := l.store
	lock, free := l.lockRow(expiresAt), l.isFreeAfter(storedLock, now)
	r := l.attempt.row(s, l.pk, store.RequestStarted, expiresAt)
	r.Hash = c.Hash
	return s.newRequest([]action{
		{opLock, func(tx *tabletheory.TransactionBuilder) { tx.Put(lock, free) }},
		// An update, which leaves alone what others keep there.
		{opRequest, func(tx *tabletheory.TransactionBuilder) { tx.Update(r, nil, unchangedRequest(stored)) }},
	})
}

// abandonRequest sees to it that a request of ours which nobody will carry out
// can be made again. It is called once the lease is nobody's.
func (l *lease) abandonRequest(ctx context.Context, cause error) error {
	return l.store.endRequest(ctx, false, l, store.RequestEnd{Failure: fmt.Sprintf("it was not begun: %v", cause)})
}
