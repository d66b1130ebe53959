package httpconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A lane has the handler of a server serve all requests on the fast path.
type lane struct {
	handler http.Handler
	served  atomic.Int64
}

func (l *lane) Respond(c Client, head []byte) Outcome {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil || r.Close {
		return Declined
	}
	r.RemoteAddr = c.Address()
	l.served.Add(1)
	c.Serve(l.handler, r)
	return Answered
}

// A pair is two servers with one handler, of which one serves it on the fast path.
type pair struct {
	handler atomic.Pointer[http.HandlerFunc]
	lane    lane
	fast    *http.Server
	path    *FastPath
	addresses
}

type addresses struct{ plain, quick string }

// warm is the path of a request that does not concern the handler of a pair.
const warm = "/warm"

func newPair(t testing.TB, idle time.Duration) *pair {
	t.Helper()
	return newPairOf(t, idle, time.Minute)
}

// newPairOf returns a pair that gives clients a time to read.
func newPairOf(t testing.TB, idle, stall time.Duration) *pair {
	t.Helper()
	p := &pair{}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == warm {
			_, _ = io.WriteString(w, "warm")
			return
		}
		(*p.handler.Load())(w, r)
	})
	p.lane.handler = h
	start := func(fast bool) (*http.Server, string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: h, IdleTimeout: idle, ErrorLog: log.New(io.Discard, "", 0)}
		address := l.Addr().String()
		l = CoalesceWrites(s, l, stall)
		if fast {
			p.path = NewFastPath(s, l, &p.lane)
		}
		go func() { _ = s.Serve(l) }() // ends with Close
		t.Cleanup(func() { _ = s.Close() })
		return s, address
	}
	_, p.plain = start(false)
	p.fast, p.quick = start(true)
	return p
}

// connect returns a connection that the fast path has, if the server has one.
func (p *pair) connect(t testing.TB, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	in := bufio.NewReader(c)
	for range 1000 {
		before := p.lane.served.Load()
		_, _ = io.WriteString(c, "GET "+warm+" HTTP/1.1\r\nHost: h\r\n\r\n")
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		if address == p.plain || p.lane.served.Load() > before {
			return c, in
		}
	}
	t.Fatal("no request is served on the fast path")
	return nil, nil
}

const get = "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

// send sends a request that h serves on the fast path, so often, and returns the connection.
func (p *pair) send(t testing.TB, times int, h http.HandlerFunc) (net.Conn, *bufio.Reader) {
	t.Helper()
	p.handler.Store(&h)
	c, in := p.connect(t, p.quick)
	_, _ = io.WriteString(c, strings.Repeat(get, times))
	return c, in
}

// receive receives a response with a body.
func receive(t *testing.T, in *bufio.Reader, want string) *http.Response {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != want || res.StatusCode != http.StatusOK {
		t.Errorf("%s, %q, %v, want %q", res.Status, body, err, want)
	}
	return res
}

// exchange returns what a server sends for a request, and for one after it, until it closes the connection.
func (p *pair) exchange(t testing.TB, address, method string, h http.HandlerFunc) string {
	t.Helper()
	c, in := p.connect(t, address)
	p.handler.Store(&h)
	_, _ = io.WriteString(c, method+" / HTTP/1.1\r\nHost: h\r\n\r\n")
	_, _ = io.WriteString(c, "GET "+warm+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	got, err := io.ReadAll(in)
	if err != nil && !strings.Contains(err.Error(), "reset") { // with what the client has sent ahead unread
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^Date: .* GMT\r$`).ReplaceAllString(string(got), "Date: now\r")
}

func (p *pair) compare(t *testing.T, h http.HandlerFunc) {
	t.Helper()
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		if got, want := p.exchange(t, p.quick, method, h), p.exchange(t, p.plain, method, h); got != want {
			t.Errorf("%s: the fast path sends\n%.3000q\nand net/http\n%.3000q", method, got, want)
		}
	}
}

// TestResponses: a handler has the same response on the fast path as from net/http, byte for byte.
func TestResponses(t *testing.T) {
	p := newPair(t, time.Hour)
	write := func(w io.Writer, sizes ...int) {
		for _, n := range sizes {
			_, _ = w.Write(pattern(n))
		}
	}
	set := func(w http.ResponseWriter, fields ...string) {
		for i := 0; i < len(fields); i += 2 {
			w.Header().Add(fields[i], fields[i+1])
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"nothing":           func(http.ResponseWriter, *http.Request) {},
		"a status":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"an unknown status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) },
		"two statuses":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); w.WriteHeader(200) },
		"a short body":      func(w http.ResponseWriter, _ *http.Request) { write(w, 10, 10) },
		"a string":          func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"a full buffer":     func(w http.ResponseWriter, _ *http.Request) { write(w, bodyBuffer) },
		"a byte more":       func(w http.ResponseWriter, _ *http.Request) { write(w, bodyBuffer, 1) },
		"a long body":       func(w http.ResponseWriter, _ *http.Request) { write(w, 100<<10) },
		"a body in parts":   func(w http.ResponseWriter, _ *http.Request) { write(w, 1, 5000, 100, 2048, 1, 2047, 3000, 0, 7) },
		"a declared length": func(w http.ResponseWriter, _ *http.Request) { set(w, "Content-Length", "10000"); write(w, 10000) },
		"and it in parts": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Content-Length", "3000")
			write(w, 10, 2000, 990)
		},
		"a length of zero":   func(w http.ResponseWriter, _ *http.Request) { set(w, "Content-Length", "0"); write(w, 1) },
		"less than declared": func(w http.ResponseWriter, _ *http.Request) { set(w, "Content-Length", "10"); write(w, 9) },
		"more than declared": func(w http.ResponseWriter, _ *http.Request) { set(w, "Content-Length", "10"); write(w, 9, 2) },
		"none of it":         func(w http.ResponseWriter, _ *http.Request) { set(w, "Content-Length", "10") },
		"an invalid length":  func(w http.ResponseWriter, _ *http.Request) { set(w, "Content-Length", "ten"); write(w, 10) },
		"an empty length":    func(w http.ResponseWriter, _ *http.Request) { set(w, "Content-Length", ""); write(w, 10) },
		"a flush":            func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
		"flushes": func(w http.ResponseWriter, _ *http.Request) {
			write(w, 10)
			w.(http.Flusher).Flush()
			_ = http.NewResponseController(w).Flush()
			write(w, 3000, 10)
		},
		"a flush of a declared length": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Content-Length", "20")
			write(w, 10)
			w.(http.Flusher).Flush()
			write(w, 10)
		},
		"fields": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "X-B", "2", "X-A", "1", "X-B", "3", "Set-Cookie", "a=b", "X-Line", "a\r\nSet-Cookie: c=d", "Not a name", "x")
			write(w, 10)
		},
		"fields after the header": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); set(w, "X-A", "1"); write(w, 10) },
		"fields after the body":   func(w http.ResponseWriter, _ *http.Request) { write(w, 10); set(w, "X-A", "1") },
		"a date":                  func(w http.ResponseWriter, _ *http.Request) { set(w, "Date", "today") },
		"no date":                 func(w http.ResponseWriter, _ *http.Request) { w.Header()["Date"] = nil },
		"a type":                  func(w http.ResponseWriter, _ *http.Request) { set(w, "Content-Type", "text/x"); write(w, 10) },
		"no type":                 func(w http.ResponseWriter, _ *http.Request) { w.Header()["Content-Type"] = nil; write(w, 10) },
		"a content coding":        func(w http.ResponseWriter, _ *http.Request) { set(w, "Content-Encoding", "br"); write(w, 10) },
		"no content": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Content-Type", "a/b", "Content-Length", "4")
			w.WriteHeader(204)
			write(w, 4)
		},
		"not modified": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Content-Type", "a/b", "Content-Length", "4", "Etag", `"a"`)
			w.WriteHeader(304)
		},
		"chunked by itself": func(w http.ResponseWriter, _ *http.Request) { set(w, "Transfer-Encoding", "chunked"); write(w, 10) },
		"identity":          func(w http.ResponseWriter, _ *http.Request) { set(w, "Transfer-Encoding", "identity"); write(w, 10) },
		"identity with a length": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Transfer-Encoding", "identity", "Content-Length", "10")
			write(w, 10)
		},
		"chunked with a length": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Transfer-Encoding", "chunked", "Content-Length", "10")
			write(w, 10)
		},
		"two transfer codings": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Transfer-Encoding", "", "Transfer-Encoding", "chunked")
			write(w, 10)
		},
		"two fields Connection": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Connection", "x", "Connection", "close", "Transfer-Encoding", "identity")
			write(w, 10)
		},
		"two lengths": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Content-Length", "10", "Content-Length", "5")
			write(w, 10)
		},
		"another transfer coding": func(w http.ResponseWriter, _ *http.Request) { set(w, "Transfer-Encoding", "gzip"); write(w, 10) },
		"close":                   func(w http.ResponseWriter, _ *http.Request) { set(w, "Connection", "close"); write(w, 10) },
		"close, in upper case":    func(w http.ResponseWriter, _ *http.Request) { set(w, "Connection", "Close"); write(w, 10) },
		"close, long":             func(w http.ResponseWriter, _ *http.Request) { set(w, "Connection", "close"); write(w, 10000) },
		"keep-alive":              func(w http.ResponseWriter, _ *http.Request) { set(w, "Connection", "keep-alive"); write(w, 10) },
		"close of an identity": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Connection", "x", "Transfer-Encoding", "identity")
			write(w, 10)
		},
		"early hints": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Link", "</a>", "Content-Length", "5")
			w.WriteHeader(103)
			write(w, 5)
		},
		"interim responses": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(100)
			w.WriteHeader(102)
			w.WriteHeader(199)
			write(w, 5)
		},
		"an early hint after all": func(w http.ResponseWriter, _ *http.Request) { write(w, 5); w.WriteHeader(103) },
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Trailer", "X-T, x-u ,, Content-Length")
			write(w, 5)
			set(w, "X-T", "1", "X-T", "2", "X-U", "3", "X-V", "4")
		},
		"declared trailers, unset": func(w http.ResponseWriter, _ *http.Request) { set(w, "Trailer", "X-T"); write(w, 5) },
		"trailers of a length": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Trailer", "X-T", "Content-Length", "5")
			write(w, 5)
			set(w, "X-T", "1")
		},
		"trailers, not declared": func(w http.ResponseWriter, _ *http.Request) { write(w, 5000); set(w, http.TrailerPrefix+"X-T", "1") },
		"and before the header":  func(w http.ResponseWriter, _ *http.Request) { set(w, http.TrailerPrefix+"X-T", "1"); write(w, 5) },
		"a trailer by two names": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Trailer", "X-T")
			write(w, 5)
			set(w, "X-T", "1", http.TrailerPrefix+"X-T", "2")
		},
		"a panic":                func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a panic after a status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200); panic("x") },
		"a panic after a part":   func(w http.ResponseWriter, _ *http.Request) { write(w, 5000, 10); panic(http.ErrAbortHandler) },
		"a panic after a flush": func(w http.ResponseWriter, _ *http.Request) {
			write(w, 10)
			w.(http.Flusher).Flush()
			write(w, 10)
			panic("x")
		},
		"a panic by a status":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(99) },
		"a panic by a great status": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1000) },
		"what Write returns": func(w http.ResponseWriter, _ *http.Request) {
			set(w, "Content-Length", "300")
			n, err := w.Write(nil)
			set(w, "X-After", "unsent")
			a, errA := fmt.Fprintf(w, "%3d %-40v", n, err)
			b, errB := w.Write(pattern(1000))
			fmt.Fprintf(w, "%3d %-40v%4d %-40v", a, errA, b, errB)
		},
		"what Write returns, without a body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()[http.TrailerPrefix+"X-Err"] = []string{"none"}
			w.WriteHeader(204)
			if _, err := w.Write(pattern(10)); !errors.Is(err, http.ErrBodyNotAllowed) {
				panic("no error")
			}
		},
		"the request": func(w http.ResponseWriter, r *http.Request) {
			host, _, _ := net.SplitHostPort(r.RemoteAddr)
			_, server := r.Context().Value(http.ServerContextKey).(*http.Server)
			local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
			body, err := io.ReadAll(r.Body)
			fmt.Fprintln(w, r.Method, r.URL, r.Proto, r.Host, r.RequestURI, host, server, local != nil, len(body), err, r.Body == http.NoBody, r.ContentLength, r.Context().Err())
		},
	} {
		t.Run(name, func(t *testing.T) { p.compare(t, h) })
	}
}

// FuzzResponses is TestResponses for any handler.
func FuzzResponses(f *testing.F) {
	p := newPair(f, time.Hour)
	for _, program := range []string{"w", "W", "lW", "wfw", "WwWwf", "tWT", "hwf", "cW", "iW", "sW", "eeW", "pWw", "wwwwwwW", "zw", "gW", "dw", "nW", "x"} {
		f.Add(program, int64(1))
		f.Add(program+program, int64(3000))
	}
	f.Fuzz(func(t *testing.T, program string, size int64) {
		program = program[:min(len(program), 30)]
		size = min(max(size, 0), 20<<10)
		p.compare(t, func(w http.ResponseWriter, _ *http.Request) { run(w, program, int(size)) })
	})
}

// run executes each letter of a program.
func run(w http.ResponseWriter, program string, size int) {
	h := w.Header()
	for i, step := range program {
		switch step {
		case 'w':
			_, _ = w.Write(pattern(size / (i + 1)))
		case 'W':
			_, _ = w.Write(pattern(size))
		case 'f':
			w.(http.Flusher).Flush()
		case 'l':
			h.Set("Content-Length", fmt.Sprint(size))
		case 'L':
			h.Set("Content-Length", fmt.Sprint(2*size))
		case 'x':
			delete(h, "Content-Length")
		case 's':
			w.WriteHeader(200 + size%400)
		case 'n':
			w.WriteHeader(204)
		case 'g':
			w.WriteHeader(304)
		case 'e':
			w.WriteHeader(103)
		case 'h':
			h.Add("X-A", fmt.Sprint(i))
		case 'c':
			h.Set("Connection", "close")
		case 'k':
			h.Set("Connection", "keep-alive")
		case 'i':
			h.Set("Transfer-Encoding", "identity")
		case 'C':
			h.Set("Transfer-Encoding", "chunked")
		case 't':
			h.Add("Trailer", "X-T")
		case 'T':
			h.Add("X-T", fmt.Sprint(i))
		case 'p':
			h.Add(http.TrailerPrefix+"X-P", fmt.Sprint(i))
		case 'z':
			h.Set("Content-Encoding", "gzip")
		case 'y':
			h.Set("Content-Type", "text/plain")
		case 'd':
			h["Date"] = nil
		case '!':
			panic(http.ErrAbortHandler)
		}
	}
}

// A response that is over takes nothing more, which would be a part of the next one.
func TestWriteAfterTheHandler(t *testing.T) {
	p := newPair(t, time.Hour)
	var kept http.ResponseWriter
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if kept != nil {
			kept.WriteHeader(103)
			if _, err := io.WriteString(kept, "another's"); err == nil {
				t.Error("a response that is over was written to")
			}
			if err := http.NewResponseController(kept).Flush(); err == nil {
				t.Error("a response that is over was flushed")
			}
		}
		kept = w
		_, _ = io.WriteString(w, "mine")
	})
	c, in := p.send(t, 1, h)
	receive(t, in, "mine")
	_, _ = io.WriteString(c, get)
	receive(t, in, "mine")
}

// A request is canceled when its client goes away, or only ends its side of the connection.
func TestClientGoesAway(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn){
		"closes":         func(c *net.TCPConn) { _ = c.Close() },
		"resets":         func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() },
		"closes its end": func(c *net.TCPConn) { _ = c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, time.Hour)
			handling, canceled := make(chan struct{}), make(chan error)
			h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				close(handling)
				<-r.Context().Done()
				canceled <- r.Context().Err()
			})
			c, _ := p.send(t, 1, h)
			<-handling
			leave(c.(*net.TCPConn))
			if err := <-canceled; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}

// The context of a request ends with its handler, and not before: the idle time of the connection does not
// count while a request is served, also if the client is watched.
func TestContextOfASlowRequest(t *testing.T) {
	t.Parallel()
	const idle = 30 * watchAfter
	p := newPair(t, idle)
	var last context.Context
	var ended time.Time
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = r.Context()
		select {
		case <-last.Done():
			t.Error("the request was canceled")
		case <-time.After(idle * 5 / 4):
		}
		ended = time.Now()
		_, _ = io.WriteString(w, "done")
	})
	_, in := p.send(t, 2, h) // also the second time, and a request that the client sends ahead is not lost
	receive(t, in, "done")
	receive(t, in, "done")
	if last.Err() == nil {
		t.Error("the context goes on after the handler")
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if took := time.Since(ended); took < idle {
		t.Errorf("closed after %v of idle time", took)
	}
}

// Shutdown lets handlers end, announces the end in their responses, and Wait waits for them.
func TestShutdownDuringAHandler(t *testing.T) {
	p := newPair(t, time.Hour)
	handling, goOn := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(handling)
		<-goOn
		if r.Context().Err() != nil {
			t.Error("the request was canceled")
		}
		_, _ = io.WriteString(w, "done")
	})
	_, in := p.send(t, 1, h)
	<-handling
	if err := p.fast.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var waited sync.WaitGroup
	waited.Go(func() {
		if err := p.path.Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
	close(goOn)
	if res := receive(t, in, "done"); !res.Close {
		t.Error("the response does not say that the connection is closed")
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection stays open: %v", err)
	}
	waited.Wait()
}

// When Wait ends early, handlers are canceled.
func TestWaitCancelsHandlers(t *testing.T) {
	p := newPair(t, time.Hour)
	handling, canceled := make(chan struct{}), make(chan struct{})
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(handling)
		<-r.Context().Done()
		close(canceled)
	})
	p.send(t, 1, h)
	<-handling
	if err := p.fast.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.path.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a request was canceled, and Wait returns %v", err)
	}
	<-canceled
}

// A write deadline of a handler ends with its response, also without one of CoalesceWrites.
func TestWriteDeadlineOfAHandler(t *testing.T) {
	p := newPairOf(t, time.Minute, 0)
	var kept http.ResponseWriter
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		past := time.Unix(1, 0)
		if kept != nil && http.NewResponseController(kept).SetWriteDeadline(past) == nil {
			t.Error("a response that is over has set a deadline for the next one")
		}
		kept = w
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "whole")
		w.(http.Flusher).Flush()
		if err := http.NewResponseController(w).SetWriteDeadline(past); err != nil {
			t.Error(err)
		}
	})
	c, in := p.send(t, 1, h)
	receive(t, in, "whole")
	_, _ = io.WriteString(c, get)
	receive(t, in, "whole")
}

// A handler learns that its client is gone from Write, and its context.
func TestWriteToAClientThatIsGone(t *testing.T) {
	p := newPair(t, time.Hour)
	ended := make(chan error, 1)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var err error
		for err == nil {
			_, err = w.Write(pattern(64 << 10))
		}
		if r.Context().Err() == nil {
			t.Error("the request was not canceled")
		}
		ended <- err
	})
	c, _ := p.send(t, 1, h)
	_ = c.Close()
	<-ended
}
