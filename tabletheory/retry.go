package tabletheory

import (
	"context"
	"math/rand/v2"
	"time"
)

// firstPause is the mean of the first pause between attempts; each next one is
// twice as long, up to 64 times.
const firstPause = 25 * time.Millisecond

// tokenLife is how long DynamoDB is sure to remember a client request token; a
// little is left for the request to arrive.
const tokenLife = 9 * time.Minute

// pause waits before the attempt after this one, the first of which is 1, and
// says whether there is still a caller to make it for. The jitter keeps callers
// apart who failed together.
func pause(ctx context.Context, attempt int) bool {
	mean := firstPause << min(attempt-1, 6)
	timer := time.NewTimer(mean/2 + rand.N(mean))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}

// repeat makes a transaction's call, and again while its answer is that of
// something that passes: a cancellation all of whose reasons do, or none that
// can be told. The call must be one that DynamoDB carries out once, however
// often it arrives: a read, or a write with a token.
func (m *mapper) repeat(ctx context.Context, call func() error) error {
	started := time.Now()
	for attempt := 1; ; attempt++ {
		err := call()
		if !isWorthRepeating(err) || attempt > m.retries || time.Since(started) >= tokenLife || !pause(ctx, attempt) {
			return err
		}
	}
}
