package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/handover"
)

// listen opens the listeners of a file, which do not serve yet.
func listen(t *testing.T, f *config.File, clientTimeout time.Duration, log *slog.Logger) (*public, *setup, error) {
	t.Helper()
	s := &setup{ServeCommand: new(ServeCommand), file: f}
	s.Data, s.ClientTimeout = t.TempDir(), cli.Span(clientTimeout)
	p := &public{failed: make(chan error, 1), sockets: new(handover.Sockets), log: log}
	opened, err := p.open(t.Context(), s)
	if err == nil {
		p.present.Store(opened)
	}
	return p, s, err
}

// serveFile serves the listeners of a file until the test ends.
func serveFile(t *testing.T, f *config.File, h http.Handler) *public {
	t.Helper()
	p, of, err := listen(t, f, time.Minute, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p.edge(p.now(), of, h, nil, newHealth())
	p.serve(context.Background(), p.now())
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
		c, err := net.Dial("tcp", p.now().listeners[0].inner.Addr().String())
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
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.now().listeners[1].inner.Addr().String()+"/a", http.NoBody)
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
