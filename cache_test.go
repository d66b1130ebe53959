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
