package gateway_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

func TestEdgeRefusesOtherHosts(t *testing.T) {
	hosts, err := gateway.ParseHosts([]string{"site.example"})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	asked := 0
	h := gateway.Edge(gateway.EdgeConfig{Hosts: hosts, Logger: slog.New(slog.NewTextHandler(&log, nil))},
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			_, _ = io.WriteString(w, r.Host)
		}))
	for host, want := range map[string]int{
		"site.example": 200, "Site.Example": 200, "site.example.": 200, "site.example:443": 200,
		"evil.example": 421, "site.example:9": 421, "": 400, "[": 400, "a:999999": 400, "[::1]:80:80": 400, "a b": 400,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://h/", http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		before := asked
		h.ServeHTTP(w, r)
		if w.Code != want || (asked > before) != (want == 200) {
			t.Errorf("the host %q is answered with %d, want %d", host, w.Code, want)
		}
		if want == 421 && !strings.Contains(w.Body.String(), "--host "+host) {
			t.Errorf("the answer to %q does not name the remedy: %s", host, w.Body)
		}
	}
	for i := range 1000 {
		r := httptest.NewRequest(http.MethodGet, "http://h/", http.NoBody)
		r.Host = fmt.Sprintf("%d.evil.example", i)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	if lines := strings.Count(log.String(), "\n"); lines > 20 {
		t.Errorf("a thousand invented hosts are %d lines of the log", lines)
	}
}

// proxiedEdge returns the trust in proxies in 10.0.0.0/8, and all hosts.
func proxiedEdge(t *testing.T) (gateway.Trust, gateway.Hosts) {
	t.Helper()
	trust, err := gateway.ParseTrust([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := gateway.ParseHosts([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	return trust, hosts
}

func TestEdgeSetsClientAddress(t *testing.T) {
	trust, hosts := proxiedEdge(t)
	proxied, _ := proxy(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s|%s|%s", r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Proto"), r.Header.Get("X-Forwarded-Host"), r.Header.Get("X-Real-Ip"))
	})
	for _, test := range []struct {
		trust        gateway.Trust
		remote, want string
	}{
		{trust, "10.0.0.9:1", "192.0.2.1, 10.0.0.9|https|h|192.0.2.1"},
		{trust.WithHost(), "10.0.0.9:1", "192.0.2.1, 10.0.0.9|https|site.example|192.0.2.1"},
		{trust, "203.0.113.5:1", "203.0.113.5|http|h|"},
		{trust.WithHost(), "203.0.113.5:1", "203.0.113.5|http|h|"},
	} {
		h := gateway.Edge(gateway.EdgeConfig{Hosts: hosts, Trust: test.trust}, proxied)
		r := httptest.NewRequest(http.MethodGet, "http://h/", http.NoBody)
		r.RemoteAddr = test.remote
		r.Header = http.Header{"X-Forwarded-For": {"127.0.0.1, 192.0.2.1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"site.example"}, "X-Real-Ip": {"127.0.0.1"}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Body.String(); got != test.want {
			t.Errorf("from %s the origin gets %q, want %q", test.remote, got, test.want)
		}
	}
}

// A visitor must not choose what the links of a page begin with: proxies pass such a field on.
func TestForwardedPrefixIsIgnored(t *testing.T) {
	trust, hosts := proxiedEdge(t)
	names := []string{"X-Forwarded-Prefix", "X-Forwarded-Path", "X-Forwarded-Uri", "X-Script-Name", "X-Original-Uri", "X-Envoy-Original-Path"}
	var seen http.Header
	proxied, _ := proxy(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() })
	for _, test := range []struct {
		trust  gateway.Trust
		remote string
		kept   bool
	}{
		{gateway.Trust{}, "10.0.0.9:1", false},
		{trust, "203.0.113.5:1", false},
		{trust.WithHost(), "203.0.113.5:1", false},
		{trust, "10.0.0.9:1", false},
		{trust.WithHost(), "10.0.0.9:1", true},
		{trust, "", true}, // a render: the header is part of its key
	} {
		var h http.Handler = gateway.Edge(gateway.EdgeConfig{Hosts: hosts, Trust: test.trust}, proxied)
		if test.remote == "" {
			h = proxied
		}
		r := httptest.NewRequest(http.MethodGet, "http://h/", http.NoBody)
		r.RemoteAddr = test.remote
		for _, name := range names {
			r.Header.Set(name, "//evil.example")
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		for _, name := range names {
			if kept := seen.Get(name) != ""; kept != test.kept {
				t.Errorf("from %q, %+v: %s reached the origin: %t", test.remote, test.trust, name, kept)
			}
		}
	}
}

// The data of a tunnel that is refused are no requests.
func TestConnectEndsTheConnection(t *testing.T) {
	hosts, err := gateway.ParseHosts([]string{"site.example"})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	proxied, _ := proxy(t, func(_ http.ResponseWriter, r *http.Request) { paths = append(paths, r.URL.Path) })
	cache := newCache(t)
	site := cache.Handler(isr.Route{}, proxied)
	server := httptest.NewServer(gateway.Edge(gateway.EdgeConfig{Hosts: hosts}, site))
	defer server.Close()
	for _, target := range []string{"site.example:443", "evil.example:443", "/path"} {
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: site.example\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: site.example\r\n\r\n", target)
		answer, _ := io.ReadAll(conn) // a reset ends it, too
		_ = conn.Close()
		if n := strings.Count(string(answer), "HTTP/1.1 "); n != 1 || strings.Contains(string(answer), " 200 ") || len(paths) > 0 {
			t.Errorf("CONNECT %s: the origin got %v, the client %q", target, paths, answer)
		}
	}
}

func TestHealthPath(t *testing.T) {
	h := gateway.Edge(gateway.EdgeConfig{
		HealthPath: "/healthz",
		Health:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
	}, http.NotFoundHandler())
	r := httptest.NewRequest(http.MethodGet, "http://any.example/healthz", http.NoBody)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusTeapot {
		t.Errorf("%d", w.Code)
	}
}

// Refused requests are observed as well, with the client and the host that were resolved.
func TestEdgeObserves(t *testing.T) {
	trust, err := gateway.ParseTrust([]string{"192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := gateway.ParseHosts([]string{"example.com"})
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	h := gateway.Edge(gateway.EdgeConfig{
		Hosts: hosts, Trust: trust, Logger: slog.New(slog.DiscardHandler),
		HealthPath: "/-/ready", Health: http.NotFoundHandler(),
		Observe: func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			seen = append(seen, fmt.Sprint(r.RemoteAddr, " ", r.Host, " ", rec.Code))
			w.WriteHeader(rec.Code)
		},
	}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	for _, c := range []struct{ path, host, forwarded string }{
		{"/", "example.com", "198.51.100.7"},
		{"/", "example.org", "198.51.100.7"},
		{"/", "exa mple", ""},
		{"/", "example.com", strings.Repeat("1, ", 100)},
		{"/-/ready", "example.com", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, http.NoBody)
		r.Host = c.host
		r.Header.Set("X-Forwarded-For", c.forwarded)
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	want := []string{"198.51.100.7:0 example.com 202", "198.51.100.7:0 example.org 421", "192.0.2.1:1234 exa mple 400", "192.0.2.1:1234 example.com 400"}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
}

// A request-target in absolute-form without a path is the one of "/", also for routes, health checks and
// the key; CONNECT has none.
func TestAbsoluteFormWithoutPath(t *testing.T) {
	hosts, err := gateway.ParseHosts([]string{"example.com"})
	if err != nil {
		t.Fatal(err)
	}
	proxied, _ := proxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "s-maxage=60")
		fmt.Fprint(w, r.RequestURI)
	})
	server := httptest.NewServer(gateway.Edge(gateway.EdgeConfig{Hosts: hosts, Logger: slog.New(slog.DiscardHandler)}, proxied))
	t.Cleanup(server.Close)
	for _, tt := range []struct{ line, want string }{
		{"GET http://example.com", "/"},
		{"HEAD http://example.com", ""},
		{"POST http://example.com", "/"},
		{"GET http://example.com?", "/?"},
		{"GET http://example.com?x=1", "/?x=1"},
		{"OPTIONS http://example.com", "/"},
		{"GET http://example.com/", "/"},
	} {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: example.com\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", tt.line)
		method, _, _ := strings.Cut(tt.line, " ")
		res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		_ = c.Close()
		if res.StatusCode != http.StatusOK || string(body) != tt.want {
			t.Errorf("%s: got %d %s, want %s", tt.line, res.StatusCode, body, tt.want)
		}
	}
}
