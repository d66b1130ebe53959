package dynamostore

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// A groupAttempt is one transaction of a group commit. The next one has another
// client token and another id in the log, and is not made before it is certain that
// this one was not committed and cannot be committed later.
type groupAttempt struct {
	group       *groupCommit
	members     []*queuedChange
	seen        seenSequence // which it advances
	id          string       // of the log row, which tells whether it was committed
	transaction *transaction // its parts are those of the members, in order, and the one on SEQ and LOG
}

// newGroupAttempt collects the writes of the changes after the seen sequence. Changes
// that return an error, or whose callers have left, are answered.
func newGroupAttempt(ctx context.Context, g *groupCommit, batch []*queuedChange, seen seenSequence) *groupAttempt {
	a := &groupAttempt{group: g, seen: seen, id: rand.Text()}
	var parts [][]action
	var targets []logTarget
	for _, q := range batch {
		if q.waiting.Err() != nil {
			q.done <- q.overdue()
			continue
		}
		writes, reloads, err := q.write(ctx, seen.Seq+1)
		if err != nil {
			q.done <- err
			continue
		}
		parts, targets = append(parts, writes), append(targets, reloads...)
		a.members = append(a.members, q)
	}
	a.transaction = g.store.newTransaction(append(parts, g.store.advance(seen, a.id, targets))...)
	return a
}

// execute sends the transaction and answers its members or puts them back. It reports
// whether another process has advanced SEQ, or is about to.
//
// If we crash before the reply, the transaction commits as a whole or not at all.
func (a *groupAttempt) execute(ctx context.Context) (contended bool) {
	var lost bool
	err := a.group.store.execute(ctx, operation{
		send:    a.transaction.send,
		final:   true, // the members are queued again
		expired: func(bool) bool { return a.transaction.expired() },
		refused: func(_ context.Context, err error, p progress) (bool, error) {
			lost = p.lost
			return false, err
		},
		settle: func(_ context.Context, cause error, p progress) error {
			lost = p.lost
			return cause
		},
	})
	switch outcome := tabletheory.OutcomeOf(err); {
	case outcome == tabletheory.Applied:
		a.committed()
	case outcome == tabletheory.ConditionFailed:
		return a.refused(ctx, err, lost)
	case lost:
		a.settle(ctx, err)
	case outcome == tabletheory.Cancelled:
		return a.conflicted(err)
	default:
		a.split(err)
	}
	return false
}

func (a *groupAttempt) committed() {
	g := a.group
	g.mu.Lock()
	g.committed = a.seen.Seq + 1
	g.mu.Unlock()
	answer(a.members, nil)
}

// refused handles failed conditions: the changes that they belong to are answered, and
// the others are sent again.
func (a *groupAttempt) refused(ctx context.Context, err error, lost bool) (contended bool) {
	why := make([]refusal, len(a.members))
	suspect := lost
	for i, q := range a.members {
		why[i] = a.transaction.refusal(err, i)
		suspect = suspect || q.recognizes(why[i])
	}
	if suspect && a.answered(ctx, err) {
		return false
	}
	var again []*queuedChange
	for i, q := range a.members {
		q.last = err
		if verdict := q.judge(why[i]); verdict != nil {
			q.done <- verdict
			continue
		}
		again = append(again, q)
	}
	a.group.putBack(again...)
	return a.transaction.refusal(err, len(a.members)).has(onSequence)
}

// answered reads from the log whether an earlier delivery of this transaction made the
// conditions fail. If so, or if that stays unknown, all members are answered.
func (a *groupAttempt) answered(ctx context.Context, cause error) bool {
	s := a.group.store
	ctx, cancel := settling(ctx, s.config.SettleTimeout)
	defer cancel()
	committed, err := s.logged(ctx, a.seen, a.id)
	switch {
	case err != nil:
		answer(a.members, fmt.Errorf("%w: %w; looking whose change it was: %w", store.ErrUnknownOutcome, cause, err))
	case committed:
		a.committed()
	}
	return err != nil || committed
}

// conflicted handles a transaction that was cancelled for a transient reason. Changes
// whose own items are the reason are delayed, so that one hot or throttled item does
// not hold up the other changes. Otherwise the reason is SEQ, which the changes of all
// processes write.
func (a *groupAttempt) conflicted(err error) (contended bool) {
	contended = true
	for i, q := range a.members {
		q.last = err
		if a.transaction.conflicted(err, i) {
			q.notBefore = time.Now().Add(a.group.backoff(q.conflicts))
			q.conflicts++
			contended = false
		}
	}
	a.group.putBack(a.members...)
	return contended
}

// split handles a transaction that DynamoDB rejects because of one of the changes, or
// because it is too large: each change is sent by itself.
func (a *groupAttempt) split(err error) {
	if len(a.members) == 1 {
		answer(a.members, err)
		return
	}
	for _, q := range a.members {
		q.last, q.alone = err, true
	}
	a.group.putBack(a.members...)
}

// settle finds out whether a transaction without a reply was committed. It advances
// SEQ with an empty log row, unless SEQ has advanced already. After that the
// transaction cannot be committed, and the log tells whether it was. All members get
// the same answer.
func (a *groupAttempt) settle(ctx context.Context, cause error) {
	s := a.group.store
	ctx, cancel := settling(ctx, s.config.SettleTimeout)
	defer cancel()
	committed := false
	err := s.skip(ctx, a.seen)
	if err == nil {
		committed, err = s.logged(ctx, a.seen, a.id)
	}
	s.config.Logger.Warn("isr: settled a write whose reply was lost", slog.String("write", "changes of the log"),
		slog.Int("changes", len(a.members)), slog.Int64("seq", a.seen.Seq+1),
		slog.Bool("committed", committed), slog.Any("cause", cause), slog.Any("err", err))
	switch {
	case err != nil:
		answer(a.members, fmt.Errorf("%w: %w; settling it: %w", store.ErrUnknownOutcome, cause, err))
	case committed:
		a.committed()
	default:
		answer(a.members, cause)
	}
}
