package httpconn

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

// coalescing is a server that writes its pages in one.
func coalescing(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener = CoalesceWrites(s.Config, l, time.Minute)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

func TestCoalescedResponsesAreWhole(t *testing.T) {
	url := coalescing(t, func(w http.ResponseWriter, r *http.Request) {
		number := func(name string) int {
			n, err := strconv.Atoi(r.FormValue(name))
			if err != nil {
				t.Error(err)
			}
			return n
		}
		body := pattern(number("length"))
		if number("declare") == 1 {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		PromiseBody(r, number("promise"))
		half := len(body) / 2
		_, _ = w.Write(body[:half])
		if number("flush") == 1 {
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = w.Write(body[half:])
	})
	for _, length := range []int{0, 1, 2047, 3000, 4000, 4096, 5000, 8192, 10240, 100_000, 3 << 20} {
		for name, query := range map[string]string{
			"a page":               fmt.Sprintf("promise=%d&declare=1&flush=0", length),
			"flushed between":      fmt.Sprintf("promise=%d&declare=1&flush=1", length),
			"nothing promised":     "promise=0&declare=1&flush=0",
			"chunked":              fmt.Sprintf("promise=%d&declare=0&flush=1", length),
			"more promised":        fmt.Sprintf("promise=%d&declare=1&flush=0", length+1),
			"less promised":        fmt.Sprintf("promise=%d&declare=1&flush=0", max(length-1, 0)),
			"promised, undeclared": fmt.Sprintf("promise=%d&declare=0&flush=0", length),
		} {
			t.Run(fmt.Sprint(length, " bytes, ", name), func(t *testing.T) {
				for range 2 { // on one connection
					res, err := http.Get(fmt.Sprintf("%s/?length=%d&%s", url, length, query))
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(res.Body)
					_ = res.Body.Close()
					if err != nil || !bytes.Equal(got, pattern(length)) {
						t.Fatalf("%d bytes, %v", len(got), err)
					}
				}
			})
		}
	}
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 / 3)
	}
	return b
}

func TestResponseLength(t *testing.T) {
	const header = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX: y\r\n\r\n"
	for p, want := range map[string]int{
		header:                                            len(header) + 12,
		header + "begin":                                  len(header) + 12,
		"HTTP/1.1 200 OK\r\nX: y\r\n\r\n":                 0,
		"HTTP/1.1 200 OK\r\nContent-Len":                  0,
		"Content-Length: 12\r\n\r\n":                      0,
		"HTTP/1.1 200 OK\r\nX-Content-Length: 12\r\n\r\n": 0,
		"HTTP/1.1 200 OK\r\nContent-Length: 123\r\n\r\n":  0,
	} {
		if got := responseLength([]byte(p), 12); got != want {
			t.Errorf("%q: %d, want %d", p, got, want)
		}
	}
}

// A client that reads nothing loses its connection; one that reads slowly does not.
func TestClientsThatReadNothing(t *testing.T) {
	const stall = 3 * time.Second // a busy machine delays a reader, but not for so long
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	body := pattern(32 << 20) // more than the buffers of both sides hold
	ended := make(chan error, 2)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		PromiseBody(r, len(body))
		_, err := w.Write(body)
		ended <- err
	}))
	s.Listener = CoalesceWrites(s.Config, l, stall)
	s.Start()
	defer s.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("a client that reads nothing was written 32 MiB")
	}
	res, err := http.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A connection of HTTP/2 has several responses at a time: none is announced.
func TestPromisesOfHTTP2AreIgnored(t *testing.T) {
	c := &coalescingConn{}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r = r.WithContext(context.WithValue(r.Context(), connKey{}, c))
	r.ProtoMajor, r.ProtoMinor = 2, 0
	if PromiseBody(r, 10); c.promised != 0 {
		t.Errorf("%d bytes are promised", c.promised)
	}
	r.ProtoMajor, r.ProtoMinor = 1, 1
	if PromiseBody(r, 10); c.promised != 10 {
		t.Errorf("%d bytes are promised, want 10", c.promised)
	}
}
