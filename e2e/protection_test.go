package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Networks that a reload reads refuse clients from then on, hits on open connections included.
func TestDeniedNetworksAreReloaded(t *testing.T) {
	o := newOrigin(t)
	o.set("/", page(3600, 0))
	s := embedded(t)
	s.env = append(s.env, "ISR_ADMIN=none")
	s.writeFile(t, "isr.yaml", fmt.Sprintf("listen: [{address: \"127.0.0.1:0\"}]\nhosts: [%s]\norigins: {site: {url: %q}}\ndeny_file: denied.txt\n", host, o.server.URL))
	s.writeFile(t, "denied.txt", "# none\n")
	_, url := s.serveFile(t)
	get(t, url+"/")
	client := browsers(t)
	expect := func(status int) {
		t.Helper()
		for range 3 { // the fast path serves those after the first of a connection
			if r := visit(t.Context(), client, http.MethodGet, url+"/"); r.err != nil || r.status != status || (status == http.StatusOK) != r.hit() {
				t.Fatalf("got %v", r)
			}
		}
	}
	expect(http.StatusOK)
	for _, c := range []struct {
		networks string
		status   int
	}{{"127.0.0.0/8\n", http.StatusForbidden}, {"192.0.2.0/24\n", http.StatusOK}} {
		s.writeFile(t, "denied.txt", c.networks)
		s.output(t, "reload")
		expect(c.status)
	}
	if text := string(s.output(t, "explain", "http://"+host+"/", "--from", "192.0.2.7")); !strings.Contains(text, "192.0.2.7 is in 192.0.2.0/24, which deny of the site has") {
		t.Errorf("explained as %s", text)
	}
}

// A client that asks for more than a rate limit allows gets 429, on one connection and on others, and after a reload that changes another
// setting.
func TestRateLimitOfServer(t *testing.T) {
	o := newOrigin(t)
	o.set("/", page(3600, 0))
	s := embedded(t)
	s.env = append(s.env, "ISR_ADMIN=none")
	write := func(history int) {
		t.Helper()
		s.writeFile(t, "isr.yaml", fmt.Sprintf("listen: [{address: \"127.0.0.1:0\"}]\nhosts: [%s]\norigins: {site: {url: %q}}\nrate_limits: [10/h]\ndefaults: {history: %d}\n", host, o.server.URL, history))
	}
	write(1)
	_, url := s.serveFile(t)
	client := browsers(t)
	for i := range 15 {
		want := http.StatusOK
		if i >= 10 {
			want = http.StatusTooManyRequests
		}
		if r := visit(t.Context(), client, http.MethodGet, url+"/"); r.err != nil || r.status != want || i > 0 && i < 10 != r.hit() {
			t.Fatalf("request %d: %v", i, r)
		}
	}
	write(2)
	s.output(t, "reload")
	r := get(t, url+"/")
	if r.status != http.StatusTooManyRequests || r.header.Get("Retry-After") == "" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("got %v %v", r, r.header)
	}
}
