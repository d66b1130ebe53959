package isr_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

func TestRequestIsExecutedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		seldom := func(cfg *isr.Config) { cfg.Poll = time.Minute } // a day passes here
		a, b := tb.peer("a", withHistory, site, seldom), tb.peer("b", withHistory, site, seldom)
		request := isr.WithIdempotencyKey("deploy-7")
		first, err := a.Regenerate(t.Context(), page, request)
		if err != nil || first.Replayed {
			t.Fatalf("%+v, %v", first, err)
		}
		a.regenerate(t, 1) // the result is a version now
		for _, p := range []*peer{a, b} {
			again, err := p.Regenerate(t.Context(), page, request)
			if err != nil || !again.Replayed || again.GenerationID != first.GenerationID {
				t.Errorf("%+v, %v, want %s again", again, err, first.GenerationID)
			}
		}
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want 2", n)
		}
		if _, err := b.Regenerate(t.Context(), page, request, isr.WithInputs("other")); !errors.Is(err, store.ErrRequestMismatch) {
			t.Errorf("with other inputs: %v", err)
		}
		if other, err := b.Regenerate(t.Context(), store.Key{Text: "example.com/other"}, request); err != nil || other.Replayed {
			t.Errorf("of another page: %+v, %v", other, err)
		}

		time.Sleep(isr.DefaultRequestLife + time.Second)
		late, err := b.Regenerate(t.Context(), page, request)
		if err != nil || late.Replayed {
			t.Errorf("after its life: %+v, %v", late, err)
		}
	})
}

// A retry does not wait for the request in progress, in this process or another.
func TestRequestInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 25 * time.Second // longer than a lease
		a, b := tb.peer("a", withHistory, site, nil), tb.peer("b", withHistory, site, nil)
		done := make(chan isr.Regeneration)
		go func() {
			r, err := a.Regenerate(context.Background(), page, isr.WithIdempotencyKey("r1"))
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		for range 4 {
			time.Sleep(6 * time.Second)
			for _, p := range []*peer{a, b} {
				began := time.Now()
				_, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r1"))
				var earlier *store.RequestError
				if !errors.As(err, &earlier) || !errors.Is(err, store.ErrRequestInProgress) || !earlier.Record.InProgressUntil.After(time.Now()) || time.Since(began) > 0 {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			}
			var held *store.HeldError
			if _, err := b.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r2")); !errors.As(err, &held) {
				t.Errorf("another request of the page: %v", err)
			}
		}
		first := <-done
		again, err := b.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r1"))
		if err != nil || !again.Replayed || again.GenerationID != first.GenerationID || site.renders.Load() != 1 {
			t.Errorf("%+v, %v after %d renders", again, err, site.renders.Load())
		}
	})
}

// Concurrent calls in one process are one request.
func TestConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", withHistory, site, nil)
		results := make(chan isr.Regeneration, 10)
		for range cap(results) {
			go func() {
				r, err := p.Regenerate(context.Background(), page, isr.WithIdempotencyKey("r"))
				if err != nil && !errors.Is(err, store.ErrRequestInProgress) {
					t.Error(err)
				}
				results <- r
			}()
		}
		rendered := 0
		for range cap(results) {
			if r := <-results; r.GenerationID != "" && !r.Replayed {
				rendered++
			}
		}
		if rendered != 1 || site.renders.Load() != 1 {
			t.Errorf("%d calls rendered, the site did so %d times", rendered, site.renders.Load())
		}
	})
}

// A request that ends without a publish is recorded as failed, and may be repeated at once.
func TestFailedRequestMayBeRetried(t *testing.T) {
	refuse := func(w http.ResponseWriter, _ *http.Request, _ int64) { w.Header().Set("Cache-Control", "private") }
	fail := func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(500) }
	for _, tt := range []struct {
		name    string
		spoil   func(t *testing.T, s *site, p, other *peer)
		failure string
	}{
		{"refused", func(_ *testing.T, s *site, _, _ *peer) { s.answers(refuse) }, "private"},
		{"failed", func(_ *testing.T, s *site, _, _ *peer) { s.answers(fail) }, "status 500"},
		{"overtaken", func(t *testing.T, _ *site, _, other *peer) {
			time.AfterFunc(500*time.Millisecond, func() {
				if _, err := other.Pin(context.Background(), page, time.Second); err != nil {
					t.Error(err)
				}
			})
		}, "changed by another writer"},
		{"pinned under the lease", func(t *testing.T, _ *site, p, other *peer) {
			p.store.acquire = func() {
				if _, err := other.Pin(context.Background(), page, time.Second); err != nil {
					t.Error(err)
				}
			}
		}, "pinned"},
		{"not published", func(_ *testing.T, _ *site, p, _ *peer) {
			p.store.publish = func() error { return errors.New("no answer") }
		}, "no answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				a, b := tb.peer("a", withHistory, site, nil), tb.peer("b", withHistory, site, nil)
				a.regenerate(t, 2)
				tt.spoil(t, site, a, b)
				request := isr.WithIdempotencyKey("r")
				if r, err := a.Regenerate(t.Context(), page, request); err == nil {
					t.Fatalf("succeeded: %+v", r)
				}
				rec, found, err := a.store.RequestRecord(t.Context(), store.HashedPartition(page), "r")
				if err != nil || !found || rec.State != store.RequestFailed || !strings.Contains(rec.Failure, tt.failure) {
					t.Errorf("recorded: %+v, %v", rec, err)
				}
				site.answers(cacheable)
				a.store.publish, a.store.acquire = nil, nil
				time.Sleep(5 * time.Second) // the back-off, and the pin
				if r, err := b.Regenerate(t.Context(), page, request); err != nil || r.Replayed {
					t.Errorf("again: %+v, %v", r, err)
				}
			})
		})
	}
}

// A server that stops records that in the request record.
func TestRequestOfAStoppingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = time.Minute
		p := tb.peer("a", withHistory, site, func(cfg *isr.Config) { cfg.RenderTimeout = time.Hour })
		ended := make(chan error)
		go func() {
			_, err := p.Regenerate(context.Background(), page, isr.WithIdempotencyKey("r"))
			ended <- err
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Close(ctx); err == nil {
			t.Error("Close did not cut the render off")
		}
		if err := <-ended; !errors.Is(err, isr.ErrClosed) {
			t.Errorf("Regenerate: %v", err)
		}
		rec, _, err := p.store.RequestRecord(t.Context(), store.HashedPartition(page), "r")
		if err != nil || rec.State != store.RequestFailed {
			t.Errorf("recorded: %+v, %v", rec, err)
		}
	})
}

// The request of a crashed server is in progress until its lease would have expired; then
// another server takes it over.
func TestRequestOfACrashedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", withHistory, site, nil)
		hash, err := store.HashInputs(map[string]string{"tenant": "", "key": page.Text, "route": "site"})
		if err != nil {
			t.Fatal(err)
		}
		claim := &store.Claim{Key: "r", Hash: hash, Keep: time.Hour}
		if _, err := tb.store("dead").Acquire(t.Context(), store.HashedPartition(page), 10*time.Second, claim); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r")); !errors.Is(err, store.ErrRequestInProgress) {
			t.Errorf("at once: %v", err)
		}
		time.Sleep(12 * time.Second)
		if r, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r")); err != nil || r.Replayed {
			t.Errorf("after its lease: %+v, %v", r, err)
		}
	})
}

func TestResultGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", isr.Route{Name: "site"}, site, nil) // no history
		if _, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r")); err != nil {
			t.Fatal(err)
		}
		p.regenerate(t, 1)
		_, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r"))
		if !errors.Is(err, store.ErrResultGone) || !errors.Is(err, store.ErrRequestCompleted) {
			t.Errorf("%v", err)
		}
	})
}

func TestRequestKeys(t *testing.T) {
	tb := newTable(t)
	p := tb.peer("a", withHistory, newSite(), nil)
	for _, key := range []string{"", "a b", "ü", "a\n", "\x7f", strings.Repeat("x", 257)} {
		if _, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey(key)); !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("%.20q: %v", key, err)
		}
	}
	if err := store.ValidRequestKey(strings.Repeat("~", 256)); err != nil {
		t.Error(err)
	}
}
