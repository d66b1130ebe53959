package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/testbed"
)

const purgeToken = "correct-horse-battery"

// A shop is pages with the tag "shop" that are fresh for an hour and show their version.
type shop struct {
	version atomic.Int64
	paths   []string
}

func newShop(o *origin) *shop {
	s := new(shop)
	for n := range 10 {
		s.paths = append(s.paths, fmt.Sprint("/shop/", n))
	}
	o.set("/shop/", func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Cache-Control", "public, max-age=3600, stale-while-revalidate=86400")
		w.Header().Set("Surrogate-Key", "shop")
		fmt.Fprint(w, s.body(r.URL.Path))
	})
	return s
}

func (s *shop) body(path string) string { return fmt.Sprintf("%s, version %d", path, s.version.Load()) }

// shows reports whether a server serves all pages in the current version.
func (s *shop) shows(t *testing.T, g *gateway) bool {
	t.Helper()
	return !slices.ContainsFunc(s.paths, func(path string) bool { return get(t, g.url+path).body != s.body(path) })
}

// expectPurged fails the test if a server serves a page of an older version as fresh.
func (s *shop) expectPurged(t *testing.T, g *gateway) {
	t.Helper()
	for _, path := range s.paths {
		if r := get(t, g.url+path); r.body != s.body(path) && !strings.HasSuffix(r.cache(), "detail=stale") {
			t.Errorf("%s: %s with %q; want no old page as fresh", g.url+path, r, r.body)
		}
	}
}

// Three servers on one table: after a purge with --wait no server serves the old pages as
// fresh, and a server that was killed in between does not when it is back. The command names
// the server that did not apply the purge. The method PURGE is a purge, too.
func TestPurgeOnAFleet(t *testing.T) {
	t.Parallel()
	fleet, o := newCloud(t), newOrigin(t)
	shop := newShop(o)
	var servers []*gateway
	for range 3 {
		s := fleet.settings(t, "--purge-method", "--admin", "none")
		s.env = append(s.env, "ISR_ADMIN_TOKEN="+purgeToken)
		g := serve(t, s, o)
		await(t, "the pages", patience, func() bool { return shop.shows(t, g) })
		servers = append(servers, g)
	}

	shop.version.Add(1)
	var purged admin.Purged
	if err := json.Unmarshal(servers[0].here().output(t, "purge", "--tag", "shop", "--wait", "--json"), &purged); err != nil {
		t.Fatal(err)
	}
	for _, g := range servers {
		shop.expectPurged(t, g)
	}
	if w := purged.Waited; w == nil || w.Servers != 3 || len(w.Missing) > 0 || purged.WriteUnits <= 0 {
		t.Fatalf("purged: %+v, waited %+v; want that three servers have applied it", purged, purged.Waited)
	}
	t.Logf("purged a tag of %d pages for %g write units; all servers had applied it after %d ms", len(shop.paths), purged.WriteUnits, purged.Waited.TookMS)
	for _, g := range servers {
		await(t, "the new version", patience, func() bool { return shop.shows(t, g) })
	}

	shop.version.Add(1)
	servers[2].kill()
	refused := make(chan string, 1)
	go func() { refused <- servers[0].refused(t, servers[0].here(), "purge", "--all", "--wait") }()
	for _, g := range servers[:2] {
		await(t, "the version after the kill", patience, func() bool { return shop.shows(t, g) })
	}
	servers[2] = serve(t, servers[2].settings, o)
	shop.expectPurged(t, servers[2])
	if out := <-refused; !strings.Contains(out, "the purge is committed, but 1 of ") || !strings.Contains(out, "servers have not reported it as applied after 1") {
		t.Errorf("isr purge --wait says %s; want that the killed server has not applied it", out)
	}

	shop.purgeMethod(t, servers)
}

// purgeMethod purges a page by the method PURGE, through each server.
func (s *shop) purgeMethod(t *testing.T, servers []*gateway) {
	t.Helper()
	path, client := s.paths[0], browsers(t)
	if r := visit(t.Context(), client, "PURGE", servers[0].url+path); r.status != http.StatusUnauthorized {
		t.Errorf("PURGE without the token: %s", r)
	}
	for _, g := range servers {
		s.version.Add(1)
		if r := visit(t.Context(), client, "PURGE", g.url+path, "Authorization", "Bearer "+purgeToken); r.status != http.StatusOK {
			t.Fatalf("PURGE: %s %s", r, r.body)
		}
		if r := get(t, g.url+path); r.body != s.body(path) {
			t.Errorf("the server that was asked serves %q after a hard purge: %s", r.body, r)
		}
		began := time.Now()
		for _, other := range servers {
			await(t, "the page after PURGE", patience, func() bool { return get(t, other.url+path).body == s.body(path) })
		}
		t.Logf("the page of PURGE was served by all servers after %s", time.Since(began).Round(time.Millisecond))
	}
}

// The requests of other systems, as their sources make them: FOSHttpCache (ProxyClient/Varnish.php with tag_mode purgekeys, and
// HttpDispatcher.php) and Drupal's purge_purger_http (HttpPurgerBase.php) as docs/purge.md configures them.
func TestPurgesByOtherSystems(t *testing.T) {
	t.Parallel()
	api, err := testbed.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	o := newOrigin(t)
	shop := newShop(o)
	s := embedded(t, "--purge-method", "--purge-from", "127.0.0.0/8", "--admin", api)
	s.env = append(s.env, "ISR_ADMIN_TOKEN="+purgeToken)
	g, client := serve(t, s, o), browsers(t)
	for name, send := range map[string]func() reply{
		"Symfony, a path": func() reply {
			return visit(t.Context(), client, "PURGE", g.url+shop.paths[0], "Connection", "Close")
		},
		"Symfony, tags": func() reply {
			return visit(t.Context(), client, "PURGEKEYS", g.url+"/", "xkey-softpurge", "other shop", "Connection", "Close")
		},
		"Drupal, a tag": func() reply {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+api+"/-/purge", strings.NewReader(`{"targets":[{"tag":"shop"}],"mode":"soft"}`))
			if err != nil {
				return reply{err: err}
			}
			for name, value := range map[string]string{"user-agent": "purge_purger_http module for Drupal 8.", "content-type": "application/json", "authorization": "Bearer " + purgeToken} {
				r.Header.Set(name, value)
			}
			return do(client, r)
		},
	} {
		page := g.url + shop.paths[0]
		await(t, "the page", patience, func() bool { r := get(t, page); return r.hit() && r.body == shop.body(shop.paths[0]) })
		shop.version.Add(1)
		if r := send(); r.status != http.StatusOK {
			t.Errorf("%s: %s %s", name, r, r.body)
		}
		await(t, "the page after a purge by "+name, patience, func() bool { return get(t, page).body == shop.body(shop.paths[0]) })
	}
}

// A request with a receipt gets nothing that the purge covers, also from a server that has
// not read of it yet. A receipt that the log does not have is refused.
func TestReceiptOnAnotherServer(t *testing.T) {
	t.Parallel()
	fleet, o := newCloud(t), newOrigin(t)
	shop := newShop(o)
	path := shop.paths[0]
	var servers []*gateway
	for range 2 {
		s := fleet.settings(t, "--admin", "none", "--poll", "5m")
		g := serve(t, s, o)
		await(t, "the page", patience, func() bool { return strings.HasPrefix(get(t, g.url+path).cache(), "isr; hit") })
		servers = append(servers, g)
	}
	old := shop.body(path)
	shop.version.Add(1)
	var purged admin.Purged
	if err := json.Unmarshal(servers[0].here().output(t, "purge", "--tag", "shop", "--json"), &purged); err != nil {
		t.Fatal(err)
	}
	other := servers[1].url + path
	if r := get(t, other); r.body != old {
		t.Fatalf("the other server has read of the purge already, in spite of --poll: %s %q", r, r.body)
	}
	for range 2 { // and then from memory
		if r := get(t, other, "ISR-Min-Seq", fmt.Sprint(purged.Seq)); r.status != http.StatusOK || r.body != shop.body(path) {
			t.Errorf("with the receipt %d: %s %q; want the new page", purged.Seq, r, r.body)
		}
	}
	for receipt, says := range map[string]string{
		fmt.Sprint(purged.Seq + 1): "higher than the sequence of the log",
		"soon":                     "a decimal number",
	} {
		for _, g := range servers {
			if r := get(t, g.url+path, "ISR-Min-Seq", receipt); r.status != http.StatusBadRequest || !strings.Contains(r.body, says) {
				t.Errorf("with the receipt %s: %s %q; want status 400 that says %q", receipt, r, r.body, says)
			}
		}
	}
}
