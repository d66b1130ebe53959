package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
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
	patient := &patientReader{inner: r.Body, control: http.NewResponseController(w), timeout: timeout}
	if awaitsContinue(r) {
		return &requestBody{reader: patient, closer: r.Body, left: r.ContentLength}, nil
	}
	var prefix bytes.Buffer
	_, err := io.CopyN(&prefix, patient, prefixLength)
	switch {
	case errors.Is(err, io.EOF):
		r.ContentLength = int64(prefix.Len())
		r.TransferEncoding = nil
		return io.NopCloser(&prefix), nil
	case err != nil:
		return nil, err
	}
	return &requestBody{reader: io.MultiReader(&prefix, patient), closer: r.Body, left: r.ContentLength}, nil
}

// awaitsContinue reports whether the client waits for the origin to accept the body before it
// sends it (RFC 9110, section 10.1.1), and the body is longer than the prefix, or of unknown
// length.
func awaitsContinue(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Expect"), "100-continue") && (r.ContentLength < 0 || r.ContentLength > prefixLength)
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
		plain(w, http.StatusRequestTimeout, "Timeout while reading the request body.")
	case errors.As(err, &tooLarge):
		plain(w, http.StatusRequestEntityTooLarge, "The request body is too large.")
	default:
		plain(w, http.StatusBadRequest, "Bad request: the body is malformed or incomplete.")
	}
}
