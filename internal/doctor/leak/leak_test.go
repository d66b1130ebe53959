package leak_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/doctor/leak"
	"github.com/facetheory/isr/internal/testbed"
)

// A patient is a site behind a real gateway.
type patient struct {
	gateway, origin *url.URL

	mu   sync.Mutex
	seen []string // the methods and paths that the site was asked for
}

func newPatient(t *testing.T, route isr.Route, site http.HandlerFunc) *patient {
	t.Helper()
	return newPatientAt(t, gateway.Trust{}, []string{"*"}, route, site)
}

// newPatientAt is newPatient with the edge of a gateway that trusts these peers and serves these hosts.
func newPatientAt(t *testing.T, trust gateway.Trust, served []string, route isr.Route, site http.HandlerFunc) *patient {
	t.Helper()
	p := new(patient)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.seen = append(p.seen, r.Method+" "+r.URL.Path)
		p.mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		site(w, r)
	}))
	t.Cleanup(origin.Close)
	p.origin = parse(t, origin.URL)
	quiet := slog.New(slog.DiscardHandler)
	cache := testbed.Cache(t, testbed.Table(t), isr.Config{Poll: -1, Logger: quiet})
	s, err := gateway.NewSite(cache, gateway.SiteConfig{
		Routes:  []gateway.SiteRoute{{Pattern: "/", Origin: "site", Route: route}},
		Origins: map[string]gateway.Origin{"site": {URLs: []*url.URL{p.origin}}},
		Logger:  quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	hosts, err := gateway.ParseHosts(served)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = gateway.Edge(gateway.EdgeConfig{Hosts: hosts.WithListener(server.Listener.Addr()), Trust: trust, Logger: quiet}, s)
	server.Start()
	t.Cleanup(server.Close)
	p.gateway = parse(t, server.URL)
	return p
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// examine returns what is found, as "severity kind path subject".
func examine(t *testing.T, cfg leak.Config) (*leak.Report, []string) {
	t.Helper()
	cfg.Rate = leak.MaxRate
	r, err := leak.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	found := []string{}
	for _, f := range r.Findings {
		u := parse(t, f.URL)
		found = append(found, strings.TrimSpace(fmt.Sprint(f.Severity, " ", f.Kind, " ", u.RequestURI(), " ", f.Subject)))
		if f.Problem == "" || f.Do == "" {
			t.Errorf("%s: %q, %q", f.Kind, f.Problem, f.Do)
		}
	}
	return r, found
}

func cookie(text string) http.Header { return http.Header{"Cookie": {text}} }

// good is a site without faults: with pages for everyone, in two languages, and one page for
// each user, which is private.
func good(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/":
		w.Header().Set("Cache-Control", "s-maxage=60")
		fmt.Fprint(w, `<a href="/news">News</a> <a href='account'>Account</a> <a href="/logout">Log out</a>
			<a href="https://elsewhere.invalid/">Elsewhere</a> <a href="/news#top">Top</a> <a href="mailto:x@example.com">Mail</a>`)
	case "/news":
		w.Header().Set("Cache-Control", "s-maxage=60")
		w.Header().Set("Vary", "Accept-Language")
		fmt.Fprint(w, "News in "+r.Header.Get("Accept-Language"))
	case "/account":
		w.Header().Set("Cache-Control", "private")
		w.Header().Set("Set-Cookie", "seen=1")
		fmt.Fprint(w, "Hello "+r.Header.Get("Cookie"))
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestGoodSite(t *testing.T) {
	p := newPatient(t, isr.Route{Vary: []string{"Accept-Language"}}, good)
	for name, cfg := range map[string]leak.Config{
		"without anything": {},
		"with identities":  {A: cookie("session=alice"), B: cookie("session=bob"), CanaryA: "alice", CanaryB: "bob"},
		"with the origin":  {Origin: p.origin},
	} {
		cfg.URL = p.gateway
		r, found := examine(t, cfg)
		if want := []string{"note not-cached /account set-cookie"}; !slices.Equal(found, want) || r.Count(leak.Leak)+r.Count(leak.Wrong) != 0 {
			t.Errorf("%s: found %q", name, found)
		}
		var cached []string
		for _, page := range r.Pages {
			cached = append(cached, fmt.Sprint(parse(t, page.URL).Path, " ", page.Status, " ", page.Cached))
		}
		if diff := cmp.Diff([]string{"/ 200 true", "/news 200 true", "/account 200 false"}, cached); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, request := range p.seen {
		if !strings.HasPrefix(request, "GET ") || request == "GET /logout" {
			t.Errorf("the site was asked for %s", request)
		}
	}
}

// public sends a page that may be cached.
func public(text func(r *http.Request) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "s-maxage=60")
		fmt.Fprint(w, text(r))
	}
}

// Each fault of a site or its configuration is found behind a real gateway, and nothing else.
func TestBrokenSites(t *testing.T) {
	header := func(name string) http.HandlerFunc {
		return public(func(r *http.Request) string { return "for " + r.Header.Get(name) })
	}
	identity := func(name string) (a, b http.Header) {
		return http.Header{name: {"alice"}}, http.Header{name: {"bob"}}
	}
	field := func(of, by string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(of, "for-"+r.Header.Get(by))
			public(func(*http.Request) string { return "page" })(w, r)
		}
	}
	alice, bob := identity("X-Customer")
	for name, tt := range map[string]struct {
		route isr.Route
		site  http.HandlerFunc
		cfg   leak.Config
		want  []string
	}{
		"renders carry an identity": {
			isr.Route{Forward: []string{"X-Customer"}},
			header("X-Customer"),
			leak.Config{A: alice, B: bob, CanaryA: "alice", CanaryB: "bob"},
			[]string{"leak canary / A", "leak personal / A"},
		},
		"the same, without texts to look for": {
			isr.Route{Forward: []string{"X-Customer"}},
			header("X-Customer"),
			leak.Config{A: alice, B: bob},
			[]string{"leak personal / A"},
		},
		"a page by language, without Vary": {isr.Route{}, header("Accept-Language"), leak.Config{}, []string{"wrong key / Accept-Language"}},
		"a page by device, without Vary": {
			isr.Route{},
			public(func(r *http.Request) string { return fmt.Sprint("mobile ", strings.Contains(r.UserAgent(), "Mobile")) }),
			leak.Config{},
			[]string{"wrong key / User-Agent"},
		},
		"a page by format, without Vary": {
			isr.Route{},
			public(func(r *http.Request) string { return fmt.Sprint("json ", r.Header.Get("Accept") == "application/json") }),
			leak.Config{},
			[]string{"wrong key / Accept"},
		},
		"fragments by X-Requested-With, without Vary": {
			isr.Route{},
			public(func(r *http.Request) string { return "for " + r.Header.Get("X-Requested-With") }),
			leak.Config{},
			[]string{"wrong key / X-Requested-With"},
		},
		"a redirect by language, without Vary": {
			isr.Route{},
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "s-maxage=60")
				w.Header().Set("Location", "https://elsewhere.invalid/"+r.Header.Get("Accept-Language"))
				w.WriteHeader(http.StatusFound)
			},
			leak.Config{},
			[]string{"wrong key / Accept-Language"},
		},
		"a language that is asked for first, without Vary": {
			isr.Route{},
			public(func(r *http.Request) string {
				return fmt.Sprint("japanese ", strings.HasPrefix(r.Header.Get("Accept-Language"), "ja"))
			}),
			leak.Config{},
			[]string{"wrong key / Accept-Language"},
		},
		"access by origin, without Vary": {isr.Route{}, field("Access-Control-Allow-Origin", "Origin"), leak.Config{}, []string{"wrong key / Origin"}},
		"a language of the header alone": {isr.Route{}, field("Content-Language", "Accept-Language"), leak.Config{}, []string{"wrong key / Accept-Language"}},
		"links by device":                {isr.Route{}, field("Link", "Sec-Ch-Ua-Mobile"), leak.Config{}, []string{"wrong key / Sec-Ch-Ua-Mobile"}},
		"a part for htmx":                {isr.Route{}, header("Hx-Request"), leak.Config{}, []string{"wrong key / Hx-Request"}},
		"a whole page for boosted links of htmx": {
			isr.Route{},
			public(func(r *http.Request) string {
				return fmt.Sprint("boosted ", r.Header.Get("Hx-Request") != "" && r.Header.Get("Hx-Boosted") != "")
			}),
			leak.Config{},
			[]string{"wrong key / Hx-Boosted"},
		},
		"data for Inertia": {
			isr.Route{},
			public(func(r *http.Request) string {
				return fmt.Sprint("data ", r.Header.Get("X-Inertia") != "" && r.Header.Get("Turbo-Frame") == "")
			}),
			leak.Config{},
			[]string{"wrong key / X-Inertia"},
		},
		"a frame for Turbo":             {isr.Route{}, header("Turbo-Frame"), leak.Config{}, []string{"wrong key / Turbo-Frame"}},
		"data for React":                {isr.Route{}, header("Rsc"), leak.Config{}, []string{"wrong key / Rsc"}},
		"a header in the key, for htmx": {isr.Route{Vary: []string{"HX-Request"}}, header("Hx-Request"), leak.Config{}, []string{}},
		"an ignored cookie on which pages depend": {
			isr.Route{IgnoreCookies: []string{"*"}},
			public(func(r *http.Request) string {
				c, err := r.Cookie("session")
				return fmt.Sprint("Hello ", c, err)
			}),
			leak.Config{A: cookie("theme=dark; session=alice"), B: cookie("theme=dark; session=bob")},
			[]string{"wrong personal / the cookie session"},
		},
		"a form token": {
			isr.Route{},
			public(func(*http.Request) string {
				return `<form><input type="hidden" name="csrfmiddlewaretoken" value="k3Jd82nfKq0aLmP2"></form>`
			}),
			leak.Config{},
			[]string{"wrong form-token / csrfmiddlewaretoken"},
		},
		"a nonce": {
			isr.Route{},
			func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Security-Policy", "default-src 'self'; script-src 'nonce-k3Jd82nfKq0aLmP2'")
				public(func(*http.Request) string { return `<script nonce="k3Jd82nfKq0aLmP2"></script>` })(w, r)
			},
			leak.Config{},
			[]string{"wrong nonce / Content-Security-Policy"},
		},
		"an ignored parameter on which pages depend": {
			isr.Route{IgnoreQuery: []string{"*"}},
			public(func(r *http.Request) string { return "page " + r.URL.Query().Get("page") }),
			leak.Config{Pages: []string{"/?page=two"}},
			[]string{"wrong query /?page=two page=two"},
		},
		"pages that are not cached": {
			isr.Route{},
			func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/cookie":
					w.Header().Set("Set-Cookie", "a=b")
					w.Header().Set("Cache-Control", "s-maxage=60")
				case "/vary":
					w.Header().Set("Vary", "Cookie")
					w.Header().Set("Cache-Control", "s-maxage=60")
				case "/private":
					w.Header().Set("Cache-Control", "private")
				}
				if r.URL.Path == "/broken" {
					w.WriteHeader(http.StatusInternalServerError)
				}
				fmt.Fprint(w, "page")
			},
			leak.Config{Pages: []string{"/cookie", "/vary", "/private", "/broken", "/x?y=1"}},
			[]string{"note not-cached / no-freshness", "note not-cached /cookie set-cookie", "note not-cached /vary vary", "note not-cached /private private", "note failed /broken back-off", "note not-cached /x?y=1 query"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPatient(t, tt.route, tt.site)
			for _, origin := range []*url.URL{nil, p.origin} {
				if origin == nil && tt.route.IgnoreQuery != nil {
					continue // the query of a probe is ignored too
				}
				// Each run has pages without earlier requests.
				at := parse(t, newPatient(t, tt.route, tt.site).gateway.String())
				if origin != nil {
					at = p.gateway
				}
				tt.cfg.URL, tt.cfg.Origin = at, origin
				if _, found := examine(t, tt.cfg); !slices.Equal(found, tt.want) {
					t.Errorf("with the origin %t: found %q, want %q", origin != nil, found, tt.want)
				}
			}
		})
	}
}

// naive is a cache that is broken in every way: its key is the path, and it stores everything.
func naive(site http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	stored := make(map[string]*httptest.ResponseRecorder)
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		status := "isr; hit; ttl=9"
		if stored[r.URL.String()] == nil {
			stored[r.URL.String()] = httptest.NewRecorder()
			status = "isr; fwd=miss; stored"
			site(stored[r.URL.String()], r)
		}
		for name, values := range stored[r.URL.String()].Header() {
			w.Header()[name] = values
		}
		w.Header().Set("Cache-Status", status)
		_, _ = w.Write(stored[r.URL.String()].Body.Bytes())
	}
}

// A gateway that takes the host from what a visitor sends is found, whether it serves a list of hosts
// or any; a gateway that does not is not.
func TestForwardedHost(t *testing.T) {
	for name, tt := range map[string]struct {
		forwarded bool
		hosts     []string
		want      []string
	}{
		"ignored":              {false, []string{"127.0.0.1", "*.pages.example"}, nil},
		"ignored, any host":    {false, []string{"*"}, nil},
		"obeyed, listed hosts": {true, []string{"127.0.0.1", "*.pages.example"}, []string{"leak forwarded-host / X-Forwarded-Host", "leak forwarded-host / Forwarded"}},
		"obeyed, any host":     {true, []string{"*"}, []string{"leak forwarded-host / X-Forwarded-Host", "leak forwarded-host / Forwarded"}},
	} {
		t.Run(name, func(t *testing.T) {
			trust, err := gateway.ParseTrust([]string{"loopback"})
			if err != nil {
				t.Fatal(err)
			}
			if tt.forwarded {
				trust = trust.WithHost()
			}
			p := newPatientAt(t, trust, tt.hosts, isr.Route{}, public(func(r *http.Request) string { return "page of " + r.Host }))
			if _, found := examine(t, leak.Config{URL: p.gateway, Hosts: tt.hosts}); !slices.Equal(found, tt.want) {
				t.Errorf("found %q, want %q", found, tt.want)
			}
		})
	}
}

// Faults that isr does not have are found in a cache that has them.
func TestBrokenCache(t *testing.T) {
	server := httptest.NewServer(naive(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private, max-age=60")
		w.Header().Set("Set-Cookie", "session="+r.Header.Get("X-User"))
		fmt.Fprintf(w, `Hello %s <link rel="canonical" href="https://%s/">`, r.Header.Get("Cookie"), r.Header.Get("X-Forwarded-Host"))
	}))
	t.Cleanup(server.Close)
	r, found := examine(t, leak.Config{URL: parse(t, server.URL)})
	want := []string{"leak set-cookie / session", "leak private / private", "leak canary / A", "leak forwarded-host / X-Forwarded-Host", "leak injected / X-Forwarded-Host", "note unstable /"}
	if !slices.Equal(found, want) || r.Count(leak.Leak)+r.Count(leak.Wrong) != 5 {
		t.Errorf("found %q; want %q", found, want)
	}
}

func TestBounds(t *testing.T) {
	p := newPatient(t, isr.Route{}, public(func(r *http.Request) string {
		var links strings.Builder
		for i := range 100 {
			fmt.Fprintf(&links, `<a href="%s%d/">x</a>`, r.URL.Path, i)
		}
		return links.String()
	}))
	r, found := examine(t, leak.Config{URL: p.gateway, MaxPages: 3})
	if len(r.Pages) != 3 || r.More < 97 || len(found) != 0 {
		t.Errorf("%d pages, %d more, found %q", len(r.Pages), r.More, found)
	}
	// The rate.
	began := time.Now()
	r, err := leak.Run(t.Context(), leak.Config{URL: p.gateway, MaxPages: 1, Rate: 50})
	if took := time.Since(began); err != nil || took < time.Duration(r.Requests-1)*20*time.Millisecond {
		t.Errorf("%d requests in %s, %v", r.Requests, took, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := leak.Run(ctx, leak.Config{URL: p.gateway}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestRunRefuses(t *testing.T) {
	p := newPatient(t, isr.Route{}, good)
	for name, cfg := range map[string]leak.Config{
		"no URL":                {},
		"another scheme":        {URL: parse(t, "ftp://example.com/")},
		"another host":          {URL: p.gateway, Pages: []string{"https://example.com/"}},
		"one identity":          {URL: p.gateway, A: cookie("a=b")},
		"equal texts":           {URL: p.gateway, CanaryA: "x", CanaryB: "x"},
		"too many pages":        {URL: p.gateway, MaxPages: leak.MaxPages + 1},
		"too fast":              {URL: p.gateway, Rate: 1000},
		"a site without isr":    {URL: p.origin},
		"nothing that answers":  {URL: parse(t, "http://127.0.0.1:1/")},
		"a negative rate":       {URL: p.gateway, Rate: -1},
		"a negative time limit": {URL: p.gateway, Timeout: -1},
	} {
		if _, err := leak.Run(t.Context(), cfg); err == nil {
			t.Errorf("%s: no error", name)
		} else if name == "a site without isr" && !errors.Is(err, leak.ErrNoCache) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSitemap(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base := "http://" + r.Host
		switch r.URL.Path {
		case "/index.xml":
			fmt.Fprintf(w, `<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><sitemap><loc> %s/map.xml </loc></sitemap><sitemap><loc>https://elsewhere.invalid/</loc></sitemap></sitemapindex>`, base)
		case "/map.xml":
			fmt.Fprintf(w, `<urlset><url><loc>%s/a</loc></url><url><loc>%s/b?c=1&amp;d=2</loc></url><url><loc>https://elsewhere.invalid/</loc></url></urlset>`, base, base)
		case "/bad.xml":
			fmt.Fprint(w, "<urlset>")
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	u := parse(t, server.URL)
	cfg := leak.Config{URL: u, Rate: leak.MaxRate}
	got, err := leak.Sitemap(t.Context(), cfg, u.JoinPath("index.xml"), 10)
	if want := []string{server.URL + "/a", server.URL + "/b?c=1&d=2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := leak.Sitemap(t.Context(), cfg, u.JoinPath("map.xml"), 1); err != nil || len(got) != 1 {
		t.Errorf("limited: %q, %v", got, err)
	}
	for _, path := range []string{"bad.xml", "none.xml"} {
		if got, err := leak.Sitemap(t.Context(), cfg, u.JoinPath(path), 10); err == nil {
			t.Errorf("%s: %q", path, got)
		}
	}
	if _, err := leak.Sitemap(t.Context(), cfg, parse(t, "http://elsewhere.invalid/map.xml"), 10); err == nil {
		t.Error("a sitemap on another host is read")
	}
}

func TestWrite(t *testing.T) {
	r := &leak.Report{
		Pages:    []leak.Page{{URL: "http://h/a", Cached: true}, {URL: "http://h/b"}},
		Requests: 40, More: 2,
		Findings: []leak.Finding{{leak.Leak, "set-cookie", "http://h/a", "s", "a cached response sets the cookie s", "stop that"}},
	}
	for i := range 7 {
		r.Findings = append(r.Findings, leak.Finding{leak.Note, "not-cached", fmt.Sprint("http://h/\x1b", i), "private", "not cached: private", "send public"})
	}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	want := `LEAKS: visitors get what is meant for others, or decide what others get

  a cached response sets the cookie s (set-cookie)
    http://h/a
    do: stop that

NOT CACHED, OR NOT EXAMINED

  not cached: private (not-cached)
    http://h/` + "\ufffd" + `0
    http://h/` + "\ufffd" + `1
    http://h/` + "\ufffd" + `2
    http://h/` + "\ufffd" + `3
    http://h/` + "\ufffd" + `4
    and 2 more
    do: send public

2 pages examined with 40 requests: 1 cached, 1 not. 1 leaks, 0 shared wrongly.
2 further URLs were not examined; raise --max-pages to include them.
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// A page that is only unpublished for a moment, as while a store is slow, is requested again.
func TestUnpublishedPageIsRequestedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		slow := roundTrip(func(r *http.Request) *http.Response {
			requests++
			status := "isr; hit; ttl=60"
			if requests <= 9 {
				status = "isr; fwd=miss; detail=unpublished"
			}
			w := httptest.NewRecorder()
			w.Header().Set("Cache-Status", status)
			fmt.Fprint(w, "page")
			return w.Result()
		})
		r, found := examine(t, leak.Config{URL: parse(t, "http://example.com/"), Transport: slow})
		if len(r.Pages) != 1 || !r.Pages[0].Cached || slices.Contains(found, "note not-cached / unpublished") {
			t.Errorf("pages %+v, found %q", r.Pages, found)
		}
	})
}

type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }
