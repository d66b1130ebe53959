package telemetry

import (
	"bufio"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr"
)

// errDone is the error of a write after the handler has returned.
var errDone = errors.New("telemetry: write after the handler has returned")

// A writer records what a handler sends. Only the writers of hits in memory are used again.
type writer struct {
	inner    http.ResponseWriter
	exchange Exchange
	recorder *Recorder // which makes the id; nil if requests have none
	id       []string  // the field X-Request-Id; nil until it is asked for
	hijacked bool
	done     atomic.Bool // the handler has returned: the exchange does not change any more
}

var (
	_ isr.Reporter    = (*writer)(nil)
	_ isr.Identified  = (*writer)(nil)
	_ http.Hijacker   = (*writer)(nil)
	_ http.Flusher    = (*writer)(nil)
	_ io.ReaderFrom   = (*writer)(nil)
	_ io.StringWriter = (*writer)(nil)
)

// ExchangeOf returns the exchange of a request whose writer comes from a [Recorder]; nil
// otherwise. A handler may set its Request to one with another context, and its TraceID.
func ExchangeOf(w http.ResponseWriter) *Exchange {
	if tw, ok := w.(*writer); ok {
		return &tw.exchange
	}
	return nil
}

// Report implements [isr.Reporter].
func (w *writer) Report() *isr.Report { return &w.exchange.Report }

// RequestID implements [isr.Identified].
func (w *writer) RequestID() string {
	if w.id == nil && w.recorder != nil {
		w.id = w.recorder.ids.of(w.exchange.Request)
		w.exchange.RequestID = w.id[0]
	}
	return w.exchange.RequestID
}

// Unwrap lets http.ResponseController reach the connection, for deadlines and full duplex.
func (w *writer) Unwrap() http.ResponseWriter { return w.inner }

func (w *writer) Header() http.Header { return w.inner.Header() }

func (w *writer) WriteHeader(status int) {
	if w.done.Load() {
		return
	}
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.begin(status)
	}
	w.inner.WriteHeader(status)
}

// begin records the final status and completes the header, unless there is a status.
func (w *writer) begin(status int) {
	e := &w.exchange
	if e.Status != 0 {
		return
	}
	e.Status, e.header = status, w.inner.Header()
	if !e.Hit {
		e.FirstByte = time.Since(e.Start)
	}
	if w.recorder == nil {
		return
	}
	switch ids := w.recorder.cfg.RequestIDs; {
	case status >= http.StatusBadRequest, ids == RequestIDsAlways, ids == RequestIDsMisses && !e.Hit:
		w.RequestID()
		w.inner.Header()[requestIDHeader] = w.id
	default:
		delete(w.inner.Header(), requestIDHeader) // the id of the origin
	}
}

// AtOnce is the size of a body that is written at once, in bytes. The first byte of a hit that
// is not larger is sent when the last one is: it is not timed twice.
const AtOnce = 32 << 10

// time notes when the first byte of a hit is sent, before n bytes are written.
func (w *writer) time(n int) {
	if e := &w.exchange; n > AtOnce && e.FirstByte == 0 {
		e.FirstByte = time.Since(e.Start)
	}
}

// sent counts n bytes of the body. The server drops the body of a response to HEAD.
func (w *writer) sent(n int64) {
	if w.exchange.Request.Method != http.MethodHead {
		w.exchange.Bytes += n
	}
}

func (w *writer) Write(b []byte) (int, error) {
	if w.done.Load() {
		return 0, errDone
	}
	w.begin(http.StatusOK)
	w.time(len(b))
	n, err := w.inner.Write(b)
	w.sent(int64(n))
	return n, err
}

// WriteString implements [io.StringWriter], as the writers of net/http do.
func (w *writer) WriteString(s string) (int, error) {
	if w.done.Load() {
		return 0, errDone
	}
	w.begin(http.StatusOK)
	w.time(len(s))
	n, err := io.WriteString(w.inner, s)
	w.sent(int64(n))
	return n, err
}

// ReadFrom implements [io.ReaderFrom], so that io.Copy uses the server's, if it has one.
func (w *writer) ReadFrom(src io.Reader) (int64, error) {
	if w.done.Load() {
		return 0, errDone
	}
	w.begin(http.StatusOK)
	w.time(math.MaxInt)
	n, err := io.Copy(w.inner, src)
	w.sent(n)
	return n, err
}

// FlushError is the Flush of http.ResponseController.
func (w *writer) FlushError() error {
	if w.done.Load() {
		return errDone
	}
	w.begin(http.StatusOK)
	return http.NewResponseController(w.inner).Flush()
}

// Flush implements [http.Flusher] for handlers that require it.
func (w *writer) Flush() {
	_ = w.FlushError() // a writer that cannot flush does not buffer
}

// Hijack implements [http.Hijacker], for upgrades.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if w.done.Load() {
		return nil, nil, errDone
	}
	conn, buffered, err := http.NewResponseController(w.inner).Hijack()
	if err == nil {
		w.hijacked = true
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}
