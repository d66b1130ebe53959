package httpconn

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// CoalesceWrites has a server send a cached page in one write. net/http sends a
// response in two, the first as large as its buffer, and on a hit that second
// system call is a fifth of all the work.
//
// A client that takes no byte of a response for stall, and for half of it at least,
// loses its connection: it would hold the page in memory, and the origin's connection
// of a response that passes through. Zero or less: no bound.
//
// It returns the listener to serve on, and sets the server's ConnContext, calling
// the one that was set before. Connections that are not TCP, and whatever else the
// server serves, are as they were. Call it before the server serves.
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
	buffers *sync.Pool // of *bytes.Buffer
}

func (l *coalescingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return &coalescingConn{TCPConn: tcp, stall: l.stall, buffers: l.buffers}, err
	}
	return c, err
}

type connKey struct{}

// A coalescingConn holds the beginning of a response back until the rest comes,
// which it has been promised. Its fields are for the goroutine that writes the
// response, as Write is.
type coalescingConn struct {
	*net.TCPConn
	stall    time.Duration
	extended time.Time // when the write deadline was set last
	buffers  *sync.Pool
	promised int           // length of the body that is about to be written; 0: nothing is held
	missing  int           // bytes of the response that are still to come
	held     *bytes.Buffer // its beginning; nil until something is held
}

// PromiseBody says that the response to r is about to be written, with a body of
// n bytes and a Content-Length that says so.
func PromiseBody(r *http.Request, n int) {
	if c, ok := r.Context().Value(connKey{}).(*coalescingConn); ok {
		c.promised = n
	}
}

// Write implements [net.Conn].
func (c *coalescingConn) Write(p []byte) (int, error) {
	if c.promised == 0 {
		return c.write(p)
	}
	if c.held == nil {
		// A response that is not what was promised (something between us and
		// the connection may have changed it) is written as it comes.
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
	response := net.Buffers{c.held.Bytes(), first}
	c.extend()
	_, err := response.WriteTo(c.TCPConn)
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

// writeStep is how much a client has to take before the deadline moves, in bytes.
const writeStep = 256 << 10

// write sends p in steps, each under a deadline of its own.
func (c *coalescingConn) write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		c.extend()
		var sent int
		sent, err = c.TCPConn.Write(p[:min(len(p), writeStep)])
		n, p = n+sent, p[sent:]
	}
	return n, err
}

// extend moves the write deadline, if half of it is over: most responses then cost
// no more than a look at the clock.
func (c *coalescingConn) extend() {
	if c.stall <= 0 {
		return
	}
	if now := time.Now(); now.Sub(c.extended) > c.stall/2 {
		c.extended = now
		_ = c.SetWriteDeadline(now.Add(c.stall)) // of a closed connection, whose write will say so
	}
}

// ReadFrom hides that of the TCP connection, which would write without a deadline.
func (c *coalescingConn) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{c}, r)
}

// responseLength is the length of the response that begins with p, if p has all
// of its header and that announces a body of n bytes; 0 otherwise.
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
