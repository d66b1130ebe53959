package isr

import (
	"bufio"
	"net"
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// pass hands a request to the renderer as it is, and the answer to the visitor
// as it comes; nothing is stored.
func (h *handler) pass(w http.ResponseWriter, r *http.Request, status httpcache.Status) {
	pw := &passWriter{ResponseWriter: w, status: status}
	h.route.renderer.ServeHTTP(pw, r)
	pw.WriteHeader(http.StatusOK) // if nothing was written: that is what it means
}

// passRefused passes a request for a page that was not cacheable when it was
// last rendered, and looks at the answer: the refusal is remembered on while
// that stays so, without a render of its own.
func (h *handler) passRefused(w http.ResponseWriter, r *http.Request, k store.Key, known *negativeEntry) {
	reason := known.refused
	pw := &passWriter{ResponseWriter: w, status: httpcache.Status{Forward: httpcache.ForwardBypass, Detail: reason}}
	pw.observe = func(status int, header http.Header) {
		v := h.route.judge(status, header, h.c.cfg.MaxBody)
		switch {
		case v.Refused != "":
			h.c.negative.renew(k, known, &negativeEntry{readAt: known.readAt, until: time.Now().Add(remembered), refused: v.Refused})
		case !v.Failed && reason != httpcache.RefusedTooLarge && reason != httpcache.RefusedEmpty: // those are told by the body
			h.c.negative.renew(k, known, &negativeEntry{readAt: known.readAt}) // which does not hold any more
		}
	}
	h.route.renderer.ServeHTTP(pw, r)
	pw.WriteHeader(http.StatusOK)
}

// A passWriter adds Cache-Status to a response that passes through.
type passWriter struct {
	http.ResponseWriter
	status  httpcache.Status
	observe func(status int, h http.Header) // may be nil
	wrote   bool
}

func (w *passWriter) WriteHeader(status int) {
	if w.wrote {
		return
	}
	if status >= 200 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin completes the header before it is sent.
func (w *passWriter) begin(status int) {
	w.wrote = true
	w.status.ForwardStatus = status
	h := w.Header()
	// RFC 9211, section 2: caches nearer to the origin come first.
	h["Cache-Status"] = append(h["Cache-Status"], w.status.String())
	if w.observe != nil {
		w.observe(status, h)
	}
}

func (w *passWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Flush is for renderers that insist on a flusher.
func (w *passWriter) Flush() {
	w.WriteHeader(http.StatusOK)
	// A writer that cannot flush has nothing held back.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack gives the connection away, for an upgrade.
func (w *passWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && !w.wrote {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController reach the connection, for deadlines.
func (w *passWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
