package httpconn

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// A framing follows the requests of a connection of HTTP/1 and finds requests of which it is ambiguous where
// they end (RFC 9112, section 6.1): Content-Length together with Transfer-Encoding, either of them twice,
// Transfer-Encoding in another version than HTTP/1.1, and folded lines (section 5.2). A proxy in front may
// have taken the rest of such a request for the next one. net/http accepts most of them, and hides what it
// has removed. In their place it gets a line that is malformed: it answers the earlier requests, then
// responds with 400, and closes the connection.
//
// It holds no bytes back. A body that it cannot follow ends the connection, so that no later request is
// missed. Only one goroutine at a time calls check.
type framing struct {
	off     atomic.Bool // the bytes are not of HTTP/1: hijacked, or HTTP/2
	preface string      // what is to come of the preface of HTTP/2; empty if the connection is of HTTP/1
	step    framingStep
	line    []byte // the beginning of a line that is not whole; at most maxFramingLine
	head    framingHead
	left    int64  // bytes of the body, or of the chunk, to come
	after   []byte // what net/http gets instead of an ambiguous request; then nothing follows
	ended   bool
}

// RefuseAmbiguous has a server refuse requests of HTTP/1 with 400 of which it is ambiguous where they end, and
// close their connections. It returns the listener to serve on. l is any listener: the one that [CoalesceWrites] has returned, or
// one around it, such as for the PROXY protocol; for TLS the one of [AcceptTLS]. Connections of HTTP/2 are not
// changed; those that begin without TLS are recognized by their preface, if the server's Protocols have
// UnencryptedHTTP2. RefuseAmbiguous sets the server's ConnState, which calls the previous one. Call it before the server
// serves.
func RefuseAmbiguous(s *http.Server, l net.Listener) net.Listener {
	outer := s.ConnState
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if c, ok := c.(interface{ follower() *framing }); ok && state == http.StateHijacked {
			if f := c.follower(); f != nil {
				f.off.Store(true)
			}
		}
		if outer != nil {
			outer(c, state)
		}
	}
	h2c := s.Protocols != nil && s.Protocols.UnencryptedHTTP2()
	if cl, ok := l.(*coalescingListener); ok {
		cl.framing = func() *framing { return newFraming(h2c) }
		return cl
	}
	return &framingListener{l, h2c}
}

// newFraming returns a framing for a new connection. h2c: it may be one of HTTP/2.
func newFraming(h2c bool) *framing {
	f := new(framing)
	if h2c {
		f.preface = prefaceHTTP2
	}
	return f
}

// A framingListener accepts connections whose requests are followed.
type framingListener struct {
	net.Listener
	h2c bool
}

func (l *framingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return c, err
	}
	encrypted, ok := c.(*tls.Conn)
	if !ok {
		return &framedConn{c, newFraming(l.h2c)}, nil
	}
	state := encrypted.ConnectionState()
	switch state.NegotiatedProtocol {
	case "", "http/1.1", "http/1.0":
		if state.HandshakeComplete {
			return &framedTLSConn{encrypted, newFraming(false)}, nil
		}
	}
	return c, nil
}

// A framedConn is a connection whose requests are followed.
type framedConn struct {
	net.Conn
	framing *framing
}

func (c *framedConn) Read(p []byte) (int, error) { return c.framing.read(c.Conn.Read, p) }

func (c *framedConn) follower() *framing { return c.framing }

// NetConn returns the connection within.
func (c *framedConn) NetConn() net.Conn { return c.Conn }

// A framedTLSConn is one of HTTP/1 over TLS. net/http asks its ConnectionState, as of any connection that has this method.
type framedTLSConn struct {
	*tls.Conn
	framing *framing
}

func (c *framedTLSConn) Read(p []byte) (int, error) { return c.framing.read(c.Conn.Read, p) }

func (c *framedTLSConn) follower() *framing { return c.framing }

func (c *coalescingConn) follower() *framing { return c.framing }

type framingStep uint8

const (
	inRequestLine framingStep = iota
	inFields
	inBody
	inChunkSize
	inChunk
	inChunkEnd
	inTrailer
)

// A framingHead is what is known of the head that is being read.
type framingHead struct {
	old               bool // another version than HTTP/1.1
	folded            bool
	lengths, encoding int // lines
	length            int64
}

const (
	// maxFramingLine is how many bytes are kept of a line that comes by several reads: more than a head may
	// have, so that only a head that net/http refuses is cut off.
	maxFramingLine = 128 << 10
	// malformed is refused by net/http wherever it stands in a head: a control character in a line.
	malformed = "\x01\r\n\r\n"
)

// prefaceHTTP2 is how a connection of HTTP/2 begins (RFC 9113, section 3.4).
const prefaceHTTP2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// read reads from a connection for net/http.
func (f *framing) read(from func([]byte) (int, error), p []byte) (int, error) {
	if f.ended { // nothing more is needed
		return f.check(p, 0, nil)
	}
	n, err := from(p)
	return f.check(p, n, err)
}

// check looks at n bytes that were read into p, and returns how many of them net/http gets, and the error.
func (f *framing) check(p []byte, n int, err error) (int, error) {
	switch {
	case f.off.Load():
		return n, err
	case len(f.after) > 0:
		n = copy(p, f.after)
		f.after = f.after[n:]
		return n, nil
	case f.ended:
		return 0, io.EOF
	}
	for at := 0; at < n; {
		used, ok := f.next(p[at:n])
		if ok {
			at += used
			continue
		}
		f.ended = true
		if f.step > inFields { // a body that net/http does not accept, either
			return at, nil
		}
		f.after = []byte(malformed)
		if at == len(p) {
			return at, nil
		}
		put := copy(p[at:], f.after)
		f.after = f.after[put:]
		return at + put, nil
	}
	return n, err
}

// next follows the first bytes of b, and returns how many. It is false if the request is ambiguous, or its
// body cannot be followed.
func (f *framing) next(b []byte) (int, bool) {
	if f.preface != "" {
		return f.begin(b), true
	}
	if f.step == inBody || f.step == inChunk {
		n := int(min(f.left, int64(len(b))))
		if f.left -= int64(n); f.left == 0 {
			if f.step == inBody {
				f.step = inRequestLine
			} else {
				f.step = inChunkEnd
			}
		}
		return n, true
	}
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if len(f.line)+len(b) > maxFramingLine {
			return 0, false
		}
		f.line = append(f.line, b...)
		return len(b), true
	}
	line := b[:end]
	if len(f.line) > 0 {
		line = append(f.line, line...)
	}
	ok := f.whole(line)
	if f.line = f.line[:0]; cap(f.line) > 1<<10 {
		f.line = nil
	}
	return end + 1, ok
}

// begin compares the first bytes of a connection with the preface of HTTP/2, and returns how many have been followed.
func (f *framing) begin(b []byte) int {
	n := min(len(b), len(f.preface))
	if string(b[:n]) == f.preface[:n] {
		if f.preface = f.preface[n:]; f.preface == "" {
			f.off.Store(true)
			return len(b)
		}
		return n
	}
	seen := []byte(prefaceHTTP2[:len(prefaceHTTP2)-len(f.preface)])
	f.preface = ""
	for len(seen) > 0 { // lines, of which none is ambiguous
		n, _ := f.next(seen)
		seen = seen[n:]
	}
	return 0
}

// whole follows a line without its line feed.
func (f *framing) whole(line []byte) bool {
	text, ended := bytes.CutSuffix(line, []byte("\r"))
	switch f.step {
	case inRequestLine:
		if len(text) > 0 { // net/http skips empty lines after a POST
			f.head = framingHead{old: !bytes.HasSuffix(text, []byte(" HTTP/1.1"))}
			f.step = inFields
		}
		return true
	case inFields:
		if len(text) > 0 {
			f.field(text)
			return true
		}
		return f.body()
	case inChunkSize:
		return ended && f.chunk(text)
	case inChunkEnd:
		f.step = inChunkSize
		return ended && len(text) == 0
	default: // inTrailer
		if len(text) == 0 {
			f.step = inRequestLine
		}
		return ended
	}
}

// field notes what a field states about the body.
func (f *framing) field(line []byte) {
	if line[0] == ' ' || line[0] == '\t' {
		f.head.folded = true
		return
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	switch {
	case len(name) == len("Content-Length") && strings.EqualFold(string(name), "Content-Length"):
		f.head.lengths++
		length, err := strconv.ParseUint(string(bytes.Trim(value, " \t")), 10, 63)
		if f.head.length = int64(length); err != nil { //nolint:gosec // at most 63 bits
			f.head.lengths++ // net/http does not accept it, either
		}
	case len(name) == len("Transfer-Encoding") && strings.EqualFold(string(name), "Transfer-Encoding"):
		f.head.encoding++
	}
}

// body begins the body of a request whose head has ended.
func (f *framing) body() bool {
	h := f.head
	switch {
	case h.folded, h.lengths > 1, h.encoding > 1, h.encoding > 0 && (h.old || h.lengths > 0):
		return false
	case h.encoding > 0:
		f.step = inChunkSize // net/http refuses every other encoding
	case h.lengths > 0 && h.length > 0:
		f.step, f.left = inBody, h.length
	default:
		f.step = inRequestLine
	}
	return true
}

// chunk begins a chunk, from the line of its size (RFC 9112, section 7.1).
func (f *framing) chunk(line []byte) bool {
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseUint(string(bytes.TrimRight(size, " \t")), 16, 63)
	if f.left = int64(n); err != nil { //nolint:gosec // at most 63 bits
		return false
	}
	if f.step = inChunk; n == 0 {
		f.step = inTrailer
	}
	return true
}
