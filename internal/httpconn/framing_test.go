package httpconn_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/facetheory/isr/internal/httpconn"
)

// framedRequests are requests of which it is ambiguous where they end, and others.
func framedRequests() map[string]struct {
	text      string
	ambiguous bool
} {
	type request = struct {
		text      string
		ambiguous bool
	}
	all := make(map[string]request)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		add := func(name, version, fields, body string, ambiguous bool) {
			all[method+" "+name] = request{method + " / HTTP/" + version + "\r\nHost: a\r\n" + fields + "\r\n" + body, ambiguous}
		}
		const chunked, none = "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"
		add("length and encoding", "1.1", "Content-Length: 5\r\n"+chunked, none, true)
		add("encoding and length", "1.1", chunked+"content-length:5\r\n", none, true)
		add("encoding and a length of zero", "1.1", chunked+"Content-Length: 0\r\n", none, true)
		add("identity and length", "1.1", "Transfer-Encoding: identity\r\nContent-Length: 1\r\n", "x", true)
		add("encoding twice", "1.1", chunked+chunked, none, true)
		add("equal lengths", "1.1", "Content-Length: 1\r\nContent-Length: 1\r\n", "x", true)
		add("unequal lengths", "1.1", "Content-Length: 1\r\nContent-Length: 2\r\n", "x", true)
		add("encoding of HTTP/1.0", "1.0", chunked+"Connection: keep-alive\r\n", none, true)
		add("both of HTTP/1.0", "1.0", chunked+"Content-Length: 5\r\nConnection: keep-alive\r\n", none, true)
		add("folded encoding", "1.1", "Transfer-Encoding:\r\n chunked\r\n", none, true)
		add("folded length", "1.1", "X: y\r\n\tContent-Length: 5\r\n", "", true)
		add("a space before the colon", "1.1", "Content-Length : 1\r\n", "x", true)
		add("a length with a sign", "1.1", "Content-Length: +1\r\n", "x", true)
		add("a list of lengths", "1.1", "Content-Length: 1, 1\r\n", "x", true)
		add("length", "1.1", "Content-Length: 3\r\n", "\r\n\r", false)
		add("chunks", "1.1", chunked, "3;a=b\r\n\r\n\r\r\n0a\r\n0123456789\r\n0\r\n\r\n", false)
		add("chunks and a trailer", "1.1", "Trailer: X\r\n"+chunked, "1\r\nx\r\n0\r\nX: y\r\n\r\n", false)
		add("no body", "1.1", "", "", false)
		add("line feeds alone", "1.1", "X: y\n", "", false)
	}
	return all
}

// A framedServer is a server that refuses ambiguous requests on a kind of listener.
type framedServer struct {
	address string
	dial    func(t *testing.T, address string) net.Conn
}

// direct and proxied make the listeners of servers, without and with the PROXY protocol.
func direct(_ *http.Server, l net.Listener) net.Listener { return l }

func proxied(_ *http.Server, l net.Listener) net.Listener { return &proxyproto.Listener{Listener: l} }

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dialProxied opens a connection that begins with a header of the PROXY protocol.
func dialProxied(t *testing.T, address string) net.Conn {
	t.Helper()
	c := dial(t, address)
	fmt.Fprint(c, "PROXY TCP4 192.0.2.1 127.0.0.1 1 2\r\n")
	return c
}

// framedServers returns a server for each kind of listener. Each of them answers with the path, whether the request came by TLS, and the length of the
// body.
func framedServers(t *testing.T) map[string]framedServer {
	encrypted := func(protocols ...string) func(*testing.T, string) net.Conn {
		return func(t *testing.T, address string) net.Conn {
			return tls.Client(dial(t, address), &tls.Config{InsecureSkipVerify: true, NextProtos: protocols}) //nolint:gosec // a certificate of the test
		}
	}
	all := make(map[string]framedServer)
	for name, kind := range map[string]struct {
		h2c    bool
		around func(*http.Server, net.Listener) net.Listener
		dial   func(*testing.T, string) net.Conn
	}{
		"plain":                  {false, direct, dial},
		"h2c":                    {true, direct, dial},
		"PROXY":                  {false, proxied, dialProxied},
		"PROXY and h2c":          {true, proxied, dialProxied},
		"TLS":                    {false, httpconn.AcceptTLS, encrypted("http/1.1")},
		"TLS without a protocol": {false, httpconn.AcceptTLS, encrypted()},
		"TLS of HTTP/1.0":        {false, httpconn.AcceptTLS, encrypted("http/1.0")},
	} {
		all[name] = framedServer{serveFramed(t, kind.h2c, kind.around), kind.dial}
	}
	return all
}

// serveFramed serves on a listener that around makes of a plain one, and returns its address.
func serveFramed(t *testing.T, h2c bool, around func(*http.Server, net.Listener) net.Listener) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %d %v %s %t", r.URL.Path, len(body), err, r.Proto, r.TLS != nil)
		}),
		TLSConfig: testConfig(t),
		Protocols: new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(h2c)
	l = httpconn.RefuseAmbiguous(s, around(s, httpconn.CoalesceWrites(s, l, time.Minute)))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

func TestAmbiguousFraming(t *testing.T) {
	const before, after = "GET /before HTTP/1.1\r\nHost: a\r\n\r\n", "GET /after HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	requests := framedRequests()
	for kind, s := range framedServers(t) {
		for name, tt := range requests {
			for size, parts := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "in bytes": iotest.OneByteReader} {
				t.Run(kind+" "+name+" "+size, func(t *testing.T) {
					t.Parallel()
					c := s.dial(t, s.address)
					defer c.Close()
					go func() { _, _ = io.Copy(struct{ io.Writer }{c}, parts(strings.NewReader(before+tt.text+after))) }()
					var got []string
					for r := bufio.NewReader(c); ; {
						res, err := http.ReadResponse(r, nil)
						if err != nil {
							break // closed
						}
						body, _ := io.ReadAll(res.Body)
						got = append(got, fmt.Sprint(res.StatusCode, " ", strings.Fields(string(body))[0]))
					}
					want := "200 /before, 200 /, 200 /after"
					if tt.ambiguous {
						want = "200 /before, 400 400"
					}
					if text := strings.Join(got, ", "); text != want {
						t.Errorf("got %s, want %s", text, want)
					}
				})
			}
		}
	}
}

// Listeners that refuse ambiguous requests serve HTTP/2 as ever, and pass TLS to handlers.
func TestFramingLeavesProtocols(t *testing.T) {
	protocols := func(set func(*http.Protocols, bool)) *http.Protocols {
		p := new(http.Protocols)
		set(p, true)
		return p
	}
	h1, h2, h2c := protocols((*http.Protocols).SetHTTP1), protocols((*http.Protocols).SetHTTP2), protocols((*http.Protocols).SetUnencryptedHTTP2)
	for _, c := range []struct {
		name     string
		h2c      bool
		around   func(*http.Server, net.Listener) net.Listener
		scheme   string
		protocol *http.Protocols
		want     string
	}{
		{"HTTP/1", true, direct, "http", h1, "/x 4096 <nil> HTTP/1.1 false"},
		{"h2c", true, direct, "http", h2c, "/x 4096 <nil> HTTP/2.0 false"},
		{"h2c and PROXY", true, proxied, "http", h2c, "/x 4096 <nil> HTTP/2.0 false"},
		{"TLS", false, httpconn.AcceptTLS, "https", h1, "/x 4096 <nil> HTTP/1.1 true"},
		{"h2", false, httpconn.AcceptTLS, "https", h2, "/x 4096 <nil> HTTP/2.0 true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			transport := &http.Transport{Protocols: c.protocol, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a certificate of the test
			if strings.HasSuffix(c.name, "PROXY") {
				transport.DialContext = func(_ context.Context, _, address string) (net.Conn, error) { return dialProxied(t, address), nil }
			}
			client := &http.Client{Transport: transport}
			defer client.CloseIdleConnections()
			address := serveFramed(t, c.h2c, c.around)
			for range 2 {
				res, err := client.Post(c.scheme+"://"+address+"/x", "text/plain", strings.NewReader(strings.Repeat("GET / HTTP/1.1\r\n", 256)))
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if string(body) != c.want {
					t.Errorf("got %q, want %q", body, c.want)
				}
			}
		})
	}
}

// What only begins as the preface of HTTP/2 is HTTP/1, and ambiguous requests behind it are refused.
func TestBrokenPreface(t *testing.T) {
	address := serveFramed(t, true, direct)
	ambiguous := "Host: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	for _, text := range []string{
		"POST / HTTP/1.1\r\n" + ambiguous,
		"PRI * HTTP/2.0\r\n" + ambiguous,
		"PRI * HTTP/1.1\r\n" + ambiguous,
		"PUT / HTTP/1.1\r\n" + ambiguous,
	} {
		for size, parts := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "in bytes": iotest.OneByteReader} {
			c := dial(t, address)
			go func() { _, _ = io.Copy(struct{ io.Writer }{c}, parts(strings.NewReader(text))) }()
			answer, _ := io.ReadAll(c)
			_ = c.Close()
			if !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
				t.Errorf("%q %s: got %q", text, size, answer)
			}
		}
	}
}
