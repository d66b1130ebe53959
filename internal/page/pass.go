package page

import (
	"bufio"
	"net"
	"net/http"
	"strconv"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/httpconn"
)

// A PassWriter adds Cache-Status, and the fields of a view, to a response that passes through. Its fields are
// set before the response begins.
type PassWriter struct {
	http.ResponseWriter
	Request *http.Request
	View    *View
	Status  httpcache.Status
	// Report is called with the final status before the header is sent.
	Report func(httpcache.Status)
	// Observe, which may be nil, is called with the status and the header after that, and may change the header.
	Observe func(status int, h http.Header)

	wrote bool
	begun bool // a part of the body was written
}

func (w *PassWriter) WriteHeader(status int) {
	if w.wrote {
		return
	}
	if status >= 200 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin completes the header before it is sent.
func (w *PassWriter) begin(status int) {
	w.wrote = true
	w.Status.ForwardStatus = status
	w.Report(w.Status)
	h := w.Header()
	// RFC 9211, section 2: caches closer to the origin come first.
	h["Cache-Status"] = append(h["Cache-Status"], w.Status.String())
	if w.Observe != nil {
		w.Observe(status, h)
	}
	LimitError(status, h)
	w.View.SetFields(h)
}

func (w *PassWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.begun {
		w.begun = true
		w.promise(b)
	}
	return w.ResponseWriter.Write(b)
}

// promise has the response sent in one write if b is its whole body.
func (w *PassWriter) promise(b []byte) {
	status := w.Status.ForwardStatus
	if w.Request.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		return // the server sends no body
	}
	if length := w.Header()["Content-Length"]; len(length) == 1 && length[0] == strconv.Itoa(len(b)) {
		httpconn.PromiseBody(w.Request, len(b))
	}
}

// Flush implements [http.Flusher] for renderers that require it.
func (w *PassWriter) Flush() {
	w.WriteHeader(http.StatusOK)
	// A writer that cannot flush does not buffer.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack takes over the connection, for an upgrade.
func (w *PassWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && !w.wrote {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController reach the connection, for deadlines.
func (w *PassWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
