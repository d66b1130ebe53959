package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// prefixLength is how much of a request's body is received before the origin is
// asked, in bytes: a client that sends slowly then holds no connection to the
// origin. Most bodies are shorter.
const prefixLength = 64 << 10

// errClientStalled: the client sent nothing of the body for too long.
var errClientStalled = errors.New("the client stopped sending the body of its request")

func clientStalled(err error) bool { return errors.Is(err, errClientStalled) }

// bufferBody receives the beginning of a request's body, or all of it, and returns
// a body for the origin. Every wait for the client is bounded.
func bufferBody(w http.ResponseWriter, r *http.Request, timeout time.Duration) (io.ReadCloser, error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return http.NoBody, nil
	}
	patient := &patientReader{inner: r.Body, control: http.NewResponseController(w), timeout: timeout}
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

// A patientReader reads from a client and gives up when no byte arrives in time.
type patientReader struct {
	inner   io.Reader
	control *http.ResponseController
	timeout time.Duration
}

func (p *patientReader) Read(b []byte) (int, error) {
	// A writer that has no deadlines, as in a test, has no slow clients either.
	_ = p.control.SetReadDeadline(time.Now().Add(p.timeout))
	n, err := p.inner.Read(b)
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, io.EOF):
		p.relax()
	case errors.As(err, &timeout) && timeout.Timeout():
		// The deadline stays: the server would wait for the rest of the body
		// before it closes the connection.
		return n, errClientStalled
	}
	return n, err
}

// relax lifts the deadline: the server itself reads on, to learn when the client
// goes away.
func (p *patientReader) relax() { _ = p.control.SetReadDeadline(time.Time{}) }

// A requestBody remembers how it ended, and is never read again. The transport
// reads once more after the last byte; if the answer is on its way by then, the
// server has closed the inbound body, the read fails, and the transport would
// close the origin's connection in the middle of the answer.
type requestBody struct {
	closer io.Closer

	mu     sync.Mutex
	reader io.Reader // guarded by mu
	left   int64     // bytes to come, negative if that is not known; guarded by mu
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

// refuseBody answers a request whose body did not come.
func refuseBody(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && !clientStalled(err) { // the server cancels it for a deadline, too
		w.WriteHeader(http.StatusBadRequest) // there is no reader
		return
	}
	w.Header().Set("Connection", "close")
	var tooLarge *http.MaxBytesError
	switch {
	case clientStalled(err):
		plain(w, http.StatusRequestTimeout, "The body of the request did not come in time.")
	case errors.As(err, &tooLarge):
		plain(w, http.StatusRequestEntityTooLarge, "The body of the request is too large.")
	default:
		plain(w, http.StatusBadRequest, "Bad request: its body is malformed or incomplete.")
	}
}
