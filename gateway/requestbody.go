package gateway

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr"
)

// prefixLength is how many bytes of a request body are received before the request is
// forwarded, so that slow clients do not hold a connection to the origin. Most bodies are
// shorter.
const prefixLength = 64 << 10

// errClientStalled means that the client sent no bytes of the body within the timeout.
var errClientStalled = errors.New("client stalled while sending the request body")

func clientStalled(err error) bool { return errors.Is(err, errClientStalled) }

// bufferBody reads up to prefixLength bytes of a request body and returns the body for the
// origin. Each read from the client has a timeout.
func bufferBody(w http.ResponseWriter, r *http.Request, timeout time.Duration) (io.ReadCloser, error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return http.NoBody, nil
	}
	if isGRPC(r) {
		return &requestBody{reader: r.Body, closer: r.Body, left: -1, trailer: r.Trailer}, nil
	}
	patient := &patientReader{inner: r.Body, control: http.NewResponseController(w), timeout: timeout}
	if awaitsContinue(r) {
		return &requestBody{reader: patient, closer: r.Body, left: r.ContentLength, trailer: r.Trailer}, nil
	}
	var prefix bytes.Buffer
	_, err := io.CopyN(&prefix, patient, prefixLength)
	switch {
	case errors.Is(err, io.EOF) && len(r.Trailer) > 0: // they need a body without a length
		return &requestBody{reader: &prefix, closer: r.Body, left: -1, trailer: r.Trailer}, nil
	case errors.Is(err, io.EOF):
		r.ContentLength = int64(prefix.Len())
		r.TransferEncoding = nil
		return io.NopCloser(&prefix), nil
	case err != nil:
		return nil, err
	}
	return &requestBody{reader: io.MultiReader(&prefix, patient), closer: r.Body, left: r.ContentLength, trailer: r.Trailer}, nil
}

// isGRPC reports whether a request is a call of gRPC: client and server may send messages in
// turns, with any time between, so that nothing of it is held back. Like upgraded connections,
// calls are bounded in number.
func isGRPC(r *http.Request) bool {
	kind := r.Header.Get("Content-Type")
	return r.ProtoMajor == 2 && (kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+") || strings.HasPrefix(kind, "application/grpc;"))
}

// forwardTrailer reports whether a trailer field of a visitor is forwarded. Fields for routing,
// framing, authentication and conditions have no meaning there (RFC 9110, section 6.5.1); a
// server that merges trailers into the header would take them for those of this proxy.
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
}

func (p *patientReader) Read(b []byte) (int, error) {
	// Ignore an error: response writers in tests have no deadlines.
	_ = p.control.SetReadDeadline(time.Now().Add(p.timeout))
	n, err := p.inner.Read(b)
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, io.EOF):
		p.relax()
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
