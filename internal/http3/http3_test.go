package http3_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	quichttp "github.com/quic-go/quic-go/http3"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/http3"
	"github.com/facetheory/isr/internal/testbed"
)

// A served is a server of a test.
type served struct {
	socket *http3.Socket
	config http3.Config
	server *http3.Server
	log    testbed.Log
}

// serve serves a handler until the test ends. change may change the configuration.
func serve(t *testing.T, h http.HandlerFunc, change func(*http3.Config)) *served {
	t.Helper()
	dir := t.TempDir()
	testbed.WriteCertificate(t, dir+"/crt", dir+"/key", 1, "a.test")
	certificate, err := tls.LoadX509KeyPair(dir+"/crt", dir+"/key")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &served{socket: http3.NewSocket(conn)}
	s.config = http3.Config{
		TLS:     &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"h3"}},
		Handler: h, Context: func(ctx context.Context) context.Context { return ctx },
		Peer:   func(a net.Addr) (netip.Prefix, bool) { return canonical.Client(a.String()), true },
		Limits: http3.NewLimits(0, 64), Requests: new(atomic.Int64),
		HeaderBytes: 64 << 10, HeaderTime: 10 * time.Second, IdleTime: 30 * time.Second,
		Streams: 100, StreamWindow: 128 << 10, ConnectionWindow: 512 << 10,
		Log: slog.New(slog.NewTextHandler(&s.log, nil)),
	}
	if change != nil {
		change(&s.config)
	}
	if s.server, err = s.socket.Serve(s.config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if s.server != nil {
			s.server.Stop(ended)
		}
		s.socket.Release()
	})
	return s
}

// client returns a client of HTTP/3, which has the sessions of a cache.
func client(t *testing.T, sessions tls.ClientSessionCache) *http.Client {
	t.Helper()
	transport := &quichttp.Transport{TLSClientConfig: &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, ClientSessionCache: sessions}} //nolint:gosec // a certificate of the test
	t.Cleanup(func() { _ = transport.Close() })
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func (s *served) url(path string) string { return "https://" + s.socket.Addr().String() + path }

// ask sends a request, and returns the response and its body.
func (s *served) ask(t *testing.T, c *http.Client, method, path string, body io.Reader) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url(path), body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// Requests reach the handler as they do over HTTP/2: without a body if they have none, and responses have no fields of a connection.
func TestRequests(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.Header().Set("Transfer-Encoding", "chunked")
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %d %t %d %v", r.Proto, r.Method, r.Host, r.ContentLength, r.Body == http.NoBody, len(body), err)
	}, nil)
	c, host := client(t, nil), s.socket.Addr().String()
	for _, tt := range []struct {
		method string
		body   io.Reader
		want   string
	}{
		{"GET", nil, "0 true 0 <nil>"},
		{"DELETE", nil, "0 true 0 <nil>"},
		{"GET", io.MultiReader(strings.NewReader("body")), "-1 false 4 <nil>"},
		{"POST", strings.NewReader(strings.Repeat("x", 1<<20)), "1048576 false 1048576 <nil>"},
		{"POST", io.MultiReader(strings.NewReader("body")), "-1 false 4 <nil>"},
	} {
		res, body := s.ask(t, c, tt.method, "/", tt.body)
		if want := "HTTP/3.0 " + tt.method + " " + host + " " + tt.want; body != want {
			t.Errorf("got %q, want %q", body, want)
		}
		if res.Header.Get("Connection") != "" || res.Header.Get("Transfer-Encoding") != "" {
			t.Errorf("the response has fields of a connection: %v", res.Header)
		}
	}
	if n := s.config.Requests.Load(); n != 5 {
		t.Errorf("%d requests are counted", n)
	}
}

// A panic resets the stream alone. The log has it, unless the handler aborts the response.
func TestPanic(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/panic":
			panic("a fault")
		}
	}, nil)
	c := client(t, nil)
	for _, path := range []string{"/abort", "/panic"} {
		if res, err := c.Get(s.url(path)); err == nil {
			_ = res.Body.Close()
			t.Errorf("%s: got %s", path, res.Status)
		}
	}
	if res, _ := s.ask(t, c, "GET", "/", nil); res.StatusCode != http.StatusOK {
		t.Errorf("got %s", res.Status)
	}
	if text := s.log.String(); strings.Count(text, "panic serving") != 1 || !strings.Contains(text, "a fault") {
		t.Errorf("the log is %q", text)
	}
}

// A request whose end does not come, and a head that is too large, are refused.
func TestUnfinished(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") }, func(cfg *http3.Config) { cfg.HeaderTime = 100 * time.Millisecond })
	c := client(t, nil)
	unfinished, end := io.Pipe()
	defer end.Close()
	if res, _ := s.ask(t, c, "GET", "/", unfinished); res.StatusCode != http.StatusRequestTimeout {
		t.Errorf("got %s", res.Status)
	}
	r, err := http.NewRequest(http.MethodGet, s.url("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Large", strings.Repeat("x", 65<<10))
	if res, err := c.Do(r); err == nil {
		defer res.Body.Close()
		if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("got %s", res.Status)
		}
	}
}

// A connection without a request that is being served is closed, although it has a head that does not become complete.
func TestIdle(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, func(cfg *http3.Config) { cfg.IdleTime = 200 * time.Millisecond })
	q, err := quic.DialAddr(t.Context(), s.socket.Addr().String(), &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, NextProtos: []string{"h3"}}, //nolint:gosec // a certificate of the test
		&quic.Config{KeepAlivePeriod: 50 * time.Millisecond, MaxIdleTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := q.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Write([]byte{1, 0x40, 200, 0}); err != nil { // HEADERS of 200 bytes, of which one comes
		t.Fatal(err)
	}
	select {
	case <-q.Context().Done():
		var closed *quic.ApplicationError
		if err := context.Cause(q.Context()); !errors.As(err, &closed) || !closed.Remote || closed.ErrorMessage != "idle" {
			t.Errorf("the connection ended by %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the connection is not closed")
	}
}

// One connection more than a client may have is refused, and accepted once another is closed.
func TestLimits(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, func(cfg *http3.Config) { cfg.Limits.SetPerClient(2) })
	first, second := client(t, nil), client(t, nil)
	s.ask(t, first, "GET", "/", nil)
	s.ask(t, second, "GET", "/", nil)
	if res, err := client(t, nil).Get(s.url("/")); err == nil {
		_ = res.Body.Close()
		t.Fatal("a third connection was accepted")
	}
	if open, refused := s.config.Limits.Count(); open != 2 || refused == 0 {
		t.Errorf("%d connections, %d refused", open, refused)
	}
	if err := first.Transport.(*quichttp.Transport).Close(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if open, _ := s.config.Limits.Count(); open == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a connection that is closed is counted")
		}
		time.Sleep(time.Millisecond)
	}
	s.ask(t, client(t, nil), "GET", "/", nil)
}

// While many connections have not confirmed their address, a further one must, and still gets through. Packets with invented
// addresses then get no connection.
func TestRetry(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, nil)
	// Clients that send the beginning of a handshake, and never answer.
	for range 12 {
		silent, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		muted := &mute{UDPConn: silent}
		transport := &quic.Transport{Conn: muted}
		ctx, cancel := context.WithCancel(t.Context())
		var dialing sync.WaitGroup
		dialing.Go(func() {
			_, _ = transport.Dial(ctx, s.socket.Addr(), &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, NextProtos: []string{"h3"}}, nil) //nolint:gosec // fails
		})
		t.Cleanup(func() {
			cancel()
			dialing.Wait()
			_ = transport.Close()
			_ = silent.Close()
		})
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if open, _ := s.config.Limits.Count(); open == 8 {
			break
		} else if open > 8 || time.Now().After(deadline) {
			t.Fatalf("%d connections of addresses that are not confirmed", open)
		}
		time.Sleep(time.Millisecond)
	}
	s.ask(t, client(t, nil), "GET", "/", nil)
}

// A mute connection receives nothing.
type mute struct{ *net.UDPConn }

func (m *mute) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	for {
		if _, _, _, _, err = m.UDPConn.ReadMsgUDP(b, oob); err != nil {
			return 0, 0, 0, nil, err
		}
	}
}

func (m *mute) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		if _, _, err := m.UDPConn.ReadFrom(b); err != nil {
			return 0, nil, err
		}
	}
}

// SyscallConn hides the socket, so that packets are read by ReadFrom.
func (m *mute) SyscallConn() {}

// Early data of a safe request is served at once, and marked for the origin; another request waits for the end of the handshake.
func TestEarlyData(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Method, r.Header.Get("Early-Data"))
	}, nil)
	sessions := tls.NewLRUClientSessionCache(8)
	visit := func(method string) string {
		t.Helper()
		transport := &quichttp.Transport{TLSClientConfig: &tls.Config{ServerName: "a.test", InsecureSkipVerify: true, ClientSessionCache: sessions}} //nolint:gosec // a certificate of the test
		defer transport.Close()
		_, body := s.ask(t, &http.Client{Transport: transport, Timeout: time.Minute}, method, "/", nil)
		return body
	}
	if got := visit(http.MethodGet); got != "GET" {
		t.Errorf("the first visit gets %q", got)
	}
	// The ticket comes after the response, and the handshake may end before a request is served: it is then no early data.
	for deadline := time.Now().Add(time.Minute); ; {
		got := visit(quichttp.MethodGet0RTT)
		if got == "GET1" {
			break
		}
		if got != "GET" || time.Now().After(deadline) {
			t.Fatalf("early data gets %q", got)
		}
	}
	for range 5 {
		if got := visit(quichttp.MethodHead0RTT); got != "" {
			t.Errorf("HEAD gets %q", got)
		}
	}
}

// A second server at the socket has the new connections, while requests of the first finish.
func TestReplace(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(begun)
			<-end
		}
		fmt.Fprint(w, "first")
	}, nil)
	c := client(t, nil)
	var asking sync.WaitGroup
	asking.Go(func() {
		if _, body := s.ask(t, c, "GET", "/slow", nil); body != "first" {
			t.Errorf("got %q", body)
		}
	})
	<-begun
	first := s.server
	next := s.config
	next.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "second") })
	var err error
	if s.server, err = s.socket.Serve(next); err != nil {
		t.Fatal(err)
	}
	first.StopAccepting()
	if _, body := s.ask(t, client(t, nil), "GET", "/", nil); body != "second" {
		t.Errorf("got %q", body)
	}
	asking.Go(func() { first.Stop(t.Context()) })
	// The client is told by GOAWAY, and connects again.
	for deadline := time.Now().Add(time.Minute); ; {
		res, err := c.Get(s.url("/"))
		if err == nil {
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if string(body) == "second" {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the client does not reach the second server: %v", err)
		}
	}
	close(end)
	asking.Wait()
}

// A large response is received whole although the server stops as soon as it is written. One that does not end is canceled.
func TestStop(t *testing.T) {
	page := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	written := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/endless" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		defer close(written)
		_, _ = io.WriteString(w, page)
	}, nil)
	c := client(t, nil)
	var asking sync.WaitGroup
	asking.Go(func() {
		if _, body := s.ask(t, c, "GET", "/", nil); body != page {
			t.Errorf("got %d bytes", len(body))
		}
	})
	res, err := c.Get(s.url("/endless"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	<-written
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	s.server.Stop(ctx)
	s.server = nil
	asking.Wait()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the endless response ends well")
	}
	if !strings.Contains(s.log.String(), "requests canceled at shutdown") {
		t.Errorf("the log is %q", s.log.String())
	}
}
