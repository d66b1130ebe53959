package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr/gateway"
)

// front starts a server with the proxy to an origin, and returns its address.
func front(t *testing.T, cfg gateway.Config, origin http.Handler) (address string) {
	t.Helper()
	server := httptest.NewServer(origin)
	t.Cleanup(server.Close)
	return frontOf(t, cfg, server.URL)
}

func frontOf(t *testing.T, cfg gateway.Config, origin string) string {
	t.Helper()
	var err error
	if cfg.Origin, err = gateway.ParseOrigin(origin); err != nil {
		t.Fatal(err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	server := httptest.NewServer(gateway.Renderer(cfg))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// raw sends bytes and returns the first response, or all bytes until the connection is
// closed.
func raw(t *testing.T, address, request string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func TestOnlyWebSocketsAreUpgraded(t *testing.T) {
	var seen http.Header
	address := front(t, gateway.Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		if r.Header.Get("Upgrade") != "" {
			w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
	}))
	for upgrade, want := range map[string]int{
		"websocket": 101, "WebSocket": 101, "h2c": 200, "h2c, websocket": 200, "TLS/1.0": 200, "foo": 200,
	} {
		res := raw(t, address, "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\nUpgrade: "+upgrade+"\r\n\r\n")
		if res.StatusCode != want {
			t.Errorf("Upgrade: %s is answered with %d, want %d", upgrade, res.StatusCode, want)
		}
		if want == 200 && (seen.Get("Upgrade") != "" || seen.Get("Http2-Settings") != "") {
			t.Errorf("Upgrade: %s reached the origin: %v", upgrade, seen)
		}
	}
}

func TestTraceAndMaxForwardsAreHandledLocally(t *testing.T) {
	var seen atomic.Pointer[http.Request]
	address := front(t, gateway.Config{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store(r) }))
	for request, want := range map[string]int{
		"TRACE / HTTP/1.1\r\nHost: h\r\nCookie: id=1":                         405,
		"OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 0":                    204,
		"OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: -1":                   400,
		"OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 1\r\nMax-Forwards: 0": 400,
	} {
		if res := raw(t, address, request+"\r\nConnection: close\r\n\r\n"); res.StatusCode != want || seen.Load() != nil {
			t.Errorf("%q is answered with %d, want %d; forwarded: %t", request, res.StatusCode, want, seen.Load() != nil)
		}
	}
	raw(t, address, "OPTIONS / HTTP/1.1\r\nHost: h\r\nMax-Forwards: 7\r\n\r\n")
	if r := seen.Load(); r == nil || r.Header.Get("Max-Forwards") != "6" {
		t.Errorf("the origin saw %+v", r)
	}
}

func TestNamesWithUnderscoresAreDropped(t *testing.T) {
	var seen http.Header
	address := front(t, gateway.Config{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Clone() }))
	raw(t, address, "GET / HTTP/1.1\r\nHost: h\r\nX_Forwarded_For: 127.0.0.1\r\nX-Tenant_Id: a\r\nX-Kept: 1\r\n\r\n")
	for name := range seen {
		if strings.Contains(name, "_") {
			t.Errorf("%s reached the origin", name)
		}
	}
	if seen.Get("X-Kept") == "" {
		t.Errorf("the origin saw %v", seen)
	}
}

// Responses with an invalid status are neither stored nor forwarded.
func TestInvalidStatusesAreRefused(t *testing.T) {
	for _, status := range []string{"000", "099", "600", "999"} {
		origin := scripted(t, "HTTP/1.1 "+status+" X\r\nContent-Length: 2\r\nCache-Control: s-maxage=60\r\n\r\nno")
		address := frontOf(t, gateway.Config{}, "http://"+origin)
		if res := raw(t, address, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); res.StatusCode != http.StatusBadGateway {
			t.Errorf("an origin's status %s is passed on as %d", status, res.StatusCode)
		}
	}
}

// Interim responses are forwarded, up to a limit.
func TestInterimResponsesAreBounded(t *testing.T) {
	for hints, want := range map[int]int{2: http.StatusOK, 10_000: http.StatusBadGateway} {
		origin := scripted(t, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n", hints)+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		address := frontOf(t, gateway.Config{}, "http://"+origin)
		res, err := http.Get("http://" + address + "/")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%d hints: %d, want %d", hints, res.StatusCode, want)
		}
	}
}

// scripted starts a server that responds to the first request of each connection with these
// bytes.
func scripted(t *testing.T, response string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.WriteString(conn, response)
				}
			}()
		}
	}()
	return l.Addr().String()
}

// If the origin responds before it has read the body, the transport must not close the
// connection in the middle of the response. A plain httputil.ReverseProxy truncates about one
// response in a thousand here.
func TestResponsesToPostsAreComplete(t *testing.T) {
	answer := bytes.Repeat([]byte("0123456789abcdef"), 16<<10) // 256 KiB
	address := front(t, gateway.Config{MaxConnections: 1024}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(answer[:len(answer)/2])
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer[len(answer)/2:])
	}))
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for i := range 150 {
				body := strings.Repeat("x", []int{1, 1 << 10, 70 << 10}[(worker+i)%3])
				res, err := client.Post("http://"+address+"/", "text/plain", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || !bytes.Equal(got, answer) {
					t.Errorf("%d bytes of %d, %v", len(got), len(answer), err)
					return
				}
			}
		})
	}
	group.Wait()
}

// Clients that send their bodies slowly do not hold a connection to the origin.
func TestSlowBodiesDoNotReachTheOrigin(t *testing.T) {
	var asked atomic.Int32
	address := front(t, gateway.Config{ClientTimeout: 300 * time.Millisecond}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked.Add(1)
		}
	}))
	var group sync.WaitGroup
	for i := range 20 {
		header := []string{"Content-Length: 10", "Content-Length: 10000000", "Transfer-Encoding: chunked"}[i%3]
		group.Go(func() {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n1\r\nx", header)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if res.StatusCode != http.StatusRequestTimeout {
				t.Errorf("%s: %d", header, res.StatusCode)
			}
			res.Body.Close()
		})
	}
	group.Wait()
	if n := asked.Load(); n != 0 {
		t.Errorf("the origin was asked %d times", n)
	}
}

// One client can use a quarter of the connections, without delaying others.
func TestOneClientCannotUseAllConnections(t *testing.T) {
	release := make(chan struct{})
	var busy atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			busy.Add(1)
			<-release
		}
	}))
	defer server.Close()
	defer close(release)
	address, err := gateway.ParseOrigin(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := gateway.Renderer(gateway.Config{Origin: address, MaxConnections: 8, Logger: slog.New(slog.DiscardHandler)})
	ask := func(ctx context.Context, client, path string) int {
		r := httptest.NewRequest(http.MethodGet, "http://h"+path, http.NoBody).WithContext(ctx)
		r.RemoteAddr = client
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	answers := make(chan int, 40)
	for i := range 40 { // of one /64
		group.Go(func() { answers <- ask(ctx, fmt.Sprintf("[2001:db8::%x]:1", i+1), "/slow") })
	}
	refused := 0
	for refused < 40-10 { // two under way, eight wait
		if code := <-answers; code != http.StatusServiceUnavailable {
			t.Fatalf("a request too many is answered with %d", code)
		}
		refused++
	}
	if code := ask(t.Context(), "192.0.2.1:1", "/fast"); code != http.StatusOK {
		t.Errorf("another client gets %d", code)
	}
	if n := busy.Load(); n > 2 {
		t.Errorf("one client has %d connections of 8", n)
	}
	cancel()
	for range 40 - refused {
		<-answers
	}
	group.Wait()
}

func TestBrokenResponsesAreLogged(t *testing.T) {
	log := make(lines, 10)
	origin := scripted(t, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf of it")
	address := frontOf(t, gateway.Config{Logger: slog.New(slog.NewTextHandler(log, nil))}, "http://"+origin)
	res, err := http.Get("http://" + address + "/broken")
	if err == nil {
		_, err = io.ReadAll(res.Body)
		res.Body.Close()
	}
	if err == nil {
		t.Error("the visitor got a whole answer")
	}
	if line := <-log; !strings.Contains(line, "ended early") || !strings.Contains(line, "/broken") {
		t.Errorf("the log says %q", line)
	}
}

// lines receives the lines of a logger.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// An origin may refuse a body before it has read it, and close the connection, which resets it.
// The visitor gets the origin's response nevertheless.
func TestEarlyRefusals(t *testing.T) {
	origin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { origin.Close() })
	go func() {
		for {
			conn, err := origin.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					_, _ = io.WriteString(conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 9\r\nConnection: close\r\n\r\nToo large")
				}
			}()
		}
	}()
	address := frontOf(t, gateway.Config{MaxConnections: 1024}, "http://"+origin.Addr().String())
	for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
		for range 30 {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			const length = 8 << 20
			go func() {
				_, _ = fmt.Fprintf(conn, "POST /upload HTTP/1.1\r\nHost: example.com\r\nContent-Length: %d\r\n%s\r\n", length, expect)
				_, _ = conn.Write(make([]byte, length)) // the server may close the connection first
			}()
			r := bufio.NewReader(conn)
			res, err := http.ReadResponse(r, nil)
			if err == nil && res.StatusCode == http.StatusContinue {
				res, err = http.ReadResponse(r, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge || string(body) != "Too large" {
				t.Errorf("with %q: %d %q, %v; want 413", expect, res.StatusCode, body, err)
			}
			conn.Close()
		}
	}
}

// The origin decides whether a client that expects 100 Continue sends its body (RFC 9110,
// section 10.1.1).
func TestExpectContinue(t *testing.T) {
	address := front(t, gateway.Config{MaxConnections: 16}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refuses" {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}))
	body := strings.Repeat("x", 100<<10)
	for _, path := range []string{"/refuses", "/reads"} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: example.com\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n", path, len(body))
		r := bufio.NewReader(conn)
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if path == "/refuses" {
			if res.StatusCode != http.StatusRequestEntityTooLarge {
				t.Errorf("%s: %d, want 413 before the body", path, res.StatusCode)
			}
			continue
		}
		if res.StatusCode != http.StatusContinue {
			t.Fatalf("%s: %d, want 100", path, res.StatusCode)
		}
		if _, err := io.WriteString(conn, body); err != nil {
			t.Fatal(err)
		}
		for res.StatusCode == http.StatusContinue { // the origin's may follow the server's
			if res, err = http.ReadResponse(r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := io.ReadAll(res.Body); err != nil || string(got) != fmt.Sprint(len(body), " <nil>") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}
