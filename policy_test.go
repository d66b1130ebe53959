package isr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// expectStale checks that a visitor got the first rendering, and the detail.
func expectStale(t *testing.T, a answer, reason string) {
	t.Helper()
	expect(t, a, "/ rendered 1", "isr; hit; ttl=-")
	if !strings.HasSuffix(a.status(), "; detail="+reason) {
		t.Errorf("status %q, want detail=%s", a.status(), reason)
	}
}

// expectRefused checks a 503 with Retry-After.
func expectRefused(t *testing.T, a answer, reason, retry string) {
	t.Helper()
	if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") != retry || !strings.HasSuffix(a.status(), "; detail="+reason) {
		t.Errorf("got %d, Retry-After %q, %q; want 503, %q, detail=%s", a.Code, a.Header().Get("Retry-After"), a.status(), retry, reason)
	}
}

func failing(w http.ResponseWriter, _ *http.Request, _ int64) { http.Error(w, "broken", 500) }

func TestPolicyText(t *testing.T) {
	for _, p := range []isr.Policy{isr.ServeStale, isr.Wait} {
		text, err := p.MarshalText()
		var back isr.Policy
		if err := errors.Join(err, back.UnmarshalText(text)); err != nil || back != p {
			t.Errorf("%v is written %q and read as %v, %v", p, text, back, err)
		}
	}
	if _, err := isr.Policy(9).MarshalText(); err == nil {
		t.Error("a policy that there is not can be written")
	}
	for text, want := range map[string]string{"Wait": "expected serve-stale or wait", "fail": "was removed; use serve-stale"} {
		if err := new(isr.Policy).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parsing %q: %v, want %q", text, err, want)
		}
	}
}

// staleSite is a site with a page that was rendered once, two minutes ago.
func staleSite(tb *table, rt isr.Route, change func(*isr.Config)) (*site, http.Handler) {
	site := newSite()
	h := tb.node(tb.store("a"), change).Handler(rt, site)
	get(h, "/")
	time.Sleep(2 * time.Minute)
	return site, h
}

func TestWaitForTheNewPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		site, h := staleSite(tb, isr.Route{Policy: isr.Wait}, nil)
		for _, a := range crowd(20, []http.Handler{h}, "/") {
			expect(t, a, "/ rendered 2", "isr; fwd=stale; fwd-status=200; stored; ")
			if a.took != site.delay {
				t.Errorf("took %v, want the time of a render", a.took)
			}
		}
		expect(t, get(h, "/"), "/ rendered 2", "isr; hit; ttl=5")
	})
}

func TestWaitForAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		rt := isr.Route{Policy: isr.Wait}
		site, a := staleSite(tb, rt, nil)
		b := tb.node(tb.store("b"), nil).Handler(rt, site)
		for i, got := range crowd(20, []http.Handler{a, b}, "/") {
			expect(t, got, "/ rendered 2", "isr; fwd=")
			if got.took > 4*time.Second {
				t.Errorf("visitor %d waited %v for a render of %v", i, got.took, site.delay)
			}
		}
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want 2", n)
		}
	})
}

func TestWaitIsBounded(t *testing.T) {
	patience := func(c *isr.Config) { c.Wait = 3 * time.Second }
	t.Run("slow render", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			site, h := staleSite(newTable(t), isr.Route{Policy: isr.Wait}, patience)
			site.delay = 20 * time.Second
			a := get(h, "/")
			expectStale(t, a, "timeout")
			if a.took != 3*time.Second {
				t.Errorf("waited %v", a.took)
			}
			time.Sleep(site.delay)
			expect(t, get(h, "/"), "/ rendered 2", "isr; hit; ttl=")
		})
	})
	t.Run("slow store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t)
			site, _ := staleSite(tb, isr.Route{Policy: isr.Wait}, nil)
			site.delay = 20 * time.Second
			slow := &brokenStore{MetaStore: tb.store("b")}
			slow.delay.Store(int64(100 * time.Millisecond))
			h := tb.node(slow, func(c *isr.Config) { c.Wait = 50 * time.Millisecond }).Handler(isr.Route{Policy: isr.Wait}, site)
			a := get(h, "/")
			expectStale(t, a, "timeout")
			if a.took > time.Second {
				t.Errorf("waited %v", a.took)
			}
		})
	})
	t.Run("dead holder", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tb := newTable(t)
			_, h := staleSite(tb, isr.Route{Policy: isr.Wait}, patience)
			tb.hold(page, 10*time.Second)
			a := get(h, "/")
			expectStale(t, a, "timeout")
			if a.took < 3*time.Second || a.took > 5*time.Second {
				t.Errorf("waited %v", a.took)
			}
			time.Sleep(10 * time.Second)
			expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=stale; fwd-status=200; stored")
		})
	})
}

// hold acquires a page's lease for a process that does not exist.
func (tb *table) hold(k store.Key, d time.Duration) {
	tb.t.Helper()
	if _, err := tb.store("another").Acquire(tb.t.Context(), store.HashedPartition(k), d, nil); err != nil {
		tb.t.Fatal(err)
	}
}

// After a failed render no visitor waits until the back-off ends.
func TestWaitEndsWithTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := isr.Route{Policy: isr.Wait}
		store := &faultyStore{MetaStore: tb.store("a")}
		h := tb.node(store, nil).Handler(rt, site)
		get(h, "/")
		time.Sleep(2 * time.Minute)
		site.answers(failing)
		a := get(h, "/")
		expectStale(t, a, "render-failed")
		if a.took != site.delay {
			t.Errorf("waited %v", a.took)
		}
		other := tb.node(tb.store("b"), nil).Handler(rt, site)
		for _, h := range []http.Handler{h, other, h, other} {
			a := get(h, "/")
			expectStale(t, a, "back-off")
			if a.took > 0 {
				t.Errorf("in the back-off, a visitor waited %v", a.took)
			}
		}
		store.read = func() error { return errors.New("the store was asked") }
		expectStale(t, get(h, "/"), "back-off") // this node knows without asking
		store.read = nil
		site.answers(cacheable)
		time.Sleep(3 * time.Second)
		expect(t, get(h, "/"), "/ rendered 3", "isr; fwd=stale; fwd-status=200; stored")
	})
}

func TestWaitWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &faultyStore{MetaStore: tb.store("a")}
		c := tb.node(store, nil)
		h := c.Handler(isr.Route{Policy: isr.Wait}, site)
		get(h, "/")
		time.Sleep(2 * time.Minute)
		store.read = func() error { return errors.New("the store is down") }
		expectStale(t, get(h, "/"), "store-error")
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		expectStale(t, get(h, "/"), "closing")
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d renders: the visitors were sent to the origin", n)
		}
	})
}

// A page that is stored is served, however slowly it is read.
func TestSlowStoreServesStoredPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := isr.Route{}
		get(tb.node(tb.store("a"), nil).Handler(rt, site), "/")
		fresh := tb.node(&slowStore{tb.store("b")}, nil).Handler(rt, site)
		for _, a := range crowd(20, []http.Handler{fresh}, "/") {
			expect(t, a, "/ rendered 1", "isr; hit; ttl=5")
		}
		time.Sleep(2 * time.Minute)
		c := tb.node(&slowStore{tb.store("c")}, func(c *isr.Config) { c.Memory = -1 })
		stale := c.Handler(isr.Route{Name: "site"}, site)
		for _, a := range crowd(20, []http.Handler{stale}, "/") {
			expectStale(t, a, "stale")
		}
	})
}

// A failure is not shown while there is a page to serve, in memory or not.
func TestFailureIsNotRememberedIfThereIsAPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site, h := staleSite(newTable(t), isr.Route{}, func(c *isr.Config) { c.Memory = -1 })
		site.answers(failing)
		for range 5 {
			expectStale(t, get(h, "/"), "stale")
			time.Sleep(site.delay + time.Millisecond)
		}
	})
}

// Retry-After is the end of the back-off, also on a node that knows it only from the table.
func TestRetryAfterBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(failing)
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for range 6 {
			time.Sleep(time.Minute)
			get(h, "/")
		}
		left := math.Ceil(time.Until(tb.record(page).Lock.ExpiresAt).Seconds())
		other := tb.node(tb.store("b"), nil).Handler(isr.Route{}, site)
		if left < 15 {
			t.Errorf("the sixth pause is %v s", left)
		}
		expectRefused(t, get(other, "/"), "back-off", fmt.Sprint(left))
	})
}

// A forced regeneration does not affect visitors who request the page during the render.
func TestVisitorsDuringRegenerate(t *testing.T) {
	for _, policy := range []isr.Policy{isr.ServeStale, isr.Wait} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				c := tb.node(tb.store("a"), func(c *isr.Config) { c.Memory = -1 })
				h := c.Handler(isr.Route{Name: "site", Policy: policy}, site)
				get(h, "/")
				done := make(chan error)
				go func() {
					_, err := c.Regenerate(t.Context(), page)
					done <- err
				}()
				time.Sleep(site.delay / 2)
				a := get(h, "/")
				expect(t, a, "/ rendered 1", "isr; hit; ttl=5")
				if a.took > 0 {
					t.Errorf("waited %v", a.took)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A slowStore delays reads.
type slowStore struct{ store.MetaStore }

func (s *slowStore) Read(ctx context.Context, pk string) (store.Record, error) {
	time.Sleep(10 * time.Millisecond)
	return s.MetaStore.Read(ctx, pk)
}

// A flight may last longer than the stale window of the page that it offered when it began.
// Package isrtest/simulator found each of these bugs.

// patient allows renders that take longer than the stale window.
func patient(cfg *isr.Config) { cfg.RenderTimeout = time.Minute }

// onLongFlight makes a page expire during a flight that began while it was stale, requests
// it again in the given second, and returns the answer.
func onLongFlight(t *testing.T, h http.Handler, site *site, second time.Duration) answer {
	t.Helper()
	get(h, "/") // fresh for a minute, stale for 20 seconds
	site.delay = 40 * time.Second
	began := time.Now()
	time.Sleep(time.Minute)
	if a := get(h, "/"); a.Body.String() != "/ rendered 1" || a.took > 0 {
		t.Fatalf("a stale page: %q after %v", a.Body, a.took)
	}
	time.Sleep(time.Until(began.Add(second * time.Second)))
	return get(h, "/")
}

func TestExpiredDuringItsFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), patient).Handler(isr.Route{Stale: 20 * time.Second, Jitter: -1}, site)
		expect(t, onLongFlight(t, h, site, 90), "/ rendered 2", "isr; fwd=stale; fwd-status=200; stored; collapsed")
	})
}

// A losingStore returns ErrLeaseLost after a number of successful refreshes.
type losingStore struct {
	store.MetaStore
	good int
}

func (s *losingStore) Refresh(ctx context.Context, l store.Lease) error {
	if s.good--; s.good == -1 {
		return store.ErrLeaseLost
	}
	return s.MetaStore.Refresh(ctx, l)
}

func TestExpiredBeforeItsFlightHadToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &losingStore{MetaStore: tb.store("a"), good: 7}
		h := tb.node(store, patient).Handler(isr.Route{Stale: 20 * time.Second, Jitter: -1}, site)
		// The flight loses its lease in second 87, and finds its own row.
		a := onLongFlight(t, h, site, 85)
		expect(t, a, "/ rendered 3", "isr; fwd=stale; fwd-status=200; stored")
	})
}

// A lateBodies delays opening a body.
type lateBodies struct{ store.BodyStore }

func (s lateBodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	time.Sleep(10 * time.Second)
	return s.BodyStore.Open(ctx, key)
}

func TestExpiredBeforeItIsServedToAJoiner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		route := isr.Route{Stale: -1, Jitter: -1}
		get(tb.node(tb.store("a"), nil).Handler(route, site), "/")
		cold, err := isr.New(tb.store("b"), lateBodies{tb.bodies}, isr.Config{StoreTimeout: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = cold.Close(t.Context()) }()
		h := cold.Handler(route, site)
		time.Sleep(55 * time.Second)
		go get(h, "/") // finds it fresh, and has it in second 65
		time.Sleep(7 * time.Second)
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
	})
}

// A dawdlingStore delays recording the end of a request.
type dawdlingStore struct {
	store.MetaStore
	delay time.Duration
}

func (s *dawdlingStore) EndRequest(ctx context.Context, l store.Lease, end store.RequestEnd) error {
	time.Sleep(s.delay)
	return s.MetaStore.EndRequest(ctx, l, end)
}

// The fallback of a flight is judged again for requests that joined later: the process may
// have been frozen between finding it and serving it.
func TestExpiredBeforeItsFlightEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &dawdlingStore{MetaStore: tb.store("a"), delay: 30 * time.Second}
		c := tb.node(store, nil)
		h := c.Handler(isr.Route{Name: "site", Stale: 20 * time.Second, Jitter: -1}, site)
		get(h, "/")
		began := time.Now()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusInternalServerError) })
		time.Sleep(70 * time.Second) // stale
		done := make(chan error)
		go func() {
			_, err := c.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r"))
			done <- err
		}()
		time.Sleep(time.Until(began.Add(90 * time.Second))) // expired
		if a := get(h, "/"); a.Code == http.StatusOK {
			t.Errorf("got %d %q, %q, ten seconds after its stale window", a.Code, a.Body, a.status())
		}
		if err := <-done; err == nil {
			t.Error("a regeneration went well whose render failed")
		}
	})
}

// TestOnlyIfCached: RFC 9111, section 5.2.1.7. The request never reaches the origin.
func TestOnlyIfCached(t *testing.T) {
	const asks = "Cache-Control: Only-If-Cached"
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := isr.Route{Stale: 3 * time.Minute}
		h := tb.node(tb.store("a"), nil).Handler(rt, site)
		for _, header := range [][]string{{asks}, {asks, "Cookie: id=1"}, {asks, "Authorization: Basic eA=="}} {
			a := get(h, "/", header...)
			if a.Code != http.StatusGatewayTimeout || a.status() != "isr; detail=only-if-cached" || a.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%q, not stored: %d, %q", header, a.Code, a.status())
			}
		}
		if n := site.renders.Load(); n != 0 {
			t.Errorf("%d requests reached the origin", n)
		}
		get(h, "/")
		expect(t, get(h, "/", asks), "/ rendered 1", "isr; hit; ttl=")
		other := tb.node(tb.store("b"), nil).Handler(rt, site)
		expect(t, get(other, "/", asks), "/ rendered 1", "isr; hit; ttl=")
		time.Sleep(2 * time.Minute)
		third := tb.node(tb.store("c"), nil).Handler(rt, site)
		for _, h := range []http.Handler{h, third} {
			expect(t, get(h, "/", asks), "/ rendered 1", "isr; hit; ttl=-")
		}
		synctest.Wait()
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d renders, want one", n)
		}
		time.Sleep(3 * time.Minute)
		if a := get(h, "/", asks); a.Code != http.StatusGatewayTimeout {
			t.Errorf("expired: %d, %q", a.Code, a.status())
		}
		off := tb.node(tb.store("d"), nil).Handler(isr.Route{Off: true}, site)
		if a := get(off, "/", asks); a.Code != http.StatusOK {
			t.Errorf("a route that caches nothing: %d, %q", a.Code, a.status())
		}
	})
}

// Requests that come while a request with only-if-cached looks for the page render it.
func TestOnlyIfCachedHoldsNoVisitorBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		done := make(chan answer)
		for i := range 8 {
			go func() {
				if i%2 == 0 {
					done <- get(h, "/", "Cache-Control: only-if-cached")
				} else {
					done <- get(h, "/")
				}
			}()
		}
		pages := 0
		for range 8 {
			if a := <-done; a.Code == http.StatusOK {
				pages++
			}
		}
		if pages < 4 || site.renders.Load() != 1 {
			t.Errorf("%d pages, %d renders", pages, site.renders.Load())
		}
	})
}

// TestRequestDirectives: RFC 9111, sections 5.2.1 and 5.4.
func TestRequestDirectives(t *testing.T) {
	const hit, passed = "isr; hit; ttl=", "isr; fwd=request; fwd-status=200"
	for _, tt := range []struct {
		after  time.Duration // since the render; the page is fresh for a minute
		header string
		obeyed string
	}{
		{0, "Cache-Control: no-cache", passed},
		{0, "Cache-Control: no-store", passed},
		{0, "Pragma: no-cache", passed},
		{0, "Pragma: other", hit},
		{20 * time.Second, "Cache-Control: max-age=0", passed},
		{20 * time.Second, "Cache-Control: max-age=10", passed},
		{20 * time.Second, "Cache-Control: max-age=30", hit},
		{20 * time.Second, "Cache-Control: max-age=x", passed},
		{20 * time.Second, "Cache-Control: min-fresh=30", hit},
		{20 * time.Second, "Cache-Control: min-fresh=50", passed},
		{20 * time.Second, "Cache-Control: max-age=10, only-if-cached", ""},
		{70 * time.Second, "Cache-Control: max-stale=20", hit},
		{70 * time.Second, "Cache-Control: max-stale", hit},
		{70 * time.Second, "Cache-Control: max-stale=5", "isr; fwd=stale"},
		{70 * time.Second, "Cache-Control: max-stale, max-age=10", "isr; fwd=stale"},
		{70 * time.Second, "Cache-Control: max-stale=20, only-if-cached", hit},
	} {
		for _, obey := range []bool{true, false} {
			t.Run(fmt.Sprint(tt.header, tt.after, obey), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb, site := newTable(t), newSite()
					site.delay = 0
					site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
						w.Header().Set("Cache-Control", "max-age=60")
						fmt.Fprint(w, n)
					})
					rt := isr.Route{ObeyRequests: obey, Jitter: -1}
					h := tb.node(tb.store("a"), nil).Handler(rt, site)
					get(h, "/")
					time.Sleep(tt.after)
					want := tt.obeyed
					if !obey {
						want = hit
						if tt.after > time.Minute {
							want = "isr; fwd=stale"
						}
					}
					if strings.Contains(tt.header, "only-if-cached") && !(obey && tt.obeyed == hit) && (obey || tt.after > time.Minute) {
						if a := get(h, "/", tt.header); a.Code != http.StatusGatewayTimeout || site.renders.Load() != 1 {
							t.Errorf("%d, %q", a.Code, a.status())
						}
						return
					}
					if a := get(h, "/", tt.header); !strings.HasPrefix(a.status(), want) {
						t.Errorf("%q, want %q", a.status(), want)
					}
					if tt.after < time.Minute {
						// What passed through was not stored, also for a node that reads the store.
						expect(t, get(h, "/"), "1", hit)
						other := tb.node(tb.store("b"), nil).Handler(rt, site)
						if a := get(other, "/", tt.header); !strings.HasPrefix(a.status(), want) {
							t.Errorf("on another node: %q, want %q", a.status(), want)
						}
					}
				})
			})
		}
	}
	t.Run("max-stale is forbidden", func(t *testing.T) {
		for _, header := range []string{"max-age=60, must-revalidate", "max-age=60, proxy-revalidate", "s-maxage=60"} {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
					w.Header().Set("Cache-Control", header)
					fmt.Fprint(w, n)
				})
				h := tb.node(tb.store("a"), nil).Handler(isr.Route{ObeyRequests: true}, site)
				get(h, "/")
				time.Sleep(2 * time.Minute)
				expect(t, get(h, "/", "Cache-Control: max-stale"), "2", "isr; fwd=stale")
			})
		}
	})
}

// TestOptInSharesNoIdentity: RFC 9111, sections 3 and 3.5. A response with explicit freshness to
// a request with a cookie or credentials is neither stored nor shared, on any kind of route, nor
// is one that varies on what is in no key.
func TestOptInSharesNoIdentity(t *testing.T) {
	routes := map[string]isr.Route{
		"plain":           {},
		"strict":          {OptIn: isr.OptInStrict},
		"revalidate":      {Revalidate: time.Hour},
		"auto":            {Auto: isr.AutoWindow{Min: time.Second, Max: time.Hour}},
		"stale":           {Stale: time.Hour, StaleIfError: time.Hour},
		"wait":            {Policy: isr.Wait},
		"obeys requests":  {ObeyRequests: true},
		"statuses":        {Statuses: []int{403, 405, 503}, StoreNegative: true},
		"ignored cookies": {IgnoreCookies: []string{"*"}},
		"another cookie":  {IgnoreCookies: []string{"other"}},
		"cookie class":    {KeyClasses: []isr.KeyClass{{Cookie: "ab", Values: []string{"a", "b"}}}},
		"vary":            {Vary: []string{"Accept-Language"}},
		"forward":         {Forward: []string{"X-Request-Id"}},
		"query":           {Query: []string{"q"}, IgnoreQuery: []string{"*"}},
	}
	headers := []string{
		"Cache-Control: max-age=60", "Cache-Control: public, max-age=60", "Cache-Control: s-maxage=60", "CDN-Cache-Control: max-age=60",
		"Expires: Sat, 01 Jan 2000 01:00:00 GMT", "Cache-Control: max-age=60, must-understand, no-store", "",
	}
	for name, rt := range routes {
		t.Run(name, func(t *testing.T) {
			for _, header := range headers {
				synctest.Test(t, func(t *testing.T) {
					tb, site := newTable(t), newSite()
					site.delay, tb.poll = 0, rarely
					site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
						name, value, _ := strings.Cut(header, ": ")
						w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
						w.Header().Set(name, value)
						status := http.StatusOK
						if r.URL.Path == "/405" {
							status = http.StatusMethodNotAllowed
						}
						w.WriteHeader(status)
						fmt.Fprintf(w, "for %s", r.Header)
					})
					h := tb.node(tb.store("a"), nil).Handler(rt, site)
					for _, path := range []string{"/", "/405", "/?q=1"} {
						for _, who := range []string{"alice", "bob", "", "alice", "bob", ""} {
							for _, as := range []string{"Cookie: session=" + who, "Authorization: Bearer " + who, "Cookie: ab=" + who, "Cookie: ab=a; session=" + who} {
								if who == "" {
									as = "X-Nothing: 1"
								}
								body := get(h, path, as, "Cache-Control: max-age=0").Body.String()
								for _, other := range []string{"alice", "bob"} {
									if other != who && strings.Contains(body, other) {
										t.Fatalf("%s %q, %q: %q got %q", path, header, as, who, body)
									}
								}
							}
						}
					}
				})
			}
		})
	}
}
