package hostile

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Requests for unknown hosts get 421, without a render or a row.
func TestUnknownHosts(t *testing.T) {
	t.Parallel()
	origin, asked := startOrigin(t, func(http.ResponseWriter, *http.Request) {})
	g := startTarget(t, origin)
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 50 {
				res, err := g.tryRaw(fmt.Sprintf("GET / HTTP/1.1\r\nHost: h%d-%d.example\r\n\r\n", worker, i))
				if err != nil || res.StatusCode != http.StatusMisdirectedRequest {
					t.Errorf("unknown host: %v, %v; expected 421", res, err)
					return
				}
			}
		})
	}
	group.Wait()
	for _, host := range []string{"[", "a:999999", "[::1]:80:80", site + "/..", site + "@evil", "a b", ".", "", site + ":0", "\x01"} {
		res, err := g.tryRaw("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		if err == nil && res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("host %q: got status %d", host, res.StatusCode)
		}
	}
	for _, two := range []string{"Host: " + site + "\r\nHost: evil.example", "Host: evil.example\r\nX-Forwarded-Host: " + site, "Host: evil.example\r\nForwarded: host=" + site} {
		if res := g.raw("GET / HTTP/1.1\r\n" + two + "\r\n\r\n"); res.StatusCode < 400 {
			t.Errorf("%q: got status %d", two, res.StatusCode)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the origin got %d requests, expected 0", n)
	}
	if rows := g.stored(); rows != "" {
		t.Errorf("stored: %s", rows)
	}
	g.healthy()
}

// Requests that try to tunnel past the gateway, or to smuggle a second request, are refused or
// stripped.
func TestTunnelingAndSmuggling(t *testing.T) {
	t.Parallel()
	var reached sync.Map // what the origin saw
	origin, _ := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		reached.Store(r.Method+" "+r.URL.Path, r.Header.Clone())
		if r.Header.Get("Upgrade") != "" {
			w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
	})
	g := startTarget(t, origin, "--tenant-header", "X-Tenant")
	end := "\r\nHost: " + site + "\r\nX-Tenant: a\r\n\r\n"
	for request, want := range map[string]int{
		"GET /h2c HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk": 200,
		"GET /both HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c, websocket":                                 200,
		"TRACE /trace HTTP/1.1\r\nCookie: id=1":                                                                405,
		"OPTIONS /options HTTP/1.1\r\nMax-Forwards: 0":                                                         204,
		"CONNECT evil.example:443 HTTP/1.1":                                                                    421,
		"GET /dropped HTTP/1.1\r\nConnection: X-Tenant":                                                        400,
		"POST /smuggled HTTP/1.1\r\nContent-Length: 4\r\nContent-Length: 5":                                    400,
		"POST /coded HTTP/1.1\r\nTransfer-Encoding: chunked, identity":                                         501,
		"GET /folded HTTP/1.1\r\nX-A: b\r\n c: d":                                                              400,
		"GET /space HTTP/1.1\r\nX-A : b":                                                                       400,
		"GET http://evil.example/absolute HTTP/1.1":                                                            421,
	} {
		res, err := g.tryRaw(request + end)
		if err != nil {
			t.Errorf("%.40q: %v", request, err)
			continue
		}
		if res.StatusCode != want {
			t.Errorf("%.40q: got status %d, expected %d", request, res.StatusCode, want)
		}
	}
	reached.Range(func(request, header any) bool {
		h := header.(http.Header) //nolint:forcetypeassert // stored above
		if strings.HasPrefix(request.(string), "TRACE") || h.Get("Upgrade") != "" || h.Get("Http2-Settings") != "" {
			t.Errorf("%s reached the origin with %v", request, h)
		}
		return true
	})
	g.raw("GET /underscore HTTP/1.1\r\nX_Forwarded_For: 127.0.0.1\r\nX_Tenant: b" + end)
	if h, ok := reached.Load("GET /underscore"); !ok || strings.Contains(fmt.Sprint(h), "_") {
		t.Errorf("header names with underscores reached the origin: %v", h)
	}
	// healthy sends no tenant, which this server requires.
	if res := g.raw("GET /healthy/tenant HTTP/1.1" + end); res.StatusCode != http.StatusOK {
		t.Errorf("a regular visitor got status %d", res.StatusCode)
	}
}

// Clients that send form bodies slowly hold no connection to the origin while the start of the
// body arrives, and at most a quarter of the connections afterwards. They are cut off.
func TestSlowPostBodies(t *testing.T) {
	t.Parallel()
	var open, most atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if healthyPage(w, r) {
			return
		}
		most.Store(max(most.Load(), open.Add(1)))
		defer open.Add(-1)
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	server.Start()
	defer server.Close()
	g := startTarget(t, server.URL, "--client-timeout", "2s", "--max-origin-connections", "16")
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			conn := g.dial()
			start := "x"
			if i%4 == 0 { // more than is buffered before the request to the origin
				start = strings.Repeat("x", 65<<10)
			}
			fmt.Fprintf(conn, "POST /form HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000000\r\n\r\n%s", site, start)
			if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && res.StatusCode < 400 {
				t.Errorf("an endless body: got status %d", res.StatusCode)
			}
		})
	}
	await(t, "a request at the origin", func() bool { return open.Load() > 0 })
	g.healthy() // during the attack
	group.Wait()
	// A quarter of 16, twice: the origin may not have noticed yet that as many others were cut
	// off.
	if n := most.Load(); n > 2*4 {
		t.Errorf("one client held %d connections to the origin, expected a quarter of 16 at most", n)
	}
	await(t, "the origin to be free", func() bool { return open.Load() == 0 })
	g.healthy()
}

// Clients that do not read large responses hold the origin for at most --client-timeout.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	var open atomic.Int64
	block := make([]byte, 64<<10)
	origin, _ := startOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		open.Add(1)
		defer open.Add(-1)
		for range 512 { // 32 MiB
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	g := startTarget(t, origin, "--client-timeout", "1s", "--max-origin-connections", "40")
	for range 30 {
		conn := g.dial()
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4 << 10)
		}
		fmt.Fprintf(conn, "POST /large HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", site)
	}
	await(t, "the origin to be busy", func() bool { return open.Load() > 0 })
	g.healthy()
	await(t, "the origin to be free", func() bool { return open.Load() == 0 })
	g.healthy()
}

// A header of a thousand ranges does not multiply the response, and large headers are refused.
func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	page := strings.Repeat("0123456789", 1000)
	origin, asked := startOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
		_, _ = io.WriteString(w, page)
	})
	g := startTarget(t, origin)
	for _, ranges := range []string{strings.Repeat("0-,", 10_000), strings.Repeat("0-9999,", 5_000), strings.Repeat("1-2,5-6,", 4_000), strings.Repeat("-1,", 10_000)} {
		res := g.raw("GET / HTTP/1.1\r\nHost: " + site + "\r\nRange: bytes=" + strings.TrimSuffix(ranges, ",") + "\r\nConnection: close\r\n\r\n")
		body, err := io.ReadAll(io.LimitReader(res.Body, 10<<20))
		if err != nil || len(body) > 2*len(page) {
			t.Errorf("%d bytes of ranges %.20s…: got status %d, %d bytes, %v", len(ranges), ranges, res.StatusCode, len(body), err)
		}
	}
	before := asked.Load()
	for _, header := range []string{"X-A: " + strings.Repeat("a", 100<<10), strings.Repeat("X-A: a\r\n", 20_000) + "X-B: b"} {
		res, err := g.tryRaw("GET /large HTTP/1.1\r\nHost: " + site + "\r\n" + header + "\r\n\r\n")
		if err == nil && res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header of %d bytes: got status %d", len(header), res.StatusCode)
		}
	}
	if asked.Load() != before {
		t.Error("large headers reached the origin")
	}
	g.healthy()
}

// Connections without a request are closed, whatever their number.
func TestConnectionsWithoutRequest(t *testing.T) {
	t.Parallel()
	origin, _ := startOrigin(t, func(http.ResponseWriter, *http.Request) {})
	g := startTarget(t, origin)
	conns := make([]net.Conn, 300)
	for i := range conns {
		conns[i] = g.dial()
		_, _ = io.WriteString(conns[i], "GET / HTTP/1.1\r\nHost: "+site+"\r\nX-Slow: ")
	}
	g.healthy()
	began := time.Now()
	for _, conn := range conns {
		if _, err := io.Copy(io.Discard, conn); err != nil {
			t.Fatalf("a silent connection is still open after %s: %v", time.Since(began), err)
		}
	}
	g.healthy()
}

// A client that keeps more connections open than the process may have descriptors shuts out no other: those that wait are
// closed.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	origin, _ := startOrigin(t, func(http.ResponseWriter, *http.Request) {})
	g := startTargetBy(t, []string{"sh", "-c", `ulimit -n 200; exec "$0" "$@"`}, origin)
	g.healthy()
	for i := range 300 {
		conn := g.dial()
		fmt.Fprintf(conn, "GET /healthy/1 HTTP/1.1\r\nHost: %s\r\n\r\n", site)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	g.healthy() // during the attack
}

// Stalled uploads have a bounded part of the buffers, and further ones are refused.
func TestStalledUploads(t *testing.T) {
	t.Parallel()
	origin, _ := startOrigin(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	g := startTarget(t, origin, "--buffers", "4MiB", "--max-origin-connections", "16", "--metrics", "127.0.0.1:0")
	metrics := regexp.MustCompile(`metrics on (http://[^"\s]+)`).FindStringSubmatch(g.process.Log())[1]
	const uploads, part = 400, 1 << 20
	refused := make(chan struct{}, uploads)
	for range uploads {
		conn := g.dial()
		go func() {
			fmt.Fprintf(conn, "POST /form HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000000\r\n\r\n%s", site, strings.Repeat("x", 65000))
			if res, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && res.StatusCode == http.StatusServiceUnavailable {
				refused <- struct{}{}
			}
		}()
	}
	for range uploads - part/(4<<10) - 4 - 16 { // at least 4 KiB each; at the origin; waiting
		<-refused
	}
	res, err := http.Get(metrics) //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var buffered float64
	if _, err := fmt.Sscanf(regexp.MustCompile(`(?m)^isr_buffer_bytes .*`).FindString(string(text)), "isr_buffer_bytes %g", &buffered); err != nil || buffered > 2*part { // a quarter is reserved for bodies that are sent
		t.Errorf("%v bytes are buffered, %v; expected at most %d", buffered, err, 2*part)
	}
	g.healthy() // during the attack
}

// The admin token and other secrets of the data folder do not appear in the log.
func TestSecretsAreNotLogged(t *testing.T) {
	t.Parallel()
	origin, _ := startOrigin(t, func(http.ResponseWriter, *http.Request) {})
	g := startTarget(t, origin, "--admin", "127.0.0.1:0", "--log-level", "debug")
	secret, err := os.ReadFile(filepath.Join(g.data, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	g.raw("GET /private HTTP/1.1\r\nHost: " + site + "\r\nAuthorization: Bearer very-secret\r\nCookie: id=very-secret\r\n\r\n")
	g.healthy()
	for _, text := range []string{strings.TrimSpace(string(secret)), "very-secret"} {
		if strings.Contains(g.process.Log(), text) {
			t.Errorf("the log contains the secret %.4s…", text)
		}
	}
}
