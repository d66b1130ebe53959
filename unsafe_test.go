package isr_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// An editable site has one version, which each unsafe request increments. Its pages name the
// version. The answer to an unsafe request has the status and fields that the request asks
// for.
type editable struct {
	version atomic.Int64
	delay   atomic.Int64 // of renders
	renders atomic.Int64
	fails   atomic.Bool
}

func (e *editable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		version := e.version.Load()
		e.renders.Add(1)
		if e.fails.Load() {
			http.Error(w, "broken", http.StatusInternalServerError)
			return
		}
		time.Sleep(time.Duration(e.delay.Load()))
		w.Header().Set("Cache-Control", "public, max-age=86400, stale-while-revalidate=86400")
		if lang := r.Header.Get("X-Lang"); lang != "" {
			w.Header().Set("Vary", "X-Lang")
		}
		fmt.Fprintf(w, "v%d", version)
		return
	}
	e.version.Add(1)
	for _, name := range []string{"Location", "Content-Location"} {
		if value := r.Header.Get("X-" + name); value != "" {
			w.Header().Set(name, value)
		}
	}
	status := http.StatusOK
	_, _ = fmt.Sscan(r.Header.Get("X-Status"), &status)
	w.WriteHeader(status)
}

// send sends a request with any method.
func send(h http.Handler, method, path string, header ...string) answer {
	r := newRequest(path, header...)
	r.Method = method
	a, _ := reported(h, r)
	return a
}

// sequence is the number of changes in the log.
func (tb *table) sequence(t *testing.T) int64 {
	t.Helper()
	seq, err := tb.store("reader").Sequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seq.Seq
}

func TestUnsafeRequestsInvalidatePages(t *testing.T) {
	for name, c := range map[string]struct {
		method, path string
		header       []string
		purged       string // of the pages below
	}{
		"POST":                                 {"POST", "/", nil, "/"},
		"PUT":                                  {"PUT", "/item", nil, "/item"},
		"PATCH":                                {"PATCH", "/item", []string{"X-Status: 202"}, "/item"},
		"DELETE":                               {"DELETE", "/item", []string{"X-Status: 204"}, "/item"},
		"an unknown method":                    {"BREW", "/item", nil, "/item"},
		"a declared query":                     {"POST", "/list?utm_source=a&page=2", nil, "/list?page=2"},
		"an undeclared query":                  {"POST", "/item?x=1", nil, ""},
		"credentials":                          {"POST", "/item", []string{"Authorization: me", "Cookie: s=1"}, "/item"},
		"a header of tenants":                  {"POST", "/item", []string{"X-Tenant: a"}, "/item"},
		"a redirect to a page":                 {"POST", "/", []string{"X-Status: 303", "X-Location: /item"}, "/ /item"},
		"a relative redirect":                  {"POST", "/list/", []string{"X-Status: 303", "X-Location: ../item#top"}, "/item"},
		"the same host, by another scheme":     {"POST", "/", []string{"X-Status: 201", "X-Location: https://EXAMPLE.com:443/item"}, "/ /item"},
		"the host alone":                       {"POST", "/item", []string{"X-Status: 303", "X-Location: https://example.com"}, "/ /item"},
		"another port":                         {"POST", "/", []string{"X-Status: 201", "X-Location: http://example.com:8080/item"}, "/"},
		"another host":                         {"POST", "/", []string{"X-Status: 201", "X-Location: https://evil.example/item"}, "/"},
		"another host, without a scheme":       {"POST", "/", []string{"X-Status: 201", "X-Location: //evil.example/item"}, "/"},
		"another scheme":                       {"POST", "/", []string{"X-Status: 201", "X-Location: ftp://example.com/item"}, "/"},
		"a malformed location":                 {"POST", "/", []string{"X-Status: 201", "X-Location: /%zz"}, "/"},
		"content of another page":              {"POST", "/", []string{"X-Content-Location: /list?page=2"}, "/ /list?page=2"},
		"a client error":                       {"POST", "/", []string{"X-Status: 404", "X-Location: /item"}, ""},
		"a server error":                       {"POST", "/", []string{"X-Status: 500"}, ""},
		"OPTIONS is safe":                      {"OPTIONS", "/", nil, ""},
		"PROPFIND is safe":                     {"PROPFIND", "/", nil, ""},
		"HEAD with credentials passes through": {"HEAD", "/", []string{"Authorization: me"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), new(editable)
				rt := isr.Route{Query: []string{"page"}}
				a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
				pages := []string{"/", "/item", "/list?page=2"}
				for _, path := range pages {
					expect(t, get(a, path), "v0", "isr; fwd=miss")
					expect(t, get(b, path), "v0", "isr; hit")
				}
				send(a, c.method, c.path, c.header...)
				for _, node := range []*peer{a, b} {
					for _, path := range pages {
						want, version := "isr; hit", "v0"
						if strings.Contains(" "+c.purged+" ", " "+path+" ") {
							want, version = "isr; fwd=", "v1"
							if node == b {
								want = "isr; hit"
							}
						}
						expect(t, get(node, path), version, want)
					}
					time.Sleep(isr.DefaultPoll)
				}
			})
		})
	}
}

// An unsafe request invalidates all variants of its page.
func TestUnsafeRequestInvalidatesVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		rt := isr.Route{Vary: []string{"X-Lang"}}
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		for _, lang := range []string{"de", "en"} {
			expect(t, get(b, "/", "X-Lang: "+lang), "v0", "isr; fwd=miss")
			expect(t, get(b, "/other", "X-Lang: "+lang), "v0", "isr; fwd=miss")
		}
		send(a, "POST", "/", "X-Lang: de")
		time.Sleep(isr.DefaultPoll)
		for _, lang := range []string{"de", "en"} {
			expect(t, get(b, "/", "X-Lang: "+lang), "v1", "isr; fwd=")
			expect(t, get(b, "/other", "X-Lang: "+lang), "v0", "isr; hit")
		}
	})
}

// marks returns how many purge marks the table has.
func (tb *table) marks(t *testing.T) (n int) {
	t.Helper()
	for _, err := range tb.store("reader").Marks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// An unsafe request invalidates the variants of its page that are stored, whichever its
// sender gets, and those only: without a mark, which all processes would keep in memory.
func TestUnsafeRequestsWriteNoMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		rt := isr.Route{Vary: []string{"X-Lang"}}
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		const pages = 5
		for i := range pages {
			for _, lang := range []string{"de", "en"} {
				get(b, fmt.Sprint("/", i), "X-Lang: "+lang)
			}
		}
		for i := range pages {
			send(a, "POST", fmt.Sprint("/", i)) // the page itself is not stored
		}
		time.Sleep(isr.DefaultPoll)
		for i := range pages {
			for _, lang := range []string{"de", "en"} {
				for _, node := range []*peer{a, b} {
					if got := get(node, fmt.Sprint("/", i), "X-Lang: "+lang); got.Body.String() != "v5" {
						t.Errorf("page %d in %s: %q, %q", i, lang, got.Body, got.status())
					}
				}
			}
		}
		if n := tb.marks(t); n != 0 {
			t.Errorf("%d marks", n)
		}
	})
}

// A page with too many variants for a purge by their keys gets one mark.
func TestUnsafeRequestToManyVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		rt := isr.Route{Vary: []string{"X-Lang"}}
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		const variants = 60
		for i := range variants {
			get(b, "/", fmt.Sprint("X-Lang: ", i))
		}
		for range 3 {
			send(a, "POST", "/")
			time.Sleep(2 * time.Second)
		}
		for i := range variants {
			if got := get(b, "/", fmt.Sprint("X-Lang: ", i)); got.Body.String() != "v3" {
				t.Errorf("variant %d: %q, %q", i, got.Body, got.status())
			}
		}
		if n := tb.marks(t); n != 1 {
			t.Errorf("%d marks", n)
		}
	})
}

// A variant that is rendered for the first time while a post changes it is not served from
// then on.
func TestPostDuringTheFirstRenderOfAVariant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		rt := isr.Route{Vary: []string{"X-Lang"}}
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		site.delay.Store(int64(time.Second))
		early := make(chan answer, 1)
		go func() { early <- get(b, "/", "X-Lang: de") }()
		time.Sleep(500 * time.Millisecond)
		send(a, "POST", "/")
		<-early
		time.Sleep(isr.DefaultPoll)
		for _, p := range []*peer{a, b} {
			if got := get(p, "/", "X-Lang: de"); got.Body.String() != "v1" {
				t.Errorf("%q, %q", got.Body, got.status())
			}
		}
	})
}

// A pinned variant stays as it is, and the others do not.
func TestPostToAPinnedVariant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, variants := range []int{3, 60} { // by their keys, and too many for that
			tb, site := newTable(t), new(editable)
			rt := isr.Route{Vary: []string{"X-Lang"}, History: 2}
			a := tb.peer("a", rt, site, nil)
			for i := range variants {
				get(a, "/", fmt.Sprint("X-Lang: ", i))
			}
			pinned := store.Key{Text: "example.com/#x-lang=0"}
			if _, err := a.Pin(t.Context(), pinned, time.Hour); err != nil {
				t.Fatal(err)
			}
			for i := 1; i < variants && variants > 50; i++ { // all: the variants of a mark are read in any order
				if _, err := a.Pin(t.Context(), store.Key{Text: fmt.Sprint("example.com/#x-lang=", i)}, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			send(a, "POST", "/")
			expect(t, get(a, "/", "X-Lang: 0"), "v0", "isr; hit")
			if variants < 50 {
				expect(t, get(a, "/", "X-Lang: 1"), "v1", "isr; fwd=")
			}
			if n := tb.marks(t); n != 0 {
				t.Errorf("%d variants: %d marks", variants, n)
			}
		}
	})
}

// However many posts arrive, a page is purged once a second, and at last after the last of
// them.
func TestFloodOfPosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		a, b := tb.peer("a", isr.Route{}, site, nil), tb.peer("b", isr.Route{}, site, nil)
		get(a, "/")
		before, reads := tb.sequence(t), a.store.reads.Load()
		var wg sync.WaitGroup
		for range 100 {
			for range 50 {
				wg.Go(func() { send(a, "POST", "/") })
			}
			time.Sleep(100 * time.Millisecond)
			get(b, "/")
		}
		wg.Wait()
		time.Sleep(1100*time.Millisecond + isr.DefaultPoll)
		if n := tb.sequence(t) - before; n < 9 || n > 12 {
			t.Errorf("%d purges in ten seconds", n)
		}
		if n := a.store.reads.Load() - reads; n > 12 {
			t.Errorf("%d reads in ten seconds", n)
		}
		expect(t, get(b, "/"), "v5000", "isr; fwd=")
	})
}

// A post costs an invented URL a read, and no row.
func TestPostsToInventedURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		a := tb.peer("a", isr.Route{Vary: []string{"X-Lang"}}, site, nil)
		rows := tb.rowCount(t)
		for i := range 300 {
			send(a, "POST", fmt.Sprint("/invented/", i), "X-Lang: de", "X-Location: /"+fmt.Sprint(i))
		}
		if n := tb.rowCount(t) - rows; n != 0 {
			t.Errorf("%d rows", n)
		}
	})
}

// Invented URLs leave room for the site's pages.
func TestFloodOfPostsToInventedURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		a, b := tb.peer("a", isr.Route{}, site, nil), tb.peer("b", isr.Route{}, site, nil)
		get(a, "/")
		get(b, "/")
		for i := range 6000 { // within a second
			send(a, "POST", fmt.Sprint("/invented/", i))
		}
		send(a, "POST", "/")
		time.Sleep(isr.DefaultPoll)
		expect(t, get(b, "/"), "v6001", "isr; fwd=")
	})
}

// A page that was purged, and is not rendered again, is not purged again.
func TestPostsToAPurgedPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		a := tb.peer("a", isr.Route{}, new(editable), nil)
		get(a, "/")
		for range 5 {
			send(a, "POST", "/")
			time.Sleep(2 * time.Second)
		}
		if n := tb.sequence(t); n != 1 {
			t.Errorf("%d purges, want 1", n)
		}
	})
}

// A page that is rendered while a post changes it is not served from then on.
func TestPostDuringARender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		a, b := tb.peer("a", isr.Route{}, site, nil), tb.peer("b", isr.Route{}, site, nil)
		site.delay.Store(int64(time.Second))
		early := make(chan answer, 1)
		go func() { early <- get(b, "/") }()
		time.Sleep(500 * time.Millisecond)
		send(a, "POST", "/")
		<-early
		time.Sleep(isr.DefaultPoll)
		for _, p := range []*peer{a, b} {
			if got := get(p, "/"); got.Body.String() != "v1" {
				t.Errorf("%q, %q", got.Body, got.status())
			}
		}
	})
}

// The same by a process whose clock is behind by more than a lease: its lease seems to have expired.
func TestPostDuringARenderByASlowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		behind := func() time.Time { return time.Now().Add(-time.Minute) }
		slow, err := dynamostore.New(tb.db, tableName, dynamostore.Config{Owner: "b", Now: behind, Logger: slog.New(slog.NewTextHandler(tb.log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		a := tb.peer("a", isr.Route{}, site, nil)
		b := tb.node(slow, func(cfg *isr.Config) { cfg.Now = behind }).Handler(isr.Route{}, site)
		site.delay.Store(int64(time.Second))
		early := make(chan answer, 1)
		go func() { early <- get(b, "/") }()
		time.Sleep(500 * time.Millisecond)
		send(a, "POST", "/")
		<-early
		time.Sleep(isr.DefaultPoll)
		if got := get(a, "/"); got.Body.String() != "v1" {
			t.Errorf("%q, %q", got.Body, got.status())
		}
	})
}

// A pinned page stays as it is.
func TestPostToAPinnedPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		a := tb.peer("a", withHistory, new(editable), nil)
		get(a, "/")
		if _, err := a.Pin(t.Context(), page, 0); err != nil {
			t.Fatal(err)
		}
		before := tb.sequence(t)
		send(a, "POST", "/")
		expect(t, get(a, "/"), "v0", "isr; hit")
		if n := tb.sequence(t) - before; n != 0 {
			t.Errorf("%d purges", n)
		}
	})
}

// A purgeFaults fails or hangs on purges.
type purgeFaults struct {
	store.MetaStore
	fails, hangs atomic.Bool
}

func (s *purgeFaults) Purge(ctx context.Context, p store.Purge) (store.Receipt, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return store.Receipt{}, ctx.Err()
	}
	if s.fails.Load() {
		return store.Receipt{}, errors.New("throttled")
	}
	return s.MetaStore.Purge(ctx, p)
}

// The answer to a post waits for the purge for StoreTimeout; a purge that fails is repeated.
func TestPostWhileTheStoreFails(t *testing.T) {
	for name, c := range map[string]struct {
		hangs bool
		took  time.Duration
	}{"fails": {false, 0}, "hangs": {true, isr.DefaultStoreTimeout}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), new(editable)
				faulty := &purgeFaults{MetaStore: tb.store("a")}
				a := tb.node(faulty, nil).Handler(isr.Route{}, site)
				b := tb.peer("b", isr.Route{}, site, nil)
				get(b, "/")
				get(a, "/")
				faulty.fails.Store(!c.hangs)
				faulty.hangs.Store(c.hangs)
				if sent := send(a, "POST", "/"); sent.Code != http.StatusOK || sent.took != c.took {
					t.Errorf("%d after %v, want %v", sent.Code, sent.took, c.took)
				}
				time.Sleep(4 * time.Second)
				faulty.fails.Store(false)
				faulty.hangs.Store(false)
				time.Sleep(3 * time.Second)
				expect(t, get(b, "/"), "v1", "isr; fwd=")
			})
		})
	}
}

func TestPostWhoseEffectIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		faulty := &purgeFaults{MetaStore: tb.store("a")}
		a := tb.node(faulty, nil).Handler(isr.Route{}, new(editable))
		get(a, "/")
		faulty.fails.Store(true)
		send(a, "POST", "/")
		time.Sleep(20 * time.Second)
		if n := strings.Count(tb.log.String(), "failed to purge a page that an unsafe request has changed"); n != 1 {
			t.Errorf("%d lines in the log, want 1", n)
		}
		faulty.fails.Store(false)
		before := tb.sequence(t)
		send(a, "POST", "/")
		if n := tb.sequence(t) - before; n != 1 {
			t.Errorf("%d purges for the next post, want 1", n)
		}
	})
}

// Close makes the purges that wait for the end of their second.
func TestCloseMakesPendingPurges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		a, b := tb.peer("a", isr.Route{}, site, nil), tb.peer("b", isr.Route{}, site, nil)
		get(a, "/")
		send(a, "POST", "/")
		get(a, "/")
		send(a, "POST", "/") // the page is purged later
		before := tb.sequence(t)
		began := time.Now()
		if err := a.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := tb.sequence(t) - before; n != 1 || time.Since(began) > 0 {
			t.Errorf("%d purges in %v, want one at once", n, time.Since(began))
		}
		time.Sleep(isr.DefaultPoll)
		expect(t, get(b, "/"), "v2", "isr; fwd=")
	})
}

// The pages that are being purged are bounded, and so is the wait of every post.
func TestPostsToManyPagesWhileTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		broken := &brokenStore{MetaStore: tb.store("a")}
		a := tb.node(broken, nil).Handler(isr.Route{}, new(editable))
		time.Sleep(time.Second)
		broken.hangs.Store(true)
		var wg sync.WaitGroup
		for i := range 5000 {
			wg.Go(func() {
				if sent := send(a, "POST", fmt.Sprint("/", i)); sent.Code != http.StatusOK || sent.took > isr.DefaultStoreTimeout {
					t.Errorf("%d after %v", sent.Code, sent.took)
				}
			})
		}
		wg.Wait()
		if calls := broken.calls.Load(); calls > 70 {
			t.Errorf("%d calls of the store, want at most 64 and the polls", calls)
		}
		if !strings.Contains(tb.log.String(), "dropped by this server only") {
			t.Error("the log does not say that pages are not purged")
		}
		broken.hangs.Store(false)
	})
}

// TestUnsafeRequestOfAnotherRoute: the route of GET requests decides which page a POST
// changes, also if the POST has a route of its own, with other rules for the key.
func TestUnsafeRequestOfAnotherRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		hs, err := tb.node(tb.store("a"), nil).Bind([]isr.Binding{
			{Route: isr.Route{Query: []string{"page"}, Vary: []string{"X-Lang"}}, Renderer: site},
			{Route: isr.Route{Off: true}, Renderer: site},
		}, func(store.Key) int { return 0 })
		if err != nil {
			t.Fatal(err)
		}
		const path = "/list?page=2"
		expect(t, get(hs[0], path, "X-Lang: de"), "/list rendered 1", "isr; fwd=miss")
		expect(t, get(hs[0], path, "X-Lang: de"), "/list rendered 1", "isr; hit")
		r := httptest.NewRequest(http.MethodPost, "http://example.com"+path, http.NoBody)
		r.Header.Set("X-Lang", "de")
		hs[1].ServeHTTP(httptest.NewRecorder(), r)
		expect(t, get(hs[0], path, "X-Lang: de"), "/list rendered 3", "isr; fwd=")
	})
}

// bySender distinguishes clients by the addresses of their connections.
func bySender(r *http.Request) netip.Prefix {
	return netip.PrefixFrom(netip.MustParseAddrPort(r.RemoteAddr).Addr(), 32)
}

// post sends a POST from an address.
func post(h http.Handler, path, from string) {
	r := newRequest(path)
	r.Method, r.RemoteAddr = http.MethodPost, from+":1"
	reported(h, r)
}

// visits are what visitors got who came at a steady pace.
type visits struct {
	mu      sync.Mutex
	wg      sync.WaitGroup
	all     int
	hits    int
	longest time.Duration
	last    string // body of the last to end
}

// come lets visitors come, one every pause, for some time, whether or not earlier ones have left.
func (v *visits) come(h http.Handler, path string, pause, d time.Duration) {
	for range d / pause {
		v.wg.Go(func() {
			got := get(h, path)
			v.mu.Lock()
			defer v.mu.Unlock()
			v.all++
			if strings.HasPrefix(got.status(), "isr; hit") {
				v.hits++
			}
			v.longest, v.last = max(v.longest, got.took), got.Body.String()
		})
		time.Sleep(pause)
	}
}

// A stranger who posts twice a second to a page that takes longer than that to render, at one node
// or at all in turns, leaves it to the others: nine of ten visits are hits, and the rest wait for
// one render. No invalidation is lost: the page is rendered anew within its interval after the
// last of them.
func TestPostsToAPageThatOthersVisit(t *testing.T) {
	const render = 1500 * time.Millisecond
	for name, nodes := range map[string]int{"one node": 1, "a fleet": 4} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), new(editable)
				site.delay.Store(int64(render))
				var fleet []*peer
				for n := range nodes {
					fleet = append(fleet, tb.peer(fmt.Sprint("node", n), isr.Route{Client: bySender}, site, nil))
					get(fleet[n], "/")
				}
				stop := make(chan struct{})
				var stranger sync.WaitGroup
				stranger.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						case <-time.After(500 * time.Millisecond):
							post(fleet[n%nodes], "/", "192.0.2.66")
						}
					}
				})
				var v visits
				v.come(fleet[0], "/", 100*time.Millisecond, 2*time.Minute)
				close(stop)
				stranger.Wait()
				v.wg.Wait()
				if v.hits*10 < v.all*9 {
					t.Errorf("%d hits of %d visits", v.hits, v.all)
				}
				if most := render + 500*time.Millisecond; nodes == 1 && v.longest > most {
					t.Errorf("a visitor waited %v, want at most %v", v.longest, most)
				}
				time.Sleep(18*render + time.Second + isr.DefaultPoll)
				last := fmt.Sprint("v", site.version.Load())
				for n, p := range fleet {
					if got := get(p, "/"); got.Body.String() != last {
						t.Errorf("node %d after the last post: %q, %q; want %s", n, got.Body, got.status(), last)
					}
				}
			})
		})
	}
}

// A visitor who came before a post gets what has been rendered since, although the post has
// overtaken it; a visitor who came after it does not.
func TestPostOvertakesARender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		site.delay.Store(int64(2 * time.Second))
		a := tb.peer("a", isr.Route{}, site, nil)
		came := make(chan answer, 3)
		go func() { came <- get(a, "/") }() // renders it
		time.Sleep(500 * time.Millisecond)
		go func() { came <- get(a, "/") }()
		time.Sleep(500 * time.Millisecond)
		send(a, "POST", "/")
		later := get(a, "/")
		for range 2 {
			expect(t, <-came, "v0", "isr; fwd=miss")
		}
		if got := later.Body.String(); got != "v1" {
			t.Errorf("a visitor who came after the post got %q, %q", got, later.status())
		}
		expect(t, get(a, "/"), "v1", "isr; hit")
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want 2", n)
		}
	})
}

// What visitors get of a render that a post has overtaken may be kept by no cache in front.
func TestOvertakenRenderIsNotKeptDownstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		site.delay.Store(int64(2 * time.Second))
		a := tb.peer("a", isr.Route{}, site, nil)
		came := make(chan answer, 1)
		go func() { came <- get(a, "/") }()
		time.Sleep(time.Second)
		send(a, "POST", "/")
		got := <-came
		expect(t, got, "v0", "isr; fwd=miss")
		if control := got.Header().Get("Cache-Control"); strings.Contains(control, "max-age=86400") {
			t.Errorf("Cache-Control: %s", control)
		}
	})
}

// An operator's hard purge that overtakes a render lets nobody have it, not even beside a post.
func TestHardPurgeBesideAPostOvertakesARender(t *testing.T) {
	for name, order := range map[string][]string{
		"alone": {"purge"}, "then a post": {"purge", "post"}, "after a post": {"post", "purge"}, "of all pages": {"site", "post"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), new(editable)
				site.delay.Store(int64(2 * time.Second))
				a := tb.peer("a", isr.Route{}, site, nil)
				came := make(chan answer, 1)
				go func() { came <- get(a, "/") }()
				time.Sleep(500 * time.Millisecond)
				for _, what := range order {
					time.Sleep(500 * time.Millisecond)
					switch what {
					case "post":
						send(a, "POST", "/")
					case "purge":
						site.version.Add(1)
						a.purge(t, true, isr.PurgeKey(page))
					case "site":
						site.version.Add(1)
						a.purge(t, true, isr.PurgeSite())
					}
				}
				if got := <-came; got.Body.String() == "v0" {
					t.Errorf("%q, %q: a page that was purged hard", got.Body, got.status())
				}
			})
		})
	}
}

// A client that changes many pages has its later ones purged as its credit allows, at a second of
// rendering per second; a page that another client changes too is purged at once. None is lost.
func TestPostsToManyPages(t *testing.T) {
	const render, pages = time.Second, 60
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		a := tb.peer("a", isr.Route{Client: bySender}, site, nil)
		b := tb.peer("b", isr.Route{Client: bySender}, site, nil)
		site.delay.Store(int64(render))
		var wg sync.WaitGroup
		for i := range pages {
			wg.Go(func() { get(b, fmt.Sprint("/", i)) })
		}
		wg.Wait()
		time.Sleep(time.Second)
		purged := func() (n int) {
			for i := range pages {
				if rec, err := a.store.Read(t.Context(), store.HashedPartition(store.Key{Text: fmt.Sprint("example.com/", i)})); err != nil || rec.Purges.HardSeq > rec.Entry.PurgeSeq {
					n++
				}
			}
			return n
		}
		for i := range pages {
			post(a, fmt.Sprint("/", i), "192.0.2.66")
		}
		if n := purged(); n < 28 || n > 31 {
			t.Errorf("%d pages are purged at once, want 30", n)
		}
		post(a, "/59", "192.0.2.1") // another client
		time.Sleep(100 * time.Millisecond)
		if rec, err := a.store.Read(t.Context(), store.HashedPartition(store.Key{Text: "example.com/59"})); err != nil || rec.Purges.HardSeq == 0 {
			t.Errorf("a page that another client has changed is not purged: %v", err)
		}
		time.Sleep(10 * time.Second)
		if n := purged(); n < 38 || n > 43 {
			t.Errorf("%d pages are purged after ten seconds, want 40", n)
		}
		time.Sleep(25 * time.Second)
		if n := purged(); n != pages {
			t.Errorf("%d pages are purged at last, want all %d", n, pages)
		}
	})
}

// One client can not take the room that others need for their changes.
func TestPostsFromOneClientLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		broken := &brokenStore{MetaStore: tb.store("a")}
		a := tb.node(broken, nil).Handler(isr.Route{Client: bySender}, site)
		b := tb.peer("b", isr.Route{}, site, nil)
		get(b, "/")
		broken.hangs.Store(true) // so that all wait
		var wg sync.WaitGroup
		for i := range 1100 {
			wg.Go(func() { post(a, fmt.Sprint("/", i), "192.0.2.66") })
		}
		wg.Wait()
		if n := strings.Count(tb.log.String(), "dropped by this server only"); n == 0 {
			t.Error("one client has all the room")
		}
		post(a, "/", "192.0.2.1")
		broken.hangs.Store(false)
		time.Sleep(10 * time.Second)
		expect(t, get(b, "/"), "v1101", "isr; fwd=")
	})
}

// A route says what unsafe requests do to its pages.
func TestUnsafeRequestsOfARoute(t *testing.T) {
	for _, c := range []struct {
		effect        isr.UnsafePurge
		first, second string // bodies of the visits after a post
		failing       int    // status of a visit while the site fails
		purges        int64
	}{
		{isr.UnsafeHard, "v1", "v1", http.StatusInternalServerError, 1},
		{isr.UnsafeSoft, "v0", "v1", http.StatusOK, 1},
		{isr.UnsafeIgnore, "v0", "v0", http.StatusOK, 0},
	} {
		t.Run(c.effect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), new(editable)
				a := tb.peer("a", isr.Route{UnsafeRequests: c.effect}, site, nil)
				for _, path := range []string{"/", "/failing"} {
					expect(t, get(a, path), "v0", "isr; fwd=miss")
				}
				before := tb.sequence(t)
				send(a, "POST", "/")
				bodies := []string{get(a, "/").Body.String()}
				time.Sleep(time.Second)
				if bodies = append(bodies, get(a, "/").Body.String()); !slices.Equal(bodies, []string{c.first, c.second}) {
					t.Errorf("after a post: %q, want %q and %q", bodies, c.first, c.second)
				}
				if n := tb.sequence(t) - before; n != c.purges {
					t.Errorf("%d purges, want %d", n, c.purges)
				}
				send(a, "POST", "/failing")
				site.fails.Store(true)
				if got := get(a, "/failing"); got.Code != c.failing {
					t.Errorf("while the site fails: %d %q, want %d", got.Code, got.Body, c.failing)
				}
			})
		})
	}
	if err := (isr.Route{UnsafeRequests: 3}).Validate(); err == nil {
		t.Error("an unknown effect is valid")
	}
}
