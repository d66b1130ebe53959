package httpconn

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A Responder answers requests on connections of net/http in its place. It is called
// concurrently.
type Responder interface {
	// Respond may answer the request that head is of: all of it, from the request line to the
	// empty line. It then calls Send or Serve of the client, once, and returns Answered. Before
	// any other outcome it calls neither. Head is valid until Respond returns. Respond is called within a
	// read: it must not wait for the connection to be closed, or read from it.
	Respond(c Client, head []byte) Outcome
}

// A Client is the connection that a request came by. It is valid until Respond returns.
type Client interface {
	// Address returns the address of the client, in the form of [http.Request.RemoteAddr].
	Address() string
	// Send writes the header and the body of a response, and returns how many bytes were written.
	Send(header, body []byte) (int64, error)
	// Serve has a handler write the response, once Respond has returned. The request must be one of GET or
	// HEAD and HTTP/1.1 that net/http would accept, without a body, Connection: close, Upgrade, or Expect, and
	// must not refer to the head. It gets a context as from net/http, and the same calls of WriteHeader,
	// Write and Flush send the same bytes. But only after 100 ms is the client noticed to be gone, and
	// the response cannot be hijacked, and has neither read deadlines nor full duplex.
	Serve(h http.Handler, r *http.Request)
}

// An Outcome is what a [Responder] did with a request.
type Outcome int

// The outcomes.
const (
	Answered Outcome = iota // it has been answered, unless the connection has failed
	Declined                // net/http answers it
	Refused                 // net/http answers it, and all that follow on the connection
)

// A FastPath answers requests on the connections of a server without net/http:
//
//	first request ──────────────────────────► net/http ──► StateIdle ─┐
//	                                                                  ▼
//	                       ┌─────────────────────────────────── wait for bytes ◄─┐
//	                       ▼                                                     │
//	          a whole head, and the Responder answers it ── yes ── Send or Serve ┘
//	                       │ no
//	                       ▼
//	net/http reads the same bytes, and whatever follows, until StateIdle again
//
// It works within the Read by which net/http waits for the next request, in net/http's own
// buffer: bytes that are not answered are in place when Read returns, so that none is ever
// copied, held back, or seen by both. That Read is recognized by what net/http does around it:
//
//   - the ConnState hook has reported StateIdle, and then exactly one read deadline was set, for
//     the idle time. Once net/http has bytes of the next request, it sets another one.
//   - it asks for as many bytes as the first Read of the connection did, the size of its
//     buffer. If it had bytes of the next request, such as the one that it reads in the
//     background while a handler runs, it would ask for fewer.
//
// If either is no longer true in some version of Go, no request is answered here.
//
// The idle time counts from the last response. The time to send a header is limited by net/http,
// since a head that is not whole is not answered here, and the time to read a response is limited by
// [CoalesceWrites].
type FastPath struct {
	responder Responder
	idle      time.Duration // IdleTimeout of the server; 0: none
	ended     atomic.Bool   // net/http answers all requests

	mu sync.Mutex
	// closing are the connections that net/http has closed while a response was written, which
	// is when they are closed.
	closing map[*coalescingConn]struct{} // guarded by mu
	empty   chan struct{}                // guarded by mu: closed once closing is empty; nil if it is
}

// NewFastPath answers requests on the connections that a listener accepts from now on. The listener
// must be the one that [CoalesceWrites] has returned, and the server must serve nothing but
// HTTP/1 on it, without TLS, and have neither ReadTimeout nor WriteTimeout. It sets the server's ConnState
// and ConnContext, which call the previous ones. Call it before the server serves.
func NewFastPath(s *http.Server, l net.Listener, r Responder) *FastPath {
	f := &FastPath{responder: r, idle: max(s.IdleTimeout, 0), closing: make(map[*coalescingConn]struct{})}
	if cl, ok := l.(*coalescingListener); ok {
		cl.fast = f
	}
	outerContext := s.ConnContext
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if outerContext != nil {
			ctx = outerContext(ctx, c)
		}
		if cc, ok := c.(*coalescingConn); ok {
			cc.context = context.WithValue(withoutCoalescing(ctx), http.LocalAddrContextKey, c.LocalAddr())
		}
		return ctx
	}
	outer := s.ConnState
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if cc, ok := c.(*coalescingConn); ok {
			cc.between.note(state)
		}
		if outer != nil {
			outer(c, state)
		}
	}
	return f
}

// End leaves all requests from now on to net/http, whose handler can close their connections.
func (f *FastPath) End() { f.ended.Store(true) }

// Wait waits until the responses that were being written when the server was shut down are
// written. When ctx is done it closes their connections, which cancels the requests that handlers serve, and
// returns the cause. Call it after [http.Server.Shutdown], and after Close with a context that is done,
// since neither ends these requests.
func (f *FastPath) Wait(ctx context.Context) error {
	f.mu.Lock()
	empty := f.empty
	f.mu.Unlock()
	if empty == nil {
		return nil
	}
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.closing {
		go func() { _ = c.TCPConn.Close() }() // ends the write at once, and then waits for Respond
	}
	return context.Cause(ctx)
}

// between is where net/http is with respect to requests. Only its serving goroutine changes it.
type between struct{ step atomic.Int32 }

const (
	inRequest int32 = iota // or before the first one
	isIdle                 // StateIdle was reported
	isAwaited              // the idle deadline was set: the next Read waits for the next request
)

// note notes a state that net/http reports.
func (b *between) note(state http.ConnState) {
	if state == http.StateIdle {
		b.step.Store(isIdle)
	} else {
		b.step.Store(inRequest)
	}
}

// deadline notes that a read deadline is set.
func (b *between) deadline() {
	switch b.step.Load() {
	case isIdle:
		b.step.Store(isAwaited)
	case isAwaited:
		b.step.Store(inRequest) // the next request was in the buffer
	}
}

// awaits reports, once, whether net/http waits for the next request.
func (b *between) awaits() bool {
	return b.step.Load() == isAwaited && b.step.CompareAndSwap(isAwaited, inRequest)
}

// SetReadDeadline implements [net.Conn].
func (c *coalescingConn) SetReadDeadline(t time.Time) error {
	c.between.deadline()
	return c.TCPConn.SetReadDeadline(t)
}

// Read implements [net.Conn].
func (c *coalescingConn) Read(p []byte) (int, error) {
	if c.framing == nil {
		return c.read(p)
	}
	return c.framing.read(c.read, p)
}

func (c *coalescingConn) read(p []byte) (int, error) {
	switch {
	case c.fast == nil:
	case c.buffer == 0: // the first Read
		c.buffer = len(p)
	case len(p) == c.buffer && c.between.awaits() && !c.refused:
		return c.received(c.fast.serve(c, p))
	}
	return c.received(c.socket.Read(p))
}

// received counts what net/http gets of a request.
func (c *coalescingConn) received(n int, err error) (int, error) {
	if c.waits != nil && err == nil {
		if err = c.limits.received(c, n); err != nil {
			return 0, err
		}
	}
	return n, err
}

// peeked is how many bytes of the next request net/http waits for by the deadline of the idle time.
const peeked = 4

// minBuffer is the least size of net/http's buffer that requests are read into.
const minBuffer = 1 << 10

// serve answers requests until one comes that net/http is to answer, and returns the bytes that
// were read of that.
func (f *FastPath) serve(c *coalescingConn, p []byte) (int, error) {
	if len(p) < minBuffer || c.context == nil {
		return c.socket.Read(p)
	}
	s := &stretch{fast: f, conn: c, p: p}
	c.soon = false
	defer func() { // also after a panic, which net/http logs
		if s.closing {
			f.close(c) // which waits for the end of ReadEach
		}
	}()
	take := s.take
	for {
		if err := c.socket.ReadEach(p, take); err != nil && !s.extendIdle(err) {
			return 0, err
		}
		for c.handler != nil {
			s.handle()
			s.answer()
		}
		if s.over {
			return s.n, s.err
		}
	}
}

// A stretch is the requests that are answered in one Read of net/http.
type stretch struct {
	fast     *FastPath
	conn     *coalescingConn
	p        []byte        // net/http's buffer
	n        int           // bytes in it, of requests that are not answered yet
	head     int           // length of the head that is being answered
	single   int           // how many reads in a row were of one request each, soon after the one before
	answered time.Duration // when the last response was sent, since the connection was accepted; 0: none
	over     bool          // net/http gets the bytes, and err
	err      error
	closing  bool // net/http has closed the connection, which is still to be closed in fact
}

// A client is expected to send more once it has sent steady requests, each after the response to the one
// before, and within pause. The end of its stream is then not looked for after each response, but within
// lookTime: it is missed only if it came before its last request was read.
const (
	steady   = 8
	pause    = 100 * time.Millisecond
	lookTime = 250 * time.Millisecond
)

// take answers the requests that were read.
func (s *stretch) take(n int) afterRead {
	before := s.answered
	s.n = n
	s.answer()
	if s.over || s.conn.handler != nil {
		return stopReading
	}
	if s.single++; s.head < n || s.answered-before > pause {
		s.single = 0
	}
	if s.single < steady {
		return readAgain
	}
	s.lookSoon()
	return awaitBytes
}

// answer answers the requests in the buffer, until one that net/http or a handler is to answer.
func (s *stretch) answer() {
	c := s.conn
	for s.n > 0 && !s.over {
		s.head = headLength(s.p[:s.n])
		if s.head == 0 { // not whole: too long, or still on its way
			if s.n < peeked && s.answered > 0 {
				s.fast.startIdle(c) // net/http waits for more by the deadline that is set
			}
			s.over = true
			return
		}
		switch outcome := s.respond(s.p[:s.head]); {
		case s.over:
		case outcome == Refused:
			c.refused, s.over = true, true
		case outcome != Answered:
			s.over = true
		case c.handler != nil:
			return
		default:
			s.next()
		}
	}
}

// next goes on to the request after one that has been answered.
func (s *stretch) next() {
	if s.conn.failed != nil {
		s.fail(s.conn.failed)
		return
	}
	s.answered = s.conn.sent
	s.n = copy(s.p, s.p[s.head:s.n]) // what was sent ahead
}

// fail ends the stretch.
func (s *stretch) fail(err error) { s.n, s.over, s.err = 0, true, err }

// lookSoon ends the wait for bytes within lookTime of the last response.
func (s *stretch) lookSoon() {
	c := s.conn
	if c.soon {
		return
	}
	c.soon = true
	wait := lookTime
	if s.fast.idle > 0 {
		wait = min(wait, s.fast.idle)
	}
	_ = c.TCPConn.SetReadDeadline(c.accepted.Add(s.answered + wait)) // fails if the connection is closed, as the next read does
}

// extendIdle moves the read deadline when it passes, so that most requests cost nothing, and reports whether it
// has. The deadline that net/http has set counts from its last response; if there was one
// here since, the idle time counts from that.
func (s *stretch) extendIdle(err error) bool {
	c := s.conn
	if s.answered == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	var until time.Time
	if s.fast.idle > 0 {
		if until = c.accepted.Add(s.answered + s.fast.idle); !time.Now().Before(until) {
			return false
		}
	}
	c.soon = false
	return c.TCPConn.SetReadDeadline(until) == nil
}

// respond has a request answered, or a handler chosen for it.
func (s *stretch) respond(head []byte) Outcome {
	if s.fast.ended.Load() {
		return Refused
	}
	c := s.conn
	if !c.answering.begin() {
		s.fail(net.ErrClosed)
		return Declined
	}
	handled := false
	defer func() { // also after a panic
		if !handled {
			c.handler, c.request = nil, nil
			s.end()
		}
	}()
	outcome := s.fast.responder.Respond((*clientConn)(c), head)
	handled = outcome == Answered && c.handler != nil
	return outcome
}

// handle has that handler answer.
func (s *stretch) handle() {
	defer s.end()
	c := s.conn
	h, r := c.handler, c.request
	c.handler, c.request = nil, nil
	c.serve(h, r)
	s.next()
}

// end ends an answer.
func (s *stretch) end() {
	if !s.conn.answering.end(s.conn.sent) {
		s.closing = true
		s.fail(net.ErrClosed)
	}
}

// headLength returns the length of the head that bytes begin with, up to and including the empty
// line; 0 if it is not whole.
func headLength(p []byte) int {
	i := bytes.Index(p, []byte("\r\n\r\n"))
	if i < 0 {
		return 0
	}
	return i + 4
}

// startIdle sets the read deadline to the end of the idle time, which counts from now. It fails if the
// connection is closed, as the next read then does.
func (f *FastPath) startIdle(c *coalescingConn) {
	var end time.Time
	if f.idle > 0 {
		end = time.Now().Add(f.idle)
	}
	c.soon = false
	_ = c.TCPConn.SetReadDeadline(end)
}

// A clientConn is a connection as a [Responder] gets it.
type clientConn coalescingConn

// Address implements [Client].
func (c *clientConn) Address() string {
	if c.address == "" {
		c.address = c.RemoteAddr().String()
	}
	return c.address
}

// Send implements [Client].
func (c *clientConn) Send(header, body []byte) (int64, error) {
	return (*coalescingConn)(c).sendWhole(header, body)
}

// Serve implements [Client].
func (c *clientConn) Serve(h http.Handler, r *http.Request) { c.handler, c.request = h, r }

// sendWhole writes a part of a response, from a header and a body.
func (c *coalescingConn) sendWhole(header, body []byte) (n int64, err error) {
	first := body[:min(len(body), writeStep)]
	c.extend()
	n, err = c.socket.Write(header, first)
	if err == nil && len(body) > len(first) {
		var rest int
		rest, err = c.write(body[len(first):])
		n += int64(rest)
	}
	c.sent, c.failed = time.Since(c.accepted), err
	return n, err
}

// answering reports whether a request is being answered on a connection, and whether the connection
// was closed before.
type answering struct{ state atomic.Int64 }

// The states. Others, from 0 on, mean that no request is being answered: when the last response was sent, in ns since
// the connection was accepted, 0 if there was none.
const (
	isAnswering int64 = -1
	isClosing   int64 = -2 // or closed
)

func (a *answering) begin() bool {
	last := a.state.Load()
	return last >= 0 && a.state.CompareAndSwap(last, isAnswering)
}

// end returns false if the connection must be closed now. sent is when the response was sent, since the connection was
// accepted.
func (a *answering) end(sent time.Duration) bool {
	return a.state.CompareAndSwap(isAnswering, max(int64(sent), 0))
}

// Close implements [net.Conn]. For net/http a connection is idle while requests are answered here:
// http.Server.Shutdown closes it, and the response that is being written, if any, must be written
// to its end all the same.
func (c *coalescingConn) Close() error {
	if c.fast != nil && c.fast.closeLater(c) {
		return nil
	}
	return c.closeNow()
}

func (c *coalescingConn) closeNow() error {
	if c.waits != nil {
		c.limits.forget(c)
		c.waits.head.close(c.limits.limits.Buffers)
	}
	return c.TCPConn.Close()
}

// closeLater has a connection closed after the response that is being written. It returns false
// if there is none, and from then on none begins.
func (f *FastPath) closeLater(c *coalescingConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch c.answering.state.Swap(isClosing) {
	case isClosing:
		_, writing := f.closing[c]
		return writing
	case isAnswering:
	default:
		return false
	}
	f.closing[c] = struct{}{}
	if f.empty == nil {
		f.empty = make(chan struct{})
	}
	return true
}

// close closes a connection whose response is written. Reads of net/http fail from now on.
func (f *FastPath) close(c *coalescingConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = c.closeNow()
	delete(f.closing, c)
	if len(f.closing) == 0 && f.empty != nil {
		close(f.empty)
		f.empty = nil
	}
}
