package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/draft"
	"github.com/facetheory/isr/store"
)

// TestMaintenance: in maintenance mode stored pages are served, stale ones too, all else gets one page with 503, and only editors
// reach the origin.
func TestMaintenance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests++
			_, _ = w.Write([]byte("from the origin"))
		})
		cfg := gateway.SiteConfig{
			Routes: []gateway.SiteRoute{
				{Pattern: "/", Origin: "site", Route: isr.Route{Revalidate: time.Minute, Stale: time.Hour, StaleIfError: 24 * time.Hour}},
				{Pattern: "/wait/", Origin: "site", Route: isr.Route{Revalidate: time.Minute, Stale: time.Hour, Policy: isr.Wait}},
				{Pattern: "/off/", Origin: "site", Route: isr.Route{Off: true}},
			},
			Origins:     map[string]gateway.Origin{"site": {Handler: origin}},
			Maintenance: gateway.Maintenance{Page: isr.ErrorPage{ContentType: "text/html; charset=utf-8", Body: []byte("<p>back soon {request_id}"), RetryAfter: 90 * time.Second}},
		}
		cache := newCache(t)
		s := newSite(t, cache, cfg)
		h := gateway.Drafts([]string{draftSecret}, s, s)
		for _, path := range []string{"/a", "/wait/a"} {
			expectVisit(t, h, "GET", "http://x.test"+path, "from the origin", "isr; fwd=miss")
		}
		s.SetMaintenance(true)
		before := requests
		refused := func(method, target string, headers ...string) {
			t.Helper()
			w := asks(h, method, "http://x.test"+target, headers...)
			body := "<p>back soon "
			if method == "HEAD" {
				body = ""
			}
			got := w.Header()
			if w.Code != 503 || w.Body.String() != body || got.Get("Retry-After") != "90" || got.Get("Cache-Control") != "no-store" ||
				got.Get("Content-Type") != "text/html; charset=utf-8" || !strings.HasSuffix(got.Get("Cache-Status"), "detail=maintenance") {
				t.Errorf("%s %s: got %d %q, %v", method, target, w.Code, w.Body, got)
			}
		}
		expectVisit(t, h, "GET", "http://x.test/a", "from the origin", "isr; hit; ttl=")
		for _, method := range []string{"GET", "HEAD"} {
			refused(method, "/b")
			refused(method, "/off/a")
		}
		refused("GET", "/a", "Cookie: session=1")
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "BREW"} {
			refused(method, "/a")
		}
		refused("GET", "/a", "Connection: Upgrade", "Upgrade: websocket")

		time.Sleep(2 * time.Minute) // stale
		expectVisit(t, h, "GET", "http://x.test/a", "from the origin", "isr; hit; ttl=-")
		expectVisit(t, h, "GET", "http://x.test/wait/a", "from the origin", "isr; hit; ttl=-")
		synctest.Wait()
		time.Sleep(2 * time.Hour) // past the stale window, within that of errors
		expectVisit(t, h, "GET", "http://x.test/a", "from the origin", "isr; hit; ttl=-")
		refused("GET", "/wait/a")
		if _, err := cache.Regenerate(t.Context(), store.Key{Text: "x.test/a"}); err == nil {
			t.Error("a page was regenerated on request")
		}
		p, err := gateway.Prepare(httptest.NewRequest("GET", "http://x.test/off/a", http.NoBody), gateway.Trust{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := s.Explain(p, false); err != nil || d.Status != 503 || d.Verdict != isr.VerdictError {
			t.Errorf("explained as %+v, %v", d, err)
		}
		if requests != before {
			t.Errorf("%d requests reached the origin", requests-before)
		}

		token := draftToken(t, draftSecret, "x.test", "/", time.Hour)
		if w := asks(h, "POST", "http://x.test/b", "Cookie: "+draft.Name+"="+token); w.Code != 200 || requests != before+1 {
			t.Errorf("an editor got %d, and %d requests reached the origin", w.Code, requests-before)
		}

		if err := s.Reload(cfg); err != nil { // which leaves the operator's switch
			t.Fatal(err)
		}
		refused("GET", "/c")
		s.SetMaintenance(false)
		time.Sleep(2 * time.Second) // the refusals of renders are over
		expectVisit(t, h, "GET", "http://x.test/b", "from the origin", "isr; fwd=miss; fwd-status=200; stored")
		expectVisit(t, h, "POST", "http://x.test/b", "from the origin", "isr; fwd=method")
	})
}

// TestMaintenanceConfigured: the configuration begins maintenance mode, which the switch does not end, with a built-in page.
func TestMaintenanceConfigured(t *testing.T) {
	origin := newEcho(t, "site")
	cfg := gateway.SiteConfig{
		Routes:      []gateway.SiteRoute{{Pattern: "/", Origin: "site"}},
		Origins:     map[string]gateway.Origin{"site": origin.origin(t)},
		Maintenance: gateway.Maintenance{On: true},
	}
	s := newSite(t, newCache(t), cfg)
	s.SetMaintenance(false)
	if w := visit(s, "GET", "http://x.test/"); w.Code != 503 || !strings.Contains(w.Body.String(), "Down for maintenance") || w.Header().Get("Retry-After") != "300" || origin.requests.Load() != 0 {
		t.Errorf("got %d %q, %v", w.Code, w.Body, w.Header())
	}
	cfg.Maintenance.On = false
	if err := s.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if w := visit(s, "POST", "http://x.test/"); w.Code != 200 {
		t.Errorf("got %d after a reload", w.Code)
	}
}
