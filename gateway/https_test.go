package gateway_test

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/facetheory/isr/gateway"
)

// plainEdge returns the edge of a listener without TLS at port 8080, beside one at port 8443, that trusts
// 10.0.0.0/8. The site behind it answers with the scheme that it gets.
func plainEdge(t *testing.T, cfg gateway.EdgeConfig) http.Handler {
	t.Helper()
	var err error
	if cfg.Trust, err = gateway.ParseTrust([]string{"10.0.0.0/8"}); err != nil {
		t.Fatal(err)
	}
	if cfg.Hosts, err = gateway.ParseHosts([]string{"*"}); err != nil {
		t.Fatal(err)
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "site %q", r.Header["X-Forwarded-Proto"]) })
	return gateway.Edge(cfg, gateway.RedirectHTTPS(gateway.RedirectConfig{Port: 8080, TLSPort: 8443, Unnamed: cfg.Unnamed}, site))
}

// Visitors are not redirected to a host without a certificate.
func TestRedirectToCertifiedHosts(t *testing.T) {
	site := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "site") })
	h := gateway.RedirectHTTPS(gateway.RedirectConfig{
		Port: 80, TLSPort: 443, Certified: func(host string) bool { return host == "a.test" || host == "2001:db8::1" },
	}, site)
	for host, redirected := range map[string]bool{
		"a.test": true, "A.Test": true, "a.test.": true, "a.test:80": true, "a.test.:80": true, "[2001:db8::1]": true, "[2001:db8::1]:80": true,
		"b.test": false, "b.test:80": false, "x.a.test": false, "[2001:db8::2]": false,
	} {
		r := httptest.NewRequest("GET", "/", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Code == http.StatusMovedPermanently; got != redirected {
			t.Errorf("%s: %d %q to %s", host, w.Code, w.Body, w.Header().Get("Location"))
		}
	}
}

func TestRedirectHTTPS(t *testing.T) {
	const visitor, balancer = "192.0.2.1:1", "10.0.0.9:1"
	forwarded := func(proto string) http.Header {
		h := http.Header{"X-Forwarded-For": {"192.0.2.7"}}
		if proto != "" {
			h.Set("X-Forwarded-Proto", proto)
		}
		return h
	}
	h := plainEdge(t, gateway.EdgeConfig{
		HealthPath: "/-/ready", Health: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }),
		Unnamed: func(r *http.Request) bool { return r.RemoteAddr == "192.0.2.99:1" },
	})
	for name, tt := range map[string]struct {
		method, target, host, from string
		header                     http.Header
		status                     int
		location                   string
	}{
		"a page":                             {target: "/a?b=1", status: 301, location: "https://example.com/a?b=1"},
		"HEAD":                               {method: "HEAD", target: "/a", status: 301, location: "https://example.com/a"},
		"POST":                               {method: "POST", target: "/login", status: 308, location: "https://example.com/login"},
		"OPTIONS":                            {method: "OPTIONS", target: "/a", status: 308, location: "https://example.com/a"},
		"the port of the listener":           {target: "/a", host: "example.com:8080", status: 301, location: "https://example.com:8443/a"},
		"a mapped port":                      {target: "/a", host: "example.com:9999", status: 301, location: "https://example.com/a"},
		"IPv6":                               {target: "/a", host: "[2001:db8::1]:8080", status: 301, location: "https://[2001:db8::1]:8443/a"},
		"IPv6 without a port":                {target: "/a", host: "[2001:db8::1]", status: 301, location: "https://[2001:db8::1]/a"},
		"absolute-form":                      {target: "http://example.com/a?b", host: "example.com", status: 301, location: "https://example.com/a?b"},
		"absolute-form without a path":       {target: "http://example.com", host: "example.com", status: 301, location: "https://example.com/"},
		"a path that looks like a host":      {target: "//evil.example/a", status: 301, location: "https://example.com//evil.example/a"},
		"characters that need escaping":      {target: "/a%0d%0ab%2Fé?é", status: 301, location: "https://example.com/a%0d%0ab%2F%c3%a9?%c3%a9"},
		"no host":                            {target: "/a", host: "-", status: 400},
		"a forged scheme":                    {target: "/a", header: forwarded("https"), status: 301, location: "https://example.com/a"},
		"https of a trusted proxy":           {target: "/a", from: balancer, header: forwarded("https"), status: 200},
		"http of a trusted proxy":            {target: "/a", from: balancer, header: forwarded("http"), status: 301, location: "https://example.com/a"},
		"a trusted proxy without a scheme":   {target: "/a", from: balancer, header: forwarded(""), status: 301, location: "https://example.com/a"},
		"a health check of a balancer":       {target: "/", from: balancer, status: 200},
		"a connection that names no client":  {target: "/", from: "192.0.2.99:1", status: 200},
		"the health path":                    {target: "/-/ready", status: 204},
		"a challenge":                        {target: "/.well-known/acme-challenge/x", status: 200},
		"a path that is like a challenge":    {target: "/.well-known/acme-challenges", status: 301, location: "https://example.com/.well-known/acme-challenges"},
		"PURGE":                              {method: "PURGE", target: "/a", status: 200},
		"PURGEKEYS":                          {method: "PURGEKEYS", target: "/a", status: 200},
		"a scheme in the request is no fact": {target: "https://example.com/a", host: "example.com", status: 301, location: "https://example.com/a"},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(max(tt.method, "GET"), tt.target, http.NoBody)
			r.TLS = nil // NewRequest sets it by the scheme
			if tt.method != "" {
				r.Method = tt.method
			}
			r.Host, r.RemoteAddr, r.Header = "example.com", visitor, tt.header.Clone()
			switch {
			case tt.host == "-":
				r.Host = ""
			case tt.host != "":
				r.Host = tt.host
			}
			if tt.from != "" {
				r.RemoteAddr = tt.from
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.status || w.Header().Get("Location") != tt.location {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Header().Get("Location"), tt.status, tt.location)
			}
			if tt.location != "" && w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("a cache in front could store the redirect: %v", w.Header())
			}
		})
	}
}

// Where both schemes are served, the cache sees the scheme of a request that is not public, and nothing
// else in its place.
func TestKeyScheme(t *testing.T) {
	h := plainEdge(t, gateway.EdgeConfig{KeyScheme: "https", Scheme: "http"})
	for _, tt := range []struct {
		from, path, proto string
		tls               bool
		want              string
	}{
		{from: "10.0.0.9:1", want: `site ["http"]`},
		{from: "10.0.0.9:1", proto: "https", want: `site []`},
		{from: "192.0.2.1:1", path: "/.well-known/acme-challenge/x", proto: "https", want: `site ["http"]`},
		{from: "192.0.2.1:1", tls: true, proto: "http", want: `site []`},
	} {
		r := httptest.NewRequest(http.MethodGet, "http://example.com"+tt.path, http.NoBody)
		if r.RemoteAddr = tt.from; tt.proto != "" {
			r.Header.Set("X-Forwarded-Proto", tt.proto)
		}
		if tt.tls {
			r.TLS = new(tls.ConnectionState)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Body.String() != tt.want {
			t.Errorf("%+v: got %s", tt, w.Body)
		}
	}
}

// Strict-Transport-Security is in all responses by https, once, and in no others.
func TestHSTS(t *testing.T) {
	trust, err := gateway.ParseTrust([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := gateway.ParseHosts([]string{"example.com"})
	if err != nil {
		t.Fatal(err)
	}
	const value = "max-age=60"
	site, _ := proxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Strict-Transport-Security"] = []string{"max-age=1", "max-age=2"}
		if r.URL.Path == "/fails" {
			panic(http.ErrAbortHandler)
		}
	})
	for _, scheme := range []string{"", "https"} {
		h := gateway.Edge(gateway.EdgeConfig{Hosts: hosts, Trust: trust, Scheme: scheme, HSTS: value, Logger: slog.New(slog.DiscardHandler)}, site)
		for _, tt := range []struct {
			target, proto string
			tls           bool
			want          string
		}{
			{target: "http://example.com/", want: "max-age=1 max-age=2"},
			{target: "http://example.com/", proto: "http", want: "max-age=1 max-age=2"},
			{target: "http://example.com/", proto: "https", want: value},
			{target: "http://example.com/", tls: true, want: value},
			{target: "http://example.com/fails", tls: true, want: value},
			{target: "http://other.example/", tls: true, want: value},
			{target: "http://other.example/"},
		} {
			r := httptest.NewRequest(http.MethodGet, tt.target, http.NoBody)
			r.RemoteAddr = "10.0.0.9:1"
			if tt.proto != "" {
				r.Header.Set("X-Forwarded-Proto", tt.proto)
			}
			if tt.tls {
				r.TLS = new(tls.ConnectionState)
			}
			if scheme == "https" && tt.proto == "" {
				tt.want = value
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got := strings.Join(w.Header().Values("Strict-Transport-Security"), " "); got != tt.want {
				t.Errorf("scheme %q, %+v: got %d with %q", scheme, tt, w.Code, got)
			}
		}
	}
}
