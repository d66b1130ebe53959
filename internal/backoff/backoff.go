// Package backoff computes the delays between retries and between polls: exponential
// backoff with jitter.
//
// Clients that failed together would retry together, and polls that started together
// would poll together. Jitter spreads them: each delay is drawn at random around a
// mean that doubles with each retry.
//
//	retry n ──Exponential──► mean ──Jitter──► delay ──Wait──► retry n+1
//	            up to max          mean/2 to 3/2 mean         or the context is done
//
// Callers pass in the random bits, so that simulations are reproducible. All
// functions are safe for concurrent use.
package backoff

import (
	"context"
	"math/bits"
	"time"
)

// Wait blocks for d or until ctx is done. It returns context.Cause(ctx) if ctx is
// done by then, even if d has passed, so a nil error means the caller still wants the
// result. A d of 0 or less does not block.
func Wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	// If both are ready, select picks one at random; a done context must win.
	return context.Cause(ctx)
}

// FullJitter returns a duration in [0, bound), chosen by 64 random bits ("full
// jitter"). It suits attempts that conflict with each other. It returns 0 if bound is
// 0 or less.
func FullJitter(bound time.Duration, random uint64) time.Duration {
	if bound <= 0 {
		return 0
	}
	part, _ := bits.Mul64(random, uint64(bound))
	return time.Duration(part)
}

// Jitter returns a duration in [mean/2, mean/2+mean), chosen by 64 random bits. It
// returns 0 if mean is 0 or less.
func Jitter(mean time.Duration, random uint64) time.Duration {
	if mean <= 0 {
		return 0
	}
	return mean/2 + FullJitter(mean, random)
}

// Exponential returns the exponential backoff base<<retries, capped at maximum.
// retries must not be negative.
func Exponential(base, maximum time.Duration, retries int) time.Duration {
	if base > maximum>>retries {
		return maximum
	}
	return base << retries
}
