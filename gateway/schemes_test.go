package gateway_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

// schemeSite is a site behind a proxy that is trusted.
type schemeSite struct {
	*gateway.Site
	edge http.Handler
	log  *bytes.Buffer
}

// newSchemeSite returns a site with a public scheme and a route. Nothing listens at its origin.
func newSchemeSite(t *testing.T, public string, route isr.Route) *schemeSite {
	t.Helper()
	s := &schemeSite{log: new(bytes.Buffer)}
	var err error
	s.Site, err = gateway.NewSite(newCache(t), gateway.SiteConfig{
		Routes: []gateway.SiteRoute{{Pattern: "/", Route: route, Origin: "a"}}, Origins: map[string]gateway.Origin{"a": {Handler: http.NotFoundHandler()}},
		PublicScheme: public, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Site.Close)
	trust, err := gateway.ParseTrust([]string{"192.0.2.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	s.edge = gateway.Edge(gateway.EdgeConfig{Hosts: anyHost(t), Trust: trust}, s.Site)
	return s
}

// ask sends requests of a peer with a header line.
func (s *schemeSite) ask(requests int, peer, line string) {
	name, value, _ := strings.Cut(line, ": ")
	for range requests {
		r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
		r.RemoteAddr = peer + ":4711"
		r.Header.Set(name, value)
		s.edge.ServeHTTP(httptest.NewRecorder(), r)
	}
}

func (s *schemeSite) lines() int { return strings.Count(s.log.String(), "public_scheme") }

// The scheme that trusted proxies state is compared with the scheme of renders.
func TestSchemeProblem(t *testing.T) {
	const proxy, stranger = "192.0.2.1", "203.0.113.1"
	off := isr.Route{Off: true}
	declared := isr.Route{Vary: []string{"x-forwarded-proto"}}
	class := isr.Route{KeyClasses: []isr.KeyClass{{Header: "X-Forwarded-Proto", Values: []string{"http", "https"}}}}
	for name, c := range map[string]struct {
		public string
		route  isr.Route
		ask    func(s *schemeSite)
		want   string // part of the advice; empty: no problem
	}{
		"https to http":         {"", isr.Route{}, func(s *schemeSite) { s.ask(1, proxy, "X-Forwarded-Proto: https") }, "set public_scheme: https (--public-scheme https)"},
		"https to http, stated": {"http", isr.Route{}, func(s *schemeSite) { s.ask(1, proxy, "X-Forwarded-Proto: https") }, "set public_scheme: https"},
		"by Forwarded":          {"", isr.Route{}, func(s *schemeSite) { s.ask(1, proxy, "Forwarded: for=203.0.113.9;proto=https") }, "set public_scheme: https"},
		"some use https": {"", isr.Route{}, func(s *schemeSite) {
			s.ask(5, proxy, "X-Forwarded-Proto: http")
			s.ask(1, proxy, "X-Forwarded-Proto: https")
		}, "set public_scheme: https"},
		"a stranger":            {"", isr.Route{}, func(s *schemeSite) { s.ask(200, stranger, "X-Forwarded-Proto: https") }, ""},
		"nothing stated":        {"", isr.Route{}, func(s *schemeSite) { s.ask(200, proxy, "X-Forwarded-For: 203.0.113.9") }, ""},
		"the same":              {"https", isr.Route{}, func(s *schemeSite) { s.ask(200, proxy, "X-Forwarded-Proto: https") }, ""},
		"http to https, seldom": {"https", isr.Route{}, func(s *schemeSite) { s.ask(50, proxy, "X-Forwarded-Proto: http") }, ""},
		"http to https, some": {"https", isr.Route{}, func(s *schemeSite) {
			s.ask(200, proxy, "X-Forwarded-Proto: http")
			s.ask(1, proxy, "X-Forwarded-Proto: https")
		}, ""},
		"http to https, all":      {"https", isr.Route{}, func(s *schemeSite) { s.ask(200, proxy, "X-Forwarded-Proto: http") }, "set public_scheme: http (--public-scheme http)"},
		"the scheme in the key":   {"", declared, func(s *schemeSite) { s.ask(1, proxy, "X-Forwarded-Proto: https") }, ""},
		"a class of it":           {"", class, func(s *schemeSite) { s.ask(1, proxy, "X-Forwarded-Proto: https") }, ""},
		"a route without renders": {"", off, func(s *schemeSite) { s.ask(1, proxy, "X-Forwarded-Proto: https") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSchemeSite(t, c.public, c.route)
			c.ask(s)
			if got := s.SchemeProblem().String(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
				t.Errorf("the problem is %q, want %q", got, c.want)
			}
		})
	}
}

// The log has the problem once a minute, and the problem ends ten minutes after the last request
// that has it, or with a configuration that is reloaded.
func TestSchemeProblemInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSchemeSite(t, "", isr.Route{})
		for range 180 { // three minutes
			s.ask(1, "192.0.2.1", "X-Forwarded-Proto: https")
			time.Sleep(time.Second)
		}
		if n := s.lines(); n != 3 {
			t.Errorf("%d lines in three minutes:\n%s", n, s.log)
		}
		time.Sleep(9 * time.Minute)
		if s.SchemeProblem().What == "" {
			t.Error("the problem ended too early")
		}
		time.Sleep(2 * time.Minute)
		if p := s.SchemeProblem(); p.What != "" {
			t.Errorf("the problem stays: %s", p)
		}
		s.ask(1, "192.0.2.1", "X-Forwarded-Proto: https")
		if err := s.Reload(gateway.SiteConfig{
			Routes: []gateway.SiteRoute{{Pattern: "/", Origin: "a"}}, Origins: map[string]gateway.Origin{"a": {Handler: http.NotFoundHandler()}}, PublicScheme: "https",
		}); err != nil {
			t.Fatal(err)
		}
		if p := s.SchemeProblem(); p.What != "" {
			t.Errorf("the problem stays after a reload: %s", p)
		}
	})
}
