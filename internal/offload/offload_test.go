package offload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/store"
)

// newSender returns a sender, and the results that it has reported.
func newSender(send func(context.Context, Page) error) (s *Sender, results map[string]int) {
	results = make(map[string]int)
	var mu sync.Mutex
	return New(Options{
		Send: send, Log: slog.New(slog.DiscardHandler),
		Jitter: func(d time.Duration) time.Duration { return d },
		Sent: func(result string) {
			mu.Lock()
			defer mu.Unlock()
			results[result]++
		},
	}), results
}

func numbered(n int) Page { return Page{Key: store.Key{Text: fmt.Sprint("/", n)}, Generation: "g"} }

// A sender remembers maxSent pages; those that may be sent again make room.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, results := newSender(func(context.Context, Page) error { return nil })
		for n := range maxSent {
			if err := s.Send(t.Context(), numbered(n)); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Send(t.Context(), numbered(maxSent)); !errors.Is(err, errManySent) {
			t.Errorf("one page too many: %v", err)
		}
		if err := s.Send(t.Context(), numbered(0)); err != nil || results["sent"] != maxSent || results["pending"] != 1 || results["failed"] != 1 {
			t.Errorf("sent again at once: %v, %v", err, results)
		}
		time.Sleep(firstResend)
		if err := s.Send(t.Context(), numbered(maxSent)); err != nil || len(s.sent) != 1 {
			t.Errorf("after %v: %v, %d pages are remembered", firstResend, err, len(s.sent))
		}
	})
}

// At most maxSending pages are sent at once, and no call takes longer than sendTime.
func TestCallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sending, most := 0, 0
		s, results := newSender(func(ctx context.Context, _ Page) error {
			mu.Lock()
			sending++
			most = max(most, sending)
			mu.Unlock()
			<-ctx.Done()
			mu.Lock()
			sending--
			mu.Unlock()
			return context.Cause(ctx)
		})
		began := time.Now()
		var wg sync.WaitGroup
		for n := range 2 * maxSending {
			wg.Go(func() {
				if err := s.Send(t.Context(), numbered(n)); !errors.Is(err, errQueueSlow) {
					t.Errorf("a queue that hangs: %v", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); most != maxSending || took != sendTime || !s.Down() || results["failed"] != 2*maxSending || len(s.sent) != 0 {
			t.Errorf("%d calls at once, for %v, down %v, results %v, %d pages are remembered", most, took, s.Down(), results, len(s.sent))
		}
	})
}
