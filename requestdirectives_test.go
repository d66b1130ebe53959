package isr_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

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
