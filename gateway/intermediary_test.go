package gateway_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/testbed"
)

// protocols are the ways in which visitors reach a gateway.
var protocols = []string{"HTTP/1.1", "HTTP/2", "h2c"}

// intermediary starts a gateway with a cache in front of an origin, and returns its URL and a
// client of a protocol.
func intermediary(t *testing.T, protocol string, origin *url.URL, route isr.Route) (address string, client *http.Client) {
	t.Helper()
	h := gateway.New(testbed.Cache(t, testbed.Table(t), isr.Config{}), route, gateway.Config{Origin: origin, Logger: slog.New(slog.DiscardHandler)})
	server := httptest.NewUnstartedServer(h)
	transport := &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the server of this test
	switch protocol {
	case "HTTP/2":
		server.EnableHTTP2 = true
		transport.ForceAttemptHTTP2 = true
		server.StartTLS()
	case "h2c":
		server.Config.Protocols, transport.Protocols = unencryptedHTTP2(), unencryptedHTTP2()
		server.Start()
	default:
		server.Start()
	}
	t.Cleanup(server.Close)
	t.Cleanup(transport.CloseIdleConnections)
	return server.URL, &http.Client{Transport: transport}
}

func unencryptedHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// originOf starts an origin, which speaks HTTP/2 without TLS if h2c is set.
func originOf(t *testing.T, h2c bool, h http.HandlerFunc) *url.URL {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	scheme := "http"
	if h2c {
		server.Config.Protocols = unencryptedHTTP2()
		scheme = "h2c"
	}
	server.Start()
	t.Cleanup(server.Close)
	return parse(t, scheme+"://"+server.Listener.Addr().String())
}

// RFC 9110, section 6.5: trailers are forwarded both ways, except those that would be taken for
// fields of the proxy.
func TestTrailersAreForwarded(t *testing.T) {
	for _, h2c := range []bool{false, true} {
		for _, protocol := range protocols {
			for name, body := range map[string]string{"short": "a body", "long": strings.Repeat("a long body ", 100_000)} {
				t.Run(fmt.Sprint(protocol, h2c, name), func(t *testing.T) {
					var seen http.Header
					origin := originOf(t, h2c, func(w http.ResponseWriter, r *http.Request) {
						n, err := io.Copy(io.Discard, r.Body)
						seen = r.Trailer.Clone()
						w.Header().Set("Trailer", "X-Sum")
						fmt.Fprint(w, n, err)
						w.Header().Set("X-Sum", "of the response")
						w.Header().Set(http.TrailerPrefix+"X-Late", "not announced")
					})
					address, client := intermediary(t, protocol, origin, isr.Route{})
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/", io.NopCloser(strings.NewReader(body)))
					if err != nil {
						t.Fatal(err)
					}
					r.Trailer = http.Header{
						"X-Sum": {"of the request"}, "X-Forwarded-For": {"192.0.2.1"}, "X-Middleware-Subrequest": {"1"}, "X_Forwarded_Host": {"evil.example"},
					}
					res, err := client.Do(r)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = res.Body.Close() }()
					got, err := io.ReadAll(res.Body)
					if want := fmt.Sprint(len(body), nil); err != nil || string(got) != want {
						t.Errorf("got %q, %v; want %q", got, err, want)
					}
					if len(seen) != 1 || seen.Get("X-Sum") != "of the request" {
						t.Errorf("the origin got the trailers %v", seen)
					}
					if res.Trailer.Get("X-Sum") != "of the response" || res.Trailer.Get("X-Late") != "not announced" {
						t.Errorf("the visitor got the trailers %v", res.Trailer)
					}
				})
			}
		}
	}
}

// RFC 8297: hints of the origin reach visitors before the response, if it passes through.
func TestEarlyHintsAreForwarded(t *testing.T) {
	origin := originOf(t, false, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Cache-Control", "private")
		w.WriteHeader(http.StatusOK)
	})
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			address, client := intermediary(t, protocol, origin, isr.Route{})
			var hints []string
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				hints = append(hints, fmt.Sprint(code, " ", h.Get("Link")))
				return nil
			}})
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if !slices.Equal(hints, []string{"103 </style.css>; rel=preload"}) || res.StatusCode != http.StatusOK {
				t.Errorf("got %q, %s", hints, res.Status)
			}
		})
	}
}

// RFC 9110, section 7.6.1: fields that Connection lists are of one connection, both ways.
func TestFieldsOfAConnectionAreNotForwarded(t *testing.T) {
	var seen http.Header
	origin := originOf(t, false, func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		h := w.Header()
		h.Set("Connection", "X-Hop, keep-alive")
		h.Set("X-Hop", "1")
		h.Set("Keep-Alive", "timeout=5")
		h.Set("X-Kept", "1")
		if r.URL.Path == "/page" {
			h.Set("Cache-Control", "s-maxage=60")
		}
		fmt.Fprint(w, "a page")
	})
	address, client := intermediary(t, "HTTP/1.1", origin, isr.Route{})
	for _, path := range []string{"/", "/page", "/page"} { // passes through, is rendered, is a hit
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Connection": {"X-Hop"}, "X-Hop": {"1"}, "X-Kept": {"1"}}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.Header["X-Hop"] != nil || res.Header["Keep-Alive"] != nil || res.Header["X-Kept"] == nil {
			t.Errorf("%s: the visitor got %v", path, res.Header)
		}
		if seen["X-Hop"] != nil {
			t.Errorf("%s: the origin got %v", path, seen)
		}
	}
}

// A call of gRPC: messages in turns, each of which the other side waits for, and trailers.
func TestGRPCPassesThrough(t *testing.T) {
	origin := originOf(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get("Te") != "trailers" {
			http.Error(w, "not HTTP/2, or without TE", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		w.WriteHeader(http.StatusOK)
		control := http.NewResponseController(w)
		_ = control.Flush() // the header comes before the first message
		message := make([]byte, 5)
		for {
			if _, err := io.ReadFull(r.Body, message); err != nil {
				break
			}
			_, _ = w.Write(message)
			_ = control.Flush()
		}
		w.Header().Set("Grpc-Status", "0")
	})
	for _, protocol := range []string{"HTTP/2", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			address, client := intermediary(t, protocol, origin, isr.Route{})
			in, out := io.Pipe()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/service/Method", in)
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			for i := range 3 {
				message := fmt.Sprintf("msg %d", i)
				if _, err := io.WriteString(out, message); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, len(message))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != message {
					t.Fatalf("got %q, %v; want %q", got, err, message)
				}
			}
			_ = out.Close()
			if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 || res.Trailer.Get("Grpc-Status") != "0" {
				t.Errorf("at the end: %q, %v, %v", rest, err, res.Trailer)
			}
		})
	}
}

// 100 MB pass through in both directions without being kept in memory.
func TestLargeBodiesAreNotBuffered(t *testing.T) {
	const size = 100 << 20
	const bound = 32 << 20 // more than buffers and garbage, less than a body
	origin := originOf(t, false, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if n != size || err != nil {
			http.Error(w, fmt.Sprint("received ", n, err), http.StatusBadRequest)
			return
		}
		_, _ = io.CopyN(w, zeros{}, size) // the visitor notices
	})
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			address, client := intermediary(t, protocol, origin, isr.Route{})
			most, stop := watchHeap()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/", io.NopCloser(io.LimitReader(zeros{}, size)))
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			n, err := io.Copy(io.Discard, res.Body)
			stop()
			if n != size || err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("got %s with %d bytes, %v", res.Status, n, err)
			}
			if got := most(); got > bound {
				t.Errorf("the heap grew by %d MB", got>>20)
			}
		})
	}
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// watchHeap measures by how much the memory in use grows until stop is called.
func watchHeap() (most func() uint64, stop func()) {
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, peak := inUse(), uint64(0)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			peak = max(peak, inUse())
		}
	}()
	return func() uint64 { return peak - min(peak, before) }, func() { cancel(); <-ended }
}

// A cold page reaches visitors while it is rendered, and a render that breaks resets the stream
// or closes the connection, on each protocol.
func TestColdPagesAreStreamedOnEveryProtocol(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			seen := make(chan bool)
			origin := originOf(t, false, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "s-maxage=60")
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "one")
				_ = http.NewResponseController(w).Flush()
				select {
				case whole := <-seen:
					if !whole {
						panic(http.ErrAbortHandler)
					}
				case <-r.Context().Done():
				}
				fmt.Fprint(w, "two")
			})
			address, client := intermediary(t, protocol, origin, isr.Route{})
			for path, whole := range map[string]bool{"/whole": true, "/broken": false} {
				res, err := client.Get(address + path)
				if err != nil {
					t.Fatal(err)
				}
				first := make([]byte, 3)
				if _, err := io.ReadFull(res.Body, first); err != nil || string(first) != "one" {
					t.Fatalf("got %q, %v", first, err)
				}
				seen <- whole
				rest, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if (err == nil) != whole || whole && string(rest) != "two" {
					t.Errorf("%s: the rest is %q, %v", path, rest, err)
				}
			}
		})
	}
}

// A client of HTTP/1.0 gets bodies up to the end of the connection, and no chunks.
func TestHTTP10(t *testing.T) {
	origin := originOf(t, false, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/page") {
			w.Header().Set("Cache-Control", "s-maxage=60")
		}
		fmt.Fprint(w, "a ")
		_ = http.NewResponseController(w).Flush()
		fmt.Fprint(w, "body")
	})
	address, _ := intermediary(t, "HTTP/1.1", origin, isr.Route{})
	for _, path := range []string{"/", "/page", "/page"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: site.example\r\n\r\n", path)
		got, err := io.ReadAll(iotest.OneByteReader(conn))
		_ = conn.Close()
		header, body, _ := strings.Cut(string(got), "\r\n\r\n")
		if err != nil || !strings.HasPrefix(header, "HTTP/1.0 200") || body != "a body" || strings.Contains(header, "chunked") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}
