package isr_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A pageQueue is a queue in memory.
type pageQueue struct {
	mu    sync.Mutex
	sent  []isr.StalePage // guarded by mu
	asked int             // guarded by mu
	fail  error           // guarded by mu
	hangs bool            // guarded by mu
}

func (q *pageQueue) Send(ctx context.Context, p isr.StalePage) error {
	q.mu.Lock()
	q.asked++
	fail, hangs := q.fail, q.hangs
	if fail == nil && !hangs {
		q.sent = append(q.sent, p)
	}
	q.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return fail
}

func (q *pageQueue) all() []isr.StalePage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]isr.StalePage(nil), q.sent...)
}

func (q *pageQueue) set(fail error, hangs bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.fail, q.hangs = fail, hangs
}

var named = isr.Route{Name: "site"}

// to returns a change of a configuration that sends stale pages to a queue.
func to(q isr.Queue) func(*isr.Config) { return func(cfg *isr.Config) { cfg.Queue = q } }

// A stale page goes to the queue once per process, is served until it is regenerated, and the new generation of
// the worker is found soon. A missing page is rendered at once.
func TestStalePagesGoToTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, q := newTable(t), newSite(), new(pageQueue)
		a, b, worker := tb.peer("a", named, site, to(q)), tb.peer("b", named, site, to(q)), tb.peer("worker", named, site, nil)
		expect(t, get(a, "/"), "/ rendered 1", "isr; fwd=miss")
		get(b, "/")
		time.Sleep(61 * time.Second)
		for range 20 {
			for _, p := range []*peer{a, b} {
				expectStale(t, get(p, "/"), "stale")
			}
			time.Sleep(500 * time.Millisecond)
		}
		sent := q.all()
		if len(sent) != 2 || site.renders.Load() != 1 {
			t.Fatalf("sent %+v, %d renders; want one message of each process and no render", sent, site.renders.Load())
		}
		if p := sent[0]; p != sent[1] || p.Key != page || p.Generation == "" || p.Reason != "stale" || p.Attempt != 1 || p.PurgeSeq != 0 {
			t.Errorf("sent %+v", sent)
		}
		expectExplained(t, a, "/", "sent to the queue of regenerations")
		expectExplained(t, worker, "/", "regenerated in the background")
		if r, err := worker.Regenerate(t.Context(), page, isr.WithUnlessFresh(), isr.WithIdempotencyKey("m1")); err != nil || r.Fresh || r.Replayed {
			t.Fatalf("%+v, %v", r, err)
		}
		get(a, "/")
		time.Sleep(2 * time.Second)
		get(a, "/")
		time.Sleep(time.Second)
		expect(t, get(a, "/"), "/ rendered 2", "isr; hit")
	})
}

// expectExplained checks that a process, of a request for a stale page, says who regenerates it.
func expectExplained(t *testing.T, p *peer, path, want string) {
	t.Helper()
	d := p.Handler.(isr.Explainer).Explain(httptest.NewRequest(http.MethodGet, "http://example.com"+path, nil), false)
	if d.Verdict != isr.VerdictStale || !slices.ContainsFunc(d.Reasons, func(r isr.Reason) bool { return strings.Contains(r.Text, want) }) {
		t.Errorf("%s: %+v; want a reason with %q", d.Verdict, d.Reasons, want)
	}
}

// A page that its origin renews keeps its generation. Each time it is stale it is another request.
func TestRenewedPagesGoToTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, q := newTable(t), newSite(), new(pageQueue)
		site.delay = 0
		site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=30, stale-while-revalidate=86400")
			w.Header().Set("Etag", `"one"`)
			if r.Header.Get("If-None-Match") == `"one"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("one"))
		})
		a, worker := tb.peer("a", named, site, to(q)), tb.peer("worker", named, site, nil)
		get(a, "/")
		for n := 1; n <= 4; n++ {
			time.Sleep(31 * time.Second)
			get(a, "/")
			time.Sleep(time.Second)
			sent := q.all()
			if len(sent) != n {
				t.Fatalf("stale for the %d. time, sent %+v", n, sent)
			}
			if n > 1 && (sent[n-1].Generation != sent[0].Generation || sent[n-1] == sent[n-2] || sent[n-1].Attempt != 1) {
				t.Fatalf("sent %+v", sent)
			}
			if r, err := worker.Regenerate(t.Context(), page, isr.WithUnlessFresh()); err != nil || r.Fresh {
				t.Fatalf("%+v, %v", r, err)
			}
			// An early refresh that was asked for before: the page has the same generation, but was renewed.
			if r, err := worker.Regenerate(t.Context(), page, isr.WithUnlessFreshExcept(sent[n-1].Generation, sent[n-1].Fence)); err != nil || !r.Fresh {
				t.Fatalf("renewed before: %+v, %v", r, err)
			}
			get(a, "/")
			time.Sleep(2 * time.Second)
			expect(t, get(a, "/"), "one", "isr; hit")
		}
	})
}

// A page that stays stale is sent again, as another attempt; a purge and a failure make it another
// request.
func TestQueueIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, q := newTable(t), newSite(), new(pageQueue)
		a := tb.peer("a", named, site, to(q))
		get(a, "/")
		time.Sleep(61 * time.Second)
		for range 20 * 60 {
			get(a, "/")
			time.Sleep(time.Second)
		}
		sent := q.all()
		if n := len(sent); n < 3 || n > 6 {
			t.Fatalf("sent %d times in 20 minutes", n)
		}
		for i, p := range sent {
			if p.Attempt != i+1 || p.Generation != sent[0].Generation {
				t.Errorf("attempt %d is %+v", i+1, p)
			}
		}
		receipt := a.purge(t, false, isr.PurgeKey(page))
		time.Sleep(2 * time.Second)
		get(a, "/")
		time.Sleep(2 * time.Second)
		all := q.all()
		if p := all[len(all)-1]; p.Reason != "purge" || p.PurgeSeq != receipt.Seq || p.Attempt != 1 {
			t.Errorf("after a purge: %+v", p)
		}
	})
}

// Without its queue, a process renders stale pages itself. One that freezes leaves them stale.
func TestQueueFails(t *testing.T) {
	for _, freezes := range []bool{false, true} {
		for _, hangs := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				tb, site, q := newTable(t), newSite(), new(pageQueue)
				a := tb.peer("a", named, site, func(cfg *isr.Config) { cfg.Queue, cfg.Freezes = q, freezes })
				get(a, "/")
				q.set(errors.New("no queue"), hangs)
				time.Sleep(61 * time.Second)
				if stale := get(a, "/"); stale.took > 0 {
					t.Errorf("the visitor waited %v", stale.took)
				}
				time.Sleep(4 * time.Second)
				want := "/ rendered 2"
				if freezes {
					want = "/ rendered 1"
				}
				if got := get(a, "/"); got.Body.String() != want {
					t.Errorf("freezes %t, hangs %t: got %q, want %q", freezes, hangs, got.Body, want)
				}
			})
		}
	}
}

// The queue that fails is left alone for a while.
func TestQueueBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, q := newTable(t), newSite(), new(pageQueue)
		a := tb.peer("a", named, site, to(q))
		paths := []string{"/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8"}
		for _, path := range paths {
			get(a, path)
		}
		q.set(errors.New("no queue"), false)
		time.Sleep(61 * time.Second)
		for _, path := range paths {
			get(a, path)
			time.Sleep(10 * time.Millisecond)
		}
		expectExplained(t, a, "/8", "by this server: the queue of regenerations has failed lately")
		if q.asked != 3 || !a.QueueDown() {
			t.Errorf("asked %d times, open %t; want 3 and open", q.asked, a.QueueDown())
		}
		q.set(nil, false)
		time.Sleep(65 * time.Second)
		get(a, "/1")
		synctest.Wait()
		if a.QueueDown() || len(q.all()) != 1 {
			t.Errorf("open %t after %d messages", a.QueueDown(), len(q.all()))
		}
	})
}

// What a visitor waits for is rendered at once.
func TestQueueIsNotForWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, q := newTable(t), newSite(), new(pageQueue)
		a := tb.peer("a", isr.Route{Name: "site", Policy: isr.Wait}, site, to(q))
		get(a, "/")
		time.Sleep(61 * time.Second)
		if got := get(a, "/"); got.Body.String() != "/ rendered 2" {
			t.Errorf("under the policy Wait: %q", got.Body)
		}
		a.purge(t, true, isr.PurgeKey(page))
		if got := get(a, "/"); got.Body.String() != "/ rendered 3" {
			t.Errorf("purged hard: %q", got.Body)
		}
		if n := len(q.all()); n != 0 {
			t.Errorf("sent %d messages", n)
		}
	})
}

// Popular pages that expire soon go to the queue, too, and are then rendered although fresh.
func TestEarlyRefreshGoesToTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, q := newTable(t), newSite(), new(pageQueue)
		a := tb.peer("a", isr.Route{Name: "site", EarlyRefresh: 10}, site, to(q))
		get(a, "/")
		for range 590 {
			time.Sleep(100 * time.Millisecond)
			get(a, "/")
		}
		sent := q.all()
		if len(sent) == 0 || len(sent) > 2 || sent[0].Reason != "early" || site.renders.Load() != 1 {
			t.Fatalf("sent %+v, %d renders", sent, site.renders.Load())
		}
		for i, p := range sent { // the second after half a minute or more, when the page may be stale
			if p.Generation != sent[0].Generation || p.Attempt != i+1 {
				t.Errorf("sent %+v", sent)
			}
		}
		worker := tb.peer("worker", named, site, nil)
		for i, want := range []bool{false, true} { // a duplicate finds another generation
			if r, err := worker.Regenerate(t.Context(), page, isr.WithUnlessFreshExcept(sent[0].Generation, sent[0].Fence)); err != nil || r.Fresh != want {
				t.Errorf("delivery %d: %+v, %v", i+1, r, err)
			}
		}
	})
}

// A page that is fresh is not rendered again, and leaves no record of the request: it takes no lease.
func TestRegenerateUnlessFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a, b := tb.peer("a", named, site, nil), tb.peer("b", named, site, nil)
		first, err := a.Regenerate(t.Context(), page, isr.WithUnlessFresh())
		if err != nil || first.Fresh {
			t.Fatalf("a missing page: %+v, %v", first, err)
		}
		for range 2 {
			if r, err := b.Regenerate(t.Context(), page, isr.WithUnlessFresh(), isr.WithIdempotencyKey("m")); err != nil || !r.Fresh || r.GenerationID != first.GenerationID {
				t.Errorf("a fresh page: %+v, %v", r, err)
			}
		}
		if record, found, err := tb.store("c").RequestRecord(t.Context(), store.HashedPartition(page), "m"); err != nil || found {
			t.Errorf("the record of the request is %+v, %v, want none", record, err)
		}
		time.Sleep(61 * time.Second)
		if r, err := b.Regenerate(t.Context(), page, isr.WithUnlessFresh(), isr.WithIdempotencyKey("m")); err != nil || r.Fresh || r.Replayed {
			t.Errorf("the request again, when the page is stale: %+v, %v", r, err)
		}
		time.Sleep(61 * time.Second)
		results := make(chan isr.Regeneration, 2)
		for i, p := range []*peer{a, b} {
			go func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				for {
					r, err := p.Regenerate(context.Background(), page, isr.WithUnlessFresh(), isr.WithIdempotencyKey("stale"))
					if err == nil {
						results <- r
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
			}()
		}
		r1, r2 := <-results, <-results
		if n := site.renders.Load(); n != 3 || r1.GenerationID != r2.GenerationID {
			t.Errorf("%d renders, %+v and %+v; want one more render", n, r1, r2)
		}
		if _, err := a.Regenerate(t.Context(), page); err != nil || site.renders.Load() != 4 {
			t.Errorf("without the option: %v, %d renders", err, site.renders.Load())
		}
	})
}

// A page that another process publishes between the look at it and the lease completes the
// request, without a render.
func TestFreshUnderTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a, b := tb.peer("a", named, site, nil), tb.peer("b", named, site, nil)
		get(a, "/")
		time.Sleep(61 * time.Second)
		b.store.acquire = sync.OnceFunc(func() {
			if _, err := a.Regenerate(t.Context(), page); err != nil {
				t.Error(err)
			}
		})
		r, err := b.Regenerate(t.Context(), page, isr.WithUnlessFresh(), isr.WithIdempotencyKey("m"))
		if err != nil || !r.Fresh || site.renders.Load() != 2 {
			t.Fatalf("%+v, %v, %d renders", r, err, site.renders.Load())
		}
		record, found, err := tb.store("c").RequestRecord(t.Context(), store.HashedPartition(page), "m")
		if err != nil || !found || record.State != store.RequestCompleted || record.GenerationID != r.GenerationID {
			t.Errorf("the record is %+v, %v", record, err)
		}
	})
}

// In a process that freezes, Settle waits for what requests have begun, and renders and leases end
// with their requests.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a := tb.peer("a", named, site, func(cfg *isr.Config) { cfg.Freezes = true })
		settled := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if err := a.Settle(t.Context()); err != nil || time.Since(began).Truncate(time.Second) != want {
				t.Errorf("settled after %v, %v; want %v", time.Since(began), err, want)
			}
		}
		get(a, "/")
		settled(0)
		time.Sleep(61 * time.Second)
		get(a, "/")
		settled(time.Second) // the render
		a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://example.com/", http.NoBody))
		settled(0)

		a.purge(t, true, isr.PurgeKey(page))
		site.delay = time.Hour
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		w, _ := reported(a, newRequest("/").WithContext(ctx))
		if took := time.Since(began); w.Code != http.StatusGatewayTimeout || took < 8*time.Second || took > 9500*time.Millisecond {
			t.Errorf("a render that takes too long: status %d after %v", w.Code, took)
		}
		settled(0)
		limited, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go get(tb.peer("b", named, site, nil), "/other")
		go get(a, "/third")
		time.Sleep(time.Millisecond)
		if err := a.Settle(limited); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Settle during a render: %v", err)
		}
	})
}

// A lease of a process that freezes ends soon after the request that began the render.
func TestLeaseEndsWithTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a := tb.peer("a", named, site, func(cfg *isr.Config) { cfg.Freezes = true })
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		go reported(a, newRequest("/").WithContext(ctx))
		time.Sleep(100 * time.Millisecond)
		lock := tb.record(page).Lock
		if lock == nil || time.Until(lock.ExpiresAt) > 7*time.Second {
			t.Errorf("the lock is %+v", lock)
		}
	})
}
