package isr

import (
	"io"
	"net/http"
)

// WriteErrorPage responds with a text for people that no cache may store. text is a sentence or
// two, without a line break. The last line of the page is the id of the request (see
// [RequestIDLine]). A renderer may use it too: each visitor who gets the page of a shared render
// gets the line with the id of its own request.
func WriteErrorPage(w http.ResponseWriter, status int, text string) {
	if r := recorderOf(w); r != nil {
		r.markPlain()
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n"+RequestIDLine(w)) // the visitor is gone
}

// recorderOf returns the recorder that w is, or unwraps to; nil if w is not that of a render.
func recorderOf(w http.ResponseWriter) *recorder {
	for {
		switch inner := w.(type) {
		case *recorder:
			return inner
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return nil
		}
	}
}
