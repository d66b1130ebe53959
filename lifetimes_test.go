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

// TestRemainingFreshness: caches in front are told for how much longer a page is fresh here, counted
// from now, so that the page has no age and the current Date; of a page that is not fresh, nothing;
// and of a pinned one, a few seconds.
func TestRemainingFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		tb.poll, s.delay = rarely, 0
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
			w.Header().Set("Surrogate-Control", "max-age=60")
			cacheable(w, r, n)
		})
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{Name: "r", Stale: time.Hour, Jitter: -1, Downstream: isr.DownstreamControl{
			CacheControl: "no-cache", CDN: "max-age=remaining, stale-if-error=9", Surrogate: "max-age=remaining",
		}}, s)
		check := func(name, want string) {
			t.Helper()
			a := get(h, "/")
			x := a.Header()
			if got := fmt.Sprint(x["Cache-Control"], x["Cdn-Cache-Control"], x["Surrogate-Control"], x["Age"], len(x["Date"])); got != want {
				t.Errorf("%s: %s, want %s (%s)", name, got, want, a.status())
			}
		}
		check("new", "[no-cache] [max-age=59, stale-if-error=9] [max-age=59] [0] 0") // less a fraction of a second
		for range 2 {
			check("fresh", "[no-cache] [max-age=59, stale-if-error=9] [max-age=59] [0] 0")
		}
		time.Sleep(30 * time.Second)
		check("older", "[no-cache] [max-age=29, stale-if-error=9] [max-age=29] [0] 0")
		if _, err := c.Pin(t.Context(), page, time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		check("pinned", "[max-age=10] [] [] [0] 0")
		if _, err := c.Unpin(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		s.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusBadGateway) })
		time.Sleep(3 * time.Second)
		check("stale", "[max-age=0, must-revalidate] [] [] [73] 1")
	})
}

// TestDate: the Date of the origin is kept with the page and sent on hits; a page without one has
// the time at which its rendering began (RFC 9110, section 6.6.1).
func TestDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		s.delay = 0
		began := time.Now()
		origins := began.Add(-30 * time.Second).UTC().Format(http.TimeFormat)
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			if r.URL.Path == "/dated" {
				w.Header().Set("Date", origins)
			}
			cacheable(w, r, n)
		})
		a, b := tb.node(tb.store("a"), nil).Handler(isr.Route{}, s), tb.node(tb.store("b"), nil).Handler(isr.Route{}, s)
		for path, want := range map[string]string{"/": began.UTC().Format(http.TimeFormat), "/dated": origins} {
			get(a, path)
			time.Sleep(2 * time.Second)
			for _, h := range []http.Handler{a, b} {
				if got := get(h, path); got.Header().Get("Date") != want && path == "/dated" || len(got.Header()["Date"]) != 1 {
					t.Errorf("%s: the Date is %q, want %q", path, got.Header()["Date"], want)
				}
			}
		}
		if age := get(b, "/dated").Header().Get("Age"); age != "2" && age != "4" {
			t.Errorf("the Age is %s, although clocks may differ by 30 seconds", age)
		}
	})
}

// TestAgeIsOfTheMoment: hits share their Age for a second of the page's age, not of the clock, so that none is
// sent as younger than it is (RFC 9111, section 4.2.3).
func TestAgeIsOfTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		s.delay = 0
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, s)
		time.Sleep(600 * time.Millisecond)
		get(h, "/")
		time.Sleep(1500 * time.Millisecond)
		for _, want := range []string{"1", "1", "1", "1", "1", "2", "2"} {
			if got := get(h, "/").Header().Get("Age"); got != want {
				t.Errorf("the Age is %s, want %s", got, want)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// TestApparentAge: a response whose Date is long ago has been in a cache that does not send Age (RFC
// 9111, section 4.2.3).
func TestApparentAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		s.delay = 0
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			w.Header().Set("Cache-Control", "s-maxage=3600")
			if r.URL.Path == "/fresh" {
				w.Header().Set("Cache-Control", "s-maxage=3660")
			}
			fmt.Fprint(w, n)
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Jitter: -1}, s)
		if a := get(h, "/"); !strings.Contains(a.status(), "detail=too-old") {
			t.Errorf("a page that is as old as its lifetime: %q", a.status())
		}
		get(h, "/fresh")
		if a := get(h, "/fresh"); !strings.HasPrefix(a.status(), "isr; hit; ttl=") || a.Header().Get("Age") != "3600" {
			t.Errorf("a page that is an hour old: %q, Age %s", a.status(), a.Header().Get("Age"))
		}
	})
}

// TestUnchangedButForDate: Date and Cache-Status make no other content, so that a regeneration
// without a change makes no version, and a diff does not show them.
func TestUnchangedButForDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		s.delay = 0
		s.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
			w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
			w.Header().Set("Cache-Status", fmt.Sprintf("cdn; fwd=miss; key=%d", n))
			w.Header().Set("Cache-Control", "s-maxage=60")
			fmt.Fprint(w, "always")
		})
		p := tb.peer("a", withHistory, s, nil)
		get(p, "/")
		p.regenerate(t, 2)
		if v := p.versions(t); len(v) != 1 {
			t.Errorf("%d versions of one content", len(v))
		}
	})
}

// TestUpstreamCacheStatus: the members of caches closer to the origin come first, on renders and on
// hits (RFC 9211, section 2); and the obsolete Warning is not kept (RFC 9111, section 5.5).
func TestUpstreamCacheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		s.delay = 0
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			switch r.URL.Path {
			case "/":
				w.Header()["Cache-Status"] = []string{"inner; hit; ttl=9", "outer; fwd=miss"}
				w.Header().Set("Warning", `110 - "Response is Stale"`)
			case "/invalid":
				w.Header().Set("Cache-Status", "inner; ;")
			case "/long":
				w.Header().Set("Cache-Status", "c"+strings.Repeat("x", 1024))
			}
			cacheable(w, r, n)
		})
		a, b := tb.node(tb.store("a"), nil).Handler(isr.Route{}, s), tb.node(tb.store("b"), nil).Handler(isr.Route{}, s)
		for path, upstream := range map[string]string{"/": "inner; hit; ttl=9, outer; fwd=miss, ", "/invalid": "", "/long": ""} {
			get(a, path)
			for _, h := range []http.Handler{a, b} {
				const want = "isr; hit"
				got := get(h, path)
				if lines := got.Header()["Cache-Status"]; len(lines) != 1 || !strings.HasPrefix(lines[0], upstream+want) {
					t.Errorf("%s: Cache-Status %q, want %q", path, lines, upstream+want)
				}
				if got.Header()["Warning"] != nil {
					t.Errorf("the header is %v", got.Header())
				}
			}
		}
		if got := get(a, "/?x").Header()["Cache-Status"]; len(got) != 3 || !strings.HasPrefix(got[2], "isr; fwd=bypass") {
			t.Errorf("a bypass has %q", got)
		}
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Cache-Status", "cdn; hit")
			cacheable(w, r, n)
		})
		if got := get(a, "/new").status(); !strings.HasPrefix(got, "cdn; hit, isr; fwd=miss; fwd-status=200; stored") {
			t.Errorf("a new page has %q", got)
		}
	})
}
