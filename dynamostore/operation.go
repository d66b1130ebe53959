package dynamostore

import (
	"context"
	"errors"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/tabletheory"
)

// An operation is a call of the API, mostly a write, as [Store.execute] drives it:
// attempt, classify the reply, settle what stays unknown. Operations differ only in
// these fields:
//
//	              prepare          refused means                settle
//	acquire       -                held, or ours already        delete LOCK by its token
//	claim         read both rows   held, ours, or read again    delete LOCK, fail the request record
//	publish       read SEQ         lost, moved, or committed    delete LOCK, then read META
//	group commit  -                per member, see judge        advance SEQ, then read LOG#
//	break lease   -                moved                        -
//	refresh       -                lost                         -
//	release       -                gone already                 -
//	quarantine    -                lost                         -
//	  drop        -                another generation, or none  -
//
// Rollbacks and pins are members of a group commit. Where settle is nil, the caller
// gets the error, which leaves the outcome open.
type operation struct {
	// prepare states the next attempt: the first one, and one after each attempt that
	// was definitely not executed. done ends the operation with success, and nothing is
	// sent. nil: all attempts are the same.
	prepare func(ctx context.Context) (done bool, err error)

	// send makes one attempt. After a lost reply it is repeated unchanged, so it must be
	// idempotent.
	send func(ctx context.Context) error

	// classify returns what a reply proves about the attempt. nil: [tabletheory.OutcomeOf].
	classify func(error) tabletheory.Outcome

	// refused classifies the failed conditions of the latest attempt into the error of
	// the operation, nil for success. With retry the operation goes on with another
	// attempt; the error is its result if no attempt is left. nil: err is the result.
	refused func(ctx context.Context, err error, p progress) (retry bool, result error)

	// final: an attempt that was definitely cancelled ends the operation.
	final bool

	// bounded ends the operation after maxAttempts attempts, or once CallTimeout has
	// passed. Otherwise only the context ends it, and expired.
	bounded bool

	// expired reports, after each pause, whether no attempt may follow. repetition tells
	// that it would be the latest one, unchanged. nil: never.
	expired func(repetition bool) bool

	// settle returns the result after the attempts have ended without one. cause is the
	// error of the latest. It is not called if the first attempt had a definite reply.
	// nil: cause is the result.
	settle func(ctx context.Context, cause error, p progress) error
}

// progress is the state of an operation.
type progress struct {
	started  time.Time // on the monotonic clock
	attempts int       // including the latest
	// lost: a reply is missing. The attempt may have been executed, or may still be.
	lost bool
}

// first reports whether no attempt came before the latest.
func (p progress) first() bool { return p.attempts == 1 }

// execute sends attempts until one has a definite reply, with exponential backoff and
// jitter between them, and settles the operation if none has.
func (s *Store) execute(ctx context.Context, op operation) error {
	p := progress{started: time.Now()}
	for repetition := false; ; {
		p.attempts++
		if op.prepare != nil && !repetition {
			if done, err := op.prepare(ctx); done {
				return nil
			} else if err != nil {
				return op.end(ctx, err, p, p.first())
			}
		}
		err := s.call(ctx, op.send)
		outcome := op.outcome(err)
		switch outcome {
		case tabletheory.Applied:
			return nil // Crashing here loses nothing: all rows are as they should be.
		case tabletheory.ConditionFailed:
			var retry bool
			if retry, err = op.classifyRefusal(ctx, err, p); !retry {
				return err
			}
		case tabletheory.Refused:
			return op.end(ctx, err, p, p.first())
		case tabletheory.Cancelled:
			if op.final && !p.lost {
				return err
			}
		case tabletheory.Unknown:
			p.lost = true
		}
		repetition = outcome == tabletheory.Unknown
		if s.exhausted(op, err, p) || !s.pause(ctx, p.attempts) || op.expired != nil && op.expired(repetition) {
			return op.end(ctx, err, p, false)
		}
	}
}

func (op operation) outcome(err error) tabletheory.Outcome {
	if op.classify != nil {
		return op.classify(err)
	}
	return tabletheory.OutcomeOf(err)
}

func (op operation) classifyRefusal(ctx context.Context, err error, p progress) (retry bool, result error) {
	if op.refused == nil {
		return false, err
	}
	return op.refused(ctx, err, p)
}

// end returns the result after the last attempt. settled: nothing is left to settle.
func (op operation) end(ctx context.Context, cause error, p progress, settled bool) error {
	if settled || op.settle == nil {
		return cause
	}
	return op.settle(ctx, cause, p)
}

// ignoreRefusal is for operations whose goal is reached when their condition fails.
func ignoreRefusal(context.Context, error, progress) (retry bool, result error) { return false, nil }

// maxAttempts bounds the attempts of a bounded operation. The SDK's own retries
// come on top, within each.
const maxAttempts = 4

// exhausted reports whether a bounded operation has used its attempts or its time, or
// a repetition is useless because DynamoDB may have forgotten the client token.
func (s *Store) exhausted(op operation, err error, p progress) bool {
	return errors.Is(err, errTokenExpired) ||
		op.bounded && (p.attempts >= maxAttempts || time.Since(p.started) >= s.config.CallTimeout)
}

// call makes one call of the API, for at most CallTimeout.
func (s *Store) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.CallTimeout)
	defer cancel()
	return do(ctx)
}

// try repeats an idempotent call until its reply is definite, at most maxAttempts
// times and not after CallTimeout, so that a database that hangs delays the caller by
// at most twice CallTimeout.
func (s *Store) try(ctx context.Context, do func(context.Context) error) error {
	return s.execute(ctx, operation{bounded: true, send: do})
}

// longestPause is the mean of the longest pause, in units of RetryDelay.
const longestPause = 32

// pause waits before the attempt after this one, the first of which is 1. It reports
// false if ctx ended during the wait.
func (s *Store) pause(ctx context.Context, attempt int) bool {
	mean := backoff.Exponential(s.config.RetryDelay, longestPause*s.config.RetryDelay, attempt-1)
	return backoff.Wait(ctx, backoff.Jitter(mean, s.config.Random())) == nil
}

// settling returns the context in which the outcome of a write is found out. It
// outlives ctx, because a caller that cancels while a reply is on its way must neither
// leave a lease behind nor miss the outcome. It ends after the timeout instead.
func settling(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), timeout)
}
