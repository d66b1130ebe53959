package sites

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
)

// TestNext serves a Next.js site (App Router) through isr serve --preset next.
func TestNext(t *testing.T) {
	folder := isrtest.Engine(t, "ISR_TEST_NEXT", "built Next.js site")
	t.Parallel()
	n := &nextSite{program: process.Binary(t, "../.."), origin: startSite(t, folder)}
	t.Run("pages", n.pages)
	t.Run("assets", n.assets)
	t.Run("payloads", n.payloads)
	t.Run("page or payload", n.pageOrPayload)
	t.Run("per request", n.perRequest)
	t.Run("conditional", n.conditional)
	t.Run("windows", n.windows)
	t.Run("revalidate", n.revalidate)
	t.Run("times", n.times)
}

type nextSite struct{ program, origin string }

// behind starts isr with an empty cache in front of the site.
func (n *nextSite) behind(t *testing.T, flags ...string) (pair, gate) {
	t.Helper()
	// Pages per request name the visitor's browser, which no Vary of Next.js says.
	g := startGate(t, n.program, n.origin, append([]string{"--preset", "next", "--own-request"}, flags...)...)
	return pair{newVisitor(g.address), newVisitor(n.origin)}, g
}

func (n *nextSite) pages(t *testing.T) {
	t.Parallel()
	p, _ := n.behind(t)
	for _, w := range []want{
		{path: "/", status: 200, cached: true},
		{path: "/articles/rye", status: 200, cached: true},
		{path: "/articles/wheat", status: 200, cached: true},
		{path: "/articles/oats", status: 200, cached: true},
		{path: "/articles/caf%C3%A9", status: 200, cached: true},
		{path: "/articles/missing", status: 404, cached: true},
		{path: "/nothing", status: 404, said: "detail=private"},
		{path: "/now", status: 200, live: true, said: "detail=private"},
		{path: "/api/time", status: 200, live: true, said: "detail=off"},
		{path: "/old", status: 308, said: "fwd-status=308"},
		{path: "/articles/rye/", status: 308, said: "fwd-status=308"},
		{path: "/?x=1", status: 200, said: "detail=query"},
	} {
		p.check(t, w)
	}
	for _, path := range []string{"/old", "/articles/rye/"} {
		if got := p.through.get(t, path, nil).header.Get("Location"); got != "/articles/rye" {
			t.Errorf("%s redirects to %q", path, got)
		}
	}
	if got := p.through.get(t, "/?utm_source=letter", nil); !got.hit() {
		t.Errorf("a link from a newsletter: got %s, want a hit", got.cacheStatus())
	}
}

// assets fetches everything that the pages refer to.
func (n *nextSite) assets(t *testing.T) {
	t.Parallel()
	p, _ := n.behind(t)
	var found []string
	for _, page := range []string{"/", "/articles/rye", "/now"} {
		body := p.through.get(t, page, nil).body
		found = append(found, regexp.MustCompile(`/_next/static/[^"\\ ]+`).FindAllString(body, -1)...)
	}
	seen := make(map[string]bool)
	for _, path := range found {
		if !seen[path] {
			seen[path] = true
			p.check(t, want{path: path, status: 200, cached: true})
		}
	}
	if len(seen) < 3 {
		t.Errorf("found only %d assets in the pages: %q", len(seen), found)
	}
	for _, w := range []want{
		{path: "/loaf.svg", status: 200, said: "detail=no-freshness"},
		{path: "/cloth.png", status: 200, said: "detail=no-freshness"},
		{path: "/_next/static/none.js", status: 404, said: "fwd-status=404"},
		{path: "/_next/image?url=%2Fcloth.png&w=64&q=75", status: 200, said: "detail=off"},
		{path: "/_next/image?url=%2Fcloth.png&w=64&q=75", h: field{"Accept": "image/webp"}, status: 200, said: "detail=off"},
		{path: "/_next/image?url=%2Fcloth.png&w=5&q=75", status: 400, said: "detail=off"},
	} {
		p.check(t, w)
	}
}

// conditional sends the requests of browsers that have a copy or accept gzip.
func (n *nextSite) conditional(t *testing.T) {
	t.Parallel()
	p, _ := n.behind(t)
	p.renew(t, "/articles/wheat")
	p.through.get(t, "/articles/wheat", nil) // may have no ETag, if it was sent while it was rendered
	first := p.through.get(t, "/articles/wheat", nil)
	etag := first.header.Get("Etag")
	if got := p.through.get(t, "/articles/wheat", field{"If-None-Match": etag}); got.status != 304 || got.body != "" {
		t.Errorf("If-None-Match %s: status %d with %d bytes, want 304", etag, got.status, len(got.body))
	}
	gzipped := func() answer { return p.through.get(t, "/articles/wheat", field{"Accept-Encoding": "gzip"}) }
	zipped := gzipped()
	for deadline := time.Now().Add(5 * time.Minute); zipped.header.Get("Content-Encoding") == "" && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond) // it is made in the background
		zipped = gzipped()
	}
	if zipped.header.Get("Content-Encoding") != "gzip" || gunzip(t, zipped.body) != first.body {
		t.Errorf("gzip: Content-Encoding %q, content differs from the plain page", zipped.header.Get("Content-Encoding"))
	}
	if got := p.through.get(t, "/articles/wheat", field{"If-None-Match": zipped.header.Get("Etag"), "Accept-Encoding": "gzip"}); got.status != 304 {
		t.Errorf("If-None-Match of the gzip copy: status %d, want 304", got.status)
	}
	head := p.through.do(t, http.MethodHead, "/articles/wheat", nil, "")
	if head.status != 200 || head.body != "" || len(headerDifferences(head.header, first.header, false)) > 0 {
		t.Errorf("HEAD: status %d, %q", head.status, headerDifferences(head.header, first.header, false))
	}
	svg := p.direct.get(t, "/loaf.svg", nil).header.Get("Etag")
	if got := p.through.get(t, "/loaf.svg", field{"If-None-Match": svg}); got.status != 304 {
		t.Errorf("If-None-Match of a pass-through response: status %d, want the origin's 304", got.status)
	}
}

// perRequest requests, with several cookies, the page that is rendered for each request.
func (n *nextSite) perRequest(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {"--revalidate", "1h"}, {"--ignore-cookie", "_other"}} {
		p, g := n.behind(t, flags...)
		var last string
		for _, name := range []string{"Ann", "Bob", "", "Ann"} {
			h, want := field{"User-Agent": "agent-of-" + name}, "nobody"
			if name != "" {
				h["Cookie"], want = "_ga=1; name="+name, name
			}
			got := p.through.get(t, "/now", h)
			if got.element("name") != want || got.element("agent") != "agent-of-"+name {
				t.Errorf("%v: page for %q with the agent %q, want %q", flags, got.element("name"), got.element("agent"), want)
			}
			if got.hit() || got.stored() || got.rendered() <= last {
				t.Errorf("%v: rendered at %s, not after %s: %s", flags, got.rendered(), last, got.cacheStatus())
			}
			last = got.rendered()
		}
		if ls := g.stored(t); strings.Contains(ls, "/now") {
			t.Errorf("%v: a per-visitor page is stored:\n%s", flags, ls)
		}
	}
}

// revalidate opts in pages without caching headers. Next's own headers still apply.
func (n *nextSite) revalidate(t *testing.T) {
	t.Parallel()
	p, _ := n.behind(t, "--revalidate", "1h")
	for _, w := range []want{
		{path: "/old", status: 308, cached: true},
		{path: "/loaf.svg", status: 200, said: "detail=no-freshness"}, // max-age=0
		{path: "/api/time", status: 200, live: true, said: "detail=off"},
		{path: "/now", status: 200, live: true, said: "detail=private"},
		// A redirect to the right checksum depends on the request, not on the page.
		{path: "/articles/rye?_rsc=wrong", h: field{"RSC": "1"}, status: 307, said: "detail=no-freshness"},
	} {
		p.check(t, w)
	}
}

// windows follows a page with revalidate = 5 from its first render to the next.
func (n *nextSite) windows(t *testing.T) {
	t.Parallel()
	p, _ := n.behind(t)
	p.renew(t, "/articles/spelt")
	expectLifecycle(t, p.through, "/articles/spelt", nil)
}

// renew waits until Next.js has made a page that its build had made, and that is stale in its own cache: isr keeps
// a stale one for a second only.
func (p pair) renew(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); p.direct.get(t, path, nil).header.Get("X-Nextjs-Cache") == "STALE"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is still stale in the cache of Next.js", path)
		}
	}
}

// expectLifecycle polls a page through a miss, hits and stale hits until new content arrives. The content
// must never be older than what was seen before.
func expectLifecycle(t *testing.T, v *visitor, path string, h field) {
	t.Helper()
	first := v.get(t, path, h)
	if !first.stored() || !strings.Contains(first.cacheStatus(), "fwd=miss") {
		t.Fatalf("%s: first response %q, want a stored miss", path, first.cacheStatus())
	}
	var hit, stale bool
	var last string
	deadline := time.Now().Add(5 * time.Minute)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		got := v.get(t, path, h)
		switch {
		case time.Now().After(deadline):
			tick.Stop()
			t.Fatalf("%s: no new content (hit %t, stale %t); last %q, rendered %s", path, hit, stale, got.cacheStatus(), got.rendered())
		case got.status != first.status || !got.hit():
			t.Errorf("%s: status %d, %q, want a hit", path, got.status, got.cacheStatus())
		case got.rendered() < last:
			t.Errorf("%s: rendered at %s, older than %s", path, got.rendered(), last)
		}
		last = got.rendered()
		hit = hit || got.body == first.body && !got.stale()
		stale = stale || got.body == first.body && got.stale()
		if got.body != first.body {
			tick.Stop()
			break
		}
	}
	if !hit || !stale || last <= first.rendered() {
		t.Errorf("%s: hit %t, stale %t, rendered %s and then %s", path, hit, stale, first.rendered(), last)
	}
}
