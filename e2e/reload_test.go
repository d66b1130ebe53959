package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Reloads under as many requests as the machine gives: none is lost, pages stay in memory,
// and the request after a reload follows the new rules.
func TestReloadUnderLoad(t *testing.T) {
	const reloads, visitors = 20, 16
	o := newOrigin(t)
	o.set("/", page(3600, 0))
	o.set("/live/", page(3600, 0))
	s := embedded(t).raced()
	s.env = append(s.env, "ISR_ADMIN=none")
	write := func(n int) {
		t.Helper()
		s.writeFile(t, "isr.yaml", fmt.Sprintf("listen: [{address: \"127.0.0.1:0\"}]\nhosts: [%s]\norigins: {site: {url: %q}}\nroutes:\n  - match: /live/\n    set_headers: {X-Rules: \"%d\"}\n", host, o.server.URL, n))
	}
	write(0)
	_, url := s.serveFile(t)
	get(t, url+"/")

	client := browsers(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	var answered atomic.Int64
	for i := range visitors {
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				path := []string{"/", fmt.Sprintf("/live/%d", i)}[n%2]
				r := visit(context.Background(), client, http.MethodGet, url+path)
				if r.err != nil || r.status != http.StatusOK || path == "/" && !r.hit() {
					t.Errorf("%s: %v", path, r)
					return
				}
				answered.Add(1)
			}
		})
	}
	began := time.Now()
	for n := 1; n <= reloads; n++ {
		write(n)
		if out := string(s.output(t, "reload")); !strings.Contains(out, "2 routes") {
			t.Fatalf("isr reload: %s", out)
		}
		if r := get(t, url+"/live/x"); r.header.Get("X-Rules") != fmt.Sprint(n) {
			t.Fatalf("after reload %d: rules %q", n, r.header.Get("X-Rules"))
		}
	}
	stop()
	load.Wait()
	t.Logf("%d requests during %d reloads, %.0f a second", answered.Load(), reloads, float64(answered.Load())/time.Since(began).Seconds())
	if n := o.count("/"); n != 1 {
		t.Errorf("%d renders of a page that stays in memory", n)
	}
}
