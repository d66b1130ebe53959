// Package pause is how this module waits between two attempts at something, or
// between two looks at it.
//
// Attempts that failed together would fail together again, all at the same moments,
// and so would looks that began together ask together. So every pause is drawn at
// random, around a mean that doubles from one attempt to the next.
//
//	             Doubled            Jitter              For
//	attempt ──────────────► mean ──────────────► d ──────────► the next, or the
//	         up to a bound       half to one and a              end of the caller
//	                             half of it
//
// Randomness is handed in, so that simulations can decide it. All functions are
// safe for concurrent use.
package pause

import (
	"context"
	"math/bits"
	"time"
)

// For waits for d, and not at all if d is not positive. If ctx ends first, or has
// ended by then, the error is its cause: after a nil error there is still a caller.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	// Of two that are ready select takes either; an ended context is the answer.
	return context.Cause(ctx)
}

// Full is a part of bound, less than the whole, that random decides: 64 random bits.
// It is "full jitter", for attempts that hinder each other. A bound that is not
// positive is 0.
func Full(bound time.Duration, random uint64) time.Duration {
	if bound <= 0 {
		return 0
	}
	part, _ := bits.Mul64(random, uint64(bound))
	return time.Duration(part)
}

// Jitter is mean/2 plus a part of mean, less than the whole, that random decides:
// 64 random bits. A mean that is not positive is 0.
func Jitter(mean time.Duration, random uint64) time.Duration {
	if mean <= 0 {
		return 0
	}
	return mean/2 + Full(mean, random)
}

// Doubled is first, doubled so many times, but no more than longest. times must not
// be negative.
func Doubled(first, longest time.Duration, times int) time.Duration {
	if first > longest>>times {
		return longest
	}
	return first << times
}
