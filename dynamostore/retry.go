package dynamostore

import (
	"context"
	"errors"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/tabletheory"
)

// maxAttempts bounds how often an ordinary call is made. The SDK's own retries
// come on top, within each.
const maxAttempts = 4

// call makes one call of the API, for at most CallTimeout.
func (s *Store) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.CallTimeout)
	defer cancel()
	return do(ctx)
}

// try makes a call that may be repeated without harm until its answer is
// definite: a few times at most, and not once CallTimeout has passed, so that a
// database that hangs holds nobody for longer than twice that.
func (s *Store) try(ctx context.Context, do func(context.Context) error) error {
	return s.repeat(ctx, true, do)
}

// repeat is try, or, unbounded, leaves the end to the context.
func (s *Store) repeat(ctx context.Context, bounded bool, do func(context.Context) error) error {
	started := time.Now()
	for attempt := 1; ; attempt++ {
		err := s.call(ctx, do)
		switch tabletheory.OutcomeOf(err) {
		case tabletheory.Applied, tabletheory.ConditionFailed, tabletheory.Refused:
			return err
		case tabletheory.Cancelled, tabletheory.Unknown:
		}
		if bounded && s.spent(attempt, started) || errors.Is(err, errForgotten) || !s.pause(ctx, attempt) {
			return err
		}
	}
}

// spent says that an ordinary operation has been tried often or long enough.
func (s *Store) spent(attempt int, started time.Time) bool {
	return attempt >= maxAttempts || time.Since(started) >= s.config.CallTimeout
}

// longestPause is the mean of the longest pause, in pauses of RetryDelay.
const longestPause = 32

// pause waits before the attempt after this one, the first of which is 1, and says
// whether there is still a caller to make it for.
func (s *Store) pause(ctx context.Context, attempt int) bool {
	mean := backoff.Exponential(s.config.RetryDelay, longestPause*s.config.RetryDelay, attempt-1)
	return backoff.Wait(ctx, backoff.Jitter(mean, s.config.Random())) == nil
}

// settling is the context of work that finds out what became of a write. It
// outlives the caller's: a caller who went away while a reply was on its way
// must not leave a lease behind, nor be told less than is the case. It is
// bounded on its own instead.
func settling(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), within)
}
