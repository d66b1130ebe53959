package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/redirect"
)

// TestRedirects: a redirect comes before a stored page, the fast path does not answer with that page, and maintenance mode
// leaves redirects as they are.
func TestRedirects(t *testing.T) {
	origin := newEcho(t, "site")
	cfg := gateway.SiteConfig{Routes: []gateway.SiteRoute{{Pattern: "/", Origin: "site", Route: isr.Route{Revalidate: 1 << 40}}}, Origins: map[string]gateway.Origin{"site": origin.origin(t)}}
	s := newSite(t, newCache(t), cfg)
	expectVisit(t, s, "GET", "http://x.test/a", "site GET /a", "isr; fwd=miss")
	expectVisit(t, s, "GET", "http://x.test/a", "site GET /a", "isr; hit")
	var err error
	if cfg.Redirects, err = redirect.New([]redirect.Rule{{From: "/a", To: "/b", Status: 301}}, nil, func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	s.SetMaintenance(true)
	var hit isr.Hit
	if s.Lookup(httptest.NewRequest("GET", "http://x.test/a", http.NoBody), &hit) {
		t.Error("the fast path serves the page of an address that is redirected")
	}
	for _, method := range []string{"GET", "HEAD", "POST"} {
		w := visit(s, method, "http://x.test/a?q=1")
		if h := w.Header(); w.Code != 301 || h.Get("Location") != "/b?q=1" || h.Get("Cache-Control") != "max-age=3600" || h.Get("Cache-Status") != "isr; detail=redirect" {
			t.Errorf("%s: got %d, %v", method, w.Code, h)
		}
	}
}
