package httpconn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// serve has a handler answer a request.
func (c *coalescingConn) serve(h http.Handler, r *http.Request) {
	ctx, cancel := context.WithCancel(c.context)
	defer cancel()
	w := &response{conn: c, request: r.WithContext(ctx), cancel: cancel, header: make(http.Header), length: -1}
	w.watch.start(c, cancel)
	defer w.watch.stop()
	defer func() {
		if w.began && !w.over.Load() {
			w.send(nil) // after a panic, which net/http logs, the client gets as much as it would from there
		}
	}()
	h.ServeHTTP(w, w.request)
	cancel()
	w.finish()
	if w.timed {
		_ = c.SetWriteDeadline(time.Time{}) // fails on a closed connection
	}
}

// Sizes of the buffers of a response, the same as net/http's, on which it depends how a body is cut into chunks,
// and what is measured.
const (
	bodyBuffer = 2 << 10
	sendBuffer = 4 << 10
)

// A response is the [http.ResponseWriter] of a request that is served without net/http. Responses that
// have no declared length are measured if they are short, and sent in chunks otherwise.
//
// It supports flushing and write deadlines, by [http.ResponseController], interim responses and trailers, but
// not hijacking: requests for an upgrade are net/http's. As there, its methods are not safe for
// concurrent use.
type response struct {
	conn    *coalescingConn
	request *http.Request
	cancel  context.CancelFunc
	watch   watch
	over    atomic.Bool // the handler has returned

	header   http.Header
	status   int      // 0 until WriteHeader
	length   int64    // as declared; -1: not
	trailers []string // names, as declared
	// What follows the header of the handler, and how the body is sent.
	measurable, sniffable, undated, chunked, closes, saysClose bool

	began   bool         // the header is complete
	written int64        // bytes of the body that the handler has written
	body    []byte       // the last of them, which wait for more
	out     bytes.Buffer // what waits to be sent
	err     error        // of a write to the connection
	timed   bool         // the handler has set a write deadline
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	if !w.over.Load() {
		w.writeHeader(status)
	}
}

func (w *response) writeHeader(status int) {
	switch {
	case w.status != 0:
		return
	case status < 100 || status > 999:
		panic(fmt.Sprintf("httpconn: invalid status %d", status))
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.writeStatus(status)
		w.writeFields(map[string]bool{"Content-Length": true, "Transfer-Encoding": true})
		w.out.WriteString("\r\n")
		w.send(nil)
		return
	}
	w.status = status
	if n, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		w.length = n
	}
	w.writeStatus(status)
	w.writeFields(w.frame())
}

func (w *response) ensureHeader() {
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
}

func (w *response) writeStatus(status int) {
	w.out.WriteString("HTTP/1.1 ")
	if text := http.StatusText(status); text != "" {
		w.out.WriteString(strconv.Itoa(status) + " " + text + "\r\n")
	} else {
		fmt.Fprintf(&w.out, "%03d status code %d\r\n", status, status)
	}
}

func (w *response) writeFields(except map[string]bool) {
	_ = w.header.WriteSubset(&w.out, except) // a buffer never fails
}

// bodyAllowed reports whether a response of a status may have a body (RFC 9110, section 6.4.1).
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// frame decides how the body is sent (RFC 9112, section 6), and returns the fields of the header that are
// not sent.
func (w *response) frame() (except map[string]bool) {
	drop := func(names ...string) {
		for _, name := range names {
			if _, ok := w.header[name]; !ok {
				continue
			}
			if except == nil {
				except = make(map[string]bool)
			}
			except[name] = true
		}
	}
	trailers := w.declareTrailers(drop)
	coding, allowed, measured := w.header.Get("Transfer-Encoding"), bodyAllowed(w.status), w.length >= 0
	_, typed := w.header["Content-Type"]
	_, dated := w.header["Date"]
	_, declared := w.header["Content-Length"]
	w.measurable = allowed && !trailers && coding == "" && !declared
	w.sniffable = allowed && !typed && coding == "" && w.header.Get("Content-Encoding") == ""
	w.undated = !dated
	switch {
	case w.status == http.StatusNotModified:
		drop("Content-Type", "Content-Length")
	case !allowed:
		drop("Content-Length")
	case measured && coding != "" && coding != "identity":
		drop("Content-Length")
		measured = false
	}
	switch {
	case w.request.Method == http.MethodHead || !allowed || measured:
		drop("Transfer-Encoding")
	case coding == "identity": // the end of the connection is the end of the body
		drop("Transfer-Encoding", "Content-Length")
		w.closes = true
	default:
		drop("Content-Length")
		w.chunked = true
		if coding == "" || coding == "chunked" {
			drop("Transfer-Encoding")
		}
	}
	shutdown := w.conn.answering.state.Load() == isClosing
	w.closes = w.closes || shutdown || w.header.Get("Connection") == "close"
	if w.closes && (shutdown || !httpguts.HeaderValuesContainsToken([]string{w.header.Get("Connection")}, "close")) {
		drop("Connection")
		w.saysClose = true
	}
	return except
}

// declareTrailers notes the trailers that the header declares, and reports whether there are any. Those
// with [http.TrailerPrefix] are not part of the header.
func (w *response) declareTrailers(drop func(...string)) (found bool) {
	for name := range w.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			drop(name)
			found = true
		}
	}
	for _, line := range w.header["Trailer"] {
		found = true
		for name := range strings.SplitSeq(line, ",") {
			if name = http.CanonicalHeaderKey(strings.Trim(name, " \t")); httpguts.ValidTrailerHeader(name) && name != "" {
				w.trailers = append(w.trailers, name)
			}
		}
	}
	return found
}

// begin completes the header, before the first part of the body. That is all of it if the handler has
// returned.
func (w *response) begin(part []byte) {
	if w.began {
		return
	}
	w.began = true
	if w.undated {
		w.writeField("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	if w.measurable && w.over.Load() && (w.request.Method != http.MethodHead || len(part) > 0) {
		w.length, w.chunked = int64(len(part)), false
		w.writeField("Content-Length", strconv.Itoa(len(part)))
	}
	if w.sniffable && len(part) > 0 {
		w.writeField("Content-Type", http.DetectContentType(part))
	}
	if w.saysClose {
		w.writeField("Connection", "close")
	}
	if w.chunked {
		w.writeField("Transfer-Encoding", "chunked")
	}
	w.out.WriteString("\r\n")
}

func (w *response) writeField(name, value string) {
	w.out.WriteString(name)
	w.out.WriteString(": ")
	w.out.WriteString(value)
	w.out.WriteString("\r\n")
}

var errOver = errors.New("httpconn: write to a response whose handler has returned")

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (n int, err error) {
	if w.over.Load() {
		return 0, errOver
	}
	w.ensureHeader()
	switch {
	case len(p) == 0:
		return 0, nil
	case !bodyAllowed(w.status):
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(p)); w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	for len(p)-n > bodyBuffer-len(w.body) && w.err == nil {
		if len(w.body) == 0 {
			w.emit(p[n:])
			n = len(p)
			break
		}
		k := bodyBuffer - len(w.body)
		w.body = append(w.body, p[n:n+k]...)
		w.emitBody()
		n += k
	}
	if w.err != nil {
		return n, w.err
	}
	if w.body == nil && n < len(p) {
		w.body = make([]byte, 0, bodyBuffer)
	}
	w.body = append(w.body, p[n:]...)
	return len(p), nil
}

// emit sends a part of the body, or keeps it with what is to be sent.
func (w *response) emit(part []byte) {
	w.begin(part)
	if w.request.Method == http.MethodHead {
		return
	}
	if w.chunked {
		w.out.Write(strconv.AppendInt(w.out.AvailableBuffer(), int64(len(part)), 16))
		w.out.WriteString("\r\n")
	}
	if w.out.Len()+len(part) > sendBuffer {
		w.send(part)
	} else {
		w.out.Write(part)
	}
	if w.chunked {
		w.out.WriteString("\r\n")
	}
}

func (w *response) emitBody() {
	if len(w.body) > 0 {
		w.emit(w.body)
		w.body = w.body[:0]
	}
}

// drain emits all that the handler has written.
func (w *response) drain() {
	w.ensureHeader()
	w.emitBody()
	w.begin(nil)
}

// send sends what is kept, and then a part of the body.
func (w *response) send(part []byte) {
	if w.err == nil && w.out.Len()+len(part) > 0 {
		if _, w.err = w.conn.sendWhole(w.out.Bytes(), part); w.err != nil {
			w.cancel()
		}
	}
	w.out.Reset()
}

// FlushError is the Flush of [http.ResponseController].
func (w *response) FlushError() error {
	if w.over.Load() {
		return errOver
	}
	w.drain()
	w.send(nil)
	return w.err
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

// SetWriteDeadline sets the deadline of [http.ResponseController]. The next write replaces it by the deadline of
// [CoalesceWrites], if there is one.
func (w *response) SetWriteDeadline(t time.Time) error {
	if w.over.Load() {
		return errOver
	}
	w.timed = true
	return w.conn.SetWriteDeadline(t)
}

// finish sends the end of a response whose handler has returned.
func (w *response) finish() {
	w.over.Store(true)
	w.drain()
	if w.chunked {
		w.out.WriteString("0\r\n")
		w.writeTrailers()
		w.out.WriteString("\r\n")
	}
	w.send(nil)
	short := w.request.Method != http.MethodHead && bodyAllowed(w.status) && w.length >= 0 && w.written != w.length
	if w.err == nil && (w.closes || short) {
		w.conn.failed = io.EOF // to net/http, the client has closed the connection
	}
}

func (w *response) writeTrailers() {
	var trailers http.Header
	add := func(name string, values []string) {
		if trailers == nil {
			trailers = make(http.Header)
		}
		trailers[name] = append(trailers[name], values...)
	}
	for name, values := range w.header {
		if trailer, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			add(trailer, values)
		}
	}
	for _, name := range w.trailers {
		add(name, w.header[name])
	}
	_ = trailers.Write(&w.out) // a buffer never fails
}
