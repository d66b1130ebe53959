package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/testbed"
)

// certificate writes the certificate of a.test.
func certificate(t *testing.T) config.Certificate {
	t.Helper()
	dir := t.TempDir()
	c := config.Certificate{Cert: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key")}
	testbed.WriteCertificate(t, c.Cert, c.Key, 1, "a.test")
	return c
}

// Each listener has its protocols, its own trusted proxies, and serves the hosts with its
// port only.
func TestListeners(t *testing.T) {
	f := &config.File{Hosts: []string{"a.test"}, Listen: []config.Listener{
		{Address: "127.0.0.1:0"},
		{Address: "127.0.0.1:0", H2C: true, TrustedProxies: []string{"loopback"}},
		{Address: "127.0.0.1:0", TLS: []config.Certificate{certificate(t)}},
	}}
	p := serveFile(t, f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %t %s", r.Proto, r.TLS != nil, r.Header.Get("X-Forwarded-Proto"))
	}))
	h1, h2, h2c := new(http.Protocols), new(http.Protocols), new(http.Protocols)
	h1.SetHTTP1(true)
	h2.SetHTTP2(true)
	h2c.SetUnencryptedHTTP2(true)
	for _, c := range []struct {
		listener  int
		scheme    string
		protocols *http.Protocols
		want      string
	}{
		{0, "http", h1, "HTTP/1.1 false "},
		{0, "http", h2c, ""},
		{1, "http", h1, "HTTP/1.1 false ftp"},
		{1, "http", h2c, "HTTP/2.0 false ftp"},
		{2, "https", h1, "HTTP/1.1 true "},
		{2, "https", h2, "HTTP/2.0 true "},
		{2, "http", h1, "Client sent an HTTP request to an HTTPS server.\n"},
	} {
		client := &http.Client{Transport: &http.Transport{Protocols: c.protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a certificate of the test
		address := p.now().listeners[c.listener].inner.Addr()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.scheme+"://"+address.String(), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := strings.Cut(address.String(), ":")
		r.Host = "a.test:" + port
		r.Header.Set("X-Forwarded-Proto", "https")
		res, err := client.Do(r)
		if err != nil {
			if c.want != "" {
				t.Errorf("listener %d by %s: %v", c.listener, c.protocols, err)
			}
			continue
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if got, want := string(body), strings.Replace(c.want, "ftp", "https", 1); got != want || err != nil {
			t.Errorf("listener %d by %s: got %q, %v; expected %q", c.listener, c.protocols, got, err, want)
		}
		client.CloseIdleConnections()
	}
	if h := p.served(); !h.Serve("a.test:"+port(p, 0)) || !h.Serve("a.test:"+port(p, 2)) || h.Serve("b.test") {
		t.Error("the admin API knows other hosts than the listeners")
	}
	other := &setup{ServeCommand: new(ServeCommand), file: &config.File{Hosts: []string{"b.test"}, Listen: f.Listen}}
	p.edge(p.now(), other, http.NotFoundHandler(), nil, newHealth())
	if h := p.served(); h.Serve("a.test") || !h.Serve("b.test") {
		t.Error("after a change of hosts, the old ones are served")
	}
}

// Requests of which it is ambiguous where they end are refused by every kind of listener, which knows its clients all the same.
func TestAmbiguousRequests(t *testing.T) {
	proxies := []string{"loopback"}
	f := &config.File{Hosts: []string{"*"}, Listen: []config.Listener{
		{Address: "127.0.0.1:0"},
		{Address: "127.0.0.1:0", H2C: true},
		{Address: "127.0.0.1:0", TLS: []config.Certificate{certificate(t)}},
		{Address: "127.0.0.1:0", ProxyProtocol: true, TrustedProxies: proxies},
		{Address: "127.0.0.1:0", ProxyProtocol: true, TrustedProxies: proxies, H2C: true},
		{Address: "127.0.0.1:0", ProxyProtocol: true, TrustedProxies: proxies, TLS: []config.Certificate{certificate(t)}},
	}}
	p := serveFile(t, f, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%t %s", unnamed(r), r.RemoteAddr)
	}))
	const chunked = "Transfer-Encoding: chunked\r\n"
	for i, l := range p.now().listeners {
		ask := func(proxied, request string) string {
			c, err := net.Dial("tcp", l.inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { c.Close() }()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			if l.cfg.ProxyProtocol {
				_, _ = io.WriteString(c, proxied)
			}
			if l.tls != nil {
				c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}) //nolint:gosec // a certificate of the test
			}
			_, _ = io.WriteString(c, request)
			answer, err := io.ReadAll(c)
			if err != nil {
				t.Fatalf("listener %d: %q: got %q, %v", i, request, answer, err)
			}
			return string(answer)
		}
		const proxied = "PROXY TCP4 192.0.2.7 127.0.0.1 1 2\r\n"
		for _, request := range []string{
			"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n" + chunked + "\r\n0\r\n\r\n",
			"POST / HTTP/1.1\r\nHost: a.test\r\n" + chunked + "Content-Length: 5\r\n\r\n0\r\n\r\n",
			"GET / HTTP/1.0\r\nHost: a.test\r\nConnection: keep-alive\r\n" + chunked + "\r\n0\r\n\r\n",
		} {
			if got := ask(proxied, request); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
				t.Errorf("listener %d: %q: got %q", i, request, got)
			}
		}
		if !l.cfg.ProxyProtocol {
			continue
		}
		const request = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
		if got := ask(proxied, request); !strings.HasSuffix(got, "false 192.0.2.7:1") {
			t.Errorf("listener %d: got %q", i, got)
		}
		if got := ask("PROXY UNKNOWN\r\n", request); !strings.Contains(got, "\r\n\r\ntrue ") {
			t.Errorf("listener %d: an unknown client: got %q", i, got)
		}
	}
}

func port(p *public, i int) string {
	_, port, _ := strings.Cut(p.now().listeners[i].inner.Addr().String(), ":")
	return port
}

// A client that reads nothing of a response by HTTP/2 does not hold it for longer than the
// client timeout.
func TestStalledStreamEnds(t *testing.T) {
	f := &config.File{Hosts: []string{"*"}, Listen: []config.Listener{{Address: "127.0.0.1:0", H2C: true}}}
	p, of, err := listen(t, f, 100*time.Millisecond, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	p.edge(p.now(), of, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		ended <- err
	}), nil, newHealth())
	p.serve(context.Background(), p.now())
	t.Cleanup(func() { p.stop(context.Background()) })
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: h2c}}
	res, err := client.Get("http://" + p.now().listeners[0].inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the whole response was written to a client that reads nothing")
		}
	case <-time.After(5 * time.Minute):
		t.Error("the response is held")
	}
}

// listenPage listens at one address, at which a page is to be served.
func listenPage(t *testing.T) *public {
	t.Helper()
	f := &config.File{Hosts: []string{"*"}, Listen: []config.Listener{{Address: "127.0.0.1:0"}}}
	p, of, err := listen(t, f, time.Minute, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.limits = httpconn.NewConnections(httpconn.ConnectionLimits{})
	p.edge(p.now(), of, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") }), nil, newHealth())
	return p
}

// A request that comes while the server stops is answered, also if net/http takes its connection for idle.
func TestStopAnswersWhatComes(t *testing.T) {
	p := listenPage(t)
	p.serve(context.Background(), p.now())
	address := p.now().listeners[0].inner.Addr().String()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	in := bufio.NewReader(c)
	const request = "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
	fmt.Fprint(c, request)
	receive := func() {
		t.Helper()
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "page" {
			t.Fatalf("%q, %v", body, err)
		}
	}
	receive()
	fmt.Fprint(c, request[:1])
	for !p.limits.Arriving() {
		time.Sleep(time.Millisecond)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		p.stop(context.Background())
	}()
	for err == nil {
		var other net.Conn
		if other, err = net.Dial("tcp", address); err == nil {
			other.Close()
		}
	}
	for rest := range slices.Chunk([]byte(request[1:]), 8) { // within the time for a header
		_, _ = c.Write(rest)
		time.Sleep(time.Millisecond)
	}
	receive()
	<-stopped
}

// Connections that wait to be accepted when the server stops are accepted, and their requests are answered.
func TestStopAcceptsWhatWaits(t *testing.T) {
	p := listenPage(t)
	var waiting []net.Conn
	for range 50 {
		c, err := net.Dial("tcp", p.now().listeners[0].inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")
		waiting = append(waiting, c)
	}
	p.serve(context.Background(), p.now())
	p.stop(context.Background())
	for i, c := range waiting {
		if answer, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(answer), "page") {
			t.Errorf("connection %d: %q, %v", i, answer, err)
		}
	}
}

// Listeners that cannot be opened name their address, and leave no other one open.
func TestListenFails(t *testing.T) {
	first, _, err := listen(t, &config.File{Listen: []config.Listener{{Address: "127.0.0.1:0"}}}, time.Minute, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	taken := first.now().listeners[0].inner.Addr().String()
	if _, _, err := listen(t, &config.File{Listen: []config.Listener{{Address: "127.0.0.1:0"}, {Address: taken}}}, time.Minute, slog.Default()); err == nil || !strings.Contains(err.Error(), "cannot listen on "+taken) {
		t.Errorf("got %v", err)
	}
	var log bytes.Buffer
	bad := config.Listener{Address: "127.0.0.1:0", TLS: []config.Certificate{{Cert: "none.crt", Key: "none.key"}}}
	if _, _, err := listen(t, &config.File{Listen: []config.Listener{bad}}, time.Minute, slog.New(slog.NewTextHandler(&log, nil))); err == nil || !strings.Contains(err.Error(), "certificate none.crt with key none.key") {
		t.Errorf("got %v", err)
	}
	roots := filepath.Join(t.TempDir(), "roots")
	if err := os.WriteFile(roots, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cfg  config.ACME
		want string
	}{
		{config.ACME{CAFile: "none.crt"}, "acme.ca_file: open none.crt"},
		{config.ACME{CAFile: roots}, "has no certificate in PEM"},
		{config.ACME{Storage: filepath.Join(roots, "x")}, "acme.storage: "},
	} {
		f := &config.File{Listen: []config.Listener{{Address: "127.0.0.1:0", ACME: true}}, Hosts: []string{"a.test"}, ACME: c.cfg}
		if _, _, err := listen(t, f, time.Minute, slog.Default()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
