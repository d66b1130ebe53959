package httpconn

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A limitedServer is a server with limits of connections.
type limitedServer struct {
	*testing.T
	limits  *Connections
	address string
}

// byAddress takes each address for a client; only the addresses of proxies are not limited.
func byAddress(proxies ...string) Peer {
	return func(a net.Addr) (netip.Prefix, bool) {
		at, err := netip.ParseAddrPort(a.String())
		if err != nil {
			return netip.Prefix{}, false
		}
		for _, p := range proxies {
			if at.Addr().String() == p {
				return netip.PrefixFrom(at.Addr(), 32), false
			}
		}
		return netip.PrefixFrom(at.Addr(), 32), true
	}
}

// serveLimited serves h. wrap, unless it is nil, changes the listener that connections are accepted from, and around that one
// that is served on.
func serveLimited(t *testing.T, limits ConnectionLimits, peer Peer, h http.HandlerFunc, configure func(*httptest.Server), around func(net.Listener) net.Listener) *limitedServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(LimitStreams(h, time.Minute))
	s.Listener.Close()
	limits.Logger = slog.New(slog.DiscardHandler)
	k := NewConnections(limits)
	coalescing := CoalesceWrites(s.Config, l, time.Minute)
	k.Limit(s.Config, coalescing, peer)
	s.Listener = coalescing
	if around != nil {
		s.Listener = around(coalescing)
	}
	if configure == nil {
		configure = (*httptest.Server).Start
	}
	configure(s)
	t.Cleanup(s.Close)
	return &limitedServer{t, k, l.Addr().String()}
}

// A visitor is a connection of a client.
type visitor struct {
	*testing.T
	net.Conn
	r *bufio.Reader
}

// visit connects from an address of this machine.
func (s *limitedServer) visit(from string) *visitor {
	s.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.Dial("tcp", s.address)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	return &visitor{s.T, c, bufio.NewReader(c)}
}

// ask sends a request, and reports whether there is a response.
func (v *visitor) ask(path string) bool {
	fmt.Fprintf(v, "GET %s HTTP/1.1\r\nHost: h\r\n\r\n", path)
	res, err := http.ReadResponse(v.r, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
	}
	return err == nil
}

// closed waits until the server has closed the connection.
func (v *visitor) closed(what string) {
	v.Helper()
	if _, err := v.r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		v.Errorf("%s is not closed: %v", what, err)
	}
}

// waiting waits until n connections wait for requests.
func (s *limitedServer) waiting(n int) {
	s.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		waiting := 0
		s.limits.mu.Lock()
		for _, conns := range s.limits.clients {
			for c := range conns {
				if c.waiting() && c.waitingSince() != c.accepted {
					waiting++
				}
			}
		}
		s.limits.mu.Unlock()
		if waiting == n {
			return
		}
		if time.Since(began) > 5*time.Minute {
			s.Fatalf("%d connections wait, expected %d", waiting, n)
		}
	}
}

// paths runs a test with and without the fast path.
func paths(t *testing.T, test func(t *testing.T, configure func(*httptest.Server))) {
	t.Run("net/http", func(t *testing.T) { test(t, (*httptest.Server).Start) })
	t.Run("fast path", func(t *testing.T) {
		test(t, func(s *httptest.Server) {
			NewFastPath(s.Config, s.Listener, &fake{body: []byte("fast")})
			s.Start()
		})
	})
}

func nothing(http.ResponseWriter, *http.Request) {}

// If there are too many connections, the connections of the client that has most are closed, from the one that has waited
// longest.
func TestOldestOfLargestClient(t *testing.T) {
	t.Parallel()
	paths(t, func(t *testing.T, configure func(*httptest.Server)) {
		s := serveLimited(t, ConnectionLimits{Total: 4}, byAddress(), nothing, configure, nil)
		other := s.visit("127.0.0.3")
		first, second, third := s.visit("127.0.0.2"), s.visit("127.0.0.2"), s.visit("127.0.0.2")
		for i, v := range []*visitor{other, second, first, third, first, first} {
			if !v.ask("/fast") {
				t.Fatal("no response")
			}
			s.waiting(min(i+1, 4)) // which begins after the response
		}
		if !s.visit("127.0.0.4").ask("/fast") {
			t.Error("a new client gets no response")
		}
		second.closed("the connection that has waited longest")
		s.waiting(4)
		for _, v := range []*visitor{other, third, first} {
			if !v.ask("/fast") {
				t.Error("a connection is closed that has waited less, or of another client")
			}
		}
		if got := s.limits.Count(); got.Open != 4 || got.Reclaimed != 1 || got.Refused != 0 {
			t.Errorf("counted %+v", got)
		}
	})
}

// A client that has as many connections as it may have gets room from its own, if one waits. Others are not
// concerned.
func TestConnectionsOfOneClient(t *testing.T) {
	t.Parallel()
	paths(t, func(t *testing.T, configure func(*httptest.Server)) {
		busy, release := make(chan struct{}), make(chan struct{})
		s := serveLimited(t, ConnectionLimits{PerClient: 2}, byAddress("127.0.0.9"), func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				busy <- struct{}{}
				<-release
			}
		}, configure, nil)
		serving, idle := s.visit("127.0.0.2"), s.visit("127.0.0.2")
		if !serving.ask("/fast") || !idle.ask("/fast") {
			t.Fatal("no response")
		}
		s.waiting(2)
		fmt.Fprint(serving, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
		<-busy
		second := s.visit("127.0.0.2")
		idle.closed("the connection that waits")
		fmt.Fprint(second, "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
		<-busy
		s.visit("127.0.0.2").closed("a connection too many")
		for range 3 {
			if !s.visit("127.0.0.3").ask("/fast") || !s.visit("127.0.0.9").ask("/fast") {
				t.Error("another client or a proxy gets no response")
			}
		}
		close(release)
		if res, err := http.ReadResponse(serving.r, nil); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("a request that was being served: %v", err)
		}
	})
}

// A client that has most connections, none of which waits, does not take connections of others.
func TestLargestClientIsRefused(t *testing.T) {
	t.Parallel()
	busy, release := make(chan struct{}), make(chan struct{})
	s := serveLimited(t, ConnectionLimits{Total: 3}, byAddress(), func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			busy <- struct{}{}
			<-release
		}
	}, nil, nil)
	defer close(release)
	small := s.visit("127.0.0.3")
	if !small.ask("/") {
		t.Fatal("no response")
	}
	for range 2 {
		fmt.Fprint(s.visit("127.0.0.2"), "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
		<-busy
	}
	s.waiting(1)
	s.visit("127.0.0.2").closed("a connection of the largest client")
	if !small.ask("/") {
		t.Error("the connection of another client is closed")
	}
	if got := s.limits.Count(); got.Refused != 1 {
		t.Errorf("counted %+v", got)
	}
}

// A client of HTTP/2 is notified that its connection is closed.
func TestGoAway(t *testing.T) {
	t.Parallel()
	for name, encrypted := range map[string]bool{"TLS": true, "h2c": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveLimited(t, ConnectionLimits{PerClient: 1}, byAddress(), nothing, func(s *httptest.Server) {
				if encrypted {
					s.EnableHTTP2 = true
					s.StartTLS()
					return
				}
				s.Config.Protocols = new(http.Protocols)
				s.Config.Protocols.SetHTTP1(true)
				s.Config.Protocols.SetUnencryptedHTTP2(true)
				s.Start()
			}, nil)
			conn := s.visit("127.0.0.2").Conn
			if encrypted {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}) //nolint:gosec // a test
			}
			fr := http2.NewFramer(conn, conn)
			fmt.Fprint(conn, http2.ClientPreface)
			var head strings.Builder
			enc := hpack.NewEncoder(&head)
			for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "h"}} {
				_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
			}
			_ = fr.WriteSettings()
			if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(head.String()), EndStream: true, EndHeaders: true}); err != nil {
				t.Fatal(err)
			}
			next := func(want http2.FrameType) {
				for {
					f, err := fr.ReadFrame()
					if err != nil {
						t.Fatalf("waiting for %v: %v", want, err)
					}
					if f.Header().Type == want {
						return
					}
				}
			}
			next(http2.FrameHeaders)
			s.waiting(1)
			s.visit("127.0.0.2")
			next(http2.FrameGoAway)
			if f, err := fr.ReadFrame(); err == nil {
				t.Errorf("the connection is not closed, but sends %v", f)
			}
		})
	}
}

// A failing listener has no descriptors while fail is set.
type failingListener struct {
	net.Listener
	fail atomic.Bool
}

func (l *failingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil && l.fail.Swap(false) {
		c.Close()
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return c, err
}

// If the system has no more descriptors, whatever has them, connections that wait are closed.
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	var failing *failingListener
	s := serveLimited(t, ConnectionLimits{}, byAddress(), nothing, func(s *httptest.Server) {
		cl := s.Listener.(*coalescingListener) //nolint:forcetypeassert // CoalesceWrites returns it
		failing = &failingListener{Listener: cl.Listener}
		cl.Listener = failing
		s.Start()
	}, nil)
	idle := s.visit("127.0.0.2")
	if !idle.ask("/") {
		t.Fatal("no response")
	}
	s.waiting(1)
	failing.fail.Store(true)
	s.visit("127.0.0.3")
	idle.closed("a connection that waits")
	if !s.visit("127.0.0.3").ask("/") {
		t.Error("no response, though there are descriptors again")
	}
}

// The connections of a proxy count for the clients that it names by the PROXY protocol.
func TestConnectionsBehindProxy(t *testing.T) {
	t.Parallel()
	s := serveLimited(t, ConnectionLimits{PerClient: 1}, byAddress("127.0.0.9"), nothing, nil, func(l net.Listener) net.Listener {
		return &proxyproto.Listener{Listener: l}
	})
	visit := func(client string) *visitor {
		v := s.visit("127.0.0.9")
		fmt.Fprintf(v, "PROXY TCP4 %s 127.0.0.1 1 2\r\n", client)
		if !v.ask("/") {
			t.Error("no response")
		}
		return v
	}
	first := visit("192.0.2.1")
	s.waiting(1)
	visit("192.0.2.2")
	s.waiting(2)
	visit("192.0.2.1")
	first.closed("the first connection of the client")
	s.waiting(2)
}

// A byteBudget is a budget of bytes.
type byteBudget struct{ left atomic.Int64 }

func (b *byteBudget) TryAcquire(_ netip.Prefix, n int64) bool {
	if b.left.Add(-n) < 0 {
		b.left.Add(n)
		return false
	}
	return true
}

func (b *byteBudget) Release(_ netip.Prefix, n int64) { b.left.Add(n) }

// Heads of requests that are not whole have what the budget has, and long ones that are whole are served.
func TestHeadsWithinBudget(t *testing.T) {
	t.Parallel()
	paths(t, func(t *testing.T, configure func(*httptest.Server)) {
		const room = 100 << 10
		budget := new(byteBudget)
		budget.left.Store(room)
		s := serveLimited(t, ConnectionLimits{Buffers: budget}, byAddress(), nothing, configure, nil)
		long := s.visit("127.0.0.2")
		for range 3 {
			if !long.ask("/fast?"+strings.Repeat("a", 60_000)) || !long.ask("/fast") {
				t.Fatal("no response to a long head")
			}
		}
		s.waiting(1)
		if left := budget.left.Load(); left != room {
			t.Errorf("%d bytes are left of %d", left, room)
		}
		partial := "GET /fast HTTP/1.1\r\nHost: h\r\nX-A: " + strings.Repeat("a", 60_000)
		first := s.visit("127.0.0.2")
		fmt.Fprint(first, partial)
		for budget.left.Load() > room-(60_000-freeHead) {
			time.Sleep(time.Millisecond)
		}
		second := s.visit("127.0.0.2")
		fmt.Fprint(second, partial)
		if answer, err := io.ReadAll(second.r); errors.Is(err, os.ErrDeadlineExceeded) || strings.Contains(string(answer), " 200 ") {
			t.Errorf("a connection whose head has no room is not closed: %q, %v", answer, err)
		}
		fmt.Fprint(first, "\r\n\r\n")
		if res, err := http.ReadResponse(first.r, nil); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("no response to a head that has room: %v", err)
		}
		s.waiting(2)
		first.Close()
		for budget.left.Load() != room {
			time.Sleep(time.Millisecond)
		}
	})
}

// Nothing is left of connections that are closed.
func TestClosedConnectionsAreForgotten(t *testing.T) {
	t.Parallel()
	paths(t, func(t *testing.T, configure func(*httptest.Server)) {
		s := serveLimited(t, ConnectionLimits{Total: 10, PerClient: 10}, byAddress(), nothing, configure, nil)
		for range 20 {
			v := s.visit("127.0.0.2")
			if !v.ask("/fast") {
				t.Fatal("no response")
			}
			v.Close()
			for began := time.Now(); s.limits.Count().Open > 0; time.Sleep(time.Millisecond) {
				if time.Since(began) > 5*time.Minute {
					t.Fatalf("counted %+v", s.limits.Count())
				}
			}
		}
	})
}

// A request is on its way while the server has not read it, or has read a part of its head.
func TestArriving(t *testing.T) {
	s := serveLimited(t, ConnectionLimits{}, byAddress(), func(http.ResponseWriter, *http.Request) {}, nil, nil)
	v := s.visit("127.0.0.1")
	v.ask("/")
	s.waiting(1)
	if s.limits.Arriving() {
		t.Error("a request is on its way before it is sent")
	}
	fmt.Fprint(v, "GET / HTTP/1.1\r\n")
	arriving(t, s.limits, true)
	fmt.Fprint(v, "Host: h\r\n\r\n")
	if _, err := http.ReadResponse(v.r, nil); err != nil {
		t.Fatal(err)
	}
	s.waiting(1)
	if s.limits.Arriving() {
		t.Error("a request is on its way after its response")
	}
}

// The same on a connection that nothing reads from.
func TestArrivingUnread(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	k, s := NewConnections(ConnectionLimits{}), new(http.Server)
	coalescing := CoalesceWrites(s, l, time.Minute)
	k.Limit(s, coalescing, byAddress())
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c, err := coalescing.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	arriving(t, k, false)
	fmt.Fprint(client, "G")
	arriving(t, k, true)
	if _, err := c.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	arriving(t, k, false)
	client.Close()
	if _, err := c.Read(make([]byte, 10)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	arriving(t, k, false) // the end of a stream is no request
}

// arriving waits until a request is on its way, or none is.
func arriving(t *testing.T, k *Connections, want bool) {
	t.Helper()
	for began := time.Now(); k.Arriving() != want; time.Sleep(time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("a request is on its way: %t, expected %t", !want, want)
		}
	}
}
