package site_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/examples/demosite/site"
)

// noon is the clock of the tested site.
var noon = time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC)

// newSite returns a site without delay.
func newSite() http.Handler {
	return site.Handler(site.Config{Delay: site.NoDelay, Now: func() time.Time { return noon }})
}

// get returns the site's response and checks the headers that every response has.
func get(t *testing.T, h http.Handler, target string, cookies ...*http.Cookie) *http.Response {
	t.Helper()
	r := httptest.NewRequest("GET", target, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	res := w.Result()
	if res.Header.Get("Cache-Control") == "" {
		t.Errorf("GET %s: no Cache-Control", target)
	}
	if tag := res.Header.Get("ETag"); tag != "" {
		t.Errorf("GET %s: ETag %s, want the cache to make it", target, tag)
	}
	if n := res.Header.Get("Content-Length"); res.StatusCode != http.StatusFound && n != strconv.Itoa(w.Body.Len()) {
		t.Errorf("GET %s: Content-Length %q for %d bytes", target, n, w.Body.Len())
	}
	return res
}

func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestResponses(t *testing.T) {
	t.Parallel()
	const usual = "s-maxage=10, stale-while-revalidate=60"
	for _, c := range []struct {
		target string
		status int
		cache  string
		says   string
	}{
		{"/", 200, usual, "In the window"},
		{"/stories", 200, usual, "Page 1 of 3"},
		{"/stories?page=2", 200, usual, "Page 2 of 3"},
		{"/stories?page=3", 200, usual, "Page 3 of 3"},
		{"/stories?page=4", 404, "no-store", "do not bake that"},
		{"/stories?page=0", 404, "no-store", "do not bake that"},
		{"/stories?page=", 404, "no-store", "do not bake that"},
		{"/stories?page=x", 404, "no-store", "do not bake that"},
		{"/stories/the-raisin-bun-affair", 200, usual, "boy of nine"},
		{"/stories/the-doughnut-affair", 404, "no-store", "do not bake that"},
		{"/latest", 302, usual, ""},
		{"/order", 200, "private, no-store", "first time"},
		{"/unreliable", 200, "s-maxage=5, stale-while-revalidate=15, stale-if-error=600", "Break the oven"},
		{"/oven", 200, "no-store", "is working"},
		{"/about", 200, "s-maxage=30, stale-while-revalidate=300", "Rendered once"},
		{"/nothing", 404, "no-store", "do not bake that"},
		{"/assets/00000000/site.css", 404, "no-store", "do not bake that"},
	} {
		t.Run(c.target, func(t *testing.T) {
			res := get(t, newSite(), c.target)
			if res.StatusCode != c.status {
				t.Errorf("status %d, want %d", res.StatusCode, c.status)
			}
			if got := res.Header.Get("Cache-Control"); got != c.cache {
				t.Errorf("Cache-Control %q, want %q", got, c.cache)
			}
			if got := body(t, res); !strings.Contains(got, c.says) {
				t.Errorf("the page does not contain %q:\n%s", c.says, got)
			}
		})
	}
}

func TestRenderTimeAndCount(t *testing.T) {
	t.Parallel()
	h := newSite()
	for n := 1; n <= 3; n++ {
		page := body(t, get(t, h, "/"))
		for _, want := range []string{`datetime="2030-05-17T12:00:00Z">12:00:00</time> UTC`, `data-count="` + strconv.Itoa(n) + `"`} {
			if !strings.Contains(page, want) {
				t.Fatalf("render %d does not contain %s", n, want)
			}
		}
	}
	if page := body(t, get(t, h, "/stories")); !strings.Contains(page, `data-count="1"`) {
		t.Error("the section shares the front page's counter")
	}
	if page := body(t, get(t, newSite(), "/")); !strings.Contains(page, `data-count="1"`) {
		t.Error("two sites share a counter")
	}
}

func TestPagesTakeTheirTimeAssetsDoNot(t *testing.T) {
	t.Parallel()
	asset := regexp.MustCompile(`/assets/\w+/site\.css`).FindString(body(t, get(t, newSite(), "/")))
	for _, c := range []struct {
		target string
		cfg    site.Config
		want   time.Duration
	}{
		{"/", site.Config{}, site.DefaultDelay},
		{"/", site.Config{Delay: 3 * time.Second}, 3 * time.Second},
		{"/", site.Config{Delay: site.NoDelay}, 0},
		{"/order", site.Config{}, site.DefaultDelay},
		{"/latest", site.Config{}, 0},
		{"/nothing", site.Config{}, 0},
		{asset, site.Config{}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			from := time.Now()
			get(t, site.Handler(c.cfg), c.target)
			if took := time.Since(from); took != c.want {
				t.Errorf("GET %s with %+v took %v, want %v", c.target, c.cfg, took, c.want)
			}
		})
	}
}

func TestCanceledRender(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := site.Handler(site.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		from := time.Now()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
		if took := time.Since(from); took != 300*time.Millisecond {
			t.Errorf("returned after %v, want 300ms", took)
		}
		if w.Body.Len() > 0 {
			t.Errorf("wrote %q after the client disconnected", w.Body)
		}
		if page := body(t, get(t, h, "/")); !strings.Contains(page, `data-count="1"`) {
			t.Error("the canceled render was counted")
		}
	})
}

func TestOrderIsPersonal(t *testing.T) {
	t.Parallel()
	h := newSite()
	res := get(t, h, "/order", &http.Cookie{Name: "crumb_visits", Value: "4"})
	if got := res.Header.Get("Vary"); got != "Cookie" {
		t.Errorf("Vary %q, want Cookie", got)
	}
	c := res.Cookies()
	if len(c) != 1 || c[0].Value != "5" || c[0].Path != "/order" {
		t.Errorf("cookies %v, want 5 visits, with path /order", c)
	}
	if page := body(t, res); !strings.Contains(page, "asked 5 times") {
		t.Errorf("the page does not show five visits:\n%s", page)
	}
	for _, nonsense := range []string{"-1", "0", "x", "99999999999999999999"} {
		page := body(t, get(t, h, "/order", &http.Cookie{Name: "crumb_visits", Value: nonsense}))
		if !strings.Contains(page, "first time") {
			t.Errorf("invalid cookie %q accepted", nonsense)
		}
	}
}

// switchOven posts the form of /oven.
func switchOven(h http.Handler, state string) *http.Response {
	r := httptest.NewRequest("POST", "/oven", strings.NewReader(url.Values{"state": {state}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func TestBreakAndRepairOven(t *testing.T) {
	t.Parallel()
	h := newSite()
	for _, c := range []struct {
		state  string
		status int
	}{{"broken", 500}, {"broken", 500}, {"working", 200}} {
		res := switchOven(h, c.state)
		if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/oven" {
			t.Errorf("%s: status %d, Location %q", c.state, res.StatusCode, res.Header.Get("Location"))
		}
		if page := body(t, get(t, h, "/oven")); !strings.Contains(page, "is "+c.state) {
			t.Errorf("%s: /oven does not show the state", c.state)
		}
		if got := get(t, h, "/unreliable"); got.StatusCode != c.status {
			t.Errorf("%s: /unreliable returned %d, want %d", c.state, got.StatusCode, c.status)
		}
		if got := get(t, newSite(), "/unreliable"); got.StatusCode != 200 {
			t.Errorf("%s: sites share their ovens", c.state)
		}
	}
	if res := switchOven(h, "lukewarm"); res.StatusCode != http.StatusBadRequest {
		t.Errorf("invalid state: %d, want 400", res.StatusCode)
	}
}

func TestMethodNotAllowed(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		w := httptest.NewRecorder()
		newSite().ServeHTTP(w, httptest.NewRequest(method, "/stories", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
			t.Errorf("%s: %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
}

// TestLinks follows every link of the site's pages, including assets.
func TestLinks(t *testing.T) {
	t.Parallel()
	h := newSite()
	address := regexp.MustCompile(`(?:href|src|action)="(/[^"#]*)"`)
	seen := map[string]bool{}
	queue := []string{"/"}
	for len(queue) > 0 {
		target := queue[0]
		queue = queue[1:]
		if seen[target] {
			continue
		}
		seen[target] = true
		res := get(t, h, target)
		if res.StatusCode >= 400 {
			t.Errorf("GET %s: %s", target, res.Status)
		}
		if strings.HasPrefix(target, "/assets/") {
			if got := res.Header.Get("Cache-Control"); got != "public, max-age=31536000, immutable" {
				t.Errorf("GET %s: Cache-Control %q", target, got)
			}
			continue
		}
		for _, m := range address.FindAllStringSubmatch(body(t, res), -1) {
			queue = append(queue, strings.ReplaceAll(m[1], "&amp;", "&"))
		}
	}
	if len(seen) < 25 {
		t.Errorf("found only %d links: %v", len(seen), seen)
	}
}
