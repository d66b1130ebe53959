package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// kill -9 under load and a restart, several times, on the embedded store: every page that a
// visitor was told is stored exists and is served without a render; no page has lost its
// body.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	const rounds, perRound = 3, 60
	o := newOrigin(t)
	o.set("/new/", page(3600, 0))
	o.set("/renewed/", page(1, 0))
	s := embedded(t).raced()
	published := make(map[string]int) // path to the newest rendering that was seen
	for round := 1; round <= rounds; round++ {
		g := serve(t, s, o)
		l := newLoad(t, g, round)
		await(t, "pages to be stored", patience, func() bool { return l.pages() >= perRound })
		g.kill()
		l.wg.Wait()
		maps.Copy(published, l.stored)
		expectPublished(t, s, o, published)
		t.Logf("round %d: killed after %d pages were stored, %d requests broke off; all %d pages are served without a render",
			round, len(l.stored), l.broken, len(published))
	}
}

// expectPublished starts a server on the folder and requests every page that must exist and
// every page that isr ls lists. It has no memory tier, so that every body comes from its file.
func expectPublished(t *testing.T, s settings, o *origin, published map[string]int) {
	t.Helper()
	s.args = append(slices.Clone(s.args), "--memory", "0")
	g := serve(t, s, o)
	defer g.kill()
	pages := g.stored(t)
	for path := range published {
		if pages[host+path].Body == "" {
			t.Errorf("%s was published, and isr ls does not show it after the restart", path)
		}
	}
	client, checked := browsers(t), 0
	for key := range pages {
		path := strings.TrimPrefix(key, host)
		before := o.count(path)
		r := visit(t.Context(), client, http.MethodGet, g.url+path)
		if n := renderingOf(path, r.body); r.err != nil || !r.hit() || n < max(1, published[path]) || n > before {
			t.Errorf("%s after the restart: got rendering %d (%s), expected a hit of rendering %d or newer", path, n, r, published[path])
		}
		if strings.HasPrefix(path, "/new/") && o.count(path) != before {
			t.Errorf("%s was rendered again after the restart", path)
		}
		if checked++; checked <= 5 { // a process each
			if p := g.get(t, key); p.BodyProblem != "" || p.BodyBytes == 0 {
				t.Errorf("isr get %s: %d bytes, problem %q", key, p.BodyBytes, p.BodyProblem)
			}
		}
	}
}

// A load is a group of clients that request new pages, and in between one that expires every
// second, until the server is gone.
type load struct {
	wg sync.WaitGroup

	mu     sync.Mutex
	stored map[string]int // path to rendering, of the replies that said so
	broken int            // requests that were not answered
}

func newLoad(t *testing.T, g *gateway, round int) *load {
	t.Helper()
	const visitors, pagesEach = 16, 1000
	l := &load{stored: make(map[string]int)}
	client, ctx := browsers(t), t.Context()
	for v := range visitors {
		l.wg.Go(func() {
			for i := range pagesEach {
				if !l.ask(ctx, client, g.url, fmt.Sprintf("/new/%d-%d-%d", round, v, i)) ||
					!l.ask(ctx, client, g.url, fmt.Sprintf("/renewed/%d", v)) {
					return
				}
			}
		})
	}
	return l
}

// ask sends one GET; it is false once the server is gone.
func (l *load) ask(ctx context.Context, c *http.Client, url, path string) bool {
	r := visit(ctx, c, http.MethodGet, url+path)
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.err != nil {
		l.broken++
		return false
	}
	if r.hit() || strings.Contains(r.cache(), "; stored") {
		l.stored[path] = renderingOf(path, r.body)
	}
	return true
}

func (l *load) pages() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.stored)
}
