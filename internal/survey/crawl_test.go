package survey_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/facetheory/isr/internal/survey"
)

// crawl crawls a site, and returns which paths were requested.
func crawl(t *testing.T, cfg survey.CrawlConfig, h http.HandlerFunc) (*survey.Crawled, []string, error) {
	t.Helper()
	var mu sync.Mutex
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		paths = append(paths, r.URL.RequestURI())
		mu.Unlock()
		h(w, r)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Sitemap != "" {
		cfg.Sitemap = server.URL + cfg.Sitemap
	}
	cfg.Rate, cfg.Transport = 1000, server.Client().Transport
	found, err := survey.Crawl(t.Context(), at, cfg)
	return found, paths, err
}

// A crawl visits what links and the sitemap name, but not what robots.txt excludes, what may change the site, and other
// hosts.
func TestCrawl(t *testing.T) {
	site := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprint(w, "User-agent: other\nDisallow: /\n\nUser-agent: *\nDisallow: /private/\nAllow: /private/open\n")
		case "/sitemap.xml":
			fmt.Fprintf(w, "<urlset><url><loc>http://%s/listed</loc></url><url><loc>http://other.example/no</loc></url></urlset>", r.Host)
		case "/":
			page(w, `<a href="/a">a</a><a href="/private/x">x</a><a href="/private/open">o</a><a href="/logout">l</a><a href="http://other.example/y">y</a>`)
		case "/a":
			http.Redirect(w, r, "/b", http.StatusMovedPermanently)
		case "/b":
			w.Header().Set("Cache-Control", "s-maxage=60")
			page(w, `<a href="/a">a</a>`)
		default:
			page(w, "")
		}
	}
	visited := 0
	found, paths, err := crawl(t, survey.CrawlConfig{Pages: 50, Visited: func(n int) { visited = n }}, site)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	if want := []string{"/", "/a", "/b", "/listed", "/private/open", "/robots.txt", "/sitemap.xml"}; !slices.Equal(paths, want) {
		t.Errorf("%q were requested, want %q", paths, want)
	}
	if len(found.Pages) != 5 || visited != 5 || found.Disallowed != 1 || found.Failed != 0 || found.Stopped != "" || found.Listed != 1 {
		t.Errorf("%d pages, %+v", len(found.Pages), found)
	}
	found, paths, err = crawl(t, survey.CrawlConfig{Pages: 50, Sitemap: "/sitemap.xml"}, site)
	if err != nil || len(found.Pages) != 1 || found.Pages[0].Path != "/listed" {
		t.Errorf("%v: %q were requested", err, paths)
	}
}

// However much a site links, a crawl is bounded.
func TestEndlessCrawl(t *testing.T) {
	n := 0
	found, paths, err := crawl(t, survey.CrawlConfig{Pages: 20}, func(w http.ResponseWriter, _ *http.Request) {
		n++
		page(w, fmt.Sprintf(`<a href="/%d">x</a><a href="/%d/ %%zz">x</a>`, n, n))
	})
	if err != nil || len(found.Pages) != 20 || len(paths) > 25 {
		t.Errorf("%v: %d pages, %d requests", err, len(found.Pages), len(paths))
	}
}

// Links that each page has, as a menu does, leave room for the others.
func TestCrawlOfRepeatedLinks(t *testing.T) {
	menu := strings.Repeat(`<a href="/menu">m</a>`, 900)
	n := 0
	found, _, err := crawl(t, survey.CrawlConfig{Pages: 20}, func(w http.ResponseWriter, _ *http.Request) {
		n++
		page(w, menu+fmt.Sprintf(`<a href="/%d">next</a>`, n))
	})
	if err != nil || len(found.Pages) != 20 {
		t.Errorf("%v: %d pages were visited, want 20", err, len(found.Pages))
	}
}

// A crawl ends when the site asks for it, or does not answer any more.
func TestStoppedCrawl(t *testing.T) {
	links := ""
	for i := range 30 {
		links += fmt.Sprintf(`<a href="/%d">x</a>`, i)
	}
	for want, h := range map[string]http.HandlerFunc{
		"the site answers 429 Too Many Requests at /": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"10 pages in a row have not answered":         func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		found, _, err := crawl(t, survey.CrawlConfig{Pages: 50}, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				page(w, links)
				return
			}
			h(w, r)
		})
		if err != nil || !strings.HasPrefix(found.Stopped, want) {
			t.Errorf("%v: %+v, want %q", err, found, want)
		}
	}
}

func TestCrawlOfNothing(t *testing.T) {
	for want, cfg := range map[string]survey.CrawlConfig{
		"answers 404 Not Found at /":                        {Pages: 5},
		"sitemap.xml: it answers 404 Not Found":             {Pages: 5, Sitemap: "/sitemap.xml"},
		"other.xml names no page of 127.0.0.1":              {Pages: 5, Sitemap: "/other.xml"},
		"no page could be visited: robots.txt excludes all": {Pages: 5, Sitemap: "/excluded.xml"},
	} {
		_, _, err := crawl(t, cfg, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/robots.txt":
				fmt.Fprint(w, "user-agent: *\ndisallow: /a")
			case "/other.xml":
				fmt.Fprint(w, "<urlset><url><loc>http://other.example/</loc></url></urlset>")
			case "/excluded.xml":
				fmt.Fprintf(w, "<urlset><url><loc>http://%s/a</loc></url></urlset>", r.Host)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %q", err, want)
		}
	}
}
