package dynamostore

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
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
	id          string       // of the log row, which shows whether it was committed
	transaction *transaction // its parts are the parts of the members, in order, the purges and the log
}

// newGroupAttempt collects the writes of the changes after the seen sequence. Changes
// whose callers have left are answered.
func newGroupAttempt(g *groupCommit, batch []*queuedChange, seen seenSequence) *groupAttempt {
	a := &groupAttempt{group: g, seen: seen, id: rand.Text()}
	var parts [][]action
	shared := &logWrites{store: g.store, seen: seen, now: floorSeconds(g.store.config.Now())}
	for _, q := range batch {
		if q.waiting.Err() != nil {
			q.end(q.overdue())
			continue
		}
		parts = append(parts, q.write(shared))
		a.members = append(a.members, q)
	}
	log := &logRow{ID: a.id, Targets: shared.logTargets(), Destinations: a.delivered()}
	parts = append(parts, append(shared.purgeActions(), shared.jobActions(a.id)...), g.store.advance(seen, log, shared.lifetime()))
	a.transaction = g.store.newTransaction(parts...)
	return a
}

// delivered returns the destinations for which every member writes jobs.
func (a *groupAttempt) delivered() []string {
	if len(a.members) == 0 {
		return nil
	}
	all := slices.Clone(a.members[0].destinations())
	for _, q := range a.members[1:] {
		all = slices.DeleteFunc(all, func(d string) bool { return !slices.Contains(q.destinations(), d) })
	}
	return all
}

// purgesPart, with the jobs of the outbox, and logPart are the parts that the members
// share.
func (a *groupAttempt) purgesPart() int { return len(a.members) }
func (a *groupAttempt) logPart() int    { return len(a.members) + 1 }

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
	writes := 0
	for _, q := range a.members {
		writes += len(q.items())
	}
	for _, q := range a.members {
		share := float64(len(q.items())) / float64(writes)
		q.done <- answer{receipt: store.Receipt{Seq: a.seen.Seq + 1, WriteUnits: a.transaction.units * share}}
	}
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
			q.end(verdict)
			continue
		}
		again = append(again, q)
	}
	a.group.putBack(again...)
	return a.transaction.refusal(err, a.logPart()).has(onSequence)
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
		endAll(a.members, fmt.Errorf("%w: %w; looking whose change it was: %w", store.ErrUnknownOutcome, cause, err))
	case committed:
		a.committed()
	}
	return err != nil || committed
}

// conflicted handles a transaction that was cancelled for a transient reason. If that is
// SEQ or LOG, which the changes of all processes write, or their partition throttles, all
// changes are sent again together. Otherwise changes whose own items are the reason are
// delayed, so that one hot or throttled item does not hold up the other changes.
func (a *groupAttempt) conflicted(err error) (contended bool) {
	contended = true
	shared := a.transaction.conflicted(err, a.logPart(), nil)
	for i, q := range a.members {
		q.last = err
		if !shared && (a.transaction.conflicted(err, i, nil) || a.transaction.conflicted(err, a.purgesPart(), q.items())) {
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
		endAll(a.members, err)
		return
	}
	for _, q := range a.members {
		q.last, q.alone = err, true
	}
	a.group.putBack(a.members...)
}

// settle finds out whether a transaction without a reply was committed. It advances
// SEQ with an empty log row, unless SEQ has advanced already. After that the
// transaction cannot be committed, and the log shows whether it was. All members get
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
		endAll(a.members, fmt.Errorf("%w: %w; settling it: %w", store.ErrUnknownOutcome, cause, err))
	case committed:
		a.committed()
	default:
		endAll(a.members, cause)
	}
}
