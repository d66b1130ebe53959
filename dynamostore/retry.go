package dynamostore

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// maxAttempts bounds how often an ordinary call is made. The SDK's own
	// retries come on top, within each.
	maxAttempts = 4
	// noLimit leaves the bound to the context.
	noLimit = 0
)

// call makes one call of the API, for at most CallTimeout.
func (s *Store) call(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.CallTimeout)
	defer cancel()
	return do(ctx)
}

// try makes a call that may be repeated without harm until its answer is
// definite, a few times at most.
func (s *Store) try(ctx context.Context, do func(context.Context) error) error {
	return s.repeat(ctx, maxAttempts, do)
}

// repeat is try with a limit of its own.
func (s *Store) repeat(ctx context.Context, limit int, do func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := s.call(ctx, do)
		switch classify(err) {
		case applied, conditionFailed, refused:
			return err
		case cancelled, unknown:
		}
		if attempt == limit || !s.pause(ctx, attempt) {
			return err
		}
	}
}

// pause waits before the attempt after this one, and says whether there is still
// a caller to make it for. The jitter keeps callers who failed together apart.
func (s *Store) pause(ctx context.Context, attempt int) bool {
	mean := s.config.RetryDelay << min(attempt-1, 5)
	timer := time.NewTimer(mean/2 + rand.N(mean))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// settling is the context of work that finds out what became of a write. It
// outlives the caller's: a caller who went away while a reply was on its way
// must not leave a lease behind, nor be told less than is the case. It is
// bounded by SettleTimeout instead.
func (s *Store) settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.config.SettleTimeout)
}
