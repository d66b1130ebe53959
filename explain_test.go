package isr_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/store"
)

func TestExplain(t *testing.T) {
	rt := isr.Route{Query: []string{"page"}, Vary: []string{"X-Device"}}
	r := httptest.NewRequest("GET", "http://Example.com/a?utm_source=x&page=2", nil)
	r.Header.Set("X-Device", "phone")
	r.Header.Set("User-Agent", "a browser")
	got, err := rt.Explain(r)
	if err != nil || got.Bypass != "" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if want := "example.com/a?page=2#x-device=phone"; got.Key.String() != want {
		t.Errorf("the key is %s, want %s", got.Key, want)
	}
	if got.Render.RequestURI != "/a?page=2" || got.Render.Header.Get("X-Device") != "phone" || got.Render.Header.Get("User-Agent") != "isr" {
		t.Errorf("the renderer gets %+v", got.Render)
	}

	r.Header.Set("Cookie", "session=1")
	if got, err := rt.Explain(r); err != nil || got.Bypass != "cookie" || got.Render != nil {
		t.Errorf("got %+v, %v for a cookie", got, err)
	}
	r.Host = "not a host"
	if _, err := rt.Explain(r); err == nil {
		t.Error("a request that is refused was explained")
	}
	rt.Jitter = 2
	if _, err := rt.Explain(r); err == nil {
		t.Error("an invalid route was explained")
	}
}

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

// Advice is of use: what it says ends the refusal that it is given for, and advice that would not is
// not given. The clock is 2000-01-01 00:00:00.
func TestExplainAdvice(t *testing.T) {
	const (
		sMaxAge  = "send Cache-Control: s-maxage=60"
		clock    = "correct the clock of the site"
		behind   = "a cache behind isr has kept the response"
		precedes = "takes precedence over Cache-Control"
	)
	for name, c := range map[string]struct {
		route  isr.Route
		status int
		header []string
		detail string
		advice []string // parts of it
		never  []string
	}{
		"an old Date":             {header: []string{"Cache-Control: max-age=120", "Date: Fri, 31 Dec 1999 23:57:00 GMT"}, detail: "too-old", advice: []string{clock}, never: []string{sMaxAge, behind}},
		"an old Date and Expires": {header: []string{"Expires: Fri, 31 Dec 1999 23:58:00 GMT", "Date: Fri, 31 Dec 1999 23:57:00 GMT"}, detail: "too-old", advice: []string{clock}, never: []string{sMaxAge}},
		"a high Age":              {header: []string{"Cache-Control: max-age=600", "Age: 700"}, detail: "too-old", advice: []string{behind}, never: []string{sMaxAge, clock}},
		"both":                    {header: []string{"Cache-Control: max-age=60", "Age: 70", "Date: Fri, 31 Dec 1999 23:57:00 GMT"}, detail: "too-old", advice: []string{clock, behind}, never: []string{sMaxAge}},
		"an Age of the targeted":  {header: []string{"CDN-Cache-Control: max-age=60", "Age: 70"}, detail: "too-old", advice: []string{behind}, never: []string{sMaxAge}},
		"nothing said":            {detail: "no-freshness", advice: []string{sMaxAge, "revalidate: 60s"}},
		"zero":                    {header: []string{"Cache-Control: max-age=0", "Age: 5"}, detail: "no-freshness", advice: []string{sMaxAge}, never: []string{"or set revalidate"}},
		"zero, targeted":          {header: []string{"CDN-Cache-Control: max-age=0"}, detail: "no-freshness", advice: []string{"max-age=60 in CDN-Cache-Control", precedes}, never: []string{sMaxAge}},
		"private, targeted":       {header: []string{"CDN-Cache-Control: private", "Cache-Control: max-age=60"}, detail: "private", advice: []string{"CDN-Cache-Control", precedes}, never: []string{"send Cache-Control: public"}},
		"private":                 {header: []string{"Cache-Control: private, s-maxage=60"}, detail: "private", advice: []string{"send Cache-Control: public, s-maxage=60"}},
		"a header of 70 KB":       {header: []string{"Cache-Control: s-maxage=60", "X-Long: " + strings.Repeat("x", 70_000)}, detail: "header-too-large", advice: []string{"raise max_header"}, never: []string{"max_body"}},
		"a header of 200 KB":      {header: []string{"Cache-Control: s-maxage=60", "X-Long: " + strings.Repeat("x", 200_000)}, detail: "header-too-large", advice: []string{"at most 128KiB"}, never: []string{"max_body", "raise"}},
		"a body":                  {header: []string{"Cache-Control: s-maxage=60", "Content-Length: 20000000"}, detail: "too-large", advice: []string{"raise max_body"}, never: []string{"max_header"}},
		"a body of 2 GiB":         {header: []string{"Cache-Control: s-maxage=60", "Content-Length: 2147483648"}, detail: "too-large", advice: []string{"cache: off"}, never: []string{"raise"}},
		"600 tags":                {header: []string{"Cache-Control: s-maxage=60", "Cache-Tag: " + numbers(600)}, detail: "tags", advice: []string{"raise max_tags"}},
		"3000 tags":               {header: []string{"Cache-Control: s-maxage=60", "Cache-Tag: " + numbers(3000)}, detail: "tags", advice: []string{"send fewer tags"}, never: []string{"raise"}},
		"an invalid tag":          {header: []string{"Cache-Control: s-maxage=60", "Cache-Tag: a\x7f"}, detail: "tags", advice: []string{"correct the tags"}, never: []string{"raise"}},
		"Vary that can be learned": {
			header: []string{"Cache-Control: s-maxage=60", "Vary: Accept-Language"}, detail: "vary", advice: []string{"vary: auto", "headers: [NAME]", "remove it"},
		},
		"Vary: User-Agent":       {header: []string{"Cache-Control: s-maxage=60", "Vary: User-Agent"}, detail: "vary", advice: []string{"headers: [NAME]"}, never: []string{"vary: auto"}},
		"Vary: *":                {header: []string{"Cache-Control: s-maxage=60", "Vary: *"}, detail: "vary", advice: []string{"remove * from Vary"}, never: []string{"vary: auto", "headers: ["}},
		"Vary: Cookie":           {header: []string{"Cache-Control: s-maxage=60", "Vary: Cookie"}, detail: "vary", advice: []string{"remove Cookie from Vary"}, never: []string{"vary: auto", "headers: ["}},
		"a status to be named":   {status: 418, header: []string{"Cache-Control: s-maxage=60"}, detail: "status", advice: []string{"in statuses"}},
		"a status that never is": {status: 206, header: []string{"Cache-Control: s-maxage=60"}, detail: "status", advice: []string{"never stored"}, never: []string{"statuses"}},
		"a status of zero":       {route: isr.Route{Negative: map[int]time.Duration{404: 0}}, status: 404, header: []string{"Cache-Control: s-maxage=60"}, detail: "status", advice: []string{"negative of the route (404"}, never: []string{"statuses"}},
		"must-understand":        {status: 418, header: []string{"Cache-Control: must-understand, s-maxage=60"}, detail: "status"},
		"a redirect to itself":   {status: 301, header: []string{"Cache-Control: s-maxage=60", "Location: https://example.com/"}, detail: "self-redirect", advice: []string{"set public_scheme: https, the scheme"}},
		"no-cache":               {header: []string{"Cache-Control: no-cache, s-maxage=60"}, detail: "no-cache", advice: []string{"instead of no-cache"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newTable(t).cacheOf(t).Handler(c.route, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					for _, line := range c.header {
						name, value, _ := strings.Cut(line, ": ")
						w.Header().Add(name, value)
					}
					w.WriteHeader(max(c.status, 200))
				}))
				f := explainGet(h, "/").Fetched
				if f == nil || f.Stored || len(f.Obstacles) != 1 || f.Obstacles[0].Detail != c.detail || f.Obstacles[0].What == "" {
					t.Fatalf("fetched %+v", f)
				}
				advice := f.Obstacles[0].Advice
				for _, part := range c.advice {
					if !strings.Contains(advice, part) {
						t.Errorf("the advice lacks %q: %s", part, advice)
					}
				}
				for _, part := range c.never {
					if strings.Contains(advice, part) {
						t.Errorf("the advice is of no use (%q): %s", part, advice)
					}
				}
			})
		})
	}
}

// numbers returns n tags.
func numbers(n int) string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprint(i)
	}
	return strings.Join(tags, ",")
}

// A modes site answers each path as its mode says, and every visitor alike.
type modes struct {
	mu      sync.Mutex
	renders int               // guarded by mu
	byPath  map[string]string // guarded by mu
	// atOnce makes renders take no time, so that nothing changes between an explanation and
	// its request.
	atOnce atomic.Bool
}

func (m *modes) set(path, mode string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byPath[path] = mode
}

func (m *modes) rendered() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renders
}

// next counts a render, and returns the mode of its path.
func (m *modes) next(path string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renders++
	return strings.Split(m.byPath[path], "|")
}

// responses are the modes: lines of a header, of which the first is the status.
var responses = []string{
	"200|Cache-Control: public, max-age=60, stale-while-revalidate=600",
	"200|Cache-Control: s-maxage=5, stale-while-revalidate=600, stale-if-error=6000",
	"200|Cache-Control: max-age=5|Etag: \"v\"",
	"200|Cache-Control: max-age=60|Vary: X-A",
	"200|Cache-Control: max-age=60|Vary: X-A, X-B",
	"200|Cache-Control: max-age=60|Cache-Status: Upstream; hit",
	"200|Cache-Control: private",
	"200|Cache-Control: no-store|Set-Cookie: a=b",
	"200|X-Nothing: said",
	"200|Cache-Control: max-age=60|Content-Type: text/html|X-Bad: 1", // rejected by its text
	"404|Cache-Control: max-age=30",
	"404|X-Nothing: said",
	"302|Location: /|Cache-Control: max-age=60",
	"500|Cache-Control: no-store",
	"503|Retry-After: 7",
	"401|X-Nothing: said",
}

func (m *modes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lines := m.next(r.URL.Path)
	if !m.atOnce.Load() {
		time.Sleep(time.Second)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		w.Header().Add(name, value)
	}
	if tag := w.Header().Get("Etag"); tag != "" && r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	status := 0
	_, _ = fmt.Sscan(lines[0], &status)
	w.WriteHeader(status)
	if w.Header().Get("X-Bad") != "" {
		fmt.Fprint(w, "Fatal error")
		return
	}
	fmt.Fprint(w, "a page")
}

// A downStore is a store that does not answer while down is set.
type downStore struct {
	store.MetaStore
	down atomic.Bool
}

var errStoreDown = errors.New("the store is down")

func (d *downStore) Read(ctx context.Context, pk string) (store.Record, error) {
	if d.down.Load() {
		return store.Record{}, errStoreDown
	}
	return d.MetaStore.Read(ctx, pk)
}

func (d *downStore) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	if d.down.Load() {
		return store.Record{}, errStoreDown
	}
	return d.MetaStore.ReadSerializable(ctx, pk)
}

func (d *downStore) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	if d.down.Load() {
		return store.Sequence{}, nil, errStoreDown
	}
	return d.MetaStore.Changes(ctx, after)
}

func (d *downStore) Sequence(ctx context.Context) (store.Sequence, error) {
	if d.down.Load() {
		return store.Sequence{}, errStoreDown
	}
	return d.MetaStore.Sequence(ctx)
}

// A turnOfEvents is something that happens in the test: a request is explained and served.
type turnOfEvents struct {
	what   string // request, or what changes before the next request
	path   string
	mode   string
	hard   bool
	time   time.Duration
	method string
	header []string
	query  string
}

func (e turnOfEvents) request() *http.Request {
	r := httptest.NewRequest(e.method, "http://example.com"+e.path+e.query, http.NoBody)
	for _, line := range e.header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

var (
	ttl           = regexp.MustCompile(`; ttl=-?\d+`)
	forwardStatus = regexp.MustCompile(`; fwd-status=\d+`)
)

// agreementRoutes are routes whose requests are explained and served, by what is special of them.
var agreementRoutes = map[string]isr.Route{
	"plain":         {},
	"waits":         {Policy: isr.Wait, Stale: time.Hour},
	"obeys":         {ObeyRequests: true, Revalidate: 10 * time.Second, StaleIfError: 10 * time.Hour},
	"learns Vary":   {VaryAuto: true, MaxVariants: 1, Revalidate: 10 * time.Second},
	"serves stale":  {Stale: time.Hour, StaleIfError: 10 * time.Hour, StoreNegative: true},
	"never stale":   {Stale: -1, Reject: isr.Reject{Status: true}},
	"off":           {Off: true},
	"waits, learns": {Policy: isr.Wait, VaryAuto: true, StaleIfError: 10 * time.Hour, Reject: isr.Reject{Status: true}},
}

// asks returns events in which paths are requested, each with a header.
func asks(headers ...string) (story []turnOfEvents) {
	for _, line := range headers {
		e := turnOfEvents{what: "request", path: "/a", method: http.MethodGet}
		if line != "" {
			e.header = []string{line}
		}
		story = append(story, e)
	}
	return story
}

func after(d time.Duration) turnOfEvents { return turnOfEvents{what: "wait", time: d} }

// agreementStories are what happens to a page whose renders have one response, by what they are about.
// The page /a is rendered first; wait, mode, purge and the others change what the next request finds.
func agreementStories(mode string) map[string][]turnOfEvents {
	set := func(what, mode string, hard bool, d time.Duration) []turnOfEvents {
		return []turnOfEvents{{what: what, path: "/a", mode: mode, hard: hard, time: d, method: http.MethodGet}}
	}
	first := slices.Concat(set("mode", mode, false, 0), asks("", ""))
	later := func(events ...[]turnOfEvents) []turnOfEvents {
		return slices.Concat(append([][]turnOfEvents{first}, events...)...)
	}
	return map[string][]turnOfEvents{
		"ages": later([]turnOfEvents{after(4 * time.Second)}, asks("", ""), []turnOfEvents{after(time.Minute)}, asks("", "", ""), []turnOfEvents{after(time.Hour)}, asks("", "", "")),
		"headers": later(asks("X-A: 1", "X-B: 2", "X-A: 1", "X-C: 1", "Accept-Language: de", "X-Part: nav", "X-Part: foot", "Cookie: _ga=1; ab=b", "Cookie: session=secret", "Authorization: Bearer secret",
			"Connection: authorization", "Range: bytes=0-1", "ISR-Min-Seq: 1", "ISR-Min-Seq: x")),
		"directives": later([]turnOfEvents{after(4 * time.Second)}, asks("Cache-Control: no-cache", "Cache-Control: max-age=2", "Cache-Control: only-if-cached", "Cache-Control: max-stale=100000"),
			[]turnOfEvents{after(time.Minute)}, asks("Cache-Control: only-if-cached", "Cache-Control: max-stale=100000", "Cache-Control: max-age=2")),
		"purges": later(set("purge", "", false, 0), asks("", "ISR-Min-Seq: 1", ""), set("purge", "", true, 0), asks("", "ISR-Min-Seq: 2", "Cache-Control: only-if-cached")),
		"fails": later(set("mode", "500|Cache-Control: no-store", false, 0), []turnOfEvents{after(time.Minute)}, asks("", "", ""), []turnOfEvents{after(time.Hour)}, asks("", "", ""),
			set("mode", responses[0], false, 0), []turnOfEvents{after(time.Minute)}, asks("", "")),
		"rejected": later(set("mode", "200|Cache-Control: max-age=60|Content-Type: text/html|X-Bad: 1", false, 0), []turnOfEvents{after(time.Minute)}, asks("", "", "")),
		"outage": later(set("down", "", false, 0), asks("", "X-A: 1"), []turnOfEvents{after(4 * time.Second)}, asks("", ""), []turnOfEvents{after(time.Minute)}, asks("", "Cache-Control: only-if-cached", "ISR-Min-Seq: 1"),
			set("up", "", false, 0), []turnOfEvents{after(time.Minute)}, asks("", "")),
		"others": later([]turnOfEvents{after(time.Minute)}, set("begin", "", false, 0), asks(""), set("hold", "", false, time.Minute), asks("", ""), set("other", "", false, 0), asks("", "")),
		"pinned": later(set("pin", "", false, time.Hour), []turnOfEvents{after(4 * time.Minute)}, asks("", ""), set("purge", "", true, 0), asks(""), set("unpin", "", false, 0), asks("", "")),
		// These have failed once: a visitor without the page waits for a store that is down while another
		// one does; and the last render is rejected in the second in which the page was served.
		"begins in an outage": later([]turnOfEvents{after(4 * time.Second)}, set("down", "", false, 0), set("begin", "", false, 0), asks("", "")),
		"rejected at once": later(set("mode", "200|Cache-Control: max-age=60|Content-Type: text/html|X-Bad: 1", false, 0), []turnOfEvents{after(4 * time.Minute)}, asks(""),
			set("begin", "", false, 0), asks(""), []turnOfEvents{after(time.Second)}, asks("")),
		"methods": {
			{what: "request", path: "/a", method: http.MethodHead},
			{what: "request", path: "/a", method: http.MethodGet},
			{what: "request", path: "/a", method: http.MethodHead},
			{what: "request", path: "/a", method: http.MethodPost},
			{what: "request", path: "/a", method: http.MethodGet, query: "?p=1"},
			{what: "request", path: "/a", method: http.MethodGet, query: "?utm_source=x"},
			{what: "request", path: "/a", method: http.MethodGet, query: "?other=1"},
			{what: "request", path: "/b", method: http.MethodGet, header: []string{"X-A: 1"}},
		},
	}
}

// TestExplanationAgreesWithResponse: what is explained of a request, with what its renderer answers, is
// what it gets; and explaining changes nothing.
func TestExplanationAgreesWithResponse(t *testing.T) {
	seen := make(map[string]int)
	for n, name := range slices.Sorted(maps.Keys(agreementRoutes)) {
		route := agreementRoutes[name]
		route.Query = []string{"p"}
		route.KeyClasses = []isr.KeyClass{{Header: "Accept-Language", Values: []string{"en", "de"}}, {Cookie: "ab", Values: []string{"a", "b"}}, {Header: "X-Part", Values: []string{"", "nav", "*"}}}
		route.Reject.With = []string{"Fatal error"}
		for i, mode := range responses {
			stories := agreementStories(mode)
			for m, about := range slices.Sorted(maps.Keys(stories)) {
				failedOnce := about == "begins in an outage" || about == "rejected at once"
				if (n+i+m)%len(stories) != 0 && (i != 1 || !failedOnce) {
					continue // each route meets each response once
				}
				x := &explained{route: route, uses: 1, seen: seen}
				if i%4 == 3 {
					x.uses, x.blind = 2, isr.BlindRefuse
				}
				synctest.Test(t, func(t *testing.T) {
					if failure := x.run(t, stories[about]); failure != "" {
						t.Errorf("%s, %s, %s: %s", name, mode, about, failure)
					}
				})
			}
		}
	}
	for _, verdict := range []isr.Verdict{isr.VerdictHit, isr.VerdictStale, isr.VerdictMiss, isr.VerdictBypass, isr.VerdictError, isr.VerdictRefused} {
		if seen[string(verdict)] == 0 {
			t.Errorf("no request was a %s", verdict)
		}
	}
}

type explained struct {
	route isr.Route
	uses  int
	blind isr.BlindPolicy
	seen  map[string]int
}

func (x *explained) run(t *testing.T, story []turnOfEvents) (failure string) {
	tb := newTable(t)
	x.route.Budget = tb.budget(budget.Config{Failures: 3})
	meta := &downStore{MetaStore: tb.store("a")}
	site := &modes{byPath: map[string]string{"/a": responses[0], "/b": responses[3]}}
	change := func(cfg *isr.Config) { cfg.MinUses, cfg.Blind = x.uses, x.blind }
	cache := tb.node(meta, change)
	h := cache.Handler(x.route, site)
	other := tb.node(tb.store("b"), change).Handler(x.route, site)
	var visitors sync.WaitGroup
	defer visitors.Wait()
	defer meta.down.Store(false)
	for i, e := range story {
		key := store.Key{Text: "example.com" + e.path}
		switch e.what {
		case "down", "up":
			meta.down.Store(e.what == "down")
		case "wait":
			time.Sleep(e.time)
		case "mode":
			site.set(e.path, e.mode)
		case "purge":
			_, err := cache.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgePrefix("", "example.com"+e.path)}, Hard: e.hard})
			if err != nil && !errors.Is(err, errStoreDown) {
				return err.Error()
			}
		case "hold":
			_, _ = tb.store("c").Acquire(t.Context(), store.HashedPartition(key), max(e.time, 5*time.Second), nil) // may be held
		case "pin":
			_, _ = cache.Pin(t.Context(), key, e.time+time.Second) // there may be no page
		case "unpin":
			_, _ = cache.Unpin(t.Context(), key)
		case "other":
			other.ServeHTTP(httptest.NewRecorder(), e.request())
		case "begin":
			r := e.request()
			r.Method = http.MethodGet
			visitors.Go(func() { h.ServeHTTP(httptest.NewRecorder(), r) })
			synctest.Wait()
		case "request":
			if failure := x.compare(t, tb, cache, h, site, e); failure != "" {
				return fmt.Sprintf("step %d of %+v: %s", i, story, failure)
			}
		}
	}
	return ""
}

// compare explains a request, without and with its render, and serves it.
func (x *explained) compare(t *testing.T, tb *table, cache *isr.Cache, h http.Handler, site *modes, e turnOfEvents) string {
	synctest.Wait()
	rows := func() (all []store.Record) {
		for _, path := range []string{"/a", "/b"} {
			rec, err := tb.store("reader").Read(t.Context(), store.HashedPartition(store.Key{Text: "example.com" + path}))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rec)
		}
		return all
	}
	before, renders := rows(), site.rendered()
	plain := h.(isr.Explainer).Explain(e.request(), false)
	if site.rendered() != renders || !reflect.DeepEqual(rows(), before) {
		return fmt.Sprintf("explaining has rendered %d times, or changed the store", site.rendered()-renders)
	}
	if text := fmt.Sprintf("%+v", plain); strings.Contains(text, "secret") {
		return "the explanation has a secret: " + text
	}
	w, r := httptest.NewRecorder(), e.request()
	site.atOnce.Store(true)
	fetched := h.(isr.Explainer).Explain(e.request(), true)
	site.atOnce.Store(false)
	h.ServeHTTP(w, r)
	x.seen[string(fetched.Verdict)]++
	x.seen[fetched.CacheStatus]++
	members := strings.Split(strings.Join(w.Header()["Cache-Status"], ", "), ", ")
	got := ttl.ReplaceAllString(members[len(members)-1], "")
	for _, d := range []isr.Decision{plain, fetched} {
		real := got
		switch {
		case len(d.Memory.StoresDown) > 0 && len(cache.StoresDown()) == 0:
			x.seen["stores answer again"]++ // since the first of two renders
			continue
		case d.Open && (d.Verdict != isr.VerdictBypass || d.Fetched != nil):
			x.seen["open"]++
			continue
		case d.Open:
			real = forwardStatus.ReplaceAllString(got, "")
		case d.Status != 0 && d.Status != w.Code && w.Code != http.StatusPartialContent:
			return fmt.Sprintf("the status is %d, explained as %d", w.Code, d.Status)
		}
		if d.CacheStatus != real {
			return fmt.Sprintf("%s %s %v (%+v)\n served: %s\n explained (fetch: %t): %s\n because: %q\n memory: %+v", e.method, e.path+e.query, e.header, x.route, got, d.Fetched != nil, d.CacheStatus, d.Reasons, d.Memory)
		}
	}
	return ""
}
