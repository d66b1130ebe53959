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
// this one has not happened and cannot happen any more.
type groupAttempt struct {
	group   *groupCommit
	members []*queuedChange
	seen    seenSequence // from which it advances
	id      string       // in the log, which tells whether it happened
	request *request     // its parts are those of the members, in order, and what is written on SEQ and LOG
}

// newGroupAttempt has the changes state what they write after the seen sequence.
// Those that cannot, and those whose callers have left, are answered.
func newGroupAttempt(ctx context.Context, g *groupCommit, batch []*queuedChange, seen seenSequence) *groupAttempt {
	a := &groupAttempt{group: g, seen: seen, id: rand.Text()}
	var parts [][]action
	var targets []logTarget
	for _, q := range batch {
		if q.waiting.Err() != nil {
			q.done <- q.overdue()
			continue
		}
		writes, told, err := q.write(ctx, seen.Seq+1)
		if err != nil {
			q.done <- err
			continue
		}
		parts, targets = append(parts, writes), append(targets, told...)
		a.members = append(a.members, q)
	}
	a.request = g.store.newRequest(append(parts, g.store.advance(seen, a.id, targets))...)
	return a
}

// carryOut sends the transaction and deals with the answer. It reports whether SEQ
// has moved, or is being moved.
//
// If we crash before it is answered, it happens as a whole or not at all.
func (a *groupAttempt) carryOut(ctx context.Context) (contended bool) {
	err, lost := a.send(ctx)
	outcome := tabletheory.OutcomeOf(err)
	switch {
	case outcome == tabletheory.Applied:
		a.happened()
		return false
	case outcome == tabletheory.ConditionFailed:
		return a.refused(ctx, err, lost)
	case lost:
		a.settle(ctx, err)
		return false
	case outcome == tabletheory.Cancelled:
		return a.conflicted(err)
	}
	a.split(err)
	return false
}

// send sends the request until it is answered, for as long as ctx lasts and DynamoDB
// knows the token. lost reports that an answer was missing: from then on a definite
// one is that to a repetition, and a cancellation is not the end, since the first
// one may still be under way.
func (a *groupAttempt) send(ctx context.Context) (err error, lost bool) {
	s := a.group.store
	for attempt := 1; ; attempt++ {
		err = s.call(ctx, a.request.send)
		switch tabletheory.OutcomeOf(err) {
		case tabletheory.Applied, tabletheory.ConditionFailed, tabletheory.Refused:
			return err, lost
		case tabletheory.Cancelled:
			if !lost {
				return err, false
			}
		case tabletheory.Unknown:
			lost = true
		}
		if !s.pause(ctx, attempt) || a.request.expired() {
			return err, lost
		}
	}
}

func (a *groupAttempt) happened() {
	g := a.group
	g.mu.Lock()
	g.committed = a.seen.Seq + 1
	g.mu.Unlock()
	answer(a.members, nil)
}

// refused deals with conditions that were false: the changes that they belong to are
// answered, and the others are sent again.
func (a *groupAttempt) refused(ctx context.Context, err error, lost bool) (contended bool) {
	why := make([]refusal, len(a.members))
	suspect := lost
	for i, q := range a.members {
		why[i] = a.request.refusalOf(err, i)
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
	return a.request.refusalOf(err, len(a.members)).of(opSequence)
}

// answered asks the log whether it was an earlier delivery of this very request that
// made conditions false. If so, or if that cannot be told, all members are answered.
func (a *groupAttempt) answered(ctx context.Context, cause error) bool {
	s := a.group.store
	ctx, cancel := settling(ctx, s.config.SettleTimeout)
	defer cancel()
	landed, err := s.passed(ctx, a.seen, a.id)
	switch {
	case err != nil:
		answer(a.members, fmt.Errorf("%w: %w; looking whose change it was: %w", store.ErrUnknownOutcome, cause, err))
	case landed:
		a.happened()
	}
	return err != nil || landed
}

// conflicted deals with a transaction that was cancelled because of something that
// passes. Changes whose own items that is about are delayed, so that one item that
// others write, or that is throttled, does not hold up the other changes. Anything
// else is about SEQ, where all changes of all processes meet.
func (a *groupAttempt) conflicted(err error) (contended bool) {
	contended = true
	for i, q := range a.members {
		q.last = err
		if a.request.passing(err, i) {
			q.notBefore = time.Now().Add(a.group.backoff(q.conflicts))
			q.conflicts++
			contended = false
		}
	}
	a.group.putBack(a.members...)
	return contended
}

// split deals with a transaction that DynamoDB refuses as it is, for something that
// one of the changes has, or because it is too large: each is sent by itself.
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

// settle finds out what became of a request that was not answered. SEQ is advanced,
// with nothing to tell, unless it has moved: from then on the request cannot happen
// any more, and the log says whether it has. All members share the answer.
func (a *groupAttempt) settle(ctx context.Context, cause error) {
	s := a.group.store
	ctx, cancel := settling(ctx, s.config.SettleTimeout)
	defer cancel()
	landed := false
	err := s.skip(ctx, a.seen)
	if err == nil {
		landed, err = s.passed(ctx, a.seen, a.id)
	}
	s.config.Logger.Warn("isr: settled an unanswered write", slog.String("write", "changes of the log"),
		slog.Int("changes", len(a.members)), slog.Int64("seq", a.seen.Seq+1),
		slog.Bool("landed", landed), slog.Any("cause", cause), slog.Any("err", err))
	switch {
	case err != nil:
		answer(a.members, fmt.Errorf("%w: %w; settling it: %w", store.ErrUnknownOutcome, cause, err))
	case landed:
		a.happened()
	default:
		answer(a.members, cause)
	}
}
