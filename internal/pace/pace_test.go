package pace_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/pace"
)

// work does steps of 100 µs and returns how long they took.
func work(p *pace.Pacer, steps int) time.Duration {
	began := time.Now()
	for range steps {
		time.Sleep(100 * time.Microsecond) // the work
		p.Step()
	}
	return time.Since(began)
}

// Background work takes half of the time while there are requests, and nearly all of it without.
func TestStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		p := pace.New(requests.Load)
		p.Step()
		if got := work(p, 10_000); got != 1100*time.Millisecond {
			t.Errorf("a second of work without requests took %s", got)
		}
		requests.Add(1)
		if got := work(p, 4000); got != 800*time.Millisecond {
			t.Errorf("0.4 s of work while there are requests took %s", got)
		}
		time.Sleep(time.Second)
		p.Step()
		if got := work(p, 1000); got != 110*time.Millisecond {
			t.Errorf("0.1 s of work after the requests took %s", got)
		}
		var none *pace.Pacer
		if got := work(none, 1000); got != 100*time.Millisecond {
			t.Errorf("0.1 s of work without a pacer took %s", got)
		}
	})
}

// All work pauses at the same time: more goroutines do not get more of it.
func TestStepTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		p := pace.New(func() int64 { return requests.Add(1) })
		p.Step()
		began := time.Now()
		var working sync.WaitGroup
		for range 8 {
			working.Go(func() { work(p, 1000) })
		}
		working.Wait()
		if got := time.Since(began); got < 190*time.Millisecond || got > 230*time.Millisecond {
			t.Errorf("0.1 s of work in eight goroutines took %s, want twice that", got)
		}
	})
}
