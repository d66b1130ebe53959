package survey_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/survey"
)

// look surveys a site.
func look(t *testing.T, h http.HandlerFunc) (*survey.Site, int) {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.Method != http.MethodGet || r.Header.Get("Cookie") != "" {
			t.Errorf("%s %s with Cookie %q", r.Method, r.URL, r.Header.Get("Cookie"))
		}
		h(w, r)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	site, err := survey.Run(t.Context(), at, server.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	if n := int(requests.Load()); n > site.Requests || site.Requests > survey.MaxRequests {
		t.Errorf("%d requests, reported are %d, allowed %d", n, site.Requests, survey.MaxRequests)
	}
	return site, int(requests.Load())
}

// page answers with an HTML page.
func page(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, "<!doctype html><html><head></head><body>%s</body></html>", body)
}

func TestFrameworks(t *testing.T) {
	for preset, h := range map[string]http.HandlerFunc{
		"wordpress": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", `<http://x/wp-json/>; rel="https://api.w.org/"`)
			page(w, "")
		},
		"next": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Powered-By", "Next.js")
			page(w, "")
		},
		"nuxt":      func(w http.ResponseWriter, r *http.Request) { page(w, `<div id="__nuxt"></div>`) },
		"sveltekit": func(w http.ResponseWriter, r *http.Request) { page(w, `<script src="/_app/immutable/x.js">`) },
		"react-router": func(w http.ResponseWriter, r *http.Request) {
			page(w, `<script>window.__reactRouterContext={}</script>`)
		},
		"astro": func(w http.ResponseWriter, r *http.Request) { page(w, `<link href="/_astro/x.css">`) },
		"laravel": func(w http.ResponseWriter, r *http.Request) {
			http.SetCookie(w, &http.Cookie{Name: "XSRF-TOKEN", Value: "x"})
			page(w, "")
		},
		"rails": func(w http.ResponseWriter, r *http.Request) { page(w, `<meta name="csrf-param" content="x">`) },
		"django": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/admin/login/" {
				page(w, `<input name="csrfmiddlewaretoken">`)
				return
			}
			page(w, "")
		},
		"": func(w http.ResponseWriter, r *http.Request) { page(w, "plain") },
	} {
		t.Run("preset "+preset, func(t *testing.T) {
			t.Parallel()
			site, _ := look(t, h)
			if site.Framework.Preset != preset {
				t.Errorf("got %+v, want the preset %q", site.Framework, preset)
			}
			if preset != "" && !slices.Contains(config.Presets(), preset) {
				t.Errorf("there is no preset %s", preset)
			}
		})
	}
}

// A site that answers for its public host alone is visited with that host, at the address that was given.
func TestPublicHost(t *testing.T) {
	site, _ := look(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop.example" || r.Header.Get("X-Forwarded-Proto") != "https" {
			http.Redirect(w, r, "https://shop.example"+r.URL.RequestURI(), http.StatusMovedPermanently)
			return
		}
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: *\nSitemap: https://shop.example/map.xml\nSitemap: https://elsewhere.example/map.xml\n")
		case "/map.xml":
			fmt.Fprint(w, `<urlset><url><loc>https://shop.example/a/1</loc></url><url><loc>https://shop.example/b/1</loc></url><url><loc>https://elsewhere.example/c</loc></url></urlset>`)
		default:
			w.Header().Set("Cache-Control", "public, s-maxage=60")
			page(w, `<a href="https://shop.example/list?page=2&token=x">more</a> <a href="https://elsewhere.example/">away</a>`)
		}
	})
	if site.Host != "shop.example" || !site.HTTPS || !site.Redirects || site.Listed != 2 || site.Sitemap == "" {
		t.Errorf("got %+v", site)
	}
	paths := []string{}
	for _, p := range site.Pages {
		paths = append(paths, p.Path)
		if p.Stated != time.Minute || p.Refused != "" {
			t.Errorf("%+v", p)
		}
	}
	for _, want := range []string{"/", "/a/1", "/b/1", "/list?page=2&token=x"} {
		if !slices.Contains(paths, want) {
			t.Errorf("%s was not visited: %v", want, paths)
		}
	}
	text := site.Config(survey.Preset{}, time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC))
	for _, want := range []string{"\nhosts: [shop.example]\n", "\npublic_scheme: https\n", "  query: [\"page\"]\n", "# revalidate: 1m"} {
		if !strings.Contains(text, want) {
			t.Errorf("the file lacks %q:\n%s", want, text)
		}
	}
	if _, err := config.Parse("isr.yaml", []byte(text), func(string) (string, bool) { return "", false }); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

// However much a site links, lists and redirects, the survey is bounded, and its file is valid.
func TestHostileSite(t *testing.T) {
	n := atomic.Int64{}
	site, requests := look(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt":
			fmt.Fprint(w, strings.Repeat("Sitemap: /index.xml\n", 1000))
		case strings.HasSuffix(r.URL.Path, ".xml"):
			fmt.Fprint(w, "<sitemapindex>")
			for range 1000 {
				fmt.Fprintf(w, "<sitemap><loc>http://%s/%d.xml</loc></sitemap>", r.Host, n.Add(1))
			}
			fmt.Fprint(w, "</sitemapindex>")
		default:
			http.SetCookie(w, &http.Cookie{Name: "a" + strings.Repeat("x", 300), Value: "\"#: {}"})
			var links strings.Builder
			for range 5000 {
				fmt.Fprintf(&links, `<a href="/%d?p%d=1&]: {=%%0a">x</a><a href="/logout?%d">x</a>`, n.Add(1), n.Load(), n.Load())
			}
			if strings.Contains(r.URL.Path, "logout") {
				t.Errorf("%s was visited", r.URL)
			}
			page(w, links.String())
		}
	})
	if len(site.Pages) > survey.MaxPages || requests > survey.MaxRequests {
		t.Errorf("%d pages, %d requests", len(site.Pages), requests)
	}
	text := site.Config(survey.Preset{}, time.Now())
	if _, err := config.Parse("isr.yaml", []byte(text), func(string) (string, bool) { return "", false }); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

func TestNoSite(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"redirects 5 times": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) },
		"answers 500":       func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"does not answer": func(w http.ResponseWriter, r *http.Request) {
			panic(http.ErrAbortHandler)
		},
	} {
		server := httptest.NewServer(h)
		at, _ := url.Parse(server.URL)
		_, err := survey.Run(t.Context(), at, server.Client().Transport)
		server.Close()
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A survey ends with its context.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		page(w, `<a href="/x">x</a>`)
	}))
	defer server.Close()
	at, _ := url.Parse(server.URL)
	if _, err := survey.Run(ctx, at, server.Client().Transport); err == nil {
		t.Error("no error")
	}
}

// The webhook in the comments of a file is valid once the marks of the comments are removed, and the purges are those of
// the framework.
func TestPurges(t *testing.T) {
	const found, none = true, false
	for preset, texts := range map[string]map[string]bool{
		"wordpress": {`targets: ["tag:{payload.tags.*}", "url:{payload.urls.*}"]`: found, "    wordpress:\n": found, "cms": none},
		"django":    {"purge_on_change": found, `targets: ["url:https://example.com/{payload.path}"]`: found},
		"next":      {"revalidateTag": found, `targets: ["url:https://example.com/{payload.path}"]`: found},
		"":          {"purge_on_change": none, "revalidateTag": none, `targets: ["url:https://example.com/{payload.path}"]`: found},
	} {
		site := &survey.Site{Origin: &url.URL{Scheme: "http", Host: "127.0.0.1:3000"}, Framework: survey.Framework{Name: preset, Preset: preset}}
		before, hook, ok := strings.Cut(site.Config(survey.Preset{}, time.Now()), "# triggers:\n")
		if !ok {
			t.Fatalf("preset %q: the file has no triggers:\n%s", preset, before)
		}
		text := before + "triggers:\n" + strings.ReplaceAll(hook, "#  ", "  ") + "admin: {token: \"${TOKEN}\"}\n"
		for want, there := range texts {
			if strings.Contains(text, want) != there {
				t.Errorf("preset %q: the file has %q: %t, want %t\n%s", preset, want, !there, there, text)
			}
		}
		f, err := config.Parse("isr.yaml", []byte(text), func(string) (string, bool) { return "0123456789abcdef", true })
		if err != nil {
			t.Fatalf("preset %q: %v\n%s", preset, err, text)
		}
		if len(f.Triggers.Hooks) != 1 {
			t.Errorf("preset %q has %d hooks", preset, len(f.Triggers.Hooks))
		}
	}
}

// The comments tell what the pages stated: a window is proposed for pages that state nothing and may be stored, and a
// session is never proposed as a cookie to be ignored.
func TestComments(t *testing.T) {
	stated, silent := survey.Page{Stated: time.Minute}, survey.Page{}
	private := survey.Page{Refused: "private", Cookies: []string{"sessionid", "seen"}}
	for _, tt := range []struct {
		pages      []survey.Page
		want, miss string
	}{
		{[]survey.Page{stated, private}, "  # revalidate: 1m # freshness window of pages that state none; each page that was visited and may be stored states its own\n", "\n  revalidate: 1m"},
		{[]survey.Page{stated, silent, private}, "\n  revalidate: 1m # freshness window of pages that state none, as 1 of the 3 that were visited\n", "# revalidate"},
		{[]survey.Page{private}, "\n  revalidate: 1m # freshness window of pages that state none\n", "# revalidate"},
		{[]survey.Page{private}, `# ignore_cookies: ["seen"]`, `"sessionid"`},
	} {
		text := (&survey.Site{Origin: &url.URL{Scheme: "http", Host: "127.0.0.1:3000"}, Pages: tt.pages}).Config(survey.Preset{}, time.Now())
		if !strings.Contains(text, tt.want) || strings.Contains(text, tt.miss) {
			t.Errorf("want %q and not %q in\n%s", tt.want, tt.miss, text)
		}
	}
}
