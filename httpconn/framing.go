package httpconn

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// A framing follows the requests of a connection of HTTP/1 and finds those of which it is ambiguous where
// they end (RFC 9112, section 6.1): Content-Length together with Transfer-Encoding, either of them twice,
// Transfer-Encoding in another version than HTTP/1.1, and folded lines (section 5.2). A proxy in front may
// have taken the rest of such a request for the next one. net/http accepts most of them, and hides what it
// has removed. In their place it gets a line that is malformed: it answers the earlier requests, then
// responds with 400, and closes the connection.
//
// It holds no bytes back. A body that it cannot follow ends the connection, so that no later request is
// missed. Only one goroutine at a time calls check.
type framing struct {
	off   atomic.Bool // hijacked: the bytes are no HTTP
	step  framingStep
	line  []byte // the beginning of a line that is not whole; at most maxFramingLine
	head  framingHead
	left  int64  // bytes of the body, or of the chunk, to come
	after []byte // what net/http gets in place of an ambiguous request; then nothing follows
	ended bool
}

// RefuseAmbiguous has a server refuse requests of HTTP/1 with 400 of which it is ambiguous where they end, and
// close their connections. The listener must be the one that [CoalesceWrites] has returned, without TLS, the
// PROXY protocol and HTTP/2. It sets the server's ConnState, which calls the previous one. Call it before
// the server serves. See [CloseAmbiguous] for other connections.
func RefuseAmbiguous(s *http.Server, l net.Listener) {
	cl, ok := l.(*coalescingListener)
	if !ok {
		return
	}
	cl.framing = true
	outer := s.ConnState
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if cc, ok := c.(*coalescingConn); ok && state == http.StateHijacked {
			cc.framing.off.Store(true)
		}
		if outer != nil {
			outer(c, state)
		}
	}
}

// CloseAmbiguous returns a handler that closes the connection of HTTP/1 after the response to a request of
// which net/http does not tell whether it is ambiguous where it ends (RFC 9112, section 6.1): one with
// chunks, or of HTTP/1.0.
func CloseAmbiguous(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && (r.ProtoMinor == 0 || len(r.TransferEncoding) > 0) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

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

// field notes what a field says of the body.
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
