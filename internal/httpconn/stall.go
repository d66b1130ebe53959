package httpconn

import (
	"net/http"
	"time"
)

// LimitStreams returns a handler that ends the streams of HTTP/2 and HTTP/3 of clients that have not read
// a byte of a response for stall, as [CoalesceWrites] closes such connections of HTTP/1: a
// client that keeps its flow-control window closed would hold the response, and a connection
// to the origin, without limit. Requests of HTTP/1 are not changed. Zero or less means no
// limit.
func LimitStreams(next http.Handler, stall time.Duration) http.Handler {
	if stall <= 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor >= 2 {
			if c, ok := r.Context().Value(connKey{}).(*coalescingConn); ok {
				c.http2.Store(true)
			}
			w = &streamWriter{ResponseWriter: w, control: http.NewResponseController(w), stall: stall}
		}
		next.ServeHTTP(w, r)
	})
}

// A streamWriter writes in steps, each with its own deadline.
type streamWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	stall   time.Duration
}

func (w *streamWriter) Write(p []byte) (n int, err error) {
	for first := true; first || len(p) > 0 && err == nil; first = false {
		// Ignore an error: response writers in tests have no deadlines.
		_ = w.control.SetWriteDeadline(time.Now().Add(w.stall))
		var sent int
		sent, err = w.ResponseWriter.Write(p[:min(len(p), writeStep)])
		n, p = n+sent, p[sent:]
	}
	return n, err
}

// Unwrap lets http.ResponseController reach the stream.
func (w *streamWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
