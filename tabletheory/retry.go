package tabletheory

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

// The mean pause between attempts: that of the first, and of the longest, to which
// it doubles.
const (
	firstPause   = 25 * time.Millisecond
	longestPause = 64 * firstPause
)

// tokenLife is how long DynamoDB is sure to remember a client request token; a
// little is left for the request to arrive.
const tokenLife = 9 * time.Minute

// pausedAfter waits before the attempt after this one, the first of which is 1, and
// says whether there is still a caller to make it for.
func pausedAfter(ctx context.Context, attempt int) bool {
	mean := backoff.Exponential(firstPause, longestPause, attempt-1)
	return backoff.Wait(ctx, backoff.Jitter(mean, rand.Uint64())) == nil
}

// repeat makes a transaction's call, and again while its answer is that of
// something that passes: a cancellation all of whose reasons do, or none that
// can be told. The call must be one that DynamoDB carries out once, however
// often it arrives: a read, or a write with a token.
func (m *mapper) repeat(ctx context.Context, call func() error) error {
	started := time.Now()
	for attempt := 1; ; attempt++ {
		err := call()
		if !isWorthRepeating(err) || attempt > m.retries || time.Since(started) >= tokenLife || !pausedAfter(ctx, attempt) {
			return err
		}
	}
}
