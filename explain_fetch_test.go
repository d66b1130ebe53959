package isr_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

// explainGet explains a GET request with what its renderer answers.
func explainGet(h http.Handler, path string, header ...string) isr.Decision {
	r := httptest.NewRequest(http.MethodGet, "http://example.com"+path, http.NoBody)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return h.(isr.Explainer).Explain(r, true)
}

// All that forbids a response to be stored is listed, in the order in which it is refused.
func TestExplainObstacles(t *testing.T) {
	for _, c := range []struct {
		name     string
		route    isr.Route
		status   int
		header   []string
		want     []string // detail and what
		failure  bool
		freshFor time.Duration
	}{
		{name: "cacheable", header: []string{"Cache-Control: s-maxage=60"}, freshFor: time.Minute},
		{name: "by the route", route: isr.Route{Revalidate: 10 * time.Second}, freshFor: 10 * time.Second},
		{name: "nothing said", want: []string{"no-freshness|no s-maxage, max-age or Expires"}},
		{
			name: "everything", status: http.StatusTeapot,
			header: []string{"Cache-Control: private, no-store, no-cache", "Set-Cookie: a=secret", "Vary: X-A, Accept-Encoding, X-B", "Content-Encoding: xz", "Content-Type: text/event-stream", "Cache-Tag: a\x7fb"},
			want: []string{
				"status|status 418", "set-cookie|Set-Cookie: a=…", "private|Cache-Control: private", "no-store|Cache-Control: no-store", "no-cache|Cache-Control: no-cache",
				"vary|Vary: X-A, X-B", "content-encoding|Content-Encoding: xz", "stream|Content-Type: text/event-stream", "no-freshness|no s-maxage, max-age or Expires", `tags|`,
			},
		},
		{name: "targeted", header: []string{"CDN-Cache-Control: no-store", "Cache-Control: max-age=60"}, want: []string{"no-store|CDN-Cache-Control: no-store"}},
		{name: "expired", header: []string{"Cache-Control: max-age=0"}, want: []string{"no-freshness|Cache-Control: max-age=0, which grants no freshness"}},
		{name: "malformed", header: []string{`Cache-Control: max-age=60, x="`}, want: []string{`malformed|Cache-Control: max-age=60, x="`}},
		{name: "too large", route: isr.Route{MaxBody: 10}, header: []string{"Cache-Control: max-age=60", "Content-Length: 11"}, want: []string{"too-large|Content-Length: 11, at most 10 bytes are stored"}},
		{name: "a failure", status: http.StatusBadGateway, header: []string{"Cache-Control: private"}, want: []string{"render-failed|status 502", "private|Cache-Control: private", "no-freshness|no s-maxage, max-age or Expires"}, failure: true},
		{name: "rejected", route: isr.Route{Reject: isr.Reject{With: []string{"oops"}}}, header: []string{"Cache-Control: max-age=60", "Content-Type: text/html"}, want: []string{`rejected|it has the text "oops"`}, freshFor: time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				renders := 0
				h := newTable(t).cacheOf(t).Handler(c.route, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					renders++
					for _, line := range c.header {
						name, value, _ := strings.Cut(line, ": ")
						w.Header().Add(name, value)
					}
					if c.status != 0 {
						w.WriteHeader(c.status)
					}
					_, _ = w.Write([]byte("oops"))
				}))
				f := explainGet(h, "/").Fetched
				if f == nil || renders != 1 {
					t.Fatalf("fetched %+v, rendered %d times", f, renders)
				}
				if (f.Failure != "") != c.failure || f.Stored != (len(c.want) == 0) || f.FreshFor != c.freshFor || f.Status != max(c.status, 200) {
					t.Errorf("got %+v", f)
				}
				if len(f.Obstacles) != len(c.want) {
					t.Fatalf("got %+v, want %q", f.Obstacles, c.want)
				}
				for i, o := range f.Obstacles {
					if got := o.Detail + "|" + o.What; !strings.HasPrefix(got, c.want[i]) || o.Advice == "" {
						t.Errorf("obstacle %d is %q (%s), want %q", i, got, o.Advice, c.want[i])
					}
				}
				if cookies := f.Header["Set-Cookie"]; len(cookies) > 0 && strings.Contains(cookies[0], "secret") {
					t.Errorf("the value of a cookie is shown: %q", cookies)
				}
			})
		})
	}
}

// What is fetched for a page whose renderer panics, or never answers, is a failure.
func TestExplainFailingRenderer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		h := tb.cacheOf(t).Handler(isr.Route{RenderTimeout: time.Second}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/panic" {
				panic("a mistake")
			}
			if r.URL.Path == "/dead" {
				isr.OriginUnreachable(w, errors.New("connection refused"))
				isr.WriteErrorPage(w, http.StatusBadGateway, "The site does not answer.")
				return
			}
			<-r.Context().Done()
		}))
		for path, want := range map[string]string{"/panic": "a mistake", "/slow": "took too long", "/dead": "connection refused"} {
			d := explainGet(h, path)
			if f := d.Fetched; f == nil || f.Stored || !strings.Contains(f.Failure, want) || len(f.Obstacles) == 0 || d.Verdict != isr.VerdictError {
				t.Errorf("%s: %+v, fetched %+v", path, d, d.Fetched)
			}
		}
	})
}

// cacheOf returns a process of its own.
func (tb *table) cacheOf(t *testing.T) *isr.Cache {
	t.Helper()
	return tb.node(tb.store("a"), nil)
}

// A class of a cookie is no header that was learned: the page itself does not count among its
// variants.
func TestCookieClassIsNoLearnedHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		site := newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Vary", "X-A")
			cacheable(w, r, n)
		})
		h := tb.cacheOf(t).Handler(isr.Route{VaryAuto: true, MaxVariants: 1, KeyClasses: []isr.KeyClass{{Cookie: "ab", Values: []string{"a", "b"}}}}, site)
		expect(t, get(h, "/", "X-A: 1"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		if a := get(h, "/", "X-A: 2"); !strings.Contains(a.status(), "detail=variants") {
			t.Errorf("a second variant: %s", a.status())
		}
	})
}

// A request that bypasses the cache is sent to the renderer as it is, unless that could change
// something there: then the explanation says why it was not.
func TestExplainBypass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []*http.Request // guarded by mu: a renderer may go on
		seen := func() []*http.Request {
			mu.Lock()
			defer mu.Unlock()
			all := asked
			asked = nil
			return all
		}
		h := newTable(t).cacheOf(t).Handler(isr.Route{RenderTimeout: time.Second}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			asked = append(asked, r)
			mu.Unlock()
			switch r.URL.Path {
			case "/panic":
				panic("a mistake")
			case "/slow":
				<-r.Context().Done()
				return
			case "/dead":
				isr.OriginUnreachable(w, errors.New("connection refused"))
				isr.WriteErrorPage(w, http.StatusBadGateway, "The site does not answer.")
				return
			case "/endless":
				for {
					if _, err := w.Write([]byte("more")); err != nil {
						return
					}
				}
			}
			w.Header().Set("Cache-Control", "private")
			w.WriteHeader(http.StatusForbidden)
		}))
		details := func(f *isr.Fetched) (all []string) {
			for _, o := range f.Obstacles {
				all = append(all, o.Detail)
			}
			return all
		}
		d := explainGet(h, "/?other=1", "Cookie: session=1")
		if f := d.Fetched; f == nil || f.Status != 403 || f.Stored || strings.Join(details(f), " ") != "cookie status private no-freshness" || d.Status != 403 || d.CacheStatus != "isr; fwd=bypass; fwd-status=403; detail=cookie" {
			t.Errorf("%+v, fetched %+v", d, f)
		}
		if got := seen(); len(got) != 1 || got[0].URL.RawQuery != "other=1" || got[0].Header.Get("Cookie") != "session=1" {
			t.Errorf("the renderer got %+v", got)
		}
		for path, want := range map[string]string{"/panic": "a mistake", "/slow": "took too long", "/dead": "connection refused"} {
			if f := explainGet(h, path, "Cookie: session=1").Fetched; f == nil || !strings.Contains(f.Failure, want) || len(f.Obstacles) != 1 {
				t.Errorf("%s: %+v", path, f)
			}
		}
		if f := explainGet(h, "/endless", "Cookie: session=1").Fetched; f == nil || f.Status != 200 {
			t.Errorf("an endless response: %+v", f)
		}
		seen()
		for _, r := range []*http.Request{
			httptest.NewRequest(http.MethodPost, "http://example.com/", http.NoBody),
			newRequest("/", "Authorization: Bearer secret"),
			newRequest("/", "Connection: upgrade", "Upgrade: websocket"),
		} {
			d := h.(isr.Explainer).Explain(r, true)
			if d.Fetched != nil || !strings.HasPrefix(d.Reasons[len(d.Reasons)-1].Text, "the origin was not asked: ") {
				t.Errorf("%s %v: %+v, fetched %+v", r.Method, r.Header, d.Reasons, d.Fetched)
			}
		}
		if got := seen(); len(got) > 0 {
			t.Errorf("the renderer got %+v", got)
		}
	})
}
