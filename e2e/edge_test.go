package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// versioned is a page that each POST changes.
func versioned(o *origin, path string) (version *atomic.Int64) {
	version = new(atomic.Int64)
	o.set(path, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.Method == http.MethodPost {
			version.Add(1)
			w.Header().Set("Location", path)
			w.WriteHeader(http.StatusSeeOther)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=3600, stale-while-revalidate=86400")
		fmt.Fprintf(w, "version %d", version.Load())
	})
	return version
}

// A visitor who posts through one server gets the changed page from all of them: at once from
// the same one, within a poll from the others.
func TestPostIsSeenByTheFleet(t *testing.T) {
	t.Parallel()
	fleet := newCloud(t)
	o := newOrigin(t)
	var nodes []*gateway
	for range 3 {
		nodes = append(nodes, serve(t, fleet.settings(t), o))
	}
	for n, g := range nodes {
		path := fmt.Sprint("/news/", n)
		versioned(o, path)
		everywhere := func(want string) func() bool {
			return func() bool {
				return !slices.ContainsFunc(nodes, func(g *gateway) bool { return get(t, g.url+path).body != want })
			}
		}
		await(t, "the first version from all servers", patience, everywhere("version 0"))
		if r := visit(t.Context(), browsers(t), http.MethodPost, g.url+path); r.status != http.StatusSeeOther || !strings.HasPrefix(r.cache(), "isr; fwd=method") {
			t.Fatalf("POST: %s", r)
		}
		if r := get(t, g.url+path); r.body != "version 1" {
			t.Errorf("the server that passed the POST: %s", r)
		}
		took := await(t, "the next version from all servers", patience, everywhere("version 1"))
		t.Logf("the next version from all servers after %s", took.Round(time.Millisecond))
	}
}

// A server that cannot read the log refuses to answer from its memory after --max-blind, and
// recovers.
func TestBlindServer(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	version := versioned(o, "/news")
	w := newWeather(t)
	w.up(t)
	refuse := serve(t, w.settings(t, "--blind", "refuse", "--max-blind", "3s"), o)
	await(t, "the page in memory", patience, func() bool { return get(t, refuse.url+"/news").hit() })
	w.down()
	version.Store(7)
	await(t, "a refusal", patience, func() bool {
		r := get(t, refuse.url+"/news")
		if r.status == http.StatusOK && r.body != "version 0" {
			t.Fatalf("refuse: %s", r)
		}
		return r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") != "" && strings.HasSuffix(r.cache(), "; detail=cut-off")
	})
	w.up(t)
	await(t, "hits", patience, func() bool {
		r := get(t, refuse.url+"/news")
		return r.hit() && !strings.Contains(r.cache(), "cut-off") && r.body == "version 0" // the stored page is still fresh
	})
}
