package gateway_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

func allowing(t testing.TB, texts ...string) *gateway.Networks {
	n := networks(t, texts...)
	return &n
}

// protected is a site behind an edge that trusts 10.0.0.0/8: its clients are not those of 203.0.113.0/24, and clients
// of /office/ are of 192.0.2.0/24 or 2001:db8::/32.
func protected(t testing.TB) (*gateway.Site, http.Handler, *echo) {
	t.Helper()
	origin := newEcho(t, "site")
	route := isr.Route{Revalidate: time.Hour}
	site := newSite(t, newCache(t), gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"site": origin.origin(t)},
		Routes: []gateway.SiteRoute{
			{Pattern: "/", Route: route, Origin: "site"},
			{Pattern: "/office/", Route: route, Origin: "site", Protection: gateway.Protection{Allow: allowing(t, "192.0.2.0/24", "2001:db8::/32")}},
		},
		Protection: gateway.Protection{Deny: networks(t, "203.0.113.0/24", "192.0.2.66")},
	})
	hosts, err := gateway.ParseHosts([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	trust, err := gateway.ParseTrust([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	return site, gateway.Edge(gateway.EdgeConfig{Hosts: hosts, Trust: trust, Logger: slog.New(slog.DiscardHandler)},
		gateway.Drafts([]string{draftSecret}, site, site)), origin
}

func request(address, target string, header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://example.com"+target, http.NoBody)
	r.RemoteAddr = address
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestProtectionByNetworks(t *testing.T) {
	site, h, origin := protected(t)
	for _, path := range []string{"/a", "/office/a"} {
		if w := serve(h, request("192.0.2.1:1", path)); w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
	}
	asked := origin.requests.Load()
	draft := draftToken(t, draftSecret, "example.com", "/", time.Hour)
	for name, c := range map[string]struct {
		r       *http.Request
		refused string // why, in explanations; empty if it is not
	}{
		"any client":                    {request("198.51.100.1:1", "/a"), ""},
		"denied":                        {request("203.0.113.9:1", "/a"), "203.0.113.9 is in 203.0.113.0/24, which deny of the site has"},
		"denied, in IPv6 notation":      {request("[::ffff:203.0.113.9]:1", "/a"), "203.0.113.9 is in 203.0.113.0/24, which deny of the site has"},
		"denied, in IPv6 hexadecimal":   {request("[::ffff:cb00:7109]:1", "/a"), "203.0.113.9 is in 203.0.113.0/24"},
		"allowed":                       {request("192.0.2.1:1", "/office/a"), ""},
		"allowed, in IPv6 notation":     {request("[::ffff:192.0.2.1]:1", "/office/a"), ""},
		"allowed, IPv6":                 {request("[2001:db8::1]:1", "/office/a"), ""},
		"not allowed":                   {request("198.51.100.1:1", "/office/a"), "198.51.100.1 is in no network that allow of route /office/ has"},
		"not allowed, without a slash":  {request("198.51.100.1:1", "/office"), "in no network"},
		"not allowed, a page to render": {request("198.51.100.1:1", "/office/new"), "in no network"},
		"allowed by route, denied":      {request("192.0.2.66:1", "/office/a"), "192.0.2.66 is in 192.0.2.66/32, which deny of the site has"},
		"forged":                        {request("198.51.100.1:1", "/office/a", "X-Forwarded-For", "192.0.2.1"), "198.51.100.1 is in no network"},
		"forged, Forwarded":             {request("198.51.100.1:1", "/office/a", "Forwarded", "for=192.0.2.1"), "198.51.100.1 is in no network"},
		"by a proxy":                    {request("10.0.0.1:1", "/office/a", "X-Forwarded-For", "192.0.2.1"), ""},
		"by a proxy, forged":            {request("10.0.0.1:1", "/office/a", "X-Forwarded-For", "192.0.2.1, 198.51.100.1"), "198.51.100.1 is in no network"},
		"by a proxy, denied":            {request("10.0.0.1:1", "/a", "X-Forwarded-For", "::ffff:203.0.113.9"), "203.0.113.9 is in 203.0.113.0/24"},
		"unknown":                       {request("@", "/a"), "the address of the client is not known"},
		"an editor, denied":             {request("203.0.113.9:1", "/a", "Cookie", "isr-draft="+draft), "203.0.113.9 is in 203.0.113.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			trust, err := gateway.ParseTrust([]string{"10.0.0.0/8"})
			if err != nil {
				t.Fatal(err)
			}
			p, err := gateway.Prepare(c.r.Clone(t.Context()), trust, []string{draftSecret})
			if err != nil {
				t.Fatal(err)
			}
			d, err := site.Explain(p, false)
			if err != nil {
				t.Fatal(err)
			}
			var hit isr.Hit
			found := h.(isr.HitHandler).Lookup(c.r.Clone(t.Context()), &hit)
			hit.Release()
			w := serve(h, c.r)
			if c.refused == "" {
				if w.Code != http.StatusOK || d.Verdict != isr.VerdictHit || !found {
					t.Errorf("got %d; %s, %v", w.Code, d.Verdict, found)
				}
				return
			}
			if w.Code != http.StatusForbidden || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Cache-Status") != "isr; detail=denied" || found {
				t.Errorf("got %d %v; a hit: %v", w.Code, w.Header(), found)
			}
			if d.Verdict != isr.VerdictRefused || d.Status != w.Code || d.CacheStatus != w.Header().Get("Cache-Status") ||
				len(d.Reasons) != 1 || !strings.Contains(d.Reasons[0].Text, c.refused) {
				t.Errorf("explained as %s %d, because %+v", d.Verdict, d.Status, d.Reasons)
			}
		})
	}
	if n := origin.requests.Load(); n != asked {
		t.Errorf("the origin got %d requests", n-asked)
	}
}

// A visitor whose address is not given is explained, with a note.
func TestProtectionIsExplainedWithoutAddress(t *testing.T) {
	site, _, _ := protected(t)
	p, err := gateway.Prepare(request("", "/office/b"), gateway.Trust{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := site.Explain(p, false)
	if err != nil || d.Verdict != isr.VerdictMiss || !strings.Contains(d.Reasons[0].Text+d.Reasons[1].Text, "route /office/ accepts clients by their addresses") {
		t.Errorf("got %v, %v", d, err)
	}
}

// Requests that no route matches are refused like others; the server's own are not.
func TestProtectionWithoutRoute(t *testing.T) {
	origin := newEcho(t, "site")
	site := newSite(t, newCache(t), gateway.SiteConfig{
		Origins:    map[string]gateway.Origin{"site": origin.origin(t)},
		Routes:     []gateway.SiteRoute{{Pattern: "/a", Origin: "site"}},
		Protection: gateway.Protection{Allow: allowing(t, "192.0.2.0/24")},
	})
	r := request("198.51.100.1:1", "/other")
	if w := serve(site, r); w.Code != http.StatusForbidden {
		t.Errorf("got %d", w.Code)
	}
	if w := serve(site, r.WithContext(gateway.WithoutProtection(r.Context()))); w.Code != http.StatusNotFound {
		t.Errorf("got %d", w.Code)
	}
}
