package isr_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// A table is real stores, shared by the nodes of a test.
type table struct {
	t      testing.TB
	dir    string
	db     *localdynamo.DB
	bodies *dirbody.Store
	log    *testbed.Log
	poll   time.Duration // Config.Poll of the nodes
}

// rarely is the interval at which nodes poll in tests of minutes and hours. At the default,
// polls would be most of what these tests do.
const rarely = time.Second

const tableName = "pages"

func newTable(t testing.TB) *table {
	t.Helper()
	dir := t.TempDir()
	db, err := localdynamo.Open(filepath.Join(dir, "table.db"), localdynamo.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := dynamostore.CreateTable(t.Context(), db, tableName); err != nil {
		t.Fatal(err)
	}
	bodies, err := dirbody.Open(filepath.Join(dir, "bodies"), dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tb := &table{t: t, dir: dir, db: db, bodies: bodies, log: new(testbed.Log)}
	t.Cleanup(func() {
		if err := db.Check(context.Background()); err != nil {
			t.Errorf("the table is damaged: %v", err)
		}
		if err := errors.Join(bodies.Close(), db.Close()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(tb.log.String())
		}
	})
	return tb
}

func (tb *table) store(owner string) *dynamostore.Store {
	tb.t.Helper()
	s, err := dynamostore.New(tb.db, tableName, dynamostore.Config{Owner: owner, Logger: slog.New(slog.NewTextHandler(tb.log, nil))})
	if err != nil {
		tb.t.Fatal(err)
	}
	return s
}

// node returns a process of the fleet.
func (tb *table) node(meta store.MetaStore, change func(*isr.Config)) *isr.Cache {
	tb.t.Helper()
	return tb.nodeOn(meta, tb.bodies, change)
}

func (tb *table) nodeOn(meta store.MetaStore, bodies store.BodyStore, change func(*isr.Config)) *isr.Cache {
	tb.t.Helper()
	open := new(ledger)
	cfg := isr.Config{Lease: 10 * time.Second, Poll: tb.poll, Logger: slog.New(slog.NewTextHandler(tb.log, nil)), Observer: open}
	if change != nil {
		change(&cfg)
	}
	c, err := isr.New(meta, bodies, cfg)
	if err != nil {
		tb.t.Fatal(err)
	}
	tb.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			tb.t.Error(err)
		}
		if n := open.operations.Load(); n != 0 {
			tb.t.Errorf("%d operations were begun and have not ended", n)
		}
	})
	return c
}

// A site renders pages slowly, and counts them.
type site struct {
	renders atomic.Int64
	delay   time.Duration
	answer  atomic.Pointer[func(w http.ResponseWriter, r *http.Request, n int64)]
}

func newSite() *site {
	s := &site{delay: time.Second}
	s.answers(cacheable)
	return s
}

func (s *site) answers(f func(w http.ResponseWriter, r *http.Request, n int64)) { s.answer.Store(&f) }

func cacheable(w http.ResponseWriter, r *http.Request, n int64) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
	fmt.Fprintf(w, "%s rendered %d", r.URL.Path, n)
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.renders.Add(1)
	select {
	case <-time.After(s.delay):
	case <-r.Context().Done():
		return
	}
	(*s.answer.Load())(w, r, n)
}

// An answer is a response, and how long it took.
type answer struct {
	*httptest.ResponseRecorder
	took time.Duration
}

func get(h http.Handler, path string, header ...string) answer {
	a, _ := reported(h, newRequest(path, header...))
	return a
}

func (a answer) status() string { return a.Header().Get("Cache-Status") }

// crowd makes n concurrent requests for a page.
func crowd(n int, hs []http.Handler, path string) []answer {
	answers := make([]answer, n)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() { answers[i] = get(hs[i%len(hs)], path) })
	}
	wg.Wait()
	return answers
}

// expect checks the body of an answer and the beginning of its Cache-Status.
func expect(t *testing.T, a answer, body, status string) {
	t.Helper()
	if a.Code != http.StatusOK || a.Body.String() != body || !strings.HasPrefix(a.status(), status) {
		t.Errorf("got %d %q, %q; want 200 %q, %q", a.Code, a.Body, a.status(), body, status)
	}
}

// TestUnsharableError: an error response that must not be shared reaches the visitor who caused
// the render; the others get its status, and when to try again.
func TestUnsharableError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "private, no-store")
			w.Header().Set("Set-Cookie", "session=1")
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "maintenance")
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		answers := make([]answer, 3)
		var visitors sync.WaitGroup
		visitors.Go(func() { answers[0] = get(h, "/") })
		synctest.Wait() // it waits for its render
		visitors.Go(func() { answers[1] = get(h, "/") })
		visitors.Wait()
		answers[2] = get(h, "/") // during the back-off
		for i, a := range answers {
			own := i == 0
			if a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") != "120" || a.Header().Get("Cache-Control") != "no-store" ||
				(a.Header().Get("Set-Cookie") == "session=1") != own || (a.Body.String() == "maintenance") != own {
				t.Errorf("visitor %d got %d %q, %v", i, a.Code, a.Body, a.Header())
			}
		}
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d renders, want 1", n)
		}
	})
}

// TestInitialAge: the age of a response of a cache between the origin and this one is part of
// the age of its page, on every server (RFC 9111, section 4.2.3).
func TestInitialAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Age", "20")
			cacheable(w, r, n)
		})
		a, b := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site), tb.node(tb.store("b"), nil).Handler(isr.Route{}, site)
		get(a, "/")
		time.Sleep(10 * time.Second)
		for _, h := range []http.Handler{a, b} {
			got := get(h, "/")
			expect(t, got, "/ rendered 1", "isr; hit; ttl=2") // 30, less the jitter
			if age := got.Header()["Age"]; !slices.Equal(age, []string{"30"}) {
				t.Errorf("Age %q, want 30", age)
			}
		}
	})
}

func TestMissHitStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)

		miss := get(h, "/")
		expect(t, miss, "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored; ttl=")
		if miss.Header().Get("Etag") == "" || miss.Header().Get("Age") == "" {
			t.Errorf("the first answer has the header %v", miss.Header())
		}
		hit := get(h, "/?utm_source=mail", "Cookie: _ga=1")
		expect(t, hit, "/ rendered 1", "isr; hit; ttl=")
		if hit.took > 0 || hit.Header().Get("Etag") != miss.Header().Get("Etag") {
			t.Errorf("a hit took %v, etag %s", hit.took, hit.Header().Get("Etag"))
		}
		if got := get(h, "/", "If-None-Match: "+miss.Header().Get("Etag")); got.Code != http.StatusNotModified {
			t.Errorf("If-None-Match: %d", got.Code)
		}

		time.Sleep(time.Minute)
		stale := get(h, "/")
		expect(t, stale, "/ rendered 1", "isr; hit; ttl=-")
		if !strings.HasSuffix(stale.status(), "; detail=stale") || stale.took > 0 {
			t.Errorf("a stale page: %q after %v", stale.status(), stale.took)
		}
		time.Sleep(2 * time.Second)
		expect(t, get(h, "/"), "/ rendered 2", "isr; hit; ttl=5")
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want 2", n)
		}
	})
}

func TestOneRenderForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		var hs []http.Handler
		for i := range 3 {
			hs = append(hs, tb.node(tb.store(fmt.Sprint("node", i)), nil).Handler(isr.Route{}, site))
		}
		for _, a := range crowd(600, hs, "/") {
			expect(t, a, "/ rendered 1", "isr; ")
			if a.took > 4*time.Second {
				t.Errorf("waited %v for a render of %v", a.took, site.delay)
			}
		}
		if n := site.renders.Load(); n != 1 {
			t.Fatalf("%d renders of a cold page, want 1", n)
		}
		for round := int64(2); round < 5; round++ {
			time.Sleep(2 * time.Minute)
			for _, a := range crowd(600, hs, "/") {
				if a.took > 0 || !strings.Contains(a.status(), "hit") {
					t.Errorf("of a stale page: %q after %v", a.status(), a.took)
				}
			}
			time.Sleep(3 * time.Second)
			crowd(600, hs, "/") // the nodes that did not render find the new page
			time.Sleep(3 * time.Second)
			if n := site.renders.Load(); n != round {
				t.Fatalf("%d renders, want one per expiry: %d", n, round)
			}
			for _, a := range crowd(30, hs, "/") {
				expect(t, a, fmt.Sprintf("/ rendered %d", round), "isr; hit; ttl=")
			}
		}
	})
}

func TestNodeWithoutThePageServesStaleAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		get(tb.node(tb.store("a"), nil).Handler(isr.Route{}, site), "/")
		time.Sleep(2 * time.Minute)
		cold := tb.node(tb.store("b"), nil).Handler(isr.Route{}, site)
		a := get(cold, "/")
		expect(t, a, "/ rendered 1", "isr; hit; ttl=-")
		if a.took > 0 {
			t.Errorf("took %v", a.took)
		}
	})
}

func TestExpiredPageIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Stale: -1}, site)
		get(h, "/")
		time.Sleep(time.Minute)
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=stale; fwd-status=200; stored; ttl=")
	})
}

// A process that crashes while it renders leaves its lease behind. Its row has whole seconds, and
// other processes look at it again at most 1.5 s later.
func TestCrashedLeaseHolder(t *testing.T) {
	const takeover = 10*time.Second + time.Second + 1500*time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		pk := store.HashedPartition(store.Key{Text: "example.com/"})
		if _, err := tb.store("dead").Acquire(t.Context(), pk, 10*time.Second, nil); err != nil {
			t.Fatal(err)
		}
		cold := get(h, "/")
		expect(t, cold, "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored")
		if cold.took < 10*time.Second || cold.took > takeover {
			t.Errorf("the page came after %v, want between the lease of 10s and %v", cold.took, takeover)
		}

		time.Sleep(2 * time.Minute)
		if _, err := tb.store("dead").Acquire(t.Context(), pk, 10*time.Second, nil); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); time.Since(began) < takeover; time.Sleep(100 * time.Millisecond) {
			if a := get(h, "/"); a.Code != http.StatusOK || a.took > 0 {
				t.Errorf("a stale copy exists, and the visitor got %d after %v", a.Code, a.took)
			}
			if n := site.renders.Load(); n > 1 && time.Since(began) < 10*time.Second {
				t.Fatalf("rendered after %v, before the lease of 10s has expired", time.Since(began))
			}
		}
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders %v after the kill, want the second", n, takeover)
		}
	})
}

// A render may take much longer than the lease, which heartbeats extend.
func TestSlowRenderKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 25 * time.Second
		a := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		b := tb.node(tb.store("b"), nil).Handler(isr.Route{}, site)
		for _, got := range crowd(20, []http.Handler{a, b}, "/") {
			expect(t, got, "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored")
		}
	})
}

func TestStalePageIsServedWhileTheOriginFails(t *testing.T) {
	failures := map[string]func(http.ResponseWriter, *http.Request, int64){
		"status 500": func(w http.ResponseWriter, _ *http.Request, _ int64) { http.Error(w, "broken", 500) },
		"a panic":    func(http.ResponseWriter, *http.Request, int64) { panic("broken") },
		"cut off": func(w http.ResponseWriter, r *http.Request, n int64) {
			cacheable(w, r, n)
			panic(http.ErrAbortHandler)
		},
		"fewer bytes than it said": func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Content-Length", "1000")
			cacheable(w, r, n)
		},
		"hanging": func(_ http.ResponseWriter, r *http.Request, _ int64) { <-r.Context().Done() },
		"empty": func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
		},
	}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testOriginFails(t, failure) })
		})
	}
}

func testOriginFails(t *testing.T, failure func(http.ResponseWriter, *http.Request, int64)) {
	tb, site := newTable(t), newSite()
	tb.poll = rarely
	h := tb.node(tb.store("a"), nil).Handler(isr.Route{Stale: time.Hour}, site)
	get(h, "/")

	site.answers(failure)
	time.Sleep(2 * time.Minute)
	for range 600 {
		if a := get(h, "/"); a.Code != http.StatusOK || a.Body.String() != "/ rendered 1" || a.took > 0 {
			t.Fatalf("a stale copy exists, and the visitor got %d %q after %v", a.Code, a.Body, a.took)
		}
		time.Sleep(time.Second)
	}
	if n := site.renders.Load(); n > 40 {
		t.Errorf("a failing page was rendered %d times in ten minutes", n)
	}
	site.answers(cacheable)
	time.Sleep(2 * time.Minute) // a render that hangs has its timeout, and then a pause of up to 45 s
	get(h, "/")
	time.Sleep(2 * time.Second)
	if a := get(h, "/"); a.status() == "" || strings.Contains(a.status(), "stale") || a.Body.String() == "/ rendered 1" {
		t.Errorf("after the repair: %q, %q", a.Body, a.status())
	}
}

func TestFailureOfAMissingPageIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { http.Error(w, "broken", 500) })
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for _, a := range crowd(50, []http.Handler{h}, "/") {
			if a.Code != 500 || a.Body.String() != "broken\n" || a.Header().Get("Retry-After") == "" || a.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("got %d %q %v", a.Code, a.Body, a.Header())
			}
		}
		if a := get(h, "/"); a.Code != 500 || !strings.HasSuffix(a.status(), "detail=back-off") || a.took > 0 {
			t.Errorf("in the back-off: %d, %q, %v", a.Code, a.status(), a.took)
		}
		other := tb.node(tb.store("b"), nil).Handler(isr.Route{}, site)
		if a := get(other, "/"); a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" {
			t.Errorf("on another node: %d %v", a.Code, a.Header())
		}
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d renders, want 1", n)
		}
		site.answers(cacheable)
		time.Sleep(3 * time.Second)
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss")
	})
}

func TestHangingRendererTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		stuck := make(chan struct{})
		site.answers(func(http.ResponseWriter, *http.Request, int64) { <-stuck }) // deaf to its context
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		if a := get(h, "/"); a.Code != http.StatusGatewayTimeout || a.took != isr.DefaultRenderTimeout {
			t.Errorf("got %d after %v", a.Code, a.took)
		}
		close(stuck)
	})
}

func TestExpiredPageIsServedIfItAllowsThatOnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=60, stale-if-error=600")
			fmt.Fprint(w, "good")
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		get(h, "/")
		site.answers(func(http.ResponseWriter, *http.Request, int64) { panic("broken") })
		time.Sleep(2 * time.Minute)
		a := get(h, "/")
		expect(t, a, "good", "isr; hit; ttl=-")
		if !strings.HasSuffix(a.status(), "detail=stale-if-error") {
			t.Errorf("status %q", a.status())
		}
		time.Sleep(10 * time.Minute)
		if a := get(h, "/"); a.Code != http.StatusBadGateway {
			t.Errorf("after the window: %d", a.Code)
		}
	})
}

// A private response reaches only the visitor who requested it.
func TestUncacheablePassesThrough(t *testing.T) {
	for _, header := range []string{
		"Set-Cookie: id=1", "Cache-Control: private", "Cache-Control: no-store", "Vary: Cookie", "Vary: *", "Content-Encoding: compress", "",
	} {
		t.Run(header, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				tb.poll = rarely
				var seen sync.Map
				site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
					if name, value, ok := strings.Cut(header, ": "); ok {
						w.Header().Set(name, value)
					}
					seen.Store(r.Header.Get("X-Visitor"), true)
					fmt.Fprint(w, "for ", r.Header.Get("X-Visitor"))
				})
				h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
				var wg sync.WaitGroup
				for i := range 20 {
					wg.Go(func() {
						visitor := fmt.Sprint("visitor", i)
						a := get(h, "/", "X-Visitor: "+visitor)
						if a.Body.String() != "for "+visitor || !strings.Contains(a.status(), "fwd=") || strings.Contains(a.status(), "stored") {
							t.Errorf("%s got %q, %q", visitor, a.Body, a.status())
						}
					})
				}
				wg.Wait()
				before := site.renders.Load()
				for range 10 {
					time.Sleep(time.Minute)
					if a := get(h, "/", "X-Visitor: late"); a.took != site.delay {
						t.Errorf("a page known to be uncacheable took %v", a.took)
					}
				}
				if n := site.renders.Load() - before; n != 10 {
					t.Errorf("%d renders for 10 visitors", n)
				}
				for listed, err := range tb.store("a").List(t.Context()) {
					t.Errorf("stored: %v, %v", listed, err)
				}
			})
		})
	}
}

// A page that becomes cacheable is noticed by its responses that pass through.
func TestRefusalIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { fmt.Fprint(w, "nothing said") })
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		get(h, "/")
		site.answers(cacheable)
		get(h, "/")
		expect(t, get(h, "/"), "/ rendered 3", "isr; fwd=miss; fwd-status=200; stored")
	})
}

func TestBypass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
			fmt.Fprint(w, r.URL.RequestURI(), " for ", r.Header.Get("Authorization"), r.Header.Get("Cookie"))
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		expect(t, get(h, "/?id=1"), "/?id=1 for ", "isr; fwd=bypass; fwd-status=200; detail=query")
		expect(t, get(h, "/", "Authorization: me"), "/ for me", "isr; fwd=bypass; fwd-status=200; detail=authorization")
		expect(t, get(h, "/", "Cookie: s=1"), "/ for s=1", "isr; fwd=bypass; fwd-status=200; detail=cookie")
		expect(t, get(h, "/"), "/ for ", "isr; fwd=miss")
		expect(t, get(h, "/", "Authorization: me"), "/ for me", "isr; fwd=bypass")
	})
}

func TestTooLargeBodyPassesThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		large := bytes.Repeat([]byte("x"), 1<<20)
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
			for range 4 {
				if _, err := w.Write(large); err != nil {
					return
				}
			}
		})
		h := tb.node(tb.store("a"), func(c *isr.Config) { c.MaxBody = 2 << 20 }).Handler(isr.Route{}, site)
		for range 2 {
			if a := get(h, "/"); a.Body.Len() != 4<<20 || !strings.Contains(a.status(), "detail=too-large") {
				t.Errorf("%d bytes, %q", a.Body.Len(), a.status())
			}
		}
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d requests: the visitor who caused the render gets it, and its size is remembered", n)
		}
	})
}

func TestMissingBodyIsRegenerated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		get(tb.node(tb.store("a"), nil).Handler(isr.Route{}, site), "/")
		for info, err := range tb.bodies.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if err := tb.bodies.Delete(t.Context(), info.Key); err != nil {
				t.Fatal(err)
			}
		}
		h := tb.node(tb.store("b"), nil).Handler(isr.Route{}, site)
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
	})
}

// A page that has not changed is published again without writing its body.
func TestUnchangedBodyIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
			fmt.Fprint(w, "always the same")
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for range 3 {
			get(h, "/")
			time.Sleep(90 * time.Second)
		}
		time.Sleep(time.Minute)
		if files := tb.bodyFiles(); len(files) != 1 || site.renders.Load() != 3 {
			t.Errorf("%d renders left %d bodies, want 3 and 1", site.renders.Load(), len(files))
		}
		// If it is damaged, another body is written.
		for _, file := range tb.bodyFiles() {
			if err := os.WriteFile(file, []byte("ALWAYS THE SAME"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cold := tb.node(tb.store("b"), nil).Handler(isr.Route{}, site)
		expect(t, get(cold, "/"), "always the same", "isr; fwd=miss; fwd-status=200; stored")
		if files := tb.bodyFiles(); len(files) != 2 {
			t.Errorf("%d bodies, want the damaged one and a good one", len(files))
		}
	})
}

// bodyFiles returns the files of all bodies.
func (tb *table) bodyFiles() []string {
	tb.t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(tb.dir, "bodies"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && !strings.Contains(path, "/.tmp/") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		tb.t.Fatal(err)
	}
	return files
}

// bindOne binds one route for all pages.
func bindOne(t *testing.T, c *isr.Cache, rt isr.Route, h http.Handler) http.Handler {
	t.Helper()
	handlers, err := c.Bind([]isr.Binding{{Route: rt, Renderer: h}}, func(store.Key) int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	return handlers[0]
}

// says answers with a text and the path, without saying anything about caching.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text+" "+r.URL.Path) })
}

// Pages stay when the routes change; what is rendered from then on, also by Regenerate,
// follows the new routes.
func TestBindKeepsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		c := tb.node(tb.store("a"), nil)
		rt := isr.Route{Revalidate: time.Minute}
		h := bindOne(t, c, rt, says("old"))
		expect(t, get(h, "/kept"), "old /kept", "isr; fwd=miss; fwd-status=200; stored")
		find := func(k store.Key) int {
			if k.Text == "example.com/none" {
				return -1
			}
			return 1
		}
		handlers, err := c.Bind([]isr.Binding{{rt, says("first")}, {rt, says("second")}}, find)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, get(handlers[1], "/kept"), "old /kept", "isr; hit; ttl=")
		expect(t, get(handlers[1], "/new"), "second /new", "isr; fwd=miss; fwd-status=200; stored")
		if _, err := c.Regenerate(t.Context(), store.Key{Text: "example.com/kept"}); err != nil {
			t.Fatal(err)
		}
		expect(t, get(handlers[0], "/kept"), "second /kept", "isr; hit; ttl=")
		if _, err := c.Regenerate(t.Context(), store.Key{Text: "example.com/none"}); !errors.Is(err, isr.ErrNoRenderer) {
			t.Errorf("a page without a route: %v", err)
		}
		expect(t, get(h, "/late"), "old /late", "isr; fwd=miss; fwd-status=200; stored") // handlers in flight go on
	})
}

// A page that was refused under the old routes is stored if the new ones allow it.
func TestBindForgetsRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		c := tb.node(tb.store("a"), nil)
		h := bindOne(t, c, isr.Route{}, says("text"))
		get(h, "/a")
		expect(t, get(h, "/a"), "text /a", "isr; fwd=bypass; fwd-status=200; detail=no-freshness")
		time.Sleep(time.Millisecond)
		h = bindOne(t, c, isr.Route{Revalidate: time.Minute}, says("text"))
		expect(t, get(h, "/a"), "text /a", "isr; fwd=miss; fwd-status=200; stored")
	})
}

// Invalid routes change nothing.
func TestBindRefusesInvalidRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		c := tb.node(tb.store("a"), nil)
		bindOne(t, c, isr.Route{Revalidate: time.Minute}, says("old"))
		_, err := c.Bind([]isr.Binding{{isr.Route{}, says("new")}, {isr.Route{Name: "b", History: 101}, says("new")}}, func(store.Key) int { return 1 })
		var field *isr.ConfigError
		if !errors.As(err, &field) || field.Field != "History" {
			t.Fatalf("got %v; expected an error of History", err)
		}
		if _, err := c.Regenerate(t.Context(), store.Key{Text: "example.com/a"}); err != nil {
			t.Error(err) // by the only route
		}
		defer func() {
			if recover() == nil {
				t.Error("Handler adds a route to the routes of Bind")
			}
		}()
		c.Handler(isr.Route{}, says("other"))
	})
}

// A purge covers the variants of a page that were stored under routes that have been
// replaced.
func TestBindPurgesVariantsOfOldRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		c := tb.node(tb.store("a"), nil)
		varied := isr.Route{Revalidate: time.Minute, Vary: []string{"X-Variant"}}
		h := bindOne(t, c, varied, says("old"))
		variant := func(h http.Handler) answer { return get(h, "/a", "X-Variant: 1") }
		expect(t, variant(h), "old /a", "isr; fwd=miss; fwd-status=200; stored")
		bindOne(t, c, isr.Route{Revalidate: time.Minute}, says("new"))
		time.Sleep(time.Second)
		if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(store.Key{Text: "example.com/a"})}, Hard: true}); err != nil {
			t.Fatal(err)
		}
		h = bindOne(t, c, varied, says("new"))
		expect(t, variant(h), "new /a", "isr; fwd=stale; fwd-status=200; stored")
	})
}

// No method reaches a partition of another tenant by an invalid key.
func TestInvalidKeysAreRefused(t *testing.T) {
	tb := newTable(t)
	p := tb.peer("a", withHistory, newSite(), nil)
	for name, k := range map[string]store.Key{
		"no text":            {},
		"a tenant alone":     {Tenant: "acme"},
		"a tenant with a #":  {Tenant: "acme#CACHE", Text: "h/"},
		"a long tenant":      {Tenant: strings.Repeat("x", 65), Text: "h/"},
		"a long text":        {Text: strings.Repeat("x", 4097)},
		"text that is bytes": {Text: "h/#\xff"},
	} {
		_, regenerate := p.Regenerate(t.Context(), k)
		_, versions := p.Versions(t.Context(), k)
		_, rollback := p.Rollback(t.Context(), k)
		_, pin := p.Pin(t.Context(), k, time.Hour)
		_, unpin := p.Unpin(t.Context(), k)
		_, diff := p.Diff(t.Context(), k, "1", "2")
		for call, err := range map[string]error{
			"Regenerate": regenerate, "Versions": versions, "Rollback": rollback, "Pin": pin, "Unpin": unpin, "Diff": diff,
		} {
			if !errors.Is(err, store.ErrInvalidKey) {
				t.Errorf("%s of %s: %v, want ErrInvalidKey", call, name, err)
			}
		}
	}
	longest := store.Key{Tenant: strings.Repeat("x", 64), Text: strings.Repeat("x", 4096)}
	if _, err := p.Versions(t.Context(), longest); err != nil {
		t.Errorf("the longest key: %v", err)
	}
	if _, err := p.Pin(t.Context(), store.Key{Text: "h/"}, -time.Second); !errors.Is(err, store.ErrInvalidInput) {
		t.Errorf("a negative pin: %v, want ErrInvalidInput", err)
	}
}

// TestFreshnessOfOneSecond: max-age=1 lasts one second, not less and not more, whichever part of
// a second rendering began in, on the server that rendered the page and on others (RFC 9111,
// section 4.2).
func TestFreshnessOfOneSecond(t *testing.T) {
	for _, fraction := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, 999 * time.Millisecond} {
		t.Run(fraction.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.delay = 0
				site.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
					w.Header().Set("Cache-Control", "public, max-age=1")
					fmt.Fprint(w, n)
				})
				rt := isr.Route{Stale: -1}
				a, b := tb.node(tb.store("a"), nil).Handler(rt, site), tb.node(tb.store("b"), nil).Handler(rt, site)
				time.Sleep(fraction)
				expect(t, get(a, "/"), "1", "isr; fwd=miss; ")
				time.Sleep(998 * time.Millisecond)
				expect(t, get(a, "/"), "1", "isr; hit; ttl=0")
				expect(t, get(b, "/"), "1", "isr; hit; ttl=0")
				time.Sleep(2 * time.Millisecond)
				expect(t, get(b, "/"), "2", "isr; fwd=stale; ")
				expect(t, get(a, "/"), "2", "isr; ")
			})
		})
	}
}

// TestIfModifiedSinceOfAPageWithoutLastModified: dates have whole seconds, so that the date of a
// page that was generated in the middle of a second still matches (RFC 9111, section 4.3.2).
func TestIfModifiedSinceOfAPageWithoutLastModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		time.Sleep(700 * time.Millisecond)
		get(h, "/")
		date := time.Now().UTC().Format(http.TimeFormat)
		if a := get(h, "/", "If-Modified-Since: "+date); a.Code != http.StatusNotModified {
			t.Errorf("since %s: %d, want 304", date, a.Code)
		}
	})
}

// A wall clock that is set back by an hour delays no retry of any kind by an hour.
func TestClockSetBackDelaysNoRetry(t *testing.T) {
	for name, run := range map[string]func(t *testing.T, h http.Handler, store *faultyStore, site *site, setBack func()){
		"a stale page": func(t *testing.T, h http.Handler, store *faultyStore, site *site, setBack func()) {
			get(h, "/")
			time.Sleep(time.Minute)
			store.read = func() error { return errors.New("throttled") } // by a regeneration behind
			expect(t, get(h, "/"), "/ rendered 1", "isr; hit")
			synctest.Wait()
			store.read = nil
			setBack()
			time.Sleep(1100 * time.Millisecond)
			expect(t, get(h, "/"), "/ rendered 1", "isr; hit")
			time.Sleep(2 * time.Second)
			expect(t, get(h, "/"), "/ rendered 2", "isr; hit")
		},
		"a page whose failure is remembered": func(t *testing.T, h http.Handler, store *faultyStore, site *site, setBack func()) {
			store.read = func() error { return errors.New("throttled") } // so that no back-off is stored
			site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(500) })
			get(h, "/")
			store.read = nil
			site.answers(cacheable)
			setBack()
			time.Sleep(2 * time.Second)
			expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		},
		"a page that was uncacheable": func(t *testing.T, h http.Handler, _ *faultyStore, site *site, setBack func()) {
			site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.Header().Set("Cache-Control", "private") })
			get(h, "/")
			get(h, "/") // remembered on
			site.answers(cacheable)
			setBack()
			time.Sleep(2*time.Minute + time.Second)
			expect(t, get(h, "/"), "/ rendered 3", "isr; fwd=miss; fwd-status=200; stored")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				var back atomic.Int64
				store := &faultyStore{MetaStore: tb.store("a")}
				h := tb.node(store, func(cfg *isr.Config) {
					cfg.Now = func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
				}).Handler(isr.Route{}, site)
				time.Sleep(time.Second)
				run(t, h, store, site, func() { back.Store(int64(time.Hour)) })
			})
		})
	}
}

// fieldOf is the size of a field for MaxHeader, with a name of 8 bytes and a value of 8.
const fieldOf = 8 + 8 + 32

// headed answers with n such fields, and those that make a page storable.
func headed(n int) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, r *http.Request, i int64) {
		for i := range n {
			w.Header().Set(fmt.Sprintf("X-%06d", i), "12345678")
		}
		w.Header().Set("Cache-Control", "s-maxage=60")
		fmt.Fprintf(w, "%s rendered %d", r.URL.Path, i)
	}
}

// A page with a large header is stored, up to MaxHeader. Beyond that, its requests pass through, and
// the log says why.
func TestMaxHeader(t *testing.T) {
	for name, c := range map[string]struct {
		max    int64
		fields int
		refuse bool
	}{
		"20 KB by default":     {0, 20_000 / fieldOf, false},
		"60 KB by default":     {0, 60_000 / fieldOf, false},
		"66 KB by default":     {0, 66_000 / fieldOf, true},
		"66 KB of 100 KiB":     {100 << 10, 66_000 / fieldOf, false},
		"1 KB of 1 KiB":        {1 << 10, 1_024 / fieldOf, true}, // with Cache-Control
		"half a KB of 1 KiB":   {1 << 10, 500 / fieldOf, false},
		"130 KB, which is max": {128 << 10, 130_000 / fieldOf, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(headed(c.fields))
				h := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.MaxHeader = c.max }).Handler(isr.Route{}, site)
				first, second := get(h, "/"), get(h, "/")
				if c.refuse {
					if !strings.HasSuffix(first.status(), "; detail=header-too-large") || !strings.Contains(tb.log.String(), "(max_header)") || !strings.Contains(tb.log.String(), "example.com/") {
						t.Errorf("%s\n%s", first.status(), tb.log.String())
					}
					return
				}
				if !strings.HasPrefix(second.status(), "isr; hit") || second.Header().Get("X-000000") != "12345678" {
					t.Errorf("%s, then %s", first.status(), second.status())
				}
			})
		})
	}
}

// The row of a page with the largest header, the largest tags and a long key fits into a table, and
// so does the row of a generation that is kept.
func TestLargestRowFits(t *testing.T) {
	const most, mostTags = 128 << 10, 2048
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(headed((most - 100) / fieldOf))
		tags := make([]string, mostTags)
		for i := range tags {
			tags[i] = fmt.Sprintf("%0*d", most/mostTags, i)
		}
		rt := isr.Route{Name: "site", History: 3, Tags: func(*http.Request) []string { return tags }}
		h := tb.peer("a", rt, site, func(cfg *isr.Config) { cfg.MaxHeader, cfg.MaxTags = most, mostTags })
		path := "/" + strings.Repeat("x", 3000)
		for range 2 {
			k := page
			k.Text = "example.com" + path
			if a := get(h, path); a.Code != http.StatusOK {
				t.Fatalf("%d, %s", a.Code, a.status())
			}
			if _, err := h.Regenerate(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		if a := get(h, path); !strings.HasPrefix(a.status(), "isr; hit") {
			t.Error(a.status())
		}
	})
}
