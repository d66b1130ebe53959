package dynamostore

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/tabletheory"
)

// A change is a transaction that moves META, and what its answers mean. What a
// change demands does not come back once it is false: a version of META, a lease
// token, a purge sequence. So a request that was refused can never happen later.
type change interface {
	// name is what it is, for the log.
	name() []any
	// request states the transaction anew.
	request() *request
	// running says whether it may be sent once more.
	running() bool
	// judge says what the false conditions mean: again, that another request may
	// get through; a nil error, that an earlier one is what made them false.
	judge(ctx context.Context, why refusal) (again bool, err error)
	// preclude sees to it that no request which was sent can happen any more. It
	// returns what to tell the caller, made of cause, if none has.
	preclude(ctx context.Context, cause error) (answer, err error)
	// landed says whether one of the requests was carried out. It is asked once
	// none can be any more.
	landed(ctx context.Context, sent []*request) (bool, error)
}

// tokenLife is how long a request is repeated under one ClientRequestToken:
// DynamoDB remembers tokens for ten minutes.
const tokenLife = 8 * time.Minute

// carryOut sends a change until it has an answer. Without one the request is
// repeated as it is, under its token; after a definite cancellation there is a
// new one.
func (s *Store) carryOut(ctx context.Context, c change) error {
	if err := ctx.Err(); err != nil {
		return err // nothing was sent, nothing needs to be settled
	}
	started := time.Now()
	sent := []*request{c.request()}
	for attempt := 1; ; attempt++ {
		latest := sent[len(sent)-1]
		err := s.call(ctx, latest.send)
		outcome := tabletheory.OutcomeOf(err)
		switch outcome {
		case tabletheory.Applied:
			// Crashing here loses nothing: all rows are as they should be.
			return nil
		case tabletheory.ConditionFailed:
			again, answer := s.refused(ctx, c, sent, err, attempt == 1)
			if !again {
				return answer
			}
		case tabletheory.Refused:
			if attempt == 1 {
				return err
			}
			return s.settle(ctx, c, sent, err)
		case tabletheory.Cancelled, tabletheory.Unknown:
		}
		if !s.pause(ctx, attempt) || !c.running() || time.Since(started) > tokenLife {
			return s.settle(ctx, c, sent, err)
		}
		if outcome != tabletheory.Unknown {
			sent = append(sent, c.request())
		}
	}
}

// refused is the answer to a change whose conditions were false: nil if that is
// so because it had already been carried out. first says that nothing was sent
// before.
func (s *Store) refused(ctx context.Context, c change, sent []*request, err error, first bool) (again bool, answer error) {
	why := sent[len(sent)-1].refusal(err)
	if len(why) == 0 {
		return false, err
	}
	// The rows are asked, whether the caller is still there or not.
	ctx, cancel := settling(ctx, s.config.SettleTimeout)
	defer cancel()
	again, answer = c.judge(ctx, why)
	if again || answer == nil || first {
		return again, answer
	}
	// An earlier request may be what made the conditions false.
	landed, err := c.landed(ctx, sent)
	switch {
	case err != nil:
		return false, fmt.Errorf("%w: %w; looking what became of it: %w", isr.ErrUnknownOutcome, answer, err)
	case landed:
		return false, nil
	}
	return false, answer
}

// settle finds out what became of requests that were not answered, whether the
// caller is still there or not: they are made impossible, and then the rows tell
// whether one of them had happened.
//
// If we crash before that, the transaction lands whole or not at all.
func (s *Store) settle(ctx context.Context, c change, sent []*request, cause error) error {
	ctx, cancel := settling(ctx, s.config.SettleTimeout)
	defer cancel()
	landed := false
	answer, err := c.preclude(ctx, cause)
	if err == nil {
		landed, err = c.landed(ctx, sent)
	}
	s.config.Logger.With(c.name()...).Warn("isr: settled an unanswered write",
		slog.Bool("landed", landed), slog.Any("cause", cause), slog.Any("err", err))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w; settling it: %w", isr.ErrUnknownOutcome, cause, err)
	case landed:
		return nil
	}
	return answer
}
