package isr_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

var page = store.Key{Text: "example.com/"}

func TestRegenerate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{Name: "site"}, site)
		if e, err := c.Regenerate(t.Context(), page); err != nil || e.Route != "site" || e.Key != page.Text {
			t.Fatalf("a page that was never requested: %+v, %v", e, err)
		}
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit")
		if _, err := c.Regenerate(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		expect(t, get(h, "/"), "/ rendered 2", "isr; hit")
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Regenerate(t.Context(), page); !errors.Is(err, isr.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// A render in progress may have read outdated content, so it is not joined.
func TestRegenerateStartsItsOwnRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{Name: "site"}, site)
		visited := make(chan answer)
		go func() { visited <- get(h, "/") }()
		time.Sleep(site.delay / 2)
		e, err := c.Regenerate(t.Context(), page)
		if err != nil || site.renders.Load() != 2 {
			t.Errorf("%+v, %v after %d renders, want 2", e, err, site.renders.Load())
		}
		expect(t, <-visited, "/ rendered 1", "isr; fwd=miss")
	})
}

func TestRegenerateSelectsTheRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		c := tb.node(tb.store("a"), nil)
		c.Handler(isr.Route{}, site)
		if _, err := c.Regenerate(t.Context(), page); !errors.Is(err, isr.ErrNoRenderer) {
			t.Errorf("an unnamed route: %v", err)
		}
		c.Handler(isr.Route{Name: "other"}, site)
		if _, err := c.Regenerate(t.Context(), page); !errors.Is(err, isr.ErrNoRenderer) {
			t.Errorf("two routes, and a page never stored: %v", err)
		}
		named := c.Handler(isr.Route{Name: "site"}, site)
		get(named, "/")
		if _, err := c.Regenerate(t.Context(), page); err != nil {
			t.Errorf("a page that was stored by its route: %v", err)
		}
		if _, err := tb.node(tb.store("b"), nil).Regenerate(t.Context(), page); !errors.Is(err, isr.ErrNoRenderer) {
			t.Errorf("a process without that route: %v", err)
		}
	})
}

// Entries that services in other languages write have no route.
func TestRegenerateEntryWithoutARoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		nameless := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		get(nameless, "/")
		c := tb.node(tb.store("b"), nil)
		c.Handler(isr.Route{Name: "site"}, site)
		if e, err := c.Regenerate(t.Context(), page); err != nil || e.Route != "site" {
			t.Errorf("regenerated for the route %q, %v", e.Route, err)
		}
	})
}

func TestRegenerateReturnsHeldError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		c := tb.node(tb.store("a"), nil)
		c.Handler(isr.Route{Name: "site"}, site)
		if _, err := tb.store("other").Acquire(t.Context(), store.HashedPartition(page), time.Minute, nil); err != nil {
			t.Fatal(err)
		}
		var held *store.HeldError
		if _, err := c.Regenerate(t.Context(), page); !errors.As(err, &held) || held.Lock.Owner != "other" {
			t.Errorf("%v, want a HeldError that names the other", err)
		}
	})
}

func TestRegenerateErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		c := tb.node(tb.store("a"), nil)
		c.Handler(isr.Route{Name: "site"}, site)
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.Header().Set("Set-Cookie", "a=b") })
		if _, err := c.Regenerate(t.Context(), page); !errors.Is(err, isr.ErrUncacheable) || !strings.Contains(err.Error(), "set-cookie") {
			t.Errorf("an uncacheable page: %v", err)
		}
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(500) })
		if _, err := c.Regenerate(t.Context(), page); err == nil || !strings.Contains(err.Error(), "500") {
			t.Errorf("a failing page: %v", err)
		}
	})
}

func TestCloseLetsRendersFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{}, site)
		go get(h, "/")
		synctest.Wait()
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec, err := tb.store("a").Read(t.Context(), store.HashedPartition(page))
		if err != nil || rec.Entry == nil || rec.Lock != nil {
			t.Errorf("after Close: %+v, %v; want the page, and no lease", rec, err)
		}
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit")
		expect(t, get(h, "/other"), "/other rendered 2", "isr; fwd=miss; fwd-status=200; detail=closing")
	})
}

func TestCloseReleasesLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 20 * time.Second
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{}, site)
		visited := make(chan answer)
		go func() { visited <- get(h, "/") }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(began))
		}
		rec, err := tb.store("a").Read(t.Context(), store.HashedPartition(page))
		if err != nil || rec.Entry != nil || rec.Lock != nil {
			t.Errorf("after Close: %+v, %v; want no page, and no lease", rec, err)
		}
		// The visitor who waited gets a response.
		expect(t, <-visited, "/ rendered 2", "isr; fwd=miss; fwd-status=200; detail=closing")
	})
}

// A wrapped store fails on demand.
type faultyStore struct {
	store.MetaStore
	read, publish, refresh func() error
	acquire, rollback      func()                // called before
	changes, sequence      atomic.Pointer[error] // of the log
	reads, polls           atomic.Int64
	sequences              atomic.Int64
}

func (f *faultyStore) Sequence(ctx context.Context) (store.Sequence, error) {
	f.sequences.Add(1)
	if err := f.sequence.Load(); err != nil {
		return store.Sequence{}, *err
	}
	return f.MetaStore.Sequence(ctx)
}

// errPassOn makes a faultyStore execute the call.
var errPassOn = errors.New("pass the call on")

func (f *faultyStore) Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error) {
	if f.acquire != nil {
		f.acquire()
	}
	return f.MetaStore.Acquire(ctx, pk, d, claim)
}

func (f *faultyStore) Rollback(ctx context.Context, read store.Record, to string, a store.Assertion) (store.Entry, error) {
	if f.rollback != nil {
		f.rollback()
	}
	return f.MetaStore.Rollback(ctx, read, to, a)
}

func (f *faultyStore) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	f.polls.Add(1)
	if err := f.changes.Load(); err != nil {
		return store.Sequence{}, nil, *err
	}
	return f.MetaStore.Changes(ctx, after)
}

func (f *faultyStore) Read(ctx context.Context, pk string) (store.Record, error) {
	f.reads.Add(1)
	if f.read != nil {
		return store.Record{}, f.read()
	}
	return f.MetaStore.Read(ctx, pk)
}

func (f *faultyStore) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	f.reads.Add(1)
	if f.read != nil {
		return store.Record{}, f.read()
	}
	return f.MetaStore.ReadSerializable(ctx, pk)
}

func (f *faultyStore) Refresh(ctx context.Context, l store.Lease) error {
	if f.refresh != nil {
		return f.refresh()
	}
	return f.MetaStore.Refresh(ctx, l)
}

func (f *faultyStore) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	if f.publish != nil {
		if err := f.publish(); !errors.Is(err, errPassOn) {
			return store.Entry{}, err
		}
	}
	return f.MetaStore.Publish(ctx, l, read, next, how)
}

func TestStoreOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &faultyStore{MetaStore: tb.store("a")}
		h := tb.node(store, nil).Handler(isr.Route{}, site)
		get(h, "/")
		store.read = func() error { return errors.New("the store is down") }
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=")
		expect(t, get(h, "/cold"), "/cold rendered 2", "isr; fwd=miss; fwd-status=200; ttl=")
		time.Sleep(2 * time.Minute)
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=-")
		synctest.Wait()
		store.read = nil
		time.Sleep(5 * time.Second)
		get(h, "/")
		time.Sleep(2 * time.Second)
		expect(t, get(h, "/"), "/ rendered 3", "isr; hit; ttl=")
	})
}

func TestPublishFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &faultyStore{MetaStore: tb.store("a"), publish: func() error { return errors.New("the store is down") }}
		h := tb.node(store, nil).Handler(isr.Route{}, site)
		for _, a := range crowd(20, []http.Handler{h}, "/") {
			expect(t, a, "/ rendered 1", "isr; fwd=miss; fwd-status=200; ")
			if strings.Contains(a.status(), "stored") || !strings.HasSuffix(a.status(), "detail=unpublished") {
				t.Errorf("status %q", a.status())
			}
		}
	})
}

// If another writer publishes during a render, its page is served.
func TestPageOfTheFasterWriterIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		visited := make(chan answer)
		go func() { visited <- get(h, "/") }()
		time.Sleep(site.delay / 2)
		tb.putForeign(page, "pages/winner.html", "the winner")
		expect(t, <-visited, "the winner", "isr; ")
		if a := get(h, "/"); a.Body.String() != "the winner" || a.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%q %v", a.Body, a.Header())
		}
	})
}

// A holder that loses its lease cancels its render, and serves the page of the next holder.
func TestLostLeaseCancelsTheRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 5 * time.Second
		meta := &faultyStore{MetaStore: tb.store("a")}
		cancelled := make(chan struct{})
		h := tb.node(meta, nil).Handler(isr.Route{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if site.renders.Load() == 0 {
				context.AfterFunc(r.Context(), func() { close(cancelled) })
			}
			site.ServeHTTP(w, r)
		}))
		meta.refresh = func() error { meta.refresh = nil; return store.ErrLeaseLost }
		a := get(h, "/")
		<-cancelled
		expect(t, a, "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
	})
}

func TestUnreachableStoreIsNotALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 8 * time.Second // refreshes are due from 3.3 s on
		store := &faultyStore{MetaStore: tb.store("a")}
		failures := 0
		store.refresh = func() error {
			if failures++; failures == 3 {
				store.refresh = nil
			}
			return errors.New("unreachable")
		}
		h := tb.node(store, nil).Handler(isr.Route{}, site)
		expect(t, get(h, "/"), "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored")
	})
}

// A page that no request maps to is not rendered.
func TestRegenerateUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", isr.Route{Name: "site", Query: []string{"page"}, Vary: []string{"RSC"}}, site, nil)
		for text, want := range map[string]string{
			"example.com/?sort=1":             "expected only page",
			"example.com/?page=1&utm_source=": "requests for it map to example.com/?page=1",
			"example.com/#accept=x":           "",
		} {
			k, err := store.ParseKey("", text)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Regenerate(t.Context(), k)
			if want == "" && !errors.Is(err, store.ErrInvalidKey) || want != "" && (!errors.Is(err, isr.ErrUnreachable) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v", text, err)
			}
		}
		if _, err := p.Regenerate(t.Context(), store.Key{Tenant: "a", Text: "example.com/"}); err == nil {
			t.Error("a page of a tenant, on a site without, is rendered")
		}
		if n := site.renders.Load(); n != 0 {
			t.Errorf("%d renders", n)
		}
		for _, text := range []string{"example.com/?page=1", "example.com/#rsc=1"} {
			k, err := store.ParseKey("", text)
			if err == nil {
				_, err = p.Regenerate(t.Context(), k)
			}
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	})
}

// A hangingRead is a store of which one read waits until its context ends, while no lease is
// refreshed.
type hangingRead struct {
	store.MetaStore
	reads atomic.Int64
	hang  int64 // the number of that read
	hangs atomic.Bool
}

func (h *hangingRead) Read(ctx context.Context, pk string) (store.Record, error) {
	if h.reads.Add(1) == h.hang {
		h.hangs.Store(true)
		defer h.hangs.Store(false)
		<-ctx.Done()
		return store.Record{}, ctx.Err()
	}
	return h.MetaStore.Read(ctx, pk)
}

func (h *hangingRead) Refresh(ctx context.Context, l store.Lease) error {
	if h.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.MetaStore.Refresh(ctx, l)
}

// A lease that is lost before the render begins is acquired again: that is no failure of the
// store.
func TestLeaseLostBeforeTheRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		meta := &hangingRead{MetaStore: tb.store("a"), hang: 3}
		c := tb.node(meta, func(cfg *isr.Config) { cfg.Lease, cfg.Poll = 2*time.Second, -1 })
		c.Handler(isr.Route{Name: "site"}, site)
		e, err := c.Regenerate(t.Context(), page)
		if err != nil || e.Status != http.StatusOK || meta.reads.Load() < 3 {
			t.Errorf("%+v, %v after %d reads", e, err, meta.reads.Load())
		}
		if log := tb.log.String(); !strings.Contains(log, "lost the lease") || strings.Contains(log, "the store failed") {
			t.Error(log)
		}
	})
}

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
