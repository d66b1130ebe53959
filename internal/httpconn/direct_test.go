package httpconn_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/httpconn"
)

func limits() *http.Transport {
	return &http.Transport{
		ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: 8 << 10, IdleConnTimeout: time.Minute,
		MaxIdleConns: 8, MaxIdleConnsPerHost: 8, ReadBufferSize: 4 << 10, DisableCompression: true,
	}
}

func newDirect(t *testing.T, change func(*http.Transport)) *httpconn.Direct {
	t.Helper()
	transport := limits()
	if change != nil {
		change(transport)
	}
	d := httpconn.NewDirect(transport, new(net.Dialer).DialContext)
	t.Cleanup(d.CloseIdleConnections)
	return d
}

// A rawServer answers each request by a function that writes what it likes, and then waits for the next
// one on that connection, or closes it if the function returns false.
type rawServer struct {
	url         string
	connections atomic.Int64
	requests    atomic.Int64
	closed      chan struct{} // receives one element for each connection that a client has closed
}

func newRawServer(t *testing.T, answer func(net.Conn, *http.Request) bool) *rawServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + l.Addr().String(), closed: make(chan struct{}, 100)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			all.Go(func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for {
					r, err := http.ReadRequest(in)
					if err != nil {
						s.closed <- struct{}{}
						return
					}
					s.requests.Add(1)
					if !answer(conn, r) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return s
}

func writes(text string) func(net.Conn, *http.Request) bool {
	return func(c net.Conn, _ *http.Request) bool {
		_, err := io.WriteString(c, text)
		return err == nil
	}
}

// outcome describes what a client sees of a response.
func outcome(t *testing.T, client http.RoundTripper, method, url string) string {
	t.Helper()
	var seen strings.Builder
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		fmt.Fprintf(&seen, "interim %d %v\n", code, h)
		return nil
	}})
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.RoundTrip(r)
	if err != nil {
		return seen.String() + "no response"
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	for _, name := range slices.Sorted(maps.Keys(res.Header)) {
		fmt.Fprintf(&seen, "%s: %q\n", name, res.Header[name])
	}
	fmt.Fprintf(&seen, "%s %s, length %d, close %t, body %q, complete %t, trailers %v", res.Proto, res.Status, res.ContentLength, res.Close, body, err == nil, res.Trailer)
	return seen.String()
}

// Responses of any form are what they are for http.Transport.
func TestDirectIsTransport(t *testing.T) {
	for name, text := range map[string]string{
		"length":                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\n\r\nhello",
		"no length":             "HTTP/1.1 200 OK\r\n\r\nhello",
		"chunks":                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"chunks and trailers":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n",
		"chunks and a length":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"too short":             "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
		"a chunk too short":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello",
		"no last chunk":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"two lengths":           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
		"the same length twice": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
		"a negative length":     "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello",
		"another coding":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
		"empty":                 "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"no content":            "HTTP/1.1 204 No Content\r\n\r\n",
		"not modified":          "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nEtag: \"a\"\r\n\r\n",
		"an error":              "HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno",
		"closing":               "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.0":              "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.0 that stays":   "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/2":                "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"early hints":           "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"only early hints":      "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
		"an unasked upgrade":    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
		"nothing":               "",
		"half a header":         "HTTP/1.1 200 OK\r\nContent-Le",
		"half a line":           "HTTP/1.",
		"not HTTP":              "SSH-2.0-x\r\n",
		"a broken header":       "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"folded":                "HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 5\r\n\r\nhello",
		"bare line feeds":       "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
		"a status of words":     "HTTP/1.1 OK\r\nContent-Length: 5\r\n\r\nhello",
		"a small status":        "HTTP/1.1 042 Hm\r\nContent-Length: 5\r\n\r\nhello",
		"a long header":         "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 20<<10) + "\r\nContent-Length: 5\r\n\r\nhello",
		"compressed":            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello",
		"a large body":          "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("a", 100000),
	} {
		t.Run(name, func(t *testing.T) {
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				s := newRawServer(t, func(c net.Conn, r *http.Request) bool {
					writes(text)(c, r)
					return false
				})
				transport := limits()
				defer transport.CloseIdleConnections()
				want, got := outcome(t, transport, method, s.url), outcome(t, newDirect(t, nil), method, s.url)
				if got != want {
					t.Errorf("%s:\n%s\nwant\n%s", method, got, want)
				}
			}
		})
	}
}

// Requests are written as http.Transport writes them.
func TestDirectWritesAsTransport(t *testing.T) {
	var heads []string
	var mu sync.Mutex
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			b := make([]byte, 4096)
			n := 0
			for !strings.Contains(string(b[:n]), "\r\n\r\n") {
				k, err := conn.Read(b[n:])
				if err != nil {
					break
				}
				n += k
			}
			mu.Lock()
			heads = append(heads, string(b[:n]))
			mu.Unlock()
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			_ = conn.Close()
		}
	}()
	transport := limits()
	defer transport.CloseIdleConnections()
	for _, change := range []func(*http.Request){
		func(*http.Request) {},
		func(r *http.Request) { r.Method = http.MethodHead },
		func(r *http.Request) { r.Host = "shop.example" },
		func(r *http.Request) { r.URL.RawQuery = "a=%zz&b" },
		func(r *http.Request) { r.URL.Opaque = "//shop.example/a" },
		func(r *http.Request) { r.Header["User-Agent"] = []string{""} },
		func(r *http.Request) {
			r.Header = http.Header{"X-A": {"1", "2"}, "x-b": {"3"}, "Te": {"trailers"}, "Content-Length": {"9"}, "Host": {"x"}}
		},
		func(r *http.Request) { r.ContentLength = -1 },
	} {
		for _, client := range []http.RoundTripper{transport, newDirect(t, nil)} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/a/b?c=d", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			change(r)
			res, err := client.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
		}
		mu.Lock()
		if last := len(heads) - 2; heads[last] != heads[last+1] {
			t.Errorf("%q, want %q", heads[last+1], heads[last])
		}
		mu.Unlock()
	}
}

// Requests that are not plain, or not valid, are the transport's.
func TestDirectLeavesToTransport(t *testing.T) {
	s := newRawServer(t, writes("HTTP/1.1 204 No Content\r\n\r\n"))
	dialed := false
	transport := limits()
	defer transport.CloseIdleConnections()
	d := httpconn.NewDirect(transport, func(context.Context, string, string) (net.Conn, error) {
		dialed = true
		return nil, errors.New("dialed")
	})
	for name, tt := range map[string]struct {
		change func(*http.Request)
		fails  bool
	}{
		"POST":             {change: func(r *http.Request) { r.Method = http.MethodPost }},
		"a body":           {change: func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("a")), 1 }},
		"an upgrade":       {change: func(r *http.Request) { r.Header.Set("Upgrade", "websocket"); r.Header.Set("Connection", "Upgrade") }},
		"Close":            {change: func(r *http.Request) { r.Close = true }},
		"TLS":              {change: func(r *http.Request) { r.URL.Scheme = "https" }, fails: true},
		"no host":          {change: func(r *http.Request) { r.URL.Host = "" }, fails: true},
		"a line feed":      {change: func(r *http.Request) { r.Header["X-A"] = []string{"a\nb: c"} }, fails: true},
		"a name of spaces": {change: func(r *http.Request) { r.Header["X A"] = []string{"a"} }, fails: true},
		"a method":         {change: func(r *http.Request) { r.Method = "GET /" }, fails: true},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		tt.change(r)
		res, err := d.RoundTrip(r)
		if err == nil {
			_ = res.Body.Close()
		}
		if (err != nil) != tt.fails || dialed {
			t.Errorf("%s: %v, dialed %t", name, err, dialed)
		}
	}
}

func get(t *testing.T, client http.RoundTripper, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

// A connection is used again after a complete response that nothing follows.
func TestDirectReusesConnections(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		want   int64 // connections for two requests
	}{
		"length":         {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 1},
		"empty":          {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1},
		"chunks":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 1},
		"no content":     {"HTTP/1.1 204 No Content\r\n\r\n", 1},
		"closing":        {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", 2},
		"HTTP/1.0":       {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", 2},
		"a switch":       {"HTTP/1.1 101 Switching Protocols\r\n\r\n", 2},
		"more than that": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRawServer(t, writes(tt.answer))
			d := newDirect(t, nil)
			first, err := get(t, d, s.url)
			if err != nil {
				t.Fatal(err)
			}
			second, err := get(t, d, s.url)
			if err != nil || first != second {
				t.Errorf("%q, then %q, %v", first, second, err)
			}
			if got := s.connections.Load(); got != tt.want {
				t.Errorf("%d connections, want %d", got, tt.want)
			}
		})
	}
}

// What a server sends between two responses is not taken for a response.
func TestDirectIgnoresUnaskedResponses(t *testing.T) {
	sent := make(chan struct{})
	s := newRawServer(t, func(c net.Conn, r *http.Request) bool {
		text := "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
		_, _ = io.WriteString(c, text+"good")
		if r.URL.Path == "/first" {
			<-sent // the client has read the response
			_, _ = io.WriteString(c, text+"evil")
			sent <- struct{}{}
		}
		return true
	})
	d := newDirect(t, nil)
	if _, err := get(t, d, s.url+"/first"); err != nil {
		t.Fatal(err)
	}
	sent <- struct{}{}
	<-sent
	if got, err := get(t, d, s.url+"/second"); got != "good" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got := s.connections.Load(); got != 2 {
		t.Errorf("%d connections", got)
	}
}

// A request on an idle connection that the server closes is sent once more, on a new connection.
func TestDirectRepeats(t *testing.T) {
	const hello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	for name, tt := range map[string]struct {
		second   string // the answer to the second request, after which the server closes
		requests int64
		fails    bool
	}{
		"closed":                 {"", 3, false},
		"closed after a byte":    {"H", 2, true},
		"closed within a body":   {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", 2, true},
		"closed after all of it": {hello, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			s := newRawServer(t, func(c net.Conn, r *http.Request) bool {
				if n.Add(1) == 2 {
					writes(tt.second)(c, r)
					return false
				}
				return writes(hello)(c, r)
			})
			d := newDirect(t, nil)
			if _, err := get(t, d, s.url); err != nil {
				t.Fatal(err)
			}
			if _, err := get(t, d, s.url); (err != nil) != tt.fails {
				t.Errorf("the second request: %v", err)
			}
			if got := s.requests.Load(); got != tt.requests {
				t.Errorf("%d requests, want %d", got, tt.requests)
			}
		})
	}
	s := newRawServer(t, func(net.Conn, *http.Request) bool { return false })
	if _, err := get(t, newDirect(t, nil), s.url); err == nil || s.requests.Load() != 1 {
		t.Errorf("a new connection that is closed: %v, %d requests", err, s.requests.Load())
	}
}

// An idle connection that the server has closed is not used.
func TestDirectSeesClosedConnections(t *testing.T) {
	closing := make(chan struct{})
	s := newRawServer(t, func(c net.Conn, r *http.Request) bool {
		writes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")(c, r)
		if r.URL.Path == "/first" {
			<-closing
			_ = c.Close()
			closing <- struct{}{}
			return false
		}
		return true
	})
	d := newDirect(t, nil)
	if _, err := get(t, d, s.url+"/first"); err != nil {
		t.Fatal(err)
	}
	closing <- struct{}{}
	<-closing
	if _, err := get(t, d, s.url+"/second"); err != nil || s.requests.Load() != 2 {
		t.Errorf("%v, %d requests", err, s.requests.Load())
	}
}

// A body that is closed before its end closes the connection, and cannot be read.
func TestDirectClosesUnreadBodies(t *testing.T) {
	s := newRawServer(t, writes("HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\nhello"))
	d := newDirect(t, nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := d.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	<-s.closed
	if _, err := res.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("reading after Close: %v", err)
	}
}

// A request ends with its context, by its cause, while it waits for the header, and for the body.
func TestDirectCanceled(t *testing.T) {
	cause := errors.New("the visitor left")
	for name, answer := range map[string]string{
		"header": "",
		"body":   "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{})
			s := newRawServer(t, func(c net.Conn, r *http.Request) bool {
				writes(answer)(c, r)
				close(asked)
				return true
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-asked
				cancel(cause)
			}()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := newDirect(t, nil).RoundTrip(r)
			if err == nil {
				_, err = io.ReadAll(res.Body)
				_ = res.Body.Close()
			}
			if !errors.Is(err, cause) {
				t.Errorf("error %v", err)
			}
			<-s.closed
		})
	}
}

// A request ends by the cause of its context also while it connects.
func TestDirectCanceledWhileConnecting(t *testing.T) {
	cause := errors.New("the visitor left")
	ctx, cancel := context.WithCancelCause(t.Context())
	d := httpconn.NewDirect(limits(), func(ctx context.Context, network, address string) (net.Conn, error) {
		cancel(cause)
		return new(net.Dialer).DialContext(ctx, network, address)
	})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:9", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.RoundTrip(r); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
}

// The header has ResponseHeaderTimeout, and the body all the time it needs.
func TestDirectHeaderTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transport := limits()
		transport.ResponseHeaderTimeout = time.Second
		dials := 0
		d := httpconn.NewDirect(transport, func(context.Context, string, string) (net.Conn, error) {
			dials++
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				r, err := http.ReadRequest(bufio.NewReader(server))
				if err != nil || r.URL.Path == "/never" {
					_, _ = io.Copy(io.Discard, server) // until the client leaves
					return
				}
				_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel")
				time.Sleep(time.Hour)
				_, _ = io.WriteString(server, "lo")
			}()
			return client, nil
		})
		began := time.Now()
		_, err := get(t, d, "http://origin.example/never")
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) != time.Second || dials != 1 {
			t.Errorf("%v after %v, %d dials", err, time.Since(began), dials)
		}
		if got, err := get(t, d, "http://origin.example/slow"); got != "hello" || err != nil {
			t.Errorf("a slow body: %q, %v", got, err)
		}
	})
}

// Idle connections are bounded in number and time.
func TestDirectBoundsIdleConnections(t *testing.T) {
	const clients = 5
	var together sync.WaitGroup
	together.Add(clients)
	s := newRawServer(t, func(c net.Conn, r *http.Request) bool {
		together.Done()
		together.Wait() // so that each request has a connection
		return writes("HTTP/1.1 204 No Content\r\n\r\n")(c, r)
	})
	d := newDirect(t, func(t *http.Transport) { t.MaxIdleConnsPerHost = 2 })
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			if _, err := get(t, d, s.url); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for range clients - 2 {
		<-s.closed
	}
	d.CloseIdleConnections()
	<-s.closed
	<-s.closed

	s = newRawServer(t, writes("HTTP/1.1 204 No Content\r\n\r\n"))
	if _, err := get(t, newDirect(t, func(t *http.Transport) { t.IdleConnTimeout = time.Millisecond }), s.url); err != nil {
		t.Fatal(err)
	}
	<-s.closed
}

// Concurrent requests, of which some are given up, get their own responses.
func TestDirectConcurrent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 100 {
			_, _ = fmt.Fprintf(w, "%-100s", r.URL.Path)
		}
	}))
	defer server.Close()
	d := newDirect(t, nil)
	var all sync.WaitGroup
	for client := range 16 {
		all.Go(func() {
			for i := range 200 {
				path := fmt.Sprintf("/%d/%d", client, i)
				ctx, cancel := context.WithCancel(t.Context())
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, http.NoBody)
				if err != nil {
					t.Error(err)
				}
				if i%7 == 0 {
					go cancel()
				}
				res, err := d.RoundTrip(r)
				if err == nil {
					limit := int64(10000)
					if i%5 == 0 {
						limit = 500
					}
					var body []byte
					body, err = io.ReadAll(io.LimitReader(res.Body, limit))
					_ = res.Body.Close()
					if want := strings.Repeat(fmt.Sprintf("%-100s", path), 100); err == nil && string(body) != want[:limit] {
						t.Errorf("%s: got %.100q", path, body)
					}
				}
				if err != nil && i%7 != 0 {
					t.Errorf("%s: %v", path, err)
				}
				cancel()
			}
		})
	}
	all.Wait()
}

// The response of a server that refuses a request before it has read it arrives, though writing fails.
func TestDirectRefused(t *testing.T) {
	closed := make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		defer close(closed)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 8\r\n\r\ntoo long")
		_ = conn.Close()
	}()
	d := httpconn.NewDirect(limits(), func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		<-closed // so that no buffer takes the request
		return conn, err
	})
	defer d.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", strings.Repeat("x", 32<<20))
	res, err := d.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge || string(body) != "too long" || err != nil {
		t.Errorf("got %s %q, %v", res.Status, body, err)
	}
}
