package tabletheory

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

// The mean backoff: the first, and the bound of its exponential growth.
const (
	firstPause   = 25 * time.Millisecond
	longestPause = 64 * firstPause
)

// TokenLife is how long a request may be retried under one client request token.
// DynamoDB remembers tokens for ten minutes; the rest is a margin for a request that
// arrives late and for clocks that run at different speeds.
const TokenLife = 8 * time.Minute

// waitAfter waits for the exponential backoff, with jitter, after an attempt,
// counted from 1. It reports whether the context is still alive.
func waitAfter(ctx context.Context, attempt int) bool {
	mean := backoff.Exponential(firstPause, longestPause, attempt-1)
	return backoff.Wait(ctx, backoff.Jitter(mean, rand.Uint64())) == nil
}

// retry calls call until it succeeds, fails permanently or the retries are used
// up: see isRetryable. The call must be idempotent: a read, or a write with a
// token.
func (m *mapper) retry(ctx context.Context, call func() error) error {
	started := time.Now()
	for attempt := 1; ; attempt++ {
		err := call()
		if !isRetryable(err) || attempt > m.retries || time.Since(started) >= TokenLife || !waitAfter(ctx, attempt) {
			return err
		}
	}
}
