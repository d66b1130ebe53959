package pause_test

import (
	"context"
	"errors"
	"math"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/facetheory/isr/internal/pause"
)

func TestFor(t *testing.T) {
	cause := errors.New("closing")
	for name, test := range map[string]struct {
		d     time.Duration
		ends  time.Duration // when the context does; negative: it has, 0: it does not
		waits time.Duration
		want  error
	}{
		"to its end":             {time.Minute, 0, time.Minute, nil},
		"until the context ends": {time.Minute, time.Second, time.Second, cause},
		"too late":               {time.Second, -1, 0, cause},
		"no time":                {0, 0, 0, nil},
		"less than none":         {-time.Hour, 0, 0, nil},
		"no time, and too late":  {0, -1, 0, cause},
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
			if err := pause.For(ctx, test.d); !errors.Is(err, test.want) {
				t.Errorf("%s: %v, want %v", name, err, test.want)
			}
			if waited := time.Since(began); waited != test.waits {
				t.Errorf("%s: waited for %v, want %v", name, waited, test.waits)
			}
		})
	}
}

func TestJitter(t *testing.T) {
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
		if got := pause.Jitter(test.mean, test.random); got != test.want {
			t.Errorf("Jitter(%v, %x) is %v, want %v", test.mean, test.random, got, test.want)
		}
	}
}

func TestFull(t *testing.T) {
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
		if got := pause.Full(test.bound, test.random); got != test.want {
			t.Errorf("Full(%v, %x) is %v, want %v", test.bound, test.random, got, test.want)
		}
	}
}

func TestDoubled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "first"))
		longest := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "longest"))
		times := rapid.IntRange(0, 100).Draw(t, "times")
		want := new(big.Int).Lsh(big.NewInt(int64(first)), uint(times))
		if bound := big.NewInt(int64(longest)); want.Cmp(bound) > 0 {
			want = bound
		}
		if got := pause.Doubled(first, longest, times); want.Cmp(big.NewInt(int64(got))) != 0 {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}
