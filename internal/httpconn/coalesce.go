package httpconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// CoalesceWrites makes a server send a cached page in one write. net/http sends a response in
// two writes, the first as large as its buffer; on a cache hit the second system call is a
// fifth of the work.
//
// It also closes the connection of a client that has not read a byte of a response for
// stall, or for at least half of it: such a client keeps the page in memory, and the
// connection to the origin if the response passes through. Zero or less means no limit.
//
// It returns the listener to serve on and sets the server's ConnContext, which calls the
// previous one. Connections other than TCP are not changed. Call it before the server
// serves.
func CoalesceWrites(s *http.Server, l net.Listener, stall time.Duration) net.Listener {
	outer := s.ConnContext
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if outer != nil {
			ctx = outer(ctx, c)
		}
		if cc, ok := c.(*coalescingConn); ok {
			ctx = context.WithValue(ctx, connKey{}, cc)
		}
		return ctx
	}
	return &coalescingListener{Listener: l, stall: stall, buffers: &sync.Pool{New: func() any { return new(bytes.Buffer) }}}
}

type coalescingListener struct {
	net.Listener
	stall   time.Duration
	buffers *sync.Pool      // of *bytes.Buffer
	fast    *FastPath       // nil if there is none
	limits  *Connections    // nil if there are none
	peer    Peer            // nil if there are no limits
	framing func() *framing // makes the one of a connection; nil if ambiguous requests are not refused
}

func (l *coalescingListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if l.limits != nil && isExhausted(err) {
			l.limits.exhausted()
		}
		tcp, ok := c.(*net.TCPConn)
		if !ok {
			return c, err
		}
		socket, err := newSocket(tcp)
		if err != nil {
			return tcp, nil // which has failed
		}
		cc := &coalescingConn{TCPConn: tcp, socket: socket, accepted: time.Now(), stall: l.stall, buffers: l.buffers, fast: l.fast, limits: l.limits}
		if l.framing != nil {
			cc.framing = l.framing()
		}
		if l.limits == nil || l.limits.admit(cc, l.peer) {
			return cc, nil
		}
		_ = tcp.Close()
	}
}

type connKey struct{}

// A coalescingConn holds back the beginning of a response until the rest, announced by
// PromiseBody, is written. Its fields belong to the goroutine that writes the response, the fields of
// the fast path to the one that serves the connection, except as noted.
type coalescingConn struct {
	*net.TCPConn
	socket   *socket // reads and writes
	stall    time.Duration
	accepted time.Time
	extended atomic.Int64 // when the write deadline was set last, in ns since accepted; 0: there is none
	buffers  *sync.Pool
	promised int           // length of the announced body; 0: writes are not held back
	missing  int           // bytes of the response that have not been written yet
	held     *bytes.Buffer // the beginning of the response; nil if nothing is held

	limits *Connections // nil if there are none
	waits  *waits       // nil if there are no limits
	http2  atomic.Bool  // it is one of HTTP/2

	framing   *framing        // nil if ambiguous requests are not looked for
	fast      *FastPath       // nil if there is none
	between   between         // of any goroutine
	answering answering       // of any goroutine
	buffer    int             // length of the first Read: the size of net/http's buffer
	refused   bool            // net/http answers all requests from now on
	address   string          // of the client, once it is needed
	context   context.Context // of requests that a handler serves on the fast path
	handler   http.Handler    // that is to serve the current request; nil if there is none
	request   *http.Request   // of it
	soon      bool            // the read deadline is soon, to look for the end of the client's stream
	sent      time.Duration   // when the last response was written, since accepted
	failed    error           // of that write, or why no other may follow
}

// PromiseBody announces that the response to r is about to be written with a body of n bytes
// and the corresponding Content-Length. It does nothing on connections other than the connections of
// [CoalesceWrites], and for requests of HTTP/2, of which a connection may have several.
func PromiseBody(r *http.Request, n int) {
	if r.ProtoMajor != 1 {
		return
	}
	if c, ok := r.Context().Value(connKey{}).(*coalescingConn); ok {
		c.promised = n
	}
}

// WithoutCoalescing returns a request for which [PromiseBody] does nothing: the response is
// written as it comes.
func WithoutCoalescing(r *http.Request) *http.Request {
	return r.WithContext(withoutCoalescing(r.Context()))
}

func withoutCoalescing(ctx context.Context) context.Context {
	return context.WithValue(ctx, connKey{}, nil)
}

// Write implements [net.Conn].
func (c *coalescingConn) Write(p []byte) (int, error) {
	if c.promised == 0 {
		return c.write(p)
	}
	if c.held == nil {
		// A response that differs from what was announced (a wrapper of the handler may
		// have changed it) is written as it comes.
		c.missing = responseLength(p, c.promised) - len(p)
		if c.missing <= 0 {
			c.promised = 0
			return c.write(p)
		}
		c.held = c.buffers.Get().(*bytes.Buffer)
		return c.held.Write(p)
	}
	if c.missing -= len(p); c.missing > 0 {
		return c.held.Write(p)
	}
	first := p[:min(len(p), writeStep)]
	c.extend()
	_, err := c.socket.Write(c.held.Bytes(), first)
	if err == nil {
		_, err = c.write(p[len(first):])
	}
	c.held.Reset()
	c.buffers.Put(c.held)
	c.promised, c.held = 0, nil
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// writeStep is how many bytes a client must read before the deadline is extended.
const writeStep = 256 << 10

// write sends p in steps, each with its own deadline.
func (c *coalescingConn) write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		c.extend()
		var sent int64
		sent, err = c.socket.Write(p[:min(len(p), writeStep)], nil)
		n, p = n+int(sent), p[sent:]
	}
	return n, err
}

// extend moves the write deadline if half of it has passed, so that most responses cost only
// a look at the clock.
func (c *coalescingConn) extend() {
	if c.stall <= 0 {
		return
	}
	if since, extended := time.Since(c.accepted), c.extended.Load(); extended == 0 || since-time.Duration(extended) > c.stall/2 {
		c.extended.Store(max(int64(since), 1))
		_ = c.TCPConn.SetWriteDeadline(c.accepted.Add(since + c.stall)) // fails on a closed connection, as the write then does
	}
}

// SetWriteDeadline implements [net.Conn]. net/http removes the deadline after each response.
func (c *coalescingConn) SetWriteDeadline(t time.Time) error {
	c.extended.Store(0)
	return c.TCPConn.SetWriteDeadline(t)
}

// SetDeadline implements [net.Conn].
func (c *coalescingConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// ReadFrom hides the method of the TCP connection, which would write without a deadline.
func (c *coalescingConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

// responseLength returns the length of the response that begins with p, if p contains the
// whole header and that announces a body of n bytes; 0 otherwise.
func responseLength(p []byte, n int) int {
	end := bytes.Index(p, []byte("\r\n\r\n"))
	if end < 0 || !bytes.HasPrefix(p, []byte("HTTP/1.")) {
		return 0
	}
	_, value, found := bytes.Cut(p[:end+2], []byte("\r\nContent-Length: "))
	value, _, _ = bytes.Cut(value, []byte("\r\n"))
	if !found || !bytes.Equal(value, strconv.AppendInt(nil, int64(n), 10)) {
		return 0
	}
	return end + 4 + n
}
