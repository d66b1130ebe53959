package httpconn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// A Direct sends requests to servers as an [http.Transport] does, but plain ones in the goroutine of the
// caller: a transport has two goroutines for each connection, to which it hands the request, and from which
// it gets the response. Plain requests are GET and HEAD by HTTP/1.1 without TLS, body or upgrade. They are
// written, and their responses parsed, by net/http. All others are the transport's, with connections of its own.
//
// A connection is used again only if its last response came as a whole, kept it open,
// and nothing followed it: what a server sends between responses would be taken for the answer to the next
// request, which may be another visitor's. A request is repeated, once and on a new connection, if the server
// closed an idle connection before any byte of a response came (RFC 9112, section 9.3.1).
//
// It is safe for concurrent use.
type Direct struct {
	transport *http.Transport
	dial      Dial

	mu      sync.Mutex
	idle    map[string][]*directConn // guarded by mu: by address, those used last at the end
	count   int                      // guarded by mu: connections in idle
	sweeper *time.Timer              // guarded by mu: closes those that are idle for too long; nil if there are none
}

// NewDirect returns a Direct whose connections are made by dial. Its limits are the transport's,
// which must all be set: ResponseHeaderTimeout (here from the beginning of the request),
// MaxResponseHeaderBytes, IdleConnTimeout, MaxIdleConns, MaxIdleConnsPerHost, ReadBufferSize.
func NewDirect(t *http.Transport, dial Dial) *Direct {
	return &Direct{transport: t, dial: dial, idle: make(map[string][]*directConn)}
}

// RoundTrip implements [http.RoundTripper].
func (d *Direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isPlain(r) {
		return d.transport.RoundTrip(r)
	}
	address := r.URL.Host
	if r.URL.Port() == "" {
		address = net.JoinHostPort(r.URL.Hostname(), "80")
	}
	if c := d.take(address); c != nil {
		res, err := d.exchange(r, c)
		if err == nil || c.answered || r.Context().Err() != nil || isTimeout(err) {
			return res, err
		}
	}
	c, err := d.connect(r.Context(), address)
	if err != nil {
		return nil, failed(r.Context(), err)
	}
	return d.exchange(r, c)
}

// isPlain reports whether a request is plain. For invalid ones, the transport has the errors.
func isPlain(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.Scheme != "http" || r.URL.Hostname() == "" {
		return false
	}
	if r.Body != nil && r.Body != http.NoBody || r.Close || len(r.TransferEncoding)+len(r.Trailer) > 0 {
		return false
	}
	for name, values := range r.Header {
		switch name {
		case "Upgrade", "Expect", "Connection":
			return false
		}
		if !httpguts.ValidHeaderFieldName(name) {
			return false
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return false
			}
		}
	}
	for i := range len(r.URL.Host) {
		if r.URL.Host[i] >= 0x80 {
			return false // the transport knows about IDNA
		}
	}
	return true
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// A directConn is a connection of a [Direct]. It belongs to one request at a time.
type directConn struct {
	net.Conn
	socket   *socket // nil if it cannot be watched, and so is used once
	address  string
	br       *bufio.Reader
	bw       *bufio.Writer
	left     int64 // what may be read of a header
	answered bool  // a byte of the current response has come
	since    time.Time
}

func (d *Direct) connect(ctx context.Context, address string) (*directConn, error) {
	conn, err := d.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &directConn{Conn: bySocket(conn), address: address}
	if s, ok := c.Conn.(*socketConn); ok {
		c.socket = s.socket
	}
	c.br = bufio.NewReaderSize(c, d.transport.ReadBufferSize)
	c.bw = bufio.NewWriterSize(c, 4<<10)
	return c, nil
}

var errLongHeader = errors.New("the header of the response is too long")

// Read reads at most what is left of a header.
func (c *directConn) Read(p []byte) (n int, err error) {
	if c.left <= 0 {
		return 0, errLongHeader
	}
	p = p[:min(int64(len(p)), c.left)]
	n, err = c.Conn.Read(p)
	c.left -= int64(n)
	return n, err
}

// exchange sends a request and reads the header of its response. The body of the response releases the
// connection.
func (d *Direct) exchange(r *http.Request, c *directConn) (*http.Response, error) {
	ctx := r.Context()
	body := &directBody{direct: d, conn: c, ctx: ctx}
	body.stop = context.AfterFunc(ctx, func() { _ = c.Close() }) // reads and writes then fail
	res, err := c.send(r, d.transport)
	if err != nil {
		body.release(false)
		return nil, failed(ctx, err)
	}
	body.reuse = !res.Close && res.StatusCode != http.StatusSwitchingProtocols
	if res.Body == http.NoBody {
		body.release(body.reuse)
		return res, nil
	}
	body.inner = res.Body
	res.Body = body
	return res, nil
}

// send writes a request and reads the header of the response. A server that refuses a long header, for
// example with 431, may respond and close the connection before it has read all: the response is then in the
// socket's buffer.
func (c *directConn) send(r *http.Request, limits *http.Transport) (*http.Response, error) {
	c.answered = false
	if err := c.SetDeadline(time.Now().Add(limits.ResponseHeaderTimeout)); err != nil {
		return nil, err
	}
	refused := r.Write(c.bw)
	if refused == nil {
		refused = c.bw.Flush()
	}
	if refused != nil && !isHangup(refused) {
		return nil, refused
	}
	res, err := c.readHeader(r, limits.MaxResponseHeaderBytes)
	switch {
	case err != nil && refused != nil && !c.answered:
		return nil, refused
	case err != nil:
		return nil, fmt.Errorf("response: %w", err)
	}
	res.Close = res.Close || refused != nil // the rest of the request was not sent
	c.left = math.MaxInt64
	return res, c.SetDeadline(time.Time{})
}

// readHeader reads the header of a response, after interim responses, which it passes to the trace of the
// request.
func (c *directConn) readHeader(r *http.Request, limit int64) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	c.left = limit
	if _, err := c.br.Peek(1); err != nil {
		return nil, unexpected(err)
	}
	c.answered = true
	if trace != nil && trace.GotFirstResponseByte != nil {
		trace.GotFirstResponseByte()
	}
	for {
		res, err := http.ReadResponse(c.br, r)
		if err != nil {
			return nil, unexpected(err)
		}
		if res.StatusCode < 100 || res.StatusCode > 199 || res.StatusCode == http.StatusSwitchingProtocols {
			return res, nil
		}
		if trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(res.StatusCode, textproto.MIMEHeader(res.Header)); err != nil {
				return nil, err
			}
			c.left = limit // the trace bounds their number
		}
	}
}

// unexpected returns the error of a connection that ends within a header.
func unexpected(err error) error {
	if err == io.EOF { //nolint:errorlint // Readers return io.EOF itself
		return io.ErrUnexpectedEOF
	}
	return err
}

// A directBody is the body of a response. At its end, the connection may be used by other requests.
type directBody struct {
	inner    io.ReadCloser // nil before the response
	direct   *Direct
	conn     *directConn
	ctx      context.Context
	stop     func() bool // of the function that closes the connection when ctx is done
	reuse    bool        // the server keeps the connection open
	released atomic.Bool
	closed   atomic.Bool
}

// Read implements [io.Reader]. After the end it does not read from the connection, which may be in use.
func (b *directBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := b.inner.Read(p)
	switch err {
	case nil:
	case io.EOF:
		b.release(b.reuse)
	default:
		b.release(false)
		err = failed(b.ctx, err)
	}
	return n, err
}

// Close implements [io.Closer]. It does not read the rest, which may be long.
func (b *directBody) Close() error {
	b.closed.Store(true)
	b.release(false)
	return nil
}

// release ends the use of the connection.
func (b *directBody) release(reuse bool) {
	if b.released.Swap(true) {
		return
	}
	if b.stop() && reuse && b.direct.put(b.conn) {
		return
	}
	_ = b.conn.Close()
}

// failed returns the error of a request: the error of its context, if that is why it failed.
func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// put keeps a connection for other requests, and reports whether it does.
func (d *Direct) put(c *directConn) bool {
	if c.socket == nil || c.br.Buffered() > 0 {
		return false
	}
	c.since = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count >= d.transport.MaxIdleConns || len(d.idle[c.address]) >= d.transport.MaxIdleConnsPerHost {
		return false
	}
	d.idle[c.address] = append(d.idle[c.address], c)
	d.count++
	if d.sweeper == nil {
		d.sweeper = time.AfterFunc(d.transport.IdleConnTimeout, d.sweep)
	}
	return true
}

// take returns the idle connection to an address that was used last, nil if there is none.
func (d *Direct) take(address string) *directConn {
	for {
		c := d.pop(address)
		if c == nil || c.socket.silent() {
			return c
		}
		_ = c.Close() // the server has
	}
}

func (d *Direct) pop(address string) *directConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	conns := d.idle[address]
	last := len(conns) - 1
	if last < 0 {
		return nil
	}
	c := conns[last]
	conns[last] = nil
	d.keepLocked(address, conns[:last])
	return c
}

// keepLocked sets the idle connections to an address. Callers must hold mu.
func (d *Direct) keepLocked(address string, conns []*directConn) {
	d.count += len(conns) - len(d.idle[address])
	if d.idle[address] = conns; len(conns) == 0 {
		delete(d.idle, address)
	}
}

// sweep closes connections that are idle for too long, and comes back for the rest.
func (d *Direct) sweep() {
	d.closeIdle(time.Now().Add(-d.transport.IdleConnTimeout))
}

// CloseIdleConnections closes the connections that are not in use, also the transport's.
func (d *Direct) CloseIdleConnections() {
	d.closeIdle(time.Now())
	d.transport.CloseIdleConnections()
}

// closeIdle closes the connections that are idle since a time or earlier.
func (d *Direct) closeIdle(until time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var oldest time.Time
	for address, conns := range d.idle {
		n := 0
		for n < len(conns) && !conns[n].since.After(until) {
			_ = conns[n].Close()
			n++
		}
		rest := append([]*directConn(nil), conns[n:]...)
		d.keepLocked(address, rest)
		if len(rest) > 0 && (oldest.IsZero() || rest[0].since.Before(oldest)) {
			oldest = rest[0].since
		}
	}
	if d.sweeper != nil {
		d.sweeper.Stop()
		d.sweeper = nil
	}
	if !oldest.IsZero() {
		d.sweeper = time.AfterFunc(time.Until(oldest.Add(d.transport.IdleConnTimeout)), d.sweep)
	}
}
