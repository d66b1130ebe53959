package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/facetheory/isr/config"
)

// serveFile serves the listeners of a file until the test ends.
func serveFile(t *testing.T, f *config.File, h http.Handler) *public {
	t.Helper()
	p, err := listen(f, t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.edge(f, h, nil, "", newHealth())
	p.start(f, time.Minute)
	t.Cleanup(func() { p.stop(context.Background()) })
	return p
}

// Forwarding fields are dropped if the PROXY protocol names no client, as the client may have
// forged them.
func TestForwardingFieldsOfUnnamedClientsAreDropped(t *testing.T) {
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %q", r.RemoteAddr, r.Header["X-Forwarded-Proto"])
	})
	f := &config.File{Hosts: []string{"*"}, Listen: []config.Listener{{Address: "127.0.0.1:0", TrustedProxies: []string{"loopback"}, ProxyProtocol: true}}}
	p := serveFile(t, f, echo)
	for header, want := range map[string]string{
		"PROXY TCP4 127.0.0.9 127.0.0.1 1 2\r\n": `192.0.2.1:0 ["https"]`,
		"PROXY TCP4 192.0.2.7 127.0.0.1 1 2\r\n": `192.0.2.7:1 []`,
		"PROXY UNKNOWN\r\n":                      `127.0.0.1:PORT []`,
		"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00": `127.0.0.1:PORT []`, // version 2, LOCAL
	} {
		c, err := net.Dial("tcp", p.listeners[0].inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, header+"GET / HTTP/1.1\r\nHost: a.test\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n")
		answer, err := io.ReadAll(c)
		port := c.LocalAddr().(*net.TCPAddr).Port
		c.Close()
		if want = strings.Replace(want, "PORT", fmt.Sprint(port), 1); err != nil || !strings.HasSuffix(string(answer), "\r\n\r\n"+want) {
			t.Errorf("%q: got %q, %v, want %s", header, answer, err, want)
		}
	}
}

// tlsFiles puts a certificate and its key where DIR/crt and DIR/key are, and has the client accept it.
func tlsFiles(s *fieldServer) {
	c := certificate(s.T)
	for name, path := range map[string]string{"crt": c.Cert, "key": c.Key} {
		if err := syscall.Symlink(path, s.dir+"/"+name); err != nil {
			s.Fatal(err)
		}
	}
	s.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a certificate of the test
}

// schemes serves the file of a site that tells which scheme a request has, on a listener without TLS,
// with further settings, and one with TLS. It returns the URLs of both.
func schemes(t *testing.T, settings, more string) (s *fieldServer, plain, secure string) {
	t.Helper()
	s = startFields(t, "hosts: [127.0.0.1]\nlisten: [{address: 127.0.0.1:0"+settings+"}, {address: 127.0.0.1:0, tls: [{cert: DIR/crt, key: DIR/key}]}]\n"+more,
		func(_ *countedSite, _ int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "public, max-age=3600")
			fmt.Fprint(w, r.URL.Path, " by ", r.Header.Get("X-Forwarded-Proto"))
		}, tlsFiles)
	return s, s.url, s.logged(`serving http://[^,]+, (https://[^"]+)`)
}

func (s *fieldServer) shows(url, method, body, header, value string, headers ...string) {
	s.Helper()
	if v := s.do(method, url, headers...); v.body != body || v.header.Get(header) != value {
		s.Errorf("%s %s: got %s with %s %q, want %q with %q", method, url, v, header, v.header.Get(header), body, value)
	}
}

// A listener without TLS beside one with TLS redirects, also once the page is in memory, and tells the
// origin the truth about what it passes on.
func TestPlainListenerBesideTLS(t *testing.T) {
	s, plain, secure := schemes(t, "", "")
	for range 10 {
		s.shows(secure+"/a", "GET", "/a by https", "Location", "")
		s.shows(secure+"/p", "POST", "/p by https", "Location", "")
		if v := s.get(plain + "/a?b"); v.code != 301 || v.header.Get("Location") != secure+"/a?b" || v.header.Get("Cache-Status") != "" {
			s.Errorf("got %s to %q", v, v.header.Get("Location"))
		}
		if v := s.do("POST", plain+"/a"); v.code != 308 || v.header.Get("Location") != secure+"/a" {
			s.Errorf("got %s to %q", v, v.header.Get("Location"))
		}
	}
	s.shows(plain+"/.well-known/acme-challenge/x", "POST", "/.well-known/acme-challenge/x by http", "Location", "")
	text := s.isr("explain", "http://127.0.0.1/a")
	s.contains(text, "BYPASS 301")
	s.contains(text, "redirected to https")
	s.contains(s.isr("explain", "https://127.0.0.1/a"), "MISS")
}

// Visitors are not redirected to a listener that has no certificate for their host yet.
func TestPlainListenerBesideACME(t *testing.T) {
	authority := httptest.NewTLSServer(http.NotFoundHandler()) // issues nothing
	t.Cleanup(authority.Close)
	f := &config.File{
		Hosts: []string{"a.test"}, PublicScheme: "https",
		Listen: []config.Listener{{Address: "127.0.0.1:0", ACME: true}, {Address: "127.0.0.1:0", RedirectHTTPS: true}},
		ACME:   config.ACME{Directory: authority.URL, Agree: true},
	}
	p := serveFile(t, f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "site at ", r.URL.Path) }))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.listeners[1].inner.Addr().String()+"/a", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "a.test"
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, _ := io.ReadAll(res.Body); string(body) != "site at /a" {
		t.Errorf("got %d %q to %q", res.StatusCode, body, res.Header.Get("Location"))
	}
}

// Without the redirect, pages of the two schemes are apart, and requests that pass through say theirs.
func TestBothSchemesAreApart(t *testing.T) {
	s, plain, secure := schemes(t, ", redirect_https: false", "")
	for range 20 {
		for scheme, at := range map[string]string{"http": plain, "https": secure} {
			s.shows(at+"/a", "GET", "/a by "+scheme, "Location", "")
			s.shows(at+"/b", "POST", "/b by "+scheme, "Location", "")
		}
	}
	for scheme, apart := range map[string]bool{"http": true, "https": false} {
		if text := s.isr("explain", scheme+"://127.0.0.1/a"); regexp.MustCompile(`(?m)^key .*#x-forwarded-proto=http$`).MatchString(text) != apart {
			t.Errorf("the key of %s: %s", scheme, text)
		}
	}
}

// A trusted proxy that says https is served by the plain listener, on the fast path too, with HSTS.
func TestHSTSBehindTrustedProxy(t *testing.T) {
	s, plain, _ := schemes(t, ", trusted_proxies: [loopback]", "hsts: max-age=60")
	for range 20 {
		s.shows(plain+"/a", "GET", "/a by https", "Strict-Transport-Security", "max-age=60", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https")
		if v := s.get(plain+"/a", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "http"); v.code != 301 || v.header.Get("Strict-Transport-Security") != "" {
			s.Errorf("got %s with %v", v, v.header)
		}
	}
}
