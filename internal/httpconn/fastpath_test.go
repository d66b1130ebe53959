package httpconn

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A fake answers requests for paths that begin with /fast, and has a handler answer those for /handle.
type fake struct {
	body     []byte
	answered atomic.Int64
	writing  chan struct{} // receives at each request that is answered; nil: not
	during   func()        // is called while a request for /fast/during is answered
}

func (f *fake) Respond(c Client, head []byte) Outcome {
	switch {
	case bytes.HasPrefix(head, []byte("GET /refuse")):
		return Refused
	case bytes.HasPrefix(head, []byte("GET /panic")):
		if bytes.HasPrefix(head, []byte("GET /panic/served")) {
			c.Serve(http.NotFoundHandler(), &http.Request{Method: http.MethodGet})
		}
		panic(http.ErrAbortHandler)
	case bytes.HasPrefix(head, []byte("GET /handle")):
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			return Declined
		}
		c.Serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-By", "handler") }), r)
		return Answered
	case !bytes.HasPrefix(head, []byte("GET /fast")):
		return Declined
	}
	f.answered.Add(1)
	if bytes.HasPrefix(head, []byte("GET /fast/during")) {
		f.during()
	}
	if f.writing != nil {
		f.writing <- struct{}{}
	}
	_, _ = c.Send(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nX-By: fast\r\nContent-Length: %d\r\n\r\n", len(f.body)), f.body)
	return Answered
}

// fastServer is a server with a fast path, on which h serves all else.
func fastServer(t *testing.T, f *fake, configure func(*http.Server), h http.HandlerFunc) (*httptest.Server, *FastPath) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.IdleTimeout = time.Hour // beyond the deadlines of clients
	if configure != nil {
		configure(s.Config)
	}
	s.Listener = CoalesceWrites(s.Config, l, time.Minute)
	path := NewFastPath(s.Config, s.Listener, f)
	s.Start() // replaces ConnState, and calls the one before
	t.Cleanup(s.Close)
	return s, path
}

// A client sends requests on one connection.
type client struct {
	*testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, s *httptest.Server) *client {
	t.Helper()
	c, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	return &client{t, c, bufio.NewReader(c)}
}

// send sends texts one after the other.
func (c *client) send(texts ...string) {
	c.Helper()
	for _, text := range texts {
		if _, err := io.WriteString(c, text); err != nil {
			c.Fatal(err)
		}
	}
}

// receive receives a response, and returns its writer.
func (c *client) receive() (by string, body []byte) {
	c.Helper()
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.Fatal(err)
	}
	if body, err = io.ReadAll(res.Body); err != nil {
		c.Fatal(err)
	}
	return res.Header.Get("X-By"), body
}

// expect receives a response, and checks its writer.
func (c *client) expect(by string) []byte {
	c.Helper()
	got, body := c.receive()
	if got != by {
		c.Fatalf("a response by %q, want %q", got, by)
	}
	return body
}

func byHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-By", "net/http")
	_, _ = w.Write(body)
}

const (
	slowly = "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n"
	fast   = "GET /fast HTTP/1.1\r\nHost: h\r\n\r\n"
)

// untilFast sends requests until one is answered by the fast path. A client may be so fast that
// net/http reads its next request itself.
func (c *client) untilFast() {
	c.Helper()
	for range 1000 {
		c.send(fast)
		if by, _ := c.receive(); by == "fast" {
			return
		}
	}
	c.Fatal("no request is answered by the fast path: does net/http still set one deadline after StateIdle, and read into its whole buffer?")
}

// dialFast returns a client whose next request is answered by the fast path.
func dialFast(t *testing.T, s *httptest.Server) *client {
	t.Helper()
	c := dial(t, s)
	c.send(slowly)
	c.expect("net/http")
	c.untilFast()
	return c
}

// TestNetHTTP: what the fast path relies on. It fails if a release of Go changes that.
func TestNetHTTP(t *testing.T) {
	f := &fake{body: pattern(10 << 10)}
	s, _ := fastServer(t, f, nil, byHTTP)
	c := dial(t, s)
	c.send(fast)
	c.expect("net/http") // the first one always
	c.untilFast()
	for range 10 { // between two of the fast path, it never changes
		c.send(fast)
		if body := c.expect("fast"); !bytes.Equal(body, f.body) {
			t.Fatalf("a body of %d bytes", len(body))
		}
	}
	c.send(fast + fast + slowly + fast)
	c.expect("fast")
	c.expect("fast")
	c.expect("net/http")
	c.expect("net/http") // it had read both
	c.untilFast()
	c.send("GET /refuse HTTP/1.1\r\nHost: h\r\n\r\n")
	c.expect("net/http")
	for range 10 {
		c.send(fast)
		c.expect("net/http")
	}
}

// What net/http has read of a request that follows another one is never mistaken for its beginning.
func TestReadAhead(t *testing.T) {
	f := &fake{}
	handling, ended := make(chan struct{}), make(chan struct{})
	s, _ := fastServer(t, f, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			handling <- struct{}{}
			<-ended
		}
		byHTTP(w, r)
	})
	const wait = "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n"
	for name, tt := range map[string]struct {
		ahead, then string // what follows a request: while it is handled, and once it is answered
		want        []string
	}{
		"the first byte, in the background": {"G", "ET /fast HTTP/1.1\r\nHost: h\r\n\r\n", []string{"net/http"}},
		"a byte before a request":           {"X", fast, []string{"net/http"}},
		"three bytes before a request":      {"XYZ", fast, []string{"net/http"}},
		"a part":                            {"GET /fast HT", "TP/1.1\r\nHost: h\r\n\r\n", []string{"net/http"}},
		"the request line":                  {"GET /slow HTTP/1.1\r\n", "Host: h\r\n\r\n", []string{"net/http"}},
		"a request in a header":             {"GET /slow HTTP/1.1\r\n", fast + fast, []string{""}},
		"a request in a body":               {"POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 31\r\n\r\n", fast, []string{"net/http"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t, s)
			before := f.answered.Load()
			c.send(wait + tt.ahead) // read together: the rest is in net/http's buffer
			<-handling
			ended <- struct{}{}
			c.expect("net/http")
			c.send(tt.then)
			for _, by := range tt.want {
				c.expect(by)
			}
			c = dial(t, s)
			c.send(wait)
			<-handling
			c.send(tt.ahead) // its first byte is read in the background
			ended <- struct{}{}
			c.expect("net/http")
			c.send(tt.then)
			if want := tt.want[0]; want != "" {
				// Unless net/http had not begun to read that, so that the fast path has read a whole request.
				whole := strings.HasPrefix(tt.ahead+tt.then, fast)
				if by, _ := c.receive(); by != want && (by != "fast" || !whole) {
					t.Errorf("a response by %q, want %q", by, want)
				}
			}
			if n := f.answered.Load() - before; n > 0 && tt.want[0] != "net/http" {
				t.Errorf("%d requests were answered by the fast path", n)
			}
		})
	}
}

// What net/http does around the Read of the next request, and what it does around others. No other
// guard of the fast path is asked here.
func TestBetween(t *testing.T) {
	type step func(*between)
	deadline := func(b *between) { b.deadline() }
	state := func(s http.ConnState) step { return func(b *between) { b.note(s) } }
	for name, tt := range map[string]struct {
		steps []step
		want  bool
	}{
		"a new connection":                   {nil, false},
		"a deadline of a new connection":     {[]step{deadline}, false},
		"new":                                {[]step{state(http.StateNew), deadline}, false},
		"active":                             {[]step{state(http.StateActive), deadline}, false},
		"idle, without a deadline":           {[]step{state(http.StateIdle)}, false},
		"idle":                               {[]step{state(http.StateIdle), deadline}, true},
		"idle again":                         {[]step{state(http.StateIdle), deadline, deadline, state(http.StateActive), state(http.StateIdle), deadline}, true},
		"the next request is in the buffer":  {[]step{state(http.StateIdle), deadline, deadline}, false},
		"and more deadlines":                 {[]step{state(http.StateIdle), deadline, deadline, deadline}, false},
		"active after idle":                  {[]step{state(http.StateIdle), state(http.StateActive), deadline}, false},
		"active after the deadline":          {[]step{state(http.StateIdle), deadline, state(http.StateActive)}, false},
		"closed":                             {[]step{state(http.StateIdle), deadline, state(http.StateClosed)}, false},
		"hijacked":                           {[]step{state(http.StateIdle), state(http.StateHijacked), deadline}, false},
		"reported once":                      {[]step{state(http.StateIdle), deadline, func(b *between) { b.awaits() }}, false},
		"reported once, and then a deadline": {[]step{state(http.StateIdle), deadline, func(b *between) { b.awaits() }, deadline}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var b between
			for _, s := range tt.steps {
				s(&b)
			}
			if got := b.awaits(); got != tt.want {
				t.Errorf("awaits the next request: %t, want %t", got, tt.want)
			}
		})
	}
}

// After a response that could not be written whole, nothing more is sent: a client that has sent the
// next request already would take its response for the rest of the first.
func TestNothingFollowsABrokenResponse(t *testing.T) {
	f := &fake{body: pattern(32 << 20)} // more than the buffers of both sides hold
	closed := make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(byHTTP))
	s.Config.IdleTimeout = 5 * time.Second
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	s.Listener = CoalesceWrites(s.Config, l, time.Second)
	NewFastPath(s.Config, s.Listener, f)
	s.Start()
	t.Cleanup(s.Close)
	c := dial(t, s)
	c.send(slowly)
	c.expect("net/http")
	for f.answered.Load() == 0 { // by the fast path, unless the client is too fast for it
		c.send(fast + fast)
		for range 2 {
			if first, err := c.in.Peek(len("HTTP/1.1 200 OK\r\nX-By: fast")); err != nil {
				t.Fatal(err)
			} else if strings.HasSuffix(string(first), "fast") {
				break
			}
			c.expect("net/http")
		}
	}
	<-closed // which takes the write deadline, since nothing reads
	if n := f.answered.Load(); n != 1 {
		t.Errorf("%d requests were answered, want 1", n)
	}
}

// Hits extend the idle time, and without any the connection ends.
func TestIdleTime(t *testing.T) {
	t.Parallel()
	const idle = 5 * time.Second // also on a busy machine, two requests follow each other sooner
	s, _ := fastServer(t, &fake{}, func(s *http.Server) { s.IdleTimeout = idle }, byHTTP)
	c := dialFast(t, s)
	var last time.Time
	for began := time.Now(); time.Since(began) < idle*3/2; {
		last = time.Now()
		c.send(fast)
		c.expect("fast")
	}
	if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if took := time.Since(last); took < idle {
		t.Errorf("closed %v after the last request", took)
	}
}

// A client that sends requests one after the other gets all responses, from the fast path, handlers and
// net/http, also if it sends a request early or in parts.
func TestSteadyClients(t *testing.T) {
	s, _ := fastServer(t, &fake{body: pattern(100)}, nil, byHTTP)
	texts := map[string]string{"fast": fast, "handler": "GET /handle HTTP/1.1\r\nHost: h\r\n\r\n", "net/http": slowly}
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			c := dial(t, s)
			c.send(slowly)
			c.expect("net/http")
			for range 3000 {
				sent, by := "", []string(nil)
				for more := true; more; more = random.IntN(32) == 0 {
					who := "fast"
					switch n := random.IntN(100); {
					case n < 5:
						who = "handler"
					case n == 5:
						who = "net/http"
					}
					sent, by = sent+texts[who], append(by, who)
				}
				if random.IntN(32) == 0 {
					at := random.IntN(len(sent))
					c.send(sent[:at])
					sent = sent[at:]
				}
				c.send(sent)
				for _, who := range by {
					if got, _ := c.receive(); got != who && got != "net/http" { // which may have read it before
						t.Fatalf("a request for %s was answered by %q", who, got)
					}
				}
			}
		})
	}
}

// The end of a stream that comes together with a request of a steady client is found a little later.
func TestEndAfterSteadyRequests(t *testing.T) {
	f := &fake{}
	s, _ := fastServer(t, f, nil, byHTTP)
	c := dialFast(t, s)
	for range 2 * steady {
		c.send(fast)
		c.expect("fast")
	}
	f.during = func() {
		c.send(fast)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
	}
	c.send("GET /fast/during HTTP/1.1\r\nHost: h\r\n\r\n")
	c.expect("fast")
	c.expect("fast")
	if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) { // the idle time is longer than the deadline
		t.Fatal(err)
	}
}

// Shutdown lets the response that is being written be written, and Wait waits for that.
func TestShutdownDuringAResponse(t *testing.T) {
	// The body is more than the buffers of both sides hold.
	f := &fake{body: pattern(32 << 20), writing: make(chan struct{}, 1000)}
	s, path := fastServer(t, f, nil, byHTTP)
	c := dial(t, s)
	c.send(slowly)
	c.expect("net/http")
	for range 1000 {
		c.send(fast)
		if first, err := c.in.Peek(len("HTTP/1.1 200 OK\r\nX-By: fast")); err != nil {
			t.Fatal(err)
		} else if strings.HasSuffix(string(first), "fast") {
			break
		}
		c.expect("net/http")
	}
	<-f.writing
	if err := s.Config.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	waited := make(chan struct{})
	go func() {
		if err := path.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		close(waited)
	}()
	if body := c.expect("fast"); !bytes.Equal(body, f.body) {
		t.Errorf("%d bytes", len(body))
	}
	<-waited
	if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection stays open: %v", err)
	}
}

// Wait ends the responses to clients that do not read when its context is done.
func TestWaitEnds(t *testing.T) {
	f := &fake{body: pattern(32 << 20), writing: make(chan struct{}, 1000)}
	s, path := fastServer(t, f, nil, byHTTP)
	c := dial(t, s)
	c.send(slowly)
	c.expect("net/http")
	for len(f.writing) == 0 {
		c.send(fast)
		if _, err := c.in.Peek(1); err != nil {
			t.Fatal(err)
		}
		if len(f.writing) == 0 {
			c.expect("net/http")
		}
	}
	if err := s.Config.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := path.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a response was cut off, and Wait returns %v", err)
	}
	if n, err := io.Copy(io.Discard, c.in); err == nil && n >= int64(len(f.body)) {
		t.Errorf("a client that does not read got %d bytes", n)
	}
}

func TestPanicOfAResponder(t *testing.T) {
	s, path := fastServer(t, &fake{}, nil, byHTTP)
	for _, target := range []string{"/panic", "/panic/served"} {
		c := dialFast(t, s)
		c.send("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")
		if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: the connection stays open: %v", target, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := path.Wait(ctx); err != nil {
		t.Error(err)
	}
}

// Wait does not wait for a Responder when its context is done.
func TestWaitEndsDuringRespond(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	f := &fake{during: func() { close(entered); <-release }}
	s, path := fastServer(t, f, nil, byHTTP)
	c := dialFast(t, s)
	c.send("GET /fast/during HTTP/1.1\r\nHost: h\r\n\r\n")
	<-entered
	if err := s.Config.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	waited := make(chan error)
	go func() { waited <- path.Wait(ctx) }()
	select {
	case err := <-waited:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(release)
	case <-time.After(5 * time.Minute):
		close(release)
		t.Error("Wait waits for the Responder")
		<-waited
	}
	if _, err := io.Copy(io.Discard, c.in); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays open")
	}
}

// A client that reads nothing loses its connection also at a later request, though net/http
// removes the write deadline after each.
func TestClientsThatReadNothingLater(t *testing.T) {
	const stall = 3 * time.Second
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			byHTTP(w, r)
			return
		}
		_, err := w.Write(pattern(32 << 20))
		ended <- err
	}))
	s.Listener = CoalesceWrites(s.Config, l, stall)
	s.Start()
	defer s.Close()
	c := dial(t, s)
	c.send(slowly)
	c.expect("net/http")
	c.send(fast)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a client that reads nothing was written 32 MiB")
		}
	case <-time.After(20 * stall):
		t.Error("the connection of a client that reads nothing stays open")
	}
}

// A client that has begun its next request has the idle time, from then on, to send more of it.
func TestBeginningOfARequest(t *testing.T) {
	t.Parallel()
	const idle = 5 * time.Second
	s, _ := fastServer(t, &fake{}, func(s *http.Server) { s.IdleTimeout = idle }, byHTTP)
	c := dial(t, s)
	c.send(slowly)
	c.expect("net/http")
	began := time.Now() // of the idle time of net/http
	for c.untilFast(); time.Since(began) < idle*3/4; {
		c.send(fast)
		c.expect("fast")
	}
	c.send(slowly[:2])
	<-time.After(time.Until(began.Add(idle * 5 / 4)))
	c.send(slowly[2:])
	c.expect("net/http")
}

// A connection that net/http has closed answers no request any more, also if it has read one.
func TestNoRequestAfterClose(t *testing.T) {
	f := &FastPath{closing: make(map[*coalescingConn]struct{})}
	c := &coalescingConn{fast: f}
	if f.closeLater(c) || c.answering.begin() {
		t.Error("a request is answered on a connection that is closed")
	}
	c = &coalescingConn{fast: f}
	if !c.answering.begin() || !f.closeLater(c) || !f.closeLater(c) {
		t.Error("a connection is closed, though a response is being written")
	}
	if c.answering.end(0) || len(f.closing) != 1 {
		t.Error("a connection is not closed after its response")
	}
}
