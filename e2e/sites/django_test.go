package sites

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
)

// TestDjango serves a Django site through isr serve.
func TestDjango(t *testing.T) {
	folder := isrtest.Engine(t, "ISR_TEST_DJANGO", "built Django site")
	t.Parallel()
	d := &djangoSite{program: process.Binary(t, "../.."), origin: startSite(t, folder)}
	t.Run("pages", d.pages)
	t.Run("static", d.static)
	t.Run("redirects", d.redirects)
	t.Run("sessions", d.sessions)
	t.Run("forms", d.forms)
	t.Run("greetings", d.greetings)
	t.Run("failures", d.failures)
	t.Run("windows", d.windows)
	t.Run("cookies of visitors", d.visitors)
	t.Run("revalidate", d.revalidate)
	t.Run("times", d.times)
}

type djangoSite struct{ program, origin string }

// behind starts isr with an empty cache in front of the site.
func (d *djangoSite) behind(t *testing.T, flags ...string) (pair, gate) {
	t.Helper()
	g := startGate(t, d.program, d.origin, flags...)
	return pair{newVisitor(g.address), newVisitor(d.origin)}, g
}

// ignoring returns the flags under which the site's visitors share pages.
func ignoring() [][]string {
	return [][]string{
		nil,
		{"--ignore-cookie", "sessionid,csrftoken"},
		{"--ignore-cookie", "*", "--revalidate", "1h"},
	}
}

func (d *djangoSite) pages(t *testing.T) {
	t.Parallel()
	p, _ := d.behind(t)
	for _, w := range []want{
		{path: "/", status: 200, live: true, cached: true},
		{path: "/slow/", status: 200, live: true, cached: true},
		{path: "/plain/", status: 200, live: true, said: "detail=no-freshness"},
		{path: "/visits/", status: 200, live: true, said: "detail=set-cookie"},
		{path: "/guestbook/", status: 200, live: true, said: "detail=set-cookie"},
		{path: "/nothing/", status: 404, said: "fwd-status=404"},
		{path: "/?page=2", status: 200, live: true, said: "detail=query"},
	} {
		p.check(t, w)
	}
	head := p.through.do(t, http.MethodHead, "/", nil, "")
	if head.status != 200 || head.body != "" || !head.hit() {
		t.Errorf("HEAD: status %d, %q", head.status, head.cacheStatus())
	}
	etag := p.through.get(t, "/", nil).header.Get("Etag")
	if got := p.through.get(t, "/", field{"If-None-Match": etag}); got.status != 304 {
		t.Errorf("If-None-Match %s: status %d, want 304", etag, got.status)
	}
}

func (d *djangoSite) static(t *testing.T) {
	t.Parallel()
	p, _ := d.behind(t)
	style := regexp.MustCompile(`/static/bakery\.\w+\.css`).FindString(p.through.get(t, "/", nil).body)
	if style == "" {
		t.Fatal("the page links no style sheet")
	}
	for _, w := range []want{
		{path: style, status: 200, cached: true},
		{path: "/static/bakery.css", status: 200, cached: true},
		{path: "/static/none.css", status: 404, said: "fwd-status=404"},
	} {
		p.check(t, w)
	}
	plain := p.through.get(t, style, nil)
	zipped := p.through.get(t, style, field{"Accept-Encoding": "gzip"})
	if zipped.header.Get("Content-Encoding") == "gzip" && gunzip(t, zipped.body) != plain.body ||
		zipped.header.Get("Content-Encoding") == "" && zipped.body != plain.body {
		t.Error("the gzip copy of the style sheet has other content")
	}
	for name, value := range map[string]string{"If-None-Match": plain.header.Get("Etag"), "If-Modified-Since": plain.header.Get("Last-Modified")} {
		if got := p.through.get(t, style, field{name: value}); got.status != 304 {
			t.Errorf("%s %s: status %d, want 304", name, value, got.status)
		}
	}
	part := field{"Range": "bytes=5-14"}
	if got := p.through.get(t, style, part); got.status != 206 || got.body != plain.body[5:15] {
		t.Errorf("bytes 5 to 14: status %d, %q, want %q", got.status, got.body, plain.body[5:15])
	}
}

func (d *djangoSite) redirects(t *testing.T) {
	t.Parallel()
	p, g := d.behind(t)
	for path, target := range map[string]string{"/old/": "/", "/plain": "/plain/", "/plain?a=1": "/plain/?a=1"} {
		p.check(t, want{path: path, status: 301, said: "fwd-status=301"})
		location := p.through.get(t, path, nil).header.Get("Location")
		if got := resolve(t, g.address+path, location); got != g.address+target {
			t.Errorf("%s redirects to %s, want %s", path, got, g.address+target)
		}
	}
}

// resolve returns the URL that a browser follows from a page.
func resolve(t *testing.T, page, location string) string {
	t.Helper()
	base, err := url.Parse(page)
	if err != nil {
		t.Fatal(err)
	}
	u, err := base.Parse(location)
	if err != nil {
		t.Fatal(err)
	}
	return u.String()
}

// sessions expects a separate counter for each visitor, whichever cookies are ignored.
func (d *djangoSite) sessions(t *testing.T) {
	t.Parallel()
	for _, flags := range ignoring() {
		_, g := d.behind(t, flags...)
		ann, bob := newBrowser(t, g.address), newBrowser(t, g.address)
		for i := 1; i <= 3; i++ {
			for name, v := range map[string]*visitor{"ann": ann, "bob": bob} {
				got := v.get(t, "/visits/", nil)
				if got.element("visits") != strconv.Itoa(i) || got.hit() || got.stored() {
					t.Errorf("%v: visit %d of %s got the count %q (%s)", flags, i, name, got.element("visits"), got.cacheStatus())
				}
			}
		}
		notStored(t, g, "/visits/")
	}
}

func notStored(t *testing.T, g gate, path string) {
	t.Helper()
	if ls := g.stored(t); strings.Contains(ls, path) {
		t.Errorf("%s is stored, want not stored:\n%s", path, ls)
	}
}

// forms posts the form with a CSRF token, as a browser does, and without one.
func (d *djangoSite) forms(t *testing.T) {
	t.Parallel()
	for _, flags := range ignoring() {
		p, g := d.behind(t, flags...)
		ann, bob := newBrowser(t, g.address), newBrowser(t, g.address)
		sign(t, ann, "Ann & co.")
		if got := ann.get(t, "/guestbook/", nil).element("name"); got != "Ann &amp; co." {
			t.Errorf("%v: Ann's page has the name %q", flags, got)
		}
		if got := bob.get(t, "/guestbook/", nil).element("name"); got != "" {
			t.Errorf("%v: Bob's page has the name %q", flags, got)
		}
		forged := p.through.post(t, "/guestbook/", nil, url.Values{"name": {"Eve"}})
		if d := differences(forged, p.direct.post(t, "/guestbook/", nil, url.Values{"name": {"Eve"}}), true); forged.status != 403 || len(d) > 0 {
			t.Errorf("%v: without a token: status %d, %q", flags, forged.status, d)
		}
		notStored(t, g, "/guestbook/")
	}
}

// sign posts a name to the guestbook, as a browser does.
func sign(t *testing.T, v *visitor, name string) {
	t.Helper()
	page := v.get(t, "/guestbook/", nil)
	token := regexp.MustCompile(`name="csrfmiddlewaretoken" value="(\w+)"`).FindStringSubmatch(page.body)
	if token == nil {
		t.Fatalf("the form has no token:\n%s", page.body)
	}
	form := url.Values{"csrfmiddlewaretoken": {token[1]}, "name": {name}}
	sent := v.post(t, "/guestbook/", field{"Origin": v.address, "Referer": v.address + "/guestbook/"}, form)
	if sent.status != 302 || resolve(t, v.address+"/guestbook/", sent.header.Get("Location")) != v.address+"/guestbook/" {
		t.Errorf("the form got status %d with Location %q, want 302 to the guestbook", sent.status, sent.header.Get("Location"))
	}
}

// greetings requests pages that differ from public ones only by Vary: Cookie. They are shared
// only if the operator ignores all cookies.
func (d *djangoSite) greetings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ignored, ann string
		shared       bool
	}{{"_other", "Ann", false}, {"sessionid,csrftoken", "Ann", false}, {"*", "stranger", true}} {
		_, g := d.behind(t, "--revalidate", "1h", "--ignore-cookie", c.ignored)
		ann, stranger := newBrowser(t, g.address), newVisitor(g.address)
		sign(t, ann, "Ann")
		for range 3 {
			for v, want := range map[*visitor]string{ann: c.ann, stranger: "stranger"} {
				if got := v.get(t, "/hello/", nil); got.element("name") != want || (got.hit() || got.stored()) != c.shared {
					t.Errorf("ignoring %s: the page of %q greets %q (%s)", c.ignored, want, got.element("name"), got.cacheStatus())
				}
			}
		}
		if !c.shared {
			notStored(t, g, "/hello/")
		}
	}
}

// failures requests a page that fails although it declares itself cacheable. The visitor gets
// the failure, which is not stored and has no-store for other caches.
func (d *djangoSite) failures(t *testing.T) {
	t.Parallel()
	for _, flags := range ignoring() {
		p, g := d.behind(t, flags...)
		for range 2 {
			got := p.through.get(t, "/broken/", nil)
			if got.status != 500 || got.body != "broken\n" || got.hit() || got.stored() {
				t.Errorf("%v: status %d, %q (%s), want the origin's 500", flags, got.status, got.body, got.cacheStatus())
			}
			if cc := got.header.Get("Cache-Control"); cc != "no-store" {
				t.Errorf("%v: Cache-Control %q, want no-store", flags, cc)
			}
		}
		notStored(t, g, "/broken/")
	}
}

// windows follows a page with s-maxage=5 from its first render to the next.
func (d *djangoSite) windows(t *testing.T) {
	t.Parallel()
	p, _ := d.behind(t, "--stale", "1m")
	expectLifecycle(t, p.through, "/", nil)
}

// visitors sends Django's cookies with every request. The requests pass through unless these
// cookies are ignored.
func (d *djangoSite) visitors(t *testing.T) {
	t.Parallel()
	for i, flags := range ignoring() {
		_, g := d.behind(t, flags...)
		ann := newBrowser(t, g.address)
		first := ann.get(t, "/", nil)
		ann.get(t, "/visits/", nil)
		ann.get(t, "/guestbook/", nil)
		got := ann.get(t, "/", nil)
		switch {
		case i == 0 && (!strings.Contains(got.cacheStatus(), "detail=cookie") || got.body == first.body):
			t.Errorf("%v: a visitor with cookies got %q, want a pass-through", flags, got.cacheStatus())
		case i > 0 && (!got.hit() || got.body != first.body):
			t.Errorf("%v: a visitor with cookies got %q, want a hit", flags, got.cacheStatus())
		}
	}
}

// revalidate opts in pages without caching headers. Personal pages stay personal.
func (d *djangoSite) revalidate(t *testing.T) {
	t.Parallel()
	p, _ := d.behind(t, "--revalidate", "5s")
	for _, w := range []want{
		{path: "/plain/", status: 200, live: true, cached: true},
		{path: "/old/", status: 301, cached: true},
		{path: "/nothing/", status: 404, cached: true},
		{path: "/visits/", status: 200, live: true, said: "detail=set-cookie"},
		{path: "/visits/", h: cookieHeader("sessionid=none"), status: 200, live: true, said: "detail=cookie"},
		{path: "/guestbook/", status: 200, live: true, said: "detail=set-cookie"},
	} {
		p.check(t, w)
	}
}

// times measures a page that takes a second to render, with several queries, which Django
// ignores.
func (d *djangoSite) times(t *testing.T) {
	p, _ := d.behind(t, "--query", "n", "--stale", "1h")
	var paths []string
	for i := range 3 { // few enough that none is stale before all are rendered
		paths = append(paths, fmt.Sprintf("/slow/?n=%d", i))
	}
	p.times(t, "Django, a page that takes a second", paths)
}
