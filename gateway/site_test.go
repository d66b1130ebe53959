package gateway_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/telemetry/metrics"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/store"
)

// newCache returns a cache on an embedded store.
func newCache(t testing.TB) *isr.Cache {
	t.Helper()
	return testbed.Cache(t, testbed.Table(t), isr.Config{Poll: -1})
}

// An echo is an origin that answers with its name, the method and the path that it sees.
type echo struct {
	*httptest.Server
	requests atomic.Int64
}

func newEcho(t testing.TB, name string) *echo {
	e := &echo{}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.requests.Add(1)
		fmt.Fprint(w, name+" "+r.Method+" "+r.URL.EscapedPath())
	}))
	t.Cleanup(e.Close)
	return e
}

func (e *echo) origin(t testing.TB) gateway.Origin {
	t.Helper()
	return gateway.Origin{URLs: []*url.URL{parse(t, e.URL)}}
}

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := gateway.ParseOrigin(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func newSite(t testing.TB, cache *isr.Cache, cfg gateway.SiteConfig) *gateway.Site {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	s, err := gateway.NewSite(cache, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// visit sends a request through an edge for all hosts.
func visit(h http.Handler, method, target string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, http.NoBody)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func expectVisit(t *testing.T, h http.Handler, method, target, body, status string) {
	t.Helper()
	w := visit(h, method, target)
	if got := w.Header().Get("Cache-Status"); w.Body.String() != body || !strings.HasPrefix(got, status) {
		t.Errorf("%s %s: got %d %q, %q; expected %q, %q", method, target, w.Code, w.Body, got, body, status)
	}
}

func TestSiteChoosesRoutes(t *testing.T) {
	site, shop := newEcho(t, "site"), newEcho(t, "shop")
	cache := newCache(t)
	minute := isr.Route{Revalidate: time.Minute}
	tags, err := isr.PathTags("GET /blog/{slug}", "post-{slug}", "blog")
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, cache, gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"site": site.origin(t), "shop": shop.origin(t)},
		Routes: []gateway.SiteRoute{
			{Pattern: "/", Route: minute, Origin: "site"},
			{Pattern: "GET /blog/{slug}", Route: isr.Route{Revalidate: time.Minute, Tags: tags}, Origin: "site"},
			{Pattern: "/account/", Origin: "site"},
			{Pattern: "shop.test/", Route: minute, Origin: "shop"},
		},
	})
	expectVisit(t, s, "GET", "http://example.com/a", "site GET /a", "isr; fwd=miss; fwd-status=200; stored")
	expectVisit(t, s, "GET", "http://example.com/a", "site GET /a", "isr; hit")
	expectVisit(t, s, "GET", "http://example.com/account", "site GET /account", "isr; fwd=")
	expectVisit(t, s, "GET", "http://example.com/account", "site GET /account", "isr; fwd=")
	expectVisit(t, s, "GET", "http://shop.test/account/", "shop GET /account/", "isr; fwd=miss; fwd-status=200; stored")
	expectVisit(t, s, "POST", "http://example.com/blog/one", "site POST /blog/one", "isr; fwd=method")
	for _, slug := range []string{"one", "two"} {
		expectVisit(t, s, "GET", "http://example.com/blog/"+slug, "site GET /blog/"+slug, "isr; fwd=miss; fwd-status=200; stored")
	}
	before := site.requests.Load()
	tag := store.PurgeTarget{Kind: store.PurgeTag, Value: "post-one"}
	if _, err := cache.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{tag}, Hard: true}); err != nil {
		t.Fatal(err)
	}
	expectVisit(t, s, "GET", "http://example.com/blog/two", "site GET /blog/two", "isr; hit")
	visit(s, "GET", "http://example.com/blog/one")
	if n := site.requests.Load() - before; n != 1 {
		t.Errorf("%d renders after a purge by the tag of a wildcard; expected 1", n)
	}
}

// A path that the origin may read as one of another route reaches neither the origin nor
// the cache.
func TestSiteRefusesAmbiguousPaths(t *testing.T) {
	public, secret := newEcho(t, "public"), newEcho(t, "secret")
	s := newSite(t, newCache(t), gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"public": public.origin(t), "secret": secret.origin(t)},
		Routes: []gateway.SiteRoute{
			{Pattern: "/", Route: isr.Route{Revalidate: time.Minute, IgnoreCookies: []string{"*"}}, Origin: "public"},
			{Pattern: "/account/", Origin: "secret"},
		},
	})
	server := httptest.NewServer(s)
	defer server.Close()
	for _, path := range []string{
		"//account/", "//x/../account/", "/x/../account/", "/./account/", "/x/%2e%2e/account/", "/%2Faccount/", "/account%2Fx",
		"/account;x/", "/x/..;/account/", "/account%5Cx", "/account%252Fx", "/account/../x",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.URL.Opaque = path // as it is
			if strings.HasPrefix(path, "//") {
				r.URL.Opaque = "//" + r.URL.Host + path
			}
			res, err := http.DefaultTransport.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusBadRequest || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s %s: %d", method, path, res.StatusCode)
			}
		}
	}
	if n := public.requests.Load() + secret.requests.Load(); n != 0 {
		t.Errorf("%d requests have reached an origin", n)
	}
	expectVisit(t, s, "GET", "http://example.com/%61ccount/x", "secret GET /account/x", "isr; fwd=")
}

// Requests without a route get 404, and nothing is asked.
func TestSiteWithoutARoute(t *testing.T) {
	origin := newEcho(t, "site")
	s := newSite(t, newCache(t), gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"site": origin.origin(t)},
		Routes:  []gateway.SiteRoute{{Pattern: "GET /a", Origin: "site"}},
	})
	if w := visit(s, "GET", "http://example.com/b"); w.Code != http.StatusNotFound || origin.requests.Load() != 0 {
		t.Errorf("got %d, %d requests", w.Code, origin.requests.Load())
	}
}

// TestSiteReload: no request is lost while routes and origins change all the time, and the
// request after a change follows the new rules.
func TestSiteReload(t *testing.T) {
	origins := []*echo{newEcho(t, "zero"), newEcho(t, "one")}
	var configs []gateway.SiteConfig
	for i, e := range origins {
		rt := isr.Route{Revalidate: time.Minute}
		configs = append(configs, gateway.SiteConfig{
			Logger:  slog.New(slog.DiscardHandler),
			Origins: map[string]gateway.Origin{"site": e.origin(t), "kept": origins[0].origin(t)},
			Routes: []gateway.SiteRoute{
				{Pattern: "/", Route: rt, Origin: "kept"}, {Pattern: "/live/", Origin: "site"}, {Pattern: fmt.Sprintf("/only%d/", i), Route: rt, Origin: "site"},
			},
		})
	}
	s := newSite(t, newCache(t), configs[0])
	visit(s, "GET", "http://example.com/stays")
	ctx, stop := context.WithCancel(t.Context())
	var visitors sync.WaitGroup
	var answered atomic.Int64
	for i := range 8 {
		visitors.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				path := []string{"/stays", "/live/a", fmt.Sprintf("/new%d-%d", i, n)}[n%3]
				w := visit(s, "GET", "http://example.com"+path)
				if w.Code != http.StatusOK || path == "/stays" && !strings.HasPrefix(w.Header().Get("Cache-Status"), "isr; hit") {
					t.Errorf("%s: %d %q %s", path, w.Code, w.Body, w.Header().Get("Cache-Status"))
				}
				answered.Add(1)
			}
		})
	}
	for i := 1; i <= 40; i++ {
		if err := s.Reload(configs[i%2]); err != nil {
			t.Fatal(err)
		}
		want := []string{"zero GET /live/a", "one GET /live/a"}[i%2]
		if w := visit(s, "GET", "http://example.com/live/a"); w.Body.String() != want {
			t.Fatalf("after reload %d: %q", i, w.Body)
		}
	}
	stop()
	visitors.Wait()
	t.Log(answered.Load(), "requests")
}

// An invalid configuration changes nothing.
func TestSiteReloadFails(t *testing.T) {
	origin := newEcho(t, "site")
	good := gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"site": origin.origin(t)},
		Routes:  []gateway.SiteRoute{{Pattern: "/", Route: isr.Route{Revalidate: time.Minute}, Origin: "site"}},
	}
	s := newSite(t, newCache(t), good)
	for problem, change := range map[string]func(*gateway.SiteConfig){
		"there is no origin": func(c *gateway.SiteConfig) { c.Routes = []gateway.SiteRoute{{Pattern: "/", Origin: "other"}} },
		"has no address":     func(c *gateway.SiteConfig) { c.Origins = map[string]gateway.Origin{"site": {}} },
		"invalid pattern":    func(c *gateway.SiteConfig) { c.Routes = []gateway.SiteRoute{{Origin: "site"}} },
		"History must be betwe": func(c *gateway.SiteConfig) {
			c.Routes = []gateway.SiteRoute{{Pattern: "/", Origin: "site", Route: isr.Route{History: -1}}}
		},
	} {
		bad := good
		change(&bad)
		if err := s.Reload(bad); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("got %v; expected %q", err, problem)
		}
		if w := visit(s, "GET", "http://example.com/a"); w.Code != http.StatusOK {
			t.Errorf("after %q: %d", problem, w.Code)
		}
	}
}

// The circuit breaker of an origin that is not changed stays open over a reload.
func TestSiteReloadKeepsBudgets(t *testing.T) {
	broken := newEcho(t, "site")
	broken.Close()
	cfg := gateway.SiteConfig{
		Logger:  slog.New(slog.DiscardHandler),
		Origins: map[string]gateway.Origin{"site": {URLs: []*url.URL{parse(t, broken.URL)}, Failures: 2}},
		Routes:  []gateway.SiteRoute{{Pattern: "/", Route: isr.Route{Revalidate: time.Minute}, Origin: "site"}},
	}
	s := newSite(t, newCache(t), cfg)
	for i := range 3 {
		visit(s, "GET", fmt.Sprint("http://example.com/", i))
	}
	status := func(path string) string {
		return visit(s, "GET", "http://example.com"+path).Header().Get("Cache-Status")
	}
	if err := s.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if got := status("/b"); !strings.HasSuffix(got, "detail=origin-failing") {
		t.Errorf("after a reload: %s", got)
	}
	cfg.Origins = map[string]gateway.Origin{"site": {URLs: []*url.URL{parse(t, newEcho(t, "new").URL)}, Failures: 2}}
	if err := s.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if got := status("/c"); !strings.HasPrefix(got, "isr; fwd=miss; fwd-status=200; stored") {
		t.Errorf("with another address: %s", got)
	}
}

// BenchmarkSiteHit compares a hit with 200 routes with a hit with one route.
func BenchmarkSiteHit(b *testing.B) {
	origin := newEcho(b, "site")
	for _, n := range []int{1, 200} {
		routes := []gateway.SiteRoute{{Pattern: "/", Route: isr.Route{Revalidate: time.Hour}, Origin: "site"}}
		for i := 1; i < n; i++ {
			pattern := fmt.Sprintf([]string{"GET /blog%d/{slug}", "/area%d/", "/area%d/{a}/{b}"}[i%3], i/3)
			routes = append(routes, gateway.SiteRoute{Pattern: pattern, Route: isr.Route{Revalidate: time.Hour}, Origin: "site"})
		}
		s := newSite(b, newCache(b), gateway.SiteConfig{Origins: map[string]gateway.Origin{"site": origin.origin(b)}, Routes: routes})
		r := httptest.NewRequest(http.MethodGet, "http://example.com/blog7/a", http.NoBody)
		w := &discard{header: make(http.Header)}
		s.ServeHTTP(w, r)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				s.ServeHTTP(w, r)
			}
			if w.header.Get("Age") == "" && !strings.HasPrefix(w.header.Get("Cache-Status"), "isr; hit") {
				b.Fatal(w.header)
			}
		})
	}
}

// BenchmarkSiteHitMeasured compares a hit that is counted with one that is not.
func BenchmarkSiteHitMeasured(b *testing.B) {
	origin := newEcho(b, "site")
	s := newSite(b, newCache(b), gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"site": origin.origin(b)},
		Routes:  []gateway.SiteRoute{{Pattern: "/", Route: isr.Route{Revalidate: time.Hour}, Origin: "site"}},
	})
	m := metrics.New("v1", slog.New(slog.DiscardHandler))
	record := m.Active(telemetry.NewRecorder(telemetry.RecorderConfig{Sinks: []telemetry.Sink{m}, RequestIDs: "off"}).Serve)
	for _, handler := range []struct {
		name  string
		serve func(http.ResponseWriter, *http.Request)
	}{
		{"bare", s.ServeHTTP},
		{"measured", func(w http.ResponseWriter, r *http.Request) { record(w, r, s) }},
	} {
		b.Run(handler.name, func(b *testing.B) {
			r := httptest.NewRequest(http.MethodGet, "http://example.com/page", http.NoBody)
			w := &discard{header: make(http.Header)}
			handler.serve(w, r)
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				handler.serve(w, r)
			}
			if !strings.HasPrefix(w.header.Get("Cache-Status"), "isr; hit") {
				b.Fatal(w.header)
			}
		})
	}
}

// A discard is a ResponseWriter without costs.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

// The tenant header is the one of the page's route, whatever the method of a request.
func TestSiteTenantHeader(t *testing.T) {
	origin := newEcho(t, "site")
	route := func(pattern, header string) gateway.SiteRoute {
		return gateway.SiteRoute{Pattern: pattern, Route: isr.Route{Revalidate: time.Minute, TenantHeader: header}, Origin: "site"}
	}
	cfg := gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"site": origin.origin(t)},
		Routes:  []gateway.SiteRoute{route("/public/", ""), route("/a/", "X-A"), route("GET /b/{id}", "X-B"), route("POST /b/{id}", "X-Post")},
	}
	s := newSite(t, newCache(t), cfg)
	expect := func(path, want, problem string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), "PURGE", "http://example.com"+path, http.NoBody)
		got, err := s.TenantHeader(r)
		if got != want || (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %q, %v; expected %q, %q", path, got, err, want, problem)
		}
	}
	expect("/public/a", "", "")
	expect("/a/a", "X-A", "")
	expect("/b/7", "X-B", "")
	expect("/none", "", "")
	expect("/public/../a/a", "", "several ways")
	cfg.Routes = []gateway.SiteRoute{route("/", ""), route("/a/", "X-New")}
	if err := s.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	expect("/a/a", "X-New", "")
}
