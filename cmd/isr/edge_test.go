package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"regexp"
	"testing"

	"github.com/facetheory/isr/internal/testbed"
)

// tlsFiles puts a certificate and its key where DIR/crt and DIR/key are, and has the client accept it.
func tlsFiles(s *fieldServer) {
	testbed.WriteCertificate(s.T, s.dir+"/crt", s.dir+"/key", 1, "a.test")
	s.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // a certificate of the test
}

// schemes serves a site that answers with the scheme of a request, on two listeners: one without TLS, which has
// the given settings, and one with TLS. more is added to the file. It returns the URLs of both.
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

// A listener without TLS beside one with TLS redirects, also once the page is in memory, and sends the
// origin the real scheme of what it passes on.
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

// Without the redirect, pages of the two schemes are apart, and requests that pass through have their scheme.
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

// A trusted proxy that forwards https is served by the plain listener, on the fast path too, with HSTS.
func TestHSTSBehindTrustedProxy(t *testing.T) {
	s, plain, _ := schemes(t, ", trusted_proxies: [loopback]", "hsts: max-age=60")
	for range 20 {
		s.shows(plain+"/a", "GET", "/a by https", "Strict-Transport-Security", "max-age=60", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https")
		if v := s.get(plain+"/a", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "http"); v.code != 301 || v.header.Get("Strict-Transport-Security") != "" {
			s.Errorf("got %s with %v", v, v.header)
		}
	}
}
