package gateway_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

// What is explained of a request, with what the origin answers, is what the edge, drafts and the
// site do with it.
func TestExplainIsServed(t *testing.T) {
	origin := newCMS(t)
	site := newSite(t, newCache(t), gateway.SiteConfig{
		Routes:  []gateway.SiteRoute{{Pattern: "/", Origin: "site"}, {Pattern: "other.example/", Origin: "site", Route: isr.Route{Off: true}}},
		Origins: map[string]gateway.Origin{"site": {URLs: []*url.URL{parse(t, origin.URL)}}},
	})
	all, err := gateway.ParseHosts([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	trust, err := gateway.ParseTrust([]string{"192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{draftSecret}
	trust = trust.WithHost()
	h := gateway.Edge(gateway.EdgeConfig{Hosts: all, Trust: trust, Logger: slog.New(slog.DiscardHandler)}, gateway.Drafts(secrets, site, site))
	token := draftToken(t, draftSecret, "example.com", "/", time.Hour)
	for name, c := range map[string]struct {
		method, path, from string
		header             []string
		status             string // Cache-Status; empty if the request is refused
		draft              string // the header that the origin gets of an explanation
		parts              string
	}{
		"a page":                {path: "/a", status: "isr; fwd=miss; fwd-status=200; stored"},
		"a cookie":              {path: "/b", header: []string{"Cookie: session=1"}, status: "isr; fwd=bypass; fwd-status=200; detail=cookie"},
		"a draft":               {path: "/c?x=1", header: []string{"Cookie: isr-draft=" + token}, status: "isr; fwd=bypass; fwd-status=200; detail=draft", draft: "1", parts: "cookie isr-draft obeyed"},
		"a link to a draft":     {path: "/d?isr-draft=" + token, status: "isr; detail=draft", parts: "query isr-draft obeyed"},
		"the end of drafts":     {path: "/e?isr-draft=off", header: []string{"Cookie: isr-draft=" + token}, status: "isr; detail=draft", parts: "query isr-draft obeyed, cookie isr-draft obeyed"},
		"an invalid token":      {path: "/f?isr-draft=x", header: []string{"Cookie: isr-draft=y"}, status: "isr; fwd=miss; fwd-status=200; stored", parts: "query isr-draft ignored, cookie isr-draft ignored"},
		"of a visitor":          {path: "/g", from: "192.0.2.9", header: []string{"X-Forwarded-Host: other.example"}, status: "isr; fwd=miss; fwd-status=200; stored", parts: "header X-Forwarded-Host ignored"},
		"of a trusted proxy":    {path: "/h", from: "192.0.2.1", header: []string{"X-Forwarded-Host: other.example", "X-Forwarded-For: 192.0.2.9"}, status: "isr; fwd=bypass; fwd-status=200; detail=off", parts: "header X-Forwarded-For obeyed, header X-Forwarded-Host obeyed"},
		"of a confused proxy":   {path: "/i", from: "192.0.2.1", header: []string{"X-Forwarded-Host: a b"}},
		"a request with a body": {method: "POST", path: "/j", status: "isr; fwd=method; fwd-status=200"},
	} {
		t.Run(name, func(t *testing.T) {
			request := func() *http.Request {
				r := httptest.NewRequest(max(c.method, "GET"), "http://example.com"+c.path, http.NoBody)
				if c.method != "" {
					r.Method = c.method
				}
				r.RemoteAddr = ""
				if c.from != "" {
					r.RemoteAddr = c.from + ":0"
				}
				for _, line := range c.header {
					field, value, _ := strings.Cut(line, ": ")
					r.Header.Add(field, value)
				}
				return r
			}
			origin.seen()
			p, err := gateway.Prepare(request(), trust, secrets)
			if c.status == "" {
				if w := serve(h, request()); err == nil || w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), err.Error()) {
					t.Errorf("explained as %v, served %d %s", err, w.Code, w.Body)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			d, err := site.Explain(p, true)
			if err != nil {
				t.Fatal(err)
			}
			asked := origin.seen()
			served := serve(h, request())
			if got := served.Header().Get("Cache-Status"); got != c.status && !strings.HasPrefix(c.status, got) && !strings.HasPrefix(strings.ReplaceAll(got, "; ttl=3600", ""), c.status) {
				t.Errorf("served %s, want %s", got, c.status)
			}
			want := c.status
			if c.method != "" {
				want = "isr; fwd=method" // it is not sent to the origin
			}
			if d.CacheStatus != want || d.Status != served.Code && c.method == "" {
				t.Errorf("explained as %d %s, want %d %s", d.Status, d.CacheStatus, served.Code, want)
			}
			var parts []string
			for _, p := range p.Parts {
				parts = append(parts, p.Kind+" "+p.Name+" "+string(p.Use))
			}
			if got := strings.Join(parts, ", "); got != c.parts {
				t.Errorf("parts %s, want %s", got, c.parts)
			}
			switch sent := strings.Contains(c.status, "fwd-status") && c.method == ""; {
			case sent != (len(asked) == 1), sent != (d.Fetched != nil):
				t.Errorf("the origin got %d requests; fetched %+v, because %+v", len(asked), d.Fetched, d.Reasons)
			case sent && (asked[0].Header.Get("X-Isr-Draft") != c.draft || strings.Contains(asked[0].URL.RawQuery+asked[0].Header.Get("Cookie"), "isr-draft")):
				t.Errorf("the origin got %s %v", asked[0].URL, asked[0].Header)
			case sent && d.Fetched.Stored != strings.Contains(c.status, "stored"):
				t.Errorf("fetched %+v", d.Fetched)
			}
		})
	}
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
