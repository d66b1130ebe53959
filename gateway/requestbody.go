package gateway

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/buffers"
)

// prefixLength is how many bytes of a request body are received before the request is
// forwarded, so that slow clients do not hold a connection to the origin. Most bodies are
// shorter. Without room in the budget of buffers there are fewer, down to none: then the request
// waits for its admission at once, of which a client has a bounded number.
const prefixLength = 64 << 10

// errClientStalled means that the client sent no bytes of the body within the timeout.
var errClientStalled = errors.New("client stalled while sending the request body")

func clientStalled(err error) bool { return errors.Is(err, errClientStalled) }

// bufferBody reads up to prefixLength bytes of a request body and returns the body for the
// origin. Each read from the client has a timeout. What is buffered is reserved in held: the bytes that
// were read, and the window of an HTTP/2 stream, which the server buffers. If there is no room for the window,
// the error is errBusy.
func bufferBody(w http.ResponseWriter, r *http.Request, l *Listener, held *buffers.Reservation) (io.ReadCloser, error) {
	if !hasBody(r) {
		return http.NoBody, nil
	}
	window := windowOf(r, l)
	if !held.Grow(window) {
		return nil, errBusy
	}
	if isGRPC(r) {
		return &requestBody{reader: r.Body, closer: r.Body, left: -1, trailer: r.Trailer}, nil
	}
	patient := &patientReader{inner: r.Body, control: http.NewResponseController(w), timeout: l.ClientTimeout, ended: func() { held.Shrink(window) }}
	if awaitsContinue(r) {
		return &requestBody{reader: patient, closer: r.Body, left: r.ContentLength, trailer: r.Trailer}, nil
	}
	start := &prefix{held: held}
	err := start.fill(patient, r.ContentLength)
	switch {
	case errors.Is(err, io.EOF) && len(r.Trailer) > 0: // they need a body without a length
		return &requestBody{reader: start, closer: r.Body, left: -1, trailer: r.Trailer}, nil
	case errors.Is(err, io.EOF):
		r.ContentLength = start.length
		r.TransferEncoding = nil
		return io.NopCloser(start), nil
	case err != nil:
		return nil, err
	}
	return &requestBody{reader: io.MultiReader(start, patient), closer: r.Body, left: r.ContentLength, trailer: r.Trailer}, nil
}

func hasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// windowOf returns how many bytes of a body the server may buffer by itself: of HTTP/1 hardly any.
func windowOf(r *http.Request, l *Listener) int64 {
	if r.ProtoMajor < 2 {
		return 0
	}
	if r.ContentLength >= 0 {
		return min(r.ContentLength, l.StreamWindow)
	}
	return l.StreamWindow
}

// A prefix is the beginning of a body. Each part of it is released once it has been read. The transport may
// read until the request has ended, which ends the reservation.
type prefix struct {
	held   *buffers.Reservation
	parts  [][]byte
	read   int   // bytes of the first part that have been read
	length int64 // of all that was received
}

// partLength returns the length of the next part of a prefix: most bodies fit into the first, and clients that have
// sent little take little.
func (p *prefix) partLength() int64 {
	switch len(p.parts) {
	case 0:
		return 4 << 10
	case 1:
		return 12 << 10
	}
	return prefixLength - p.length
}

// fill receives the prefix of a body of size bytes, negative if that is not known. The error is io.EOF
// if the prefix is all of the body, and nil if it is not.
func (p *prefix) fill(from io.Reader, size int64) error {
	for p.length < prefixLength {
		if p.length == size {
			_, err := from.Read(make([]byte, 1)) // the end, and trailers
			return err
		}
		n := p.partLength()
		if size >= 0 {
			n = min(n, size-p.length)
		}
		if !p.held.Grow(n) {
			return nil
		}
		part := make([]byte, 0, n)
		var err error
		for err == nil && len(part) < cap(part) {
			var got int
			got, err = from.Read(part[len(part):cap(part)])
			part = part[:len(part)+got]
		}
		p.length += int64(len(part))
		p.parts = append(p.parts, part)
		if err != nil {
			return err
		}
	}
	return nil
}

// Read implements [io.Reader].
func (p *prefix) Read(b []byte) (n int, err error) {
	for len(p.parts) > 0 {
		part := p.parts[0]
		n = copy(b, part[p.read:])
		if p.read += n; p.read < len(part) {
			return n, nil
		}
		p.held.Shrink(int64(cap(part)))
		p.parts[0], p.parts, p.read = nil, p.parts[1:], 0
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

// isGRPC reports whether a request is a call of gRPC: client and server may send messages in
// turns, with any time between, so that nothing of it is held back. Like upgraded connections,
// calls are bounded in number.
func isGRPC(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	return r.ProtoMajor >= 2 && (kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+") || strings.HasPrefix(kind, "application/grpc;"))
}

// forwardTrailer reports whether a trailer field of a visitor is forwarded. Fields for routing,
// framing, authentication and conditions have no meaning there (RFC 9110, section 6.5.1); a
// server that merges trailers into the header would take them for fields of this proxy.
func forwardTrailer(name string) bool {
	switch name {
	case "Authorization", "Cookie", "Host", "Forwarded", "Via", "X-Real-Ip", "Connection", "Keep-Alive", "Te", "Upgrade",
		"Expect", "Range", "Max-Forwards", "Cache-Control", "Pragma",
		"Content-Encoding", "Content-Type", "Content-Range", "Content-Length", "Transfer-Encoding", "Trailer":
		return false
	}
	for _, prefix := range []string{"X-Forwarded-", "Proxy-", "If-"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return !internalHeader(name) && !strings.Contains(name, "_")
}

// awaitsContinue reports whether the client waits for the origin to accept the body before it
// sends it (RFC 9110, section 10.1.1), and the body is longer than the prefix, or of unknown
// length. The expectation of an HTTP/1.0 request is ignored.
func awaitsContinue(r *http.Request) bool {
	return r.ProtoAtLeast(1, 1) && strings.EqualFold(r.Header.Get("Expect"), "100-continue") && (r.ContentLength < 0 || r.ContentLength > prefixLength)
}

// A patientReader reads from a client, with a timeout for each read.
type patientReader struct {
	inner   io.Reader
	control *http.ResponseController
	timeout time.Duration
	ended   func() // called at the end of the body, once
}

func (p *patientReader) Read(b []byte) (int, error) {
	// Ignore an error: response writers in tests have no deadlines.
	_ = p.control.SetReadDeadline(time.Now().Add(p.timeout))
	n, err := p.inner.Read(b)
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, io.EOF):
		p.relax()
		if p.ended != nil {
			p.ended()
			p.ended = nil
		}
	case errors.As(err, &timeout) && timeout.Timeout():
		// Keep the deadline: without it the server would wait for the rest of the body
		// before it closes the connection.
		return n, errClientStalled
	}
	return n, err
}

// relax removes the deadline: the server keeps reading to notice a disconnect.
func (p *patientReader) relax() { _ = p.control.SetReadDeadline(time.Time{}) }

// A requestBody stores its final error and returns it for all further reads. The transport
// reads again after the last byte. If the response has started by then, the server has
// closed the inbound body; the failed read would make the transport close the connection to
// the origin in the middle of the response.
type requestBody struct {
	closer io.Closer

	mu     sync.Mutex
	reader io.Reader // guarded by mu
	left   int64     // remaining bytes, negative if unknown; guarded by mu
	end    error     // guarded by mu
	// trailer is filled by the server at the end of the body, also with fields that were not
	// announced.
	trailer http.Header
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.reader.Read(p)
	if b.left >= 0 {
		b.left -= int64(n)
		if b.left <= 0 && err == nil {
			err = io.EOF
		}
	}
	if errors.Is(err, io.EOF) {
		maps.DeleteFunc(b.trailer, func(name string, _ []string) bool { return !forwardTrailer(name) })
	}
	b.end = err
	return n, err
}

func (b *requestBody) Close() error { return b.closer.Close() }

// abandonTime is how long the server reads the rest of a body that is refused.
const abandonTime = time.Second

// abandonBody has the connection of a request that is refused closed, if its body is not here: the server would
// wait for the rest as long as the client takes.
func abandonBody(w http.ResponseWriter, r *http.Request, body io.ReadCloser) {
	if _, partial := body.(*requestBody); !partial || r.ProtoMajor != 1 {
		return
	}
	w.Header().Set("Connection", "close")
	// Ignore an error: response writers in tests have no deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(abandonTime))
}

// refuseBody responds to a request whose body could not be read.
func refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && !clientStalled(err) { // the server also cancels it after a deadline
		w.WriteHeader(http.StatusBadRequest) // the response is not read
		return
	}
	w.Header().Set("Connection", "close")
	var tooLarge *http.MaxBytesError
	switch {
	case clientStalled(err):
		isr.WriteErrorPage(w, http.StatusRequestTimeout, "Timeout while reading the request body.")
	case errors.As(err, &tooLarge):
		isr.WriteErrorPage(w, http.StatusRequestEntityTooLarge, "The request body is too large.")
	default:
		isr.WriteErrorPage(w, http.StatusBadRequest, "Bad request: the body is malformed or incomplete.")
	}
}
