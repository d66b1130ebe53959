package isr_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// routeNode returns a node in real time, whose store may be slow on a busy machine.
func routeNode(t *testing.T, rt isr.Route, s *site) http.Handler {
	tb := newTable(t)
	tb.poll = rarely
	s.delay = 0
	patient := func(cfg *isr.Config) { cfg.StoreTimeout = time.Minute }
	return tb.node(tb.store("a"), patient).Handler(rt, s)
}

func TestRouteValidate(t *testing.T) {
	good := isr.Route{Vary: []string{"RSC"}, Query: []string{"page"}, IgnoreCookies: []string{"*"}, TenantHeader: "X-Site"}
	if err := good.Validate(); err != nil {
		t.Errorf("a good route: %v", err)
	}
	for _, bad := range []isr.Route{
		{Revalidate: -1},
		{Vary: []string{"cookie"}},
		{Vary: []string{"Authorization"}},
		{Vary: []string{"no such"}},
		{Query: []string{""}},
		{IgnoreCookies: []string{""}},
		{TenantHeader: "no:such"},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// A route may reduce a header to its absence, and take back names of package wellknown.
func TestRouteValidateKeys(t *testing.T) {
	for _, good := range []isr.Route{
		{KeyClasses: []isr.KeyClass{
			{Header: "HX-Request", Values: []string{"", "true"}},
			{Header: "Turbo-Frame", Values: []string{""}},
			{Header: "X-Inertia", Values: []string{"", "*"}},
			{Header: "X-Part", Values: []string{"", "nav", "*"}},
			{Header: "X-Kind", Values: []string{"a", "*"}},
		}},
		{KeyClasses: []isr.KeyClass{{Cookie: "cookieconsent_status", Values: []string{"deny", "allow"}}}},
		{Query: []string{"utm_campaign"}},
		{IgnoreCookies: []string{"!OptanonConsent"}},
		{IgnoreCookies: []string{"!Optanon*"}},
		{IgnoreCookies: []string{"!session", "*"}},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []isr.Route{
		{KeyClasses: []isr.KeyClass{{Cookie: "a", Values: []string{"", "b"}}}},
		{KeyClasses: []isr.KeyClass{{Header: "X-A", Values: []string{"b", ""}}}},
		{KeyClasses: []isr.KeyClass{{Header: "Accept-Language", Values: []string{"", "en"}}}},
		{IgnoreCookies: []string{"!"}},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestValidateReject(t *testing.T) {
	for _, bad := range []isr.Reject{
		{SmallerThan: -0.1},
		{SmallerThan: 1.01},
		{Without: []string{""}},
		{With: []string{strings.Repeat("x", 1025)}},
		{With: []string{"\xff"}},
		{With: make([]string, 33)},
		{With: []string{"a"}, Without: []string{"a"}},
		{LostHeaders: []string{"a b"}},
	} {
		if err := (isr.Route{Reject: bad}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "isr: Reject") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// An explanation has the key or the bypass of the request, and each bypass has a part.
func TestExplainedKeys(t *testing.T) {
	rt := isr.Route{Query: []string{"utm_campaign"}, IgnoreCookies: []string{"!OptanonConsent"}, KeyClasses: []isr.KeyClass{{Header: "X-Part", Values: []string{"", "nav", "*"}}}}
	for _, tt := range []struct{ target, header, key, bypass string }{
		{"http://h/?utm_campaign=5&gclid=1", "", "h/?utm_campaign=5", ""},
		{"http://h/?a=5", "", "", "query"},
		{"http://h/", "Cookie: OptanonAlertBoxClosed=1", "h/", ""},
		{"http://h/", "Cookie: OptanonConsent=1", "", "cookie"},
		{"http://h/", "X-Part: nav", "h/#x-part=nav", ""},
		{"http://h/", "X-Part: foot", "", "header"},
	} {
		r := httptest.NewRequest(http.MethodGet, tt.target, http.NoBody)
		if name, value, ok := strings.Cut(tt.header, ": "); ok {
			r.Header.Set(name, value)
		}
		e, err := rt.Explain(r)
		bypasses := slices.ContainsFunc(e.Parts, func(p isr.Part) bool { return p.Use == isr.PartBypass })
		if err != nil || e.Key.Text != tt.key || e.Bypass != tt.bypass || bypasses != (tt.bypass != "") || (e.Render != nil) != (tt.key != "") {
			t.Errorf("%s %s: explained as %+v, %v", tt.target, tt.header, e, err)
		}
	}
}

func TestValidateRouteFeatures(t *testing.T) {
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("x%d", i)
	}
	class := func(header, cookie string, values ...string) isr.Route {
		return isr.Route{KeyClasses: []isr.KeyClass{{Header: header, Cookie: cookie, Values: values}}}
	}
	for _, tt := range []struct {
		route isr.Route
		want  string // the beginning of the error, or empty
	}{
		{isr.Route{Negative: map[int]time.Duration{404: time.Second, 302: 0}, IgnoreQuery: []string{"*"}, Query: []string{"page"}}, ""},
		{isr.Route{Negative: map[int]time.Duration{200: time.Second}}, "isr: Negative"},
		{isr.Route{Negative: map[int]time.Duration{404: -1}}, "isr: Negative"},
		{isr.Route{RenderTimeout: -1}, "isr: RenderTimeout"},
		{isr.Route{RenderTimeout: 25 * time.Hour}, "isr: RenderTimeout"},
		{isr.Route{Wait: -1}, "isr: Wait"},
		{isr.Route{MaxBody: -1}, "isr: MaxBody"},
		{isr.Route{IgnoreQuery: []string{""}}, "isr: IgnoreQuery"},
		{isr.Route{IgnoreQuery: []string{"page"}, Query: []string{"page"}}, "isr: IgnoreQuery"},
		{isr.Route{IgnoreQuery: many}, "isr: IgnoreQuery"},
		{class("Accept-Language", "", "en", "pt-BR"), ""},
		{class("", "ab", "a", "b"), ""},
		{class("X", "x", "a"), "isr: KeyClasses"},
		{class("", "", "a"), "isr: KeyClasses"},
		{class("Cookie", "", "a"), "isr: KeyClasses"},
		{class("authorization", "", "a"), "isr: KeyClasses"},
		{class("Accept-Language", "", "en;q=1"), "isr: KeyClasses"},
		{class("Accept-Language", "", "*"), "isr: KeyClasses"},
		{class("X-A", ""), "isr: KeyClasses"},
		{class("X-A", "", "a", "a"), "isr: KeyClasses"},
		{class("X-A", "", "a\nb"), "isr: KeyClasses"},
		{class("", "ab", "a b"), "isr: KeyClasses"},
		{class("", "a=b", "a"), "isr: KeyClasses"},
		{class("", "ab", strings.Repeat("a", 65)), "isr: KeyClasses"},
		{class("X-A", "", many[:33]...), "isr: KeyClasses"},
		{isr.Route{KeyClasses: []isr.KeyClass{{Header: "X-A", Values: []string{"a"}}, {Header: "x-a", Values: []string{"a"}}}}, "isr: KeyClasses"},
		{isr.Route{KeyClasses: []isr.KeyClass{{Header: "X-A", Values: many[:32]}, {Header: "X-B", Values: many[:32]}, {Header: "X-C", Values: many[:2]}}}, "isr: KeyClasses"},
		{isr.Route{KeyClasses: make([]isr.KeyClass, 9)}, "isr: KeyClasses"},
		{isr.Route{Vary: []string{"X-A"}, KeyClasses: []isr.KeyClass{{Header: "x-a", Values: []string{"a"}}}}, "isr: KeyClasses"},
		{isr.Route{TenantHeader: "X-A", KeyClasses: []isr.KeyClass{{Header: "x-a", Values: []string{"a"}}}}, "isr: KeyClasses"},
		{isr.Route{Forward: []string{"traceparent", "X-Request-Id", "X-Deploy"}}, ""},
		{isr.Route{Forward: []string{"cookie"}}, "isr: Forward"},
		{isr.Route{Forward: []string{"Authorization"}}, "isr: Forward"},
		{isr.Route{Forward: []string{"x-forwarded-host"}}, "isr: Forward"},
		{isr.Route{Forward: []string{"Accept-Language"}}, "isr: Forward"},
		{isr.Route{Forward: []string{"User-Agent"}}, "isr: Forward"},
		{isr.Route{Forward: []string{"X-Tenant-Id"}}, "isr: Forward"},
		{isr.Route{Forward: []string{"no such"}}, "isr: Forward"},
		{isr.Route{Forward: []string{"X-A"}, Vary: []string{"x-a"}}, "isr: Forward"},
		{isr.Route{Forward: many[:17]}, "isr: Forward"},
		{isr.Route{SetHeader: http.Header{"x-frame-options": {"DENY"}}, RemoveHeader: []string{"X-Powered-By"}}, ""},
		{isr.Route{SetHeader: http.Header{"Content-Length": {"1"}}}, "isr: SetHeader"},
		{isr.Route{SetHeader: http.Header{"set-cookie": {"a=b"}}}, "isr: SetHeader"},
		{isr.Route{SetHeader: http.Header{"Cache-Control": {"no-store"}}}, "isr: SetHeader"},
		{isr.Route{SetHeader: http.Header{"Connection": {"close"}}}, "isr: SetHeader"},
		{isr.Route{SetHeader: http.Header{"X-A": {"a\r\nSet-Cookie: b"}}}, "isr: SetHeader"},
		{isr.Route{SetHeader: http.Header{"X-A": nil}}, "isr: SetHeader"},
		{isr.Route{SetHeader: http.Header{"X-A": {strings.Repeat("a", 9<<10)}}}, "isr: SetHeader"},
		{isr.Route{RemoveHeader: []string{"Vary"}}, "isr: RemoveHeader"},
		{isr.Route{RemoveHeader: []string{"x-a"}, SetHeader: http.Header{"X-A": {"a"}}}, "isr: RemoveHeader"},
		{isr.Route{RemoveHeader: many[:65]}, "isr: RemoveHeader"},
		{isr.Route{Downstream: isr.DownstreamControl{CacheControl: "max-age=60", CDN: "max-age=600"}}, ""},
		{isr.Route{Downstream: isr.DownstreamControl{CDN: "max-age=600"}}, "isr: Downstream"},
		{isr.Route{Downstream: isr.DownstreamControl{Surrogate: "max-age=600"}}, "isr: Downstream"},
		{isr.Route{Downstream: isr.DownstreamControl{CacheControl: "no-cache", CDN: "max-age=remaining, public", Surrogate: "s-maxage=remaining"}}, ""},
		{isr.Route{Downstream: isr.DownstreamControl{CacheControl: "remaining"}}, "isr: Downstream"},
		{isr.Route{Downstream: isr.DownstreamControl{CacheControl: "max-age=remaining, s-maxage=remaining"}}, "isr: Downstream"},
		{isr.Route{Downstream: isr.DownstreamControl{CacheControl: "stale-if-error=remaining"}}, "isr: Downstream"},
		{isr.Route{Downstream: isr.DownstreamControl{CacheControl: "private=\"a"}}, "isr: Downstream"},
		{isr.Route{Downstream: isr.DownstreamControl{CacheControl: "max-age=60\n"}}, "isr: Downstream"},
	} {
		err := tt.route.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%+v: %v; want an error that begins with %q", tt.route, err, tt.want)
		}
	}
}

func TestRouteOff(t *testing.T) {
	tb, s := newTable(t), newSite()
	s.delay = 0
	c := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.StoreTimeout = time.Minute })
	on, off := c.Handler(isr.Route{}, s), c.Handler(isr.Route{Off: true}, s)
	get(on, "/") // stored by another route
	for n := 2; n < 4; n++ {
		expect(t, get(off, "/"), fmt.Sprintf("/ rendered %d", n), "isr; fwd=bypass; fwd-status=200; detail=off")
	}
	if a := get(off, "/", "Cookie: id=1"); a.status() != "isr; fwd=bypass; fwd-status=200; detail=off" {
		t.Errorf("with a cookie: %q", a.status())
	}
	expect(t, get(on, "/"), "/ rendered 1", "isr; hit")
	w := httptest.NewRecorder()
	off.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://example.com/", nil))
	expect(t, get(on, "/"), "/ rendered 6", "isr; fwd=") // a POST purges what it changes
}

// bare answers with a status and nothing about caching.
func bare(status int) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, _ *http.Request, n int64) {
		w.Header().Set("Content-Type", "text/plain")
		if status/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
		fmt.Fprint(w, n)
	}
}

func TestNegativeWindows(t *testing.T) {
	minute := map[int]time.Duration{404: time.Minute, 410: time.Minute, 301: time.Minute, 302: time.Minute, 303: time.Minute, 307: time.Minute, 308: time.Minute}
	never := map[int]time.Duration{404: 0, 301: 0}
	for _, tt := range []struct {
		status   int
		negative map[int]time.Duration
		every    time.Duration // Route.Revalidate
		want     time.Duration // how long the answer is kept; 0: it is not
	}{
		// Without Negative.
		{404, nil, time.Hour, 10 * time.Second},
		{410, nil, time.Hour, 10 * time.Second},
		{301, nil, time.Hour, time.Hour},
		{308, nil, time.Hour, time.Hour},
		{302, nil, time.Hour, 0},
		{303, nil, time.Hour, 0},
		{307, nil, time.Hour, 0},
		{404, nil, 0, 0},
		// With it.
		{404, minute, time.Hour, time.Minute},
		{404, minute, 0, time.Minute},
		{410, minute, time.Second, time.Minute},
		{301, minute, time.Hour, time.Minute},
		{302, minute, time.Hour, time.Minute},
		{303, minute, 0, time.Minute},
		{307, minute, time.Hour, time.Minute},
		{308, minute, time.Hour, time.Minute},
		{200, minute, time.Hour, time.Hour},
		{404, never, time.Hour, 0},
		{301, never, time.Hour, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite()
			s.answers(bare(tt.status))
			h := routeNode(t, isr.Route{Revalidate: tt.every, Negative: tt.negative, Stale: -1, Jitter: -1}, s)
			first := get(h, "/")
			if tt.want == 0 {
				if again := get(h, "/"); again.Code != tt.status || again.Body.String() == first.Body.String() {
					t.Errorf("%d with %v: kept, %q", tt.status, tt.negative, again.status())
				}
				return
			}
			time.Sleep(tt.want - time.Second)
			if again := get(h, "/"); again.Code != tt.status || again.Body.String() != first.Body.String() {
				t.Errorf("%d with %v: not kept for %v: %q", tt.status, tt.negative, tt.want, again.status())
			}
			time.Sleep(2 * time.Second)
			if again := get(h, "/"); again.Body.String() == first.Body.String() {
				t.Errorf("%d with %v: kept for longer than %v: %q", tt.status, tt.negative, tt.want, again.status())
			}
		})
	}
}

// A status that is not kept is not kept although the response allows it.
func TestNegativeZeroOverrulesTheResponse(t *testing.T) {
	s := newSite()
	s.answers(notFound)
	h := routeNode(t, isr.Route{Negative: map[int]time.Duration{404: 0}}, s)
	for range 2 {
		if a := get(h, "/"); !strings.HasSuffix(a.status(), "; detail=status") || a.Code != http.StatusNotFound {
			t.Errorf("%d, %q", a.Code, a.status())
		}
	}
}

func TestIgnoreQuery(t *testing.T) {
	s := newSite()
	s.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
		w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
		fmt.Fprint(w, r.URL.RequestURI())
	})
	h := routeNode(t, isr.Route{Query: []string{"page", "b"}, IgnoreQuery: []string{"ref", "session_*"}}, s)
	expect(t, get(h, "/?page=2&ref=x&session_id=1&b=1"), "/?b=1&page=2", "isr; fwd=miss")
	expect(t, get(h, "/?b=1&session_x=7&page=2"), "/?b=1&page=2", "isr; hit")
	if a := get(h, "/?page=2&other=1"); !strings.HasSuffix(a.status(), "detail=query") {
		t.Errorf("another parameter: %q", a.status())
	}
	everything := routeNode(t, isr.Route{IgnoreQuery: []string{"*"}}, s)
	expect(t, get(everything, "/?a=1&token=secret"), "/", "isr; fwd=miss")
	expect(t, get(everything, "/?b=2"), "/", "isr; hit")
}

// Two visitors get a page each by their class, and nothing of each other.
func TestKeyClassesKeepVisitorsApart(t *testing.T) {
	s := newSite()
	s.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
		w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
		w.Header().Set("Vary", "Accept-Language, Cookie")
		fmt.Fprintf(w, "%s %s", r.Header["Accept-Language"], r.Header["Cookie"])
	})
	h := routeNode(t, isr.Route{KeyClasses: []isr.KeyClass{
		{Header: "Accept-Language", Values: []string{"en", "de"}}, {Cookie: "ab", Values: []string{"a", "b"}},
	}}, s)
	alice := []string{"Accept-Language: de-DE, alice", "Cookie: ab=b; _ga=alice"}
	bob := []string{"Accept-Language: bob", "Cookie: ab=bob"}
	expect(t, get(h, "/", alice...), "[de] [ab=b]", "isr; fwd=miss")
	expect(t, get(h, "/", bob...), "[en] [ab=a]", "isr; fwd=miss")
	expect(t, get(h, "/", "Accept-Language: de", "Cookie: ab=b"), "[de] [ab=b]", "isr; hit")
	expect(t, get(h, "/"), "[en] [ab=a]", "isr; hit")
	if a := get(h, "/", "Cookie: ab=b; session=bob"); !strings.HasSuffix(a.status(), "detail=cookie") {
		t.Errorf("with a session: %q", a.status())
	}
	if n := s.renders.Load(); n != 3 {
		t.Errorf("%d renders, want one for each class and the bypass", n)
	}
}

// A render carries the declared headers of the request that started it, bounded, and no
// others.
func TestForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
			fmt.Fprintf(w, "%s %s %s", r.Header["Traceparent"], r.Header["X-Deploy"], r.Header["X-Other"])
		})
		h := routeNode(t, isr.Route{Forward: []string{"traceparent", "X-Deploy"}}, s)
		expect(t, get(h, "/", "Traceparent: 1", "X-Deploy: blue", "X-Other: alice"), "[1] [blue] []", "isr; fwd=miss")
		expect(t, get(h, "/", "Traceparent: 2"), "[1] [blue] []", "isr; hit") // it is in no key
		expect(t, get(h, "/long", "Traceparent: "+strings.Repeat("x", 1025), "X-Deploy: a", "X-Deploy: b"), "[] [] []", "isr; fwd=miss")
		time.Sleep(time.Minute + time.Second)
		get(h, "/", "Traceparent: 3") // stale: renders in the background
		synctest.Wait()
		expect(t, get(h, "/", "Traceparent: 4"), "[3] [] []", "isr; hit")
	})
}

func TestResponseHeaders(t *testing.T) {
	s := newSite()
	s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
		w.Header().Set("X-Powered-By", "PHP")
		w.Header().Set("X-Frame-Options", "ALLOW")
		if r.URL.Path == "/fails" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		cacheable(w, r, n)
	})
	tb := newTable(t)
	s.delay = 0
	c := tb.node(tb.store("a"), nil)
	plain := c.Handler(isr.Route{}, s)
	h := c.Handler(isr.Route{SetHeader: http.Header{"x-frame-options": {"DENY"}, "X-B": {"1", "2"}}, RemoveHeader: []string{"x-powered-by"}}, s)
	check := func(name string, a answer) {
		t.Helper()
		got := fmt.Sprint(a.Header()["X-Frame-Options"], a.Header()["X-B"], a.Header()["X-Powered-By"])
		if got != "[DENY] [1 2] []" {
			t.Errorf("%s: %s (%s)", name, got, a.status())
		}
	}
	get(plain, "/")
	check("a page that was stored before", get(h, "/"))
	check("not modified", get(h, "/", "If-None-Match: *"))
	check("a range", get(h, "/", "Range: bytes=0-1"))
	check("a new page", get(h, "/new"))
	check("passes through", get(h, "/", "Cookie: id=1"))
	check("a failure", get(h, "/fails"))
	if a := get(plain, "/"); a.Header().Get("X-Powered-By") != "PHP" || a.Header().Get("X-Frame-Options") != "ALLOW" {
		t.Errorf("the stored page has changed: %v", a.Header())
	}
}

func TestDownstreamControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		tb.poll, s.delay = rarely, 0
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Expires", "Thu, 01 Jan 2026 00:00:00 GMT")
			w.Header().Set("Cdn-Cache-Control", "max-age=60")
			if r.URL.Path == "/none" {
				notFound(w, r, n)
				return
			}
			cacheable(w, r, n)
		})
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{Name: "r", Policy: isr.ServeStale, Stale: time.Hour, Downstream: isr.DownstreamControl{CacheControl: "max-age=5", CDN: "max-age=600"}}, s)
		check := func(name, want string, a answer) {
			t.Helper()
			x := a.Header()
			if got := fmt.Sprint(x["Cache-Control"], x["Cdn-Cache-Control"], x["Expires"], x["Age"]); got != want {
				t.Errorf("%s: %s, want %s (%s)", name, got, want, a.status())
			}
		}
		check("new", "[max-age=5] [max-age=600] [] [0]", get(h, "/"))
		time.Sleep(30 * time.Second)
		check("fresh", "[max-age=5] [max-age=600] [] [0]", get(h, "/"))
		check("not modified", "[max-age=5] [max-age=600] [] [0]", get(h, "/", "If-None-Match: *"))
		if a := get(h, "/", "Cookie: id=1"); a.Header().Get("Cache-Control") != "public, max-age=60, stale-while-revalidate=86400" {
			t.Errorf("passes through: %v", a.Header())
		}
		if a := get(h, "/none"); a.Header().Get("Cache-Control") != "public, max-age=60, stale-while-revalidate=86400" {
			t.Errorf("a 404: %v", a.Header())
		}
		s.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusBadGateway) })
		if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgePrefix("", "example.com/")}}); err != nil {
			t.Fatal(err)
		}
		check("purged softly", "[max-age=0, must-revalidate] [] [] [30]", get(h, "/"))
		time.Sleep(31 * time.Second)
		check("stale", "[max-age=0, must-revalidate] [] [] [61]", get(h, "/"))
	})
}

func TestRouteTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.delay = 3 * time.Second
		tb := newTable(t)
		c := tb.node(tb.store("a"), nil)
		quick, patient := c.Handler(isr.Route{RenderTimeout: 2 * time.Second}, s), c.Handler(isr.Route{RenderTimeout: time.Minute}, s)
		if a := get(quick, "/quick"); a.Code != http.StatusGatewayTimeout || a.took != 2*time.Second {
			t.Errorf("%d after %v", a.Code, a.took)
		}
		synctest.Wait()            // the render that timed out
		s.delay = 40 * time.Second // longer than Config.RenderTimeout
		expect(t, get(patient, "/patient"), "/patient rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		synctest.Wait()
		s.delay = time.Second
		short := c.Handler(isr.Route{Policy: isr.Wait, Wait: 300 * time.Millisecond}, s)
		get(short, "/wait")
		time.Sleep(time.Minute)
		if a := get(short, "/wait"); a.took != 300*time.Millisecond || !strings.Contains(a.status(), "detail=timeout") {
			t.Errorf("waited %v: %q", a.took, a.status())
		}
	})
}

func TestRouteMaxBodyAndCompression(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
			fmt.Fprint(w, strings.Repeat("page ", 1000))
		})
		tb := newTable(t)
		s.delay = 0
		c := tb.node(tb.store("a"), nil)
		small, plain := c.Handler(isr.Route{MaxBody: 4999}, s), c.Handler(isr.Route{MaxBody: 5000}, s)
		identity, br := c.Handler(isr.Route{Codings: []string{"identity"}}, s), c.Handler(isr.Route{Codings: []string{"br"}}, s)
		for range 2 {
			if a := get(small, "/small"); !strings.HasSuffix(a.status(), "detail=too-large") || a.Body.Len() != 5000 {
				t.Errorf("a body above the limit: %q", a.status())
			}
		}
		for path, route := range map[string]struct {
			h      http.Handler
			coding string
		}{"/": {plain, "gzip"}, "/br": {br, ""}} {
			get(route.h, path, "Accept-Encoding: gzip")
			settle()
			if a := get(route.h, path, "Accept-Encoding: gzip"); a.Header().Get("Content-Encoding") != route.coding || !strings.HasPrefix(a.status(), "isr; hit") {
				t.Errorf("%s: %q, %v", path, a.status(), a.Header())
			}
		}
		for _, path := range []string{"/", "/other"} {
			for range 2 {
				if a := get(identity, path, "Accept-Encoding: gzip"); a.Header().Get("Content-Encoding") != "" || a.Body.Len() != 5000 {
					t.Errorf("without compression: %v", a.Header())
				}
			}
		}
	})
}

// redirect answers each request with a redirect that is fresh for a minute.
func redirect(status int, location string) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, _ *http.Request, n int64) {
		w.Header()["Location"] = []string{location}
		w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
		w.WriteHeader(status)
		fmt.Fprintf(w, "redirect %d", n)
	}
}

// A redirect to the cache key of its own request is never stored, however the origin writes that
// URL; another redirect is.
func TestSelfRedirectIsNotStored(t *testing.T) {
	byScheme := []string{"X-Forwarded-Proto"}
	for _, c := range []struct {
		path, location string
		itself         bool
		vary           []string
		header         []string
	}{
		{path: "/a%2Fb", location: "/a%2fb", itself: true},
		{path: "/%D0%BF", location: "/п", itself: true},
		{path: "/~a", location: "/%7Ea", itself: true},
		{path: "/x?q=a%20b", location: "/x?q=a+b", itself: true},
		{path: "/x?q=%2F", location: "?q=/", itself: true},
		{path: "/x?a=1&b=2", location: "/x?b=2&a=1", itself: true},
		{path: "/x", location: "/x?utm_source=mail", itself: true},
		{path: "/x", location: "/x?", itself: true},
		{path: "/x", location: "/x#top", itself: true},
		{path: "/x", location: "#%", itself: true},
		{path: "/x", location: "https://example.com/x", itself: true},
		{path: "/x", location: "HTTPS://EXAMPLE.com:443/x", itself: true},
		{path: "/x", location: "http://example.com:80/x", itself: true},
		{path: "/x", location: "http://example.com./x", itself: true},
		{path: "/x", location: "//example.com/x", itself: true},
		{path: "/x", location: `https:\\example.com\x`, itself: true},
		{path: "/x", location: "https:/x", itself: true},
		{path: "/", location: "https://example.com", itself: true},
		{path: "/a/x", location: "x", itself: true},
		{path: "/a/x", location: "./y/../x", itself: true},
		{path: "/a/x", location: "/b/%2e%2E/a/x", itself: true},
		{path: "/a%20b", location: " /a b\t", itself: true},
		{path: "/x", location: "/x/"},
		{path: "/x", location: "/X"},
		{path: "/x?q=a", location: "/x"},
		{path: "/x", location: "/x?unknown=1"},
		{path: "/x", location: "https://www.example.com/x"},
		{path: "/x", location: "http://example.com:8080/x"},
		{path: "/x", location: "ftp://example.com/x"},
		{path: "/x", location: "/%zz"},
		{path: "/x", location: ""},
		{path: "/x", location: "https://example.com/x", vary: byScheme, header: []string{"X-Forwarded-Proto: http"}},
		{path: "/x", location: "https://example.com/x", vary: byScheme, header: []string{"X-Forwarded-Proto: https"}, itself: true},
		{path: "/x", location: "//example.com/x", vary: byScheme, header: []string{"X-Forwarded-Proto: https"}, itself: true},
		{path: "/x", location: "https://example.com/x", vary: byScheme, itself: true},
	} {
		t.Run(fmt.Sprintf("%s to %q by %q", c.path, c.location, c.header), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(redirect(http.StatusMovedPermanently, c.location))
				h := tb.node(tb.store("a"), nil).Handler(isr.Route{Query: []string{"a", "b", "q"}, Vary: c.vary}, site)
				first, second := get(h, c.path, c.header...), get(h, c.path, c.header...)
				if c.itself {
					if rows := tb.rowCount(t); rows != 0 {
						t.Errorf("it left %d rows", rows)
					}
					for _, a := range []answer{first, second} {
						if !strings.HasSuffix(a.status(), "; detail=self-redirect") || a.Code != http.StatusMovedPermanently {
							t.Errorf("%d, %s", a.Code, a.status())
						}
					}
					return
				}
				if !strings.Contains(first.status(), "stored") || !strings.HasPrefix(second.status(), "isr; hit") {
					t.Errorf("%s, then %s", first.status(), second.status())
				}
			})
		})
	}
}

// Each status that redirects counts; 200 with a Location does not.
func TestSelfRedirectByStatus(t *testing.T) {
	for status, itself := range map[int]bool{
		http.StatusOK: false, http.StatusMultipleChoices: true, http.StatusMovedPermanently: true, http.StatusFound: true,
		http.StatusSeeOther: true, http.StatusTemporaryRedirect: true, http.StatusPermanentRedirect: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			site.answers(redirect(status, "/x"))
			h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
			if a := get(h, "/x"); strings.HasSuffix(a.status(), "; detail=self-redirect") != itself {
				t.Errorf("%d: %s", status, a.status())
			}
		})
	}
}

// A visitor whose spelling the origin prefers gets the page, again and again, and the refusal is
// remembered: the canonical spelling is not rendered each time.
func TestSelfRedirectPassesTheVisitorsSpelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		renders := 0
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			if r.URL.EscapedPath() != "/a%2fb" {
				renders++
				redirect(http.StatusFound, "/a%2fb")(w, r, n)
				return
			}
			cacheable(w, r, n)
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for range 5 {
			if a := get(h, "/a%2fb"); a.Code != http.StatusOK || a.status() != "isr; fwd=bypass; fwd-status=200; detail=self-redirect" && a.status() != "isr; fwd=miss; fwd-status=200; detail=self-redirect" {
				t.Errorf("%d, %s", a.Code, a.status())
			}
		}
		if renders != 1 {
			t.Errorf("%d renders, want 1", renders)
		}
	})
}

// A redirect to the same key does not withdraw the stored page, whatever its header says: a proxy that
// loses the scheme for an hour must not cost a site its pages. Nor does a forced regeneration.
func TestSelfRedirectKeepsTheStoredPage(t *testing.T) {
	for _, line := range []string{"", "Cache-Control: no-store, private", "Set-Cookie: session=1"} {
		t.Run(line, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(lasting)
				a := tb.peer("a", isr.Route{Name: "site"}, site, nil)
				get(a, "/")
				site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
					redirect(http.StatusMovedPermanently, "https://example.com/")(w, r, n)
				})
				if name, value, ok := strings.Cut(line, ": "); ok {
					site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
						w.Header().Set(name, value)
						w.Header().Set("Location", "https://example.com/")
						w.WriteHeader(http.StatusMovedPermanently)
					})
				}
				if _, err := a.Regenerate(t.Context(), page); !errors.Is(err, isr.ErrUncacheable) || !strings.Contains(fmt.Sprint(err), "self-redirect") {
					t.Errorf("a forced regeneration: %v", err)
				}
				expect(t, get(a, "/"), "/ rendered 1", "isr; hit")
				time.Sleep(2 * time.Minute)
				expect(t, get(a, "/"), "/ rendered 1", "isr; hit; ttl=-") // stale, and rendered again
				time.Sleep(10 * time.Second)
				if got := get(a, "/"); got.Code != http.StatusMovedPermanently || !strings.HasSuffix(got.status(), "; detail=self-redirect") {
					t.Errorf("after the redirect: %d, %s", got.Code, got.status())
				}
				rec, err := tb.store("reader").Read(t.Context(), store.HashedPartition(page))
				if err != nil || rec.Entry == nil || rec.Entry.Withdrawn {
					t.Fatalf("the stored page: %+v, %v", rec.Entry, err)
				}
				site.answers(broken)
				time.Sleep(3 * time.Minute) // the refusal is forgotten
				get(a, "/")
				time.Sleep(10 * time.Second)
				expect(t, get(a, "/"), "/ rendered 1", "isr; hit")
				site.answers(lasting)
				time.Sleep(5 * time.Minute)
				get(a, "/")
				time.Sleep(10 * time.Second)
				if got := get(a, "/"); got.Code != http.StatusOK || !strings.HasPrefix(got.status(), "isr; hit; ttl=") {
					t.Errorf("once the origin answers again: %d, %s", got.Code, got.status())
				}
			})
		})
	}
}

// A redirect to its own key that another version of this program, or another service, has stored
// counts as missing, even if it is pinned.
func TestStoredSelfRedirectIsNotServed(t *testing.T) {
	for _, pinned := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			site.answers(redirect(http.StatusMovedPermanently, "/elsewhere"))
			a, b := tb.peer("a", isr.Route{Name: "site"}, site, nil), tb.peer("b", isr.Route{Name: "site"}, site, nil)
			get(a, "/")
			st := tb.store("writer")
			pk := store.HashedPartition(page)
			lease, err := st.Acquire(t.Context(), pk, time.Minute, nil)
			if err != nil {
				t.Fatal(err)
			}
			rec, err := st.Read(t.Context(), pk)
			if err != nil {
				t.Fatal(err)
			}
			e := *rec.Entry
			e.Header = e.Header.Clone()
			e.Header.Set("Location", "https://example.com/")
			e.GenerationID += "2"
			if pinned {
				e.PinnedUntil = time.Now().Add(time.Hour)
			}
			if _, err := st.Publish(t.Context(), lease, rec, e, store.PublishOptions{Superseded: time.Now().Add(time.Hour), Key: page, Reload: true}); err != nil {
				t.Fatal(err)
			}
			site.answers(cacheable)
			expect(t, get(b, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
			expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
		})
	}
}
