package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// siteFields are tests of listeners, hosts, origins and presets.
func siteFields() []fieldTest {
	off := "\ndefaults: {cache: off}"
	return append(slices.Concat(originFields(), balanceFields(), []fieldTest{originTLSField()}), []fieldTest{
		{fields: "preset", file: "preset: next\ndefaults: {revalidate: 1h}", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.expect("/?_rsc=1", 200, stored, "RSC", "1")
			s.expect("/", 200, hit)
			s.expect("/api/a", 200, bypassed)
		}},
		{fields: "hosts", file: "hosts: [example.com]", show: func(s *fieldServer) {
			if v := s.get("/"); v.code != http.StatusMisdirectedRequest {
				s.Errorf("got %s", v)
			}
			s.expect("/", 200, "isr; fwd=", "Host", "example.com")
		}},
		{fields: "public_scheme", file: "public_scheme: https\ndefaults: {revalidate: 1h}", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.contains(s.origin.last().Header.Get("X-Forwarded-Proto"), "https")
		}},
		{fields: "listen[].address", file: "listen: [{address: FREE}, {address: localhost:0}]", show: func(s *fieldServer) {
			second := s.logged(`serving http://[^,]+, (http://[^"]+)`)
			if second == "" || second == s.url {
				s.Fatalf("the addresses are %s and %s", s.url, second)
			}
			s.expect("/", 200, "isr; fwd=")
			s.expect(second+"/", 200, "isr; fwd=")
		}},
		{
			fields: "listen[].tls[].cert listen[].tls[].key", file: "hosts: [127.0.0.1]\nlisten: [{address: 127.0.0.1:0, tls: [{cert: DIR/crt, key: DIR/key}]}]",
			prepare: tlsFiles,
			show: func(s *fieldServer) {
				s.expect("/", 200, "isr; fwd=")
				s.contains(s.url, "https://")
				s.contains(s.origin.last().Header.Get("X-Forwarded-Proto"), "https")
			},
		},
		policyField("min_version", `"1.3"`, func(s *fieldServer) {
			s.handshake(&tls.Config{MaxVersion: tls.VersionTLS12}, "protocol version not supported")
			s.handshake(&tls.Config{}, "")
		}),
		policyField("curves", "[X25519MLKEM768, P-256]", func(s *fieldServer) {
			s.handshake(&tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}, "handshake failure")
			for _, curve := range []tls.CurveID{tls.X25519MLKEM768, tls.CurveP256} {
				if state := s.handshake(&tls.Config{CurvePreferences: []tls.CurveID{curve}}, ""); state.CurveID != curve {
					s.Errorf("the key exchange is %s, not %s", state.CurveID, curve)
				}
			}
		}),
		policyField("ticket_keys", "DIR/tickets", resumesElsewhere),
		{
			fields: "listen[].http3 listen[].http3_port", prepare: tlsFiles,
			file: "hosts: [127.0.0.1]\nlisten: [{address: 127.0.0.1:0, tls: [{cert: DIR/crt, key: DIR/key}], http3: true, http3_port: 443}]\ndefaults: {revalidate: 1h}",
			show: func(s *fieldServer) {
				for range 2 { // a miss and a hit
					s.contains(s.expect("/", 200, "isr; ").header.Get("Alt-Svc"), `h3=":443"; ma=86400`)
				}
				transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a certificate of the test
				s.Cleanup(func() { _ = transport.Close() })
				s.client.Transport = transport
				if v := s.expect("/", 200, hit); v.header.Get("Alt-Svc") != "" {
					s.Error("HTTP/3 announces itself")
				}
				s.expect("/other", 200, stored)
			},
		},
		{
			fields: "listen[].redirect_https", file: "hosts: [127.0.0.1]\nlisten: [{address: 127.0.0.1:0, redirect_https: false}, {address: 127.0.0.1:0, tls: [{cert: DIR/crt, key: DIR/key}]}]",
			prepare: tlsFiles, show: func(s *fieldServer) { s.expect("/", 200, "isr; fwd=") },
		},
		{fields: "hsts", file: "public_scheme: https\nhsts: max-age=60; includeSubDomains\ndefaults: {revalidate: 1h}", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			for range 20 {
				s.contains(s.expect("/", 200, hit).header.Get("Strict-Transport-Security"), "max-age=60; includeSubDomains")
			}
		}},
		{fields: "listen[].h2c", file: "listen: [{address: 127.0.0.1:0, h2c: true}]", show: func(s *fieldServer) {
			s.client.Transport.(*http.Transport).Protocols = new(http.Protocols)
			s.client.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
			s.expect("/", 200, "isr; fwd=")
		}},
		{fields: "listen[].trusted_proxies", file: "listen: [{address: 127.0.0.1:0, trusted_proxies: [loopback]}]" + off, show: func(s *fieldServer) {
			s.expect("/", 200, bypassed, "X-Forwarded-For", "192.0.2.7", "X-Forwarded-Proto", "https")
			s.contains(s.origin.last().Header.Get("X-Forwarded-For"), "192.0.2.7")
			s.contains(s.origin.last().Header.Get("X-Forwarded-Proto"), "https")
		}},
		{
			fields: "listen[].trust_forwarded_host", file: "hosts: [a.example, b.example]\nlisten: [{address: 127.0.0.1:0, trusted_proxies: [loopback], trust_forwarded_host: true}]" + off,
			show: func(s *fieldServer) {
				s.expect("/", 200, bypassed, "Host", "a.example", "X-Forwarded-Host", "b.example", "X-Forwarded-Port", "8443")
				s.contains(s.origin.last().Header.Get("X-Forwarded-Host"), "b.example")
				s.contains(s.origin.last().Header.Get("X-Forwarded-Port"), "8443")
			},
		},
		{fields: "listen[].proxy_protocol", file: "listen: [{address: 127.0.0.1:0, trusted_proxies: [loopback], proxy_protocol: true}]" + off, show: func(s *fieldServer) {
			s.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				if err == nil {
					_, err = fmt.Fprint(c, "PROXY TCP4 192.0.2.8 127.0.0.1 1 2\r\n")
				}
				return c, err
			}
			s.expect("/", 200, bypassed)
			s.contains(s.origin.last().Header.Get("X-Forwarded-For"), "192.0.2.8")
		}},
		{fields: "fast_path", file: "defaults: {revalidate: 1h}\nfast_path: false\nmetrics: {address: 127.0.0.1:0}", show: func(s *fieldServer) {
			s.expect("/", 200, "isr; fwd=miss")
			for range 20 {
				s.expect("/", 200, "isr; hit")
			}
			s.contains(s.get(s.logged(`metrics on (http://[^"\s]+)`)).body, "isr_fast_path_hits_total 0")
		}},
		{fields: "client_timeout", file: "client_timeout: 1s" + off, show: func(s *fieldServer) {
			at, err := url.Parse(s.url)
			if err != nil {
				s.Fatal(err)
			}
			c, err := net.Dial("tcp", at.Host)
			if err != nil {
				s.Fatal(err)
			}
			defer c.Close()
			_ = c.SetReadDeadline(time.Now().Add(fieldPatience)) // by default it would take a minute
			fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nhalf")
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil || res.StatusCode != http.StatusRequestTimeout {
				s.Errorf("got %v, %v", res, err)
			}
		}},
	}...)
}

// policyField is the test of a field of tls_policy.
func policyField(name, value string, show func(*fieldServer)) fieldTest {
	return fieldTest{
		fields: "listen[].tls_policy." + name, show: show,
		file: "hosts: [127.0.0.1]\nlisten: [{address: 127.0.0.1:0, tls: [{cert: DIR/crt, key: DIR/key}], tls_policy: {" + name + ": " + value + "}}]",
		prepare: func(s *fieldServer) {
			tlsFiles(s)
			s.write("tickets", base64.StdEncoding.EncodeToString(make([]byte, 32))+"\n")
		},
	}
}

// handshake makes a handshake with the server, and returns its state. It fails with problem, unless that is empty.
func (s *fieldServer) handshake(config *tls.Config, problem string) tls.ConnectionState {
	s.Helper()
	config.InsecureSkipVerify, config.ServerName = true, "a.test" // a certificate of the test
	c, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), config)
	switch {
	case problem != "" && (err == nil || !strings.Contains(err.Error(), problem)):
		s.Fatalf("the handshake ends with %v, not %s", err, problem)
	case problem != "":
		return tls.ConnectionState{}
	case err != nil:
		s.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState()
}

// resumesElsewhere: the server resumes the session of a ticket that another server with the same key has issued.
func resumesElsewhere(s *fieldServer) {
	certificate, err := tls.LoadX509KeyPair(s.dir+"/crt", s.dir+"/key")
	if err != nil {
		s.Fatal(err)
	}
	other := httptest.NewUnstartedServer(http.NotFoundHandler())
	other.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	other.TLS.SetSessionTicketKeys([][32]byte{{}})
	other.StartTLS()
	defer other.Close()
	sessions := tls.NewLRUClientSessionCache(1)
	client := other.Client()
	client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true, ServerName: "a.test", ClientSessionCache: sessions} //nolint:gosec // a certificate of the test
	res, err := client.Get(other.URL)
	if err != nil {
		s.Fatal(err)
	}
	_ = res.Body.Close()
	if !s.handshake(&tls.Config{ClientSessionCache: sessions}, "").DidResume {
		s.Error("the session of the other server is not resumed")
	}
}

// concurrent sends n requests at the same time, and returns their responses.
func (s *fieldServer) concurrent(n int) []visit {
	visits := make([]visit, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			v, err := s.try(http.MethodGet, fmt.Sprint("/", i))
			if err != nil {
				s.Error(err)
			}
			visits[i] = v
		})
	}
	all.Wait()
	return visits
}

// A crowd counts concurrent requests.
type crowd struct{ now, most atomic.Int64 }

// answer takes some time.
func (c *crowd) answer(_ *countedSite, _ int, w http.ResponseWriter, _ *http.Request) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	time.Sleep(30 * time.Millisecond)
	fmt.Fprint(w, "a page")
}

// fullPort returns the address of a listener that accepts no more connections: those to it
// hang.
func fullPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
	for late, i := 0, 0; i < 8; i++ {
		c, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		switch {
		case err == nil:
			late = 0
			t.Cleanup(func() { _ = c.Close() })
		case late == 2: // a busy machine may be late once
			return address
		default:
			late++
		}
	}
	t.Fatal("the port is never full")
	return ""
}

// unhealthy returns a second server, whose checks fail or hang, and that answers
// everything else.
func unhealthy(t *testing.T, check siteHandler) *countedSite {
	return newCountedSite(t, func(s *countedSite, n int, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			check(s, n, w, r)
			return
		}
		fmt.Fprint(w, "down")
	})
}

func originFields() []fieldTest {
	var renders, passing crowd
	return []fieldTest{
		{fields: "origins.NAME.url", file: "origins: {site: {url: ['http://127.0.0.1:1', 'ORIGIN'], balance: first}}", show: func(s *fieldServer) {
			s.expect("/", 200, "isr; fwd=")
		}},
		{fields: "origins.NAME.demo", file: "origins: {site: {demo: true}}", show: func(s *fieldServer) {
			s.contains(s.expect("/", 200, stored).body, "<html")
		}},
		{
			fields: "origins.NAME.max_renders", file: "origins: {site: {url: ORIGIN, max_renders: 1}}\ndefaults: {revalidate: 1h}", origin: renders.answer,
			show: func(s *fieldServer) {
				s.concurrent(4)
				if n := renders.most.Load(); n != 1 {
					s.Errorf("%d concurrent renders", n)
				}
			},
		},
		{
			fields: "origins.NAME.breaker_failures", file: "origins: {site: {url: 'http://127.0.0.1:1', breaker_failures: 2}}\ndefaults: {revalidate: 1h}",
			show: func(s *fieldServer) {
				for i := range 2 {
					s.contains(s.get(fmt.Sprint("/", i)).status, "detail=render-failed")
				}
				s.contains(s.get("/2").status, "detail=origin-failing")
			},
		},
		{
			fields: "origins.NAME.max_connections", file: "origins: {site: {url: ORIGIN, max_connections: 4}}\ndefaults: {cache: off}", origin: passing.answer,
			show: func(s *fieldServer) {
				s.concurrent(4)
				if n := passing.most.Load(); n != 1 { // a quarter
					s.Errorf("%d concurrent requests of a client", n)
				}
			},
		},
		{
			fields: "origins.NAME.connect_timeout", prepare: func(s *fieldServer) { s.origin.URL = "http://" + fullPort(s.T) },
			file: "origins: {site: {url: ORIGIN, connect_timeout: 50ms, response_timeout: 1h}}\ndefaults: {cache: off}",
			show: func(s *fieldServer) {
				s.until("a request fails sooner than after 5s, which is the default", func() bool {
					began := time.Now()
					if v := s.get("/"); v.code < 500 {
						s.Fatalf("got %s", v)
					}
					if time.Since(began) < 4900*time.Millisecond {
						return true
					}
					s.restart("origins: {site: {url: ORIGIN, connect_timeout: 50ms, response_timeout: 1h}}\ndefaults: {cache: off}") // its circuit breaker is closed
					return false
				})
			},
		},
		{
			fields: "origins.NAME.response_timeout", file: "origins: {site: {url: ORIGIN, response_timeout: 50ms}}\ndefaults: {cache: off}", origin: held,
			show: func(s *fieldServer) {
				if v := s.get("/"); v.code != http.StatusGatewayTimeout {
					s.Errorf("got %s", v)
				}
			},
		},
		healthTest("path interval", "interval: 100ms, timeout: 100ms, failures: 1", answer(503, ""), "checks=1"),
		healthTest("timeout", "interval: 200ms, timeout: 50ms, failures: 1", held, "checks=1"),
		healthTest("failures", "interval: 100ms, timeout: 100ms, failures: 3", answer(503, ""), "checks=3"),
	}
}

// healthTest shows that requests go to the second address once checks of the first have
// failed.
func healthTest(fields, health string, check siteHandler, logged string) fieldTest {
	var names []string
	for _, name := range strings.Fields(fields) {
		names = append(names, "origins.NAME.health."+name)
	}
	var down *countedSite
	return fieldTest{
		fields:  strings.Join(names, " "),
		file:    "origins: {site: {url: ['DOWN', 'ORIGIN'], balance: first, health: {path: /healthz, " + health + "}}}\ndefaults: {cache: off}",
		prepare: func(s *fieldServer) { down = unhealthy(s.T, check); s.replace("DOWN", down.URL) },
		show: func(s *fieldServer) {
			s.until("the first address is down", func() bool { return s.get("/").body != "down" })
			s.until("the log has "+logged, func() bool { return strings.Contains(s.log.String(), logged) })
			checks := down.count()
			s.until("the checks go on", func() bool { return down.count() > checks+2 })
		},
	}
}
