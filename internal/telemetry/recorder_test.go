package telemetry_test

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
)

// exchanges is a sink that keeps copies.
type exchanges chan telemetry.Exchange

func (c exchanges) Done(e *telemetry.Exchange) { c <- *e }

func (c exchanges) next(t *testing.T) telemetry.Exchange {
	t.Helper()
	select {
	case e := <-c:
		return e
	case <-time.After(5 * time.Minute):
		t.Fatal("no exchange was reported")
		return telemetry.Exchange{}
	}
}

// serve serves a handler behind a recorder; configure may change the server.
func serve(t *testing.T, h http.HandlerFunc, configure func(*httptest.Server)) (*httptest.Server, exchanges) {
	t.Helper()
	got := make(exchanges, 16)
	s := httptest.NewUnstartedServer(telemetry.Handler(h, got))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	if configure == nil {
		s.Start()
	} else {
		configure(s)
	}
	t.Cleanup(s.Close)
	return s, got
}

func do(t *testing.T, s *httptest.Server, method, body string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/page?q=1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Client().Do(r)
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

func TestExchange(t *testing.T) {
	for name, c := range map[string]struct {
		method string
		serve  http.HandlerFunc
		status int
		bytes  int64
	}{
		"write":      {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, 200, 5},
		"string":     {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, 200, 5},
		"copy":       {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.Copy(w, strings.NewReader("hello")) }, 200, 5},
		"nothing":    {http.MethodGet, func(http.ResponseWriter, *http.Request) {}, 200, 0},
		"status":     {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); _, _ = io.WriteString(w, "no") }, 404, 2},
		"first wins": {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); w.WriteHeader(200) }, 204, 0},
		"HEAD":       {http.MethodHead, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }, 200, 0},
		"interim": {http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		}, 418, 0},
	} {
		for proto, configure := range map[string]func(*httptest.Server){"HTTP/1.1": nil, "HTTP/2.0": (*httptest.Server).StartTLS} {
			t.Run(name+" "+proto, func(t *testing.T) {
				s, got := serve(t, c.serve, configure)
				if res, _ := do(t, s, c.method, ""); res.StatusCode != c.status || res.Proto != proto {
					t.Errorf("got %s %s", res.Proto, res.Status)
				}
				e := got.next(t)
				if e.Status != c.status || e.Bytes != c.bytes || e.Aborted || e.Request.URL.Path != "/page" || e.Start.IsZero() || e.FirstByte > e.Duration {
					t.Errorf("got %+v", e)
				}
			})
		}
	}
}

func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(exchanges, 1)
		h := telemetry.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			time.Sleep(2 * time.Second)
			w.WriteHeader(http.StatusOK)
			time.Sleep(3 * time.Second)
		}), got)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		if e := got.next(t); e.FirstByte != 2*time.Second || e.Duration != 5*time.Second {
			t.Errorf("got first byte %s, duration %s", e.FirstByte, e.Duration)
		}
	})
}

// The first byte of a hit that is large is timed before the body, which may wait for its reader.
func TestTimesOfHits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for size, first := range map[int]time.Duration{10: 5 * time.Second, 1 << 20: 2 * time.Second} {
			got := make(exchanges, 1)
			h := telemetry.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.(isr.Reporter).Report().Hit = true
				time.Sleep(2 * time.Second)
				_, _ = w.Write(make([]byte, size))
				time.Sleep(3 * time.Second)
			}), got)
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
			if e := got.next(t); e.FirstByte != first || e.Duration != 5*time.Second {
				t.Errorf("%d bytes: first byte after %s, duration %s", size, e.FirstByte, e.Duration)
			}
		}
	})
}

func TestReport(t *testing.T) {
	s, got := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(isr.Reporter).Report().Route = "GET /page"
		w.(isr.Reporter).Report().Hit = true
	}, nil)
	for range 3 { // by writers that are used again
		do(t, s, http.MethodGet, "")
		if e := got.next(t); e.Route != "GET /page" || !e.Hit || e.Status != 200 {
			t.Errorf("got %+v", e)
		}
	}
}

// The header has been sent once Flush returns.
func TestFlush(t *testing.T) {
	for name, flush := range map[string]func(http.ResponseWriter) error{
		"Flusher":            func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil },
		"ResponseController": func(w http.ResponseWriter) error { return http.NewResponseController(w).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan struct{})
			s, got := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if err := flush(w); err != nil {
					t.Error(err)
				}
				select {
				case <-read:
				case <-r.Context().Done():
				}
			}, nil)
			res, err := s.Client().Get(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			close(read)
			_ = res.Body.Close()
			if e := got.next(t); e.Status != 200 {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestHijack(t *testing.T) {
	s, got := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\nhi")
		_ = rw.Flush()
	}, nil)
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if text, _ := io.ReadAll(conn); !strings.HasSuffix(string(text), "\r\n\r\nhi") {
		t.Errorf("got %q", text)
	}
	if e := got.next(t); e.Status != http.StatusSwitchingProtocols || e.Bytes != 0 || e.Aborted {
		t.Errorf("got %+v", e)
	}
}

// A handler reads the request while it writes the response.
func TestFullDuplex(t *testing.T) {
	s, got := serve(t, func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := errors.Join(c.EnableFullDuplex(), c.SetReadDeadline(time.Now().Add(5*time.Minute))); err != nil {
			t.Error(err)
		}
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			_, _ = io.WriteString(w, "re: "+lines.Text()+"\n")
			_ = c.Flush()
		}
	}, nil)
	out, in := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, out)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(in, "one\n") }()
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for _, text := range []string{"one", "two"} {
		if !lines.Scan() || lines.Text() != "re: "+text {
			t.Fatalf("got %q, %v", lines.Text(), lines.Err())
		}
		if text == "one" {
			_, _ = io.WriteString(in, "two\n")
		}
	}
	_ = in.Close()
	if e := got.next(t); e.Bytes != int64(len("re: one\nre: two\n")) {
		t.Errorf("got %+v", e)
	}
}

// A response that breaks off is reported, and its connection is closed.
func TestAbort(t *testing.T) {
	for name, configure := range map[string]func(*httptest.Server){"HTTP/1.1": nil, "HTTP/2.0": (*httptest.Server).StartTLS} {
		t.Run(name, func(t *testing.T) {
			s, got := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/written" {
					_, _ = io.WriteString(w, "half")
					_ = http.NewResponseController(w).Flush()
				}
				panic(http.ErrAbortHandler)
			}, configure)
			for path, want := range map[string]telemetry.Exchange{"/": {}, "/written": {Status: 200, Bytes: 4}} {
				if res, err := s.Client().Get(s.URL + path); err == nil {
					if _, err := io.ReadAll(res.Body); err == nil {
						t.Error("the response is complete")
					}
					_ = res.Body.Close()
				}
				if e := got.next(t); !e.Aborted || e.Status != want.Status || e.Bytes != want.Bytes {
					t.Errorf("%s: got %+v", path, e)
				}
			}
		})
	}
}

// A goroutine of a handler that writes too late changes neither the exchange nor the response
// to another request.
func TestLateWrite(t *testing.T) {
	writers := make(chan http.ResponseWriter, 1)
	got := make(exchanges, 2)
	h := telemetry.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/leaks" {
			writers <- w
			return
		}
		late := <-writers
		late.WriteHeader(http.StatusTeapot)
		for name, write := range map[string]func() error{
			"Write":    func() error { _, err := late.Write([]byte("secret")); return err },
			"String":   func() error { _, err := io.WriteString(late, "secret"); return err },
			"ReadFrom": func() error { _, err := io.Copy(late, strings.NewReader("secret")); return err },
			"Flush":    func() error { return http.NewResponseController(late).Flush() },
			"Hijack":   func() error { _, _, err := late.(http.Hijacker).Hijack(); return err },
		} {
			if write() == nil {
				t.Errorf("%s: no error", name)
			}
		}
		_, _ = io.WriteString(w, "mine")
	}), got)
	first, second := httptest.NewRecorder(), httptest.NewRecorder()
	h.ServeHTTP(first, httptest.NewRequest(http.MethodGet, "/leaks", http.NoBody))
	h.ServeHTTP(second, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	if first.Body.Len() != 0 || second.Body.String() != "mine" || second.Code != 200 {
		t.Errorf("got %q, %d %q", first.Body, second.Code, second.Body)
	}
	if a, b := got.next(t), got.next(t); a.Status != 200 || a.Bytes != 0 || b.Bytes != 4 {
		t.Errorf("got %+v, %+v", a, b)
	}
}

// The reverse proxy passes interim responses, trailers and upgrades through.
func TestReverseProxy(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "body")
		w.(http.Flusher).Flush() // a short response without it has a length, and no trailer
		w.Header().Set(http.TrailerPrefix+"X-Sum", "1")
	}))
	defer origin.Close()
	at, err := url.Parse(origin.URL)
	if err != nil {
		t.Fatal(err)
	}
	s, got := serve(t, httputil.NewSingleHostReverseProxy(at).ServeHTTP, nil)
	res, body := do(t, s, http.MethodGet, "")
	if body != "body" || res.Trailer.Get("X-Sum") != "1" {
		t.Errorf("got %q, %v", body, res.Trailer)
	}
	if e := got.next(t); e.Status != 200 || e.Bytes != 4 {
		t.Errorf("got %+v", e)
	}
}

// A discard is a ResponseWriter without costs.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }

func (d *discard) WriteString(s string) (int, error) { return len(s), nil }

type count struct{ hits int }

func (c *count) Done(e *telemetry.Exchange) {
	if e.Hit {
		c.hits++
	}
}

func hit(w http.ResponseWriter, _ *http.Request) {
	w.(isr.Reporter).Report().Hit = true
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, "page")
}

func BenchmarkHit(b *testing.B) {
	w, r := &discard{header: http.Header{}}, httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	h := telemetry.Handler(http.HandlerFunc(hit), &count{})
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
