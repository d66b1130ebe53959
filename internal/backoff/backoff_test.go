package backoff_test

import (
	"context"
	"errors"
	"math"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/facetheory/isr/internal/backoff"
)

func TestWait(t *testing.T) {
	t.Parallel()
	cause := errors.New("closing")
	for name, test := range map[string]struct {
		d     time.Duration
		ends  time.Duration // when the context is done; negative: before the call, 0: never
		waits time.Duration
		want  error
	}{
		"full delay":                  {time.Minute, 0, time.Minute, nil},
		"canceled while waiting":      {time.Minute, time.Second, time.Second, cause},
		"canceled before":             {time.Second, -1, 0, cause},
		"zero delay":                  {0, 0, 0, nil},
		"negative delay":              {-time.Hour, 0, 0, nil},
		"zero delay, canceled before": {0, -1, 0, cause},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			switch {
			case test.ends > 0:
				time.AfterFunc(test.ends, func() { end(cause) })
			case test.ends < 0:
				end(cause)
			}
			began := time.Now()
			if err := backoff.Wait(ctx, test.d); !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", name, err, test.want)
			}
			if waited := time.Since(began); waited != test.waits {
				t.Errorf("%s: waited for %v, want %v", name, waited, test.waits)
			}
		})
	}
}

func TestJitter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		mean   time.Duration
		random uint64
		want   time.Duration
	}{
		{time.Second, 0, 500 * time.Millisecond},
		{time.Second, 1 << 63, time.Second},
		{time.Second, math.MaxUint64, 1500*time.Millisecond - 1},
		{1, math.MaxUint64, 0},
		{0, math.MaxUint64, 0},
		{-time.Second, math.MaxUint64, 0},
	} {
		if got := backoff.Jitter(test.mean, test.random); got != test.want {
			t.Errorf("Jitter(%v, %x) = %v, want %v", test.mean, test.random, got, test.want)
		}
	}
}

func TestFullJitter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		bound  time.Duration
		random uint64
		want   time.Duration
	}{
		{time.Second, 0, 0},
		{time.Second, 1 << 63, 500 * time.Millisecond},
		{time.Second, math.MaxUint64, time.Second - 1},
		{1, math.MaxUint64, 0},
		{0, math.MaxUint64, 0},
		{-time.Second, math.MaxUint64, 0},
	} {
		if got := backoff.FullJitter(test.bound, test.random); got != test.want {
			t.Errorf("FullJitter(%v, %x) = %v, want %v", test.bound, test.random, got, test.want)
		}
	}
}

func TestExponential(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "base"))
		maximum := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "maximum"))
		retries := rapid.IntRange(0, 100).Draw(t, "retries")
		want := new(big.Int).Lsh(big.NewInt(int64(base)), uint(retries))
		if bound := big.NewInt(int64(maximum)); want.Cmp(bound) > 0 {
			want = bound
		}
		if got := backoff.Exponential(base, maximum, retries); want.Cmp(big.NewInt(int64(got))) != 0 {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}
