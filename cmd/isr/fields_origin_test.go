package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
)

// sharedOrigin is a field test of an origin with two addresses, of which the second answers as other does.
func sharedOrigin(fields, settings string, other siteHandler, show func(s *fieldServer, other *countedSite)) fieldTest {
	var second *countedSite
	return fieldTest{
		fields: fields, file: "origins: {site: {url: [ORIGIN, OTHER], " + settings + "}}\ndefaults: {cache: off}",
		prepare: func(s *fieldServer) {
			second = newCountedSite(s.T, other)
			s.write("sticky", strings.Repeat("s", 32))
			s.replace("OTHER", second.URL)
		},
		show: func(s *fieldServer) { show(s, second) },
	}
}

// balanceFields are tests of how addresses share requests.
func balanceFields() []fieldTest {
	failing := answer(http.StatusInternalServerError, "")
	ask := func(s *fieldServer, n int) {
		for i := range n {
			s.get(fmt.Sprint("/", i))
		}
	}
	ejected := func(s *fieldServer, text string) {
		s.contains(s.logged(`level=WARN msg="(an address of the origin is ejected[^\n]*)`), text)
	}
	return []fieldTest{
		sharedOrigin("origins.NAME.balance", "balance: round_robin", nil, func(s *fieldServer, other *countedSite) {
			ask(s, 10)
			if n := other.count(); n != 5 {
				s.Errorf("the second address got %d of 10 requests", n)
			}
			s.restart(strings.Replace(s.file, "round_robin", "first", 1))
			ask(s, 10)
			if n := other.count(); n != 5 {
				s.Errorf("with first, the second address got %d requests", n-5)
			}
		}),
		sharedOrigin("origins.NAME.weights", "balance: round_robin, weights: [1, 4]", nil, func(s *fieldServer, other *countedSite) {
			ask(s, 10)
			if n := other.count(); n != 8 {
				s.Errorf("the address of weight 4 got %d of 10 requests", n)
			}
		}),
		sharedOrigin("origins.NAME.ejection.failures origins.NAME.ejection.time", "balance: round_robin, ejection: {failures: 2, time: 59m, max_time: 1h}", failing,
			func(s *fieldServer, other *countedSite) {
				ask(s, 20)
				if n := other.count(); n != 2 {
					s.Errorf("the failing address got %d requests", n)
				}
				ejected(s, "time=59m")
			}),
		sharedOrigin("origins.NAME.ejection.max_time", "balance: round_robin, ejection: {failures: 1, time: 100ms, max_time: 101ms}", failing,
			func(s *fieldServer, _ *countedSite) {
				s.until("it is ejected for the second time", func() bool {
					ask(s, 2)
					return strings.Contains(s.log.String(), "time=101ms")
				})
			}),
		sharedOrigin("origins.NAME.sticky.cookie origins.NAME.sticky.secret", "balance: round_robin, sticky: {cookie: lb, secret: {file: DIR/sticky}}", nil,
			func(s *fieldServer, other *countedSite) {
				set, _, _ := strings.Cut(s.get("/").header.Get("Set-Cookie"), ";")
				if !strings.HasPrefix(set, "lb=") {
					s.Fatalf("the cookie is %q", set)
				}
				for range 4 {
					if again := s.get("/", "Cookie", set).header.Get("Set-Cookie"); again != "" {
						s.Errorf("a kept visitor got the cookie %q", again)
					}
				}
				if n := other.count(); n != 0 && n != 5 {
					s.Errorf("the second address got %d of the 5 requests of a visitor", n)
				}
				s.write("sticky", strings.Repeat("t", 32))
				s.restart(s.file)
				if again := s.get("/", "Cookie", set).header.Get("Set-Cookie"); again == "" {
					s.Error("with another secret the cookie is still valid")
				}
			}),
		sharedOrigin("origins.NAME.slow_start", "balance: round_robin, slow_start: 1h, ejection: {failures: 1, time: 100ms}", func(_ *countedSite, n int, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				w.WriteHeader(http.StatusBadGateway)
			}
		}, func(s *fieldServer, other *countedSite) {
			s.until("the address is back", func() bool { ask(s, 2); return other.count() > 1 })
			before := other.count()
			ask(s, 100)
			if n := other.count() - before; n > 35 { // without slow start 50; the bound is passed once in 10^10 runs
				s.Errorf("an address that is just back got %d of 100 requests", n)
			}
		}),
	}
}

// originTLSField shows how an https origin is connected to: it asks for a client certificate, speaks TLS 1.2 at most,
// and its certificate has the name example.com.
func originTLSField() fieldTest {
	const file = "origins: {site: {url: ORIGIN, host: app.internal, tls: {server_name: example.com, ca_file: DIR/cert, cert: DIR/cert, key: DIR/key}}}\ndefaults: {cache: off}"
	return fieldTest{
		fields: "origins.NAME.host origins.NAME.tls.server_name origins.NAME.tls.ca_file origins.NAME.tls.cert origins.NAME.tls.key origins.NAME.tls.min_version",
		file:   file,
		prepare: func(s *fieldServer) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, r.Host, " ", r.TLS.ServerName, " ", len(r.TLS.PeerCertificates))
			}))
			server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}
			server.StartTLS()
			s.Cleanup(server.Close)
			s.origin.URL = server.URL
			key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
			if err != nil {
				s.Fatal(err)
			}
			certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
			s.write("cert", certificate)
			s.write("key", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
		},
		show: func(s *fieldServer) {
			if got := s.get("/").body; got != "app.internal example.com 1" {
				s.Errorf("the origin got %q", got)
			}
			for _, change := range [][2]string{{"ca_file: DIR/cert, ", ""}, {"server_name: example.com", "server_name: example.net"}, {"tls: {", "tls: {min_version: \"1.3\", "}} {
				s.restart(strings.Replace(file, change[0], change[1], 1))
				if v := s.get("/"); v.code != http.StatusBadGateway {
					s.Errorf("with %s: %s", change[1], v)
				}
			}
			s.restart(strings.Replace(strings.Replace(file, "cert: DIR/cert, key: DIR/key", "", 1), "app.internal", "visitor", 1))
			if got := s.get("/", "Host", "localhost").body; got != "localhost example.com 0" {
				s.Errorf("without certificate the origin got %q", got)
			}
		},
	}
}
