package isr

import (
	"io"
	"net/http"

	"github.com/facetheory/isr/internal/render"
)

// WriteErrorPage responds with a text for people that no cache may store. text is a sentence or
// two, without a line break. The last line of the page is the id of the request (see
// [RequestIDLine]). A renderer may use it too: each visitor who gets the page of a shared render
// gets the line with the id of its own request.
func WriteErrorPage(w http.ResponseWriter, status int, text string) {
	if r := render.Of(w); r != nil {
		r.MarkPlain()
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n"+RequestIDLine(w)) // the visitor is gone
}

// Identified is an [http.ResponseWriter] that knows the id of the request that it answers.
type Identified interface {
	http.ResponseWriter
	// RequestID returns the id, which may be made by the first call; empty if there is none. It is called
	// by the goroutine that serves the request.
	RequestID() string
}

// RequestIDLine returns the last line of a plain error page: the id by which an operator finds
// the request that w answers. It is empty unless w, or a writer that it unwraps to (see
// [http.ResponseController]), is [Identified].
func RequestIDLine(w http.ResponseWriter) string {
	if id := requestID(w); id != "" {
		return "Request ID: " + id + "\n"
	}
	return ""
}

// requestID returns the id of the request that w answers; empty if it has none.
func requestID(w http.ResponseWriter) string {
	for {
		switch inner := w.(type) {
		case Identified:
			return inner.RequestID()
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return ""
		}
	}
}

// requestIDHeader is the header by which an origin gets the id of a request.
const requestIDHeader = "X-Request-Id"

// forwardRequestID adds the id of a request to its header, before the renderer may get it. Hits
// go without: an id is made when it is first asked for.
func forwardRequestID(w http.ResponseWriter, r *http.Request) {
	if id := requestID(w); id != "" {
		r.Header[requestIDHeader] = []string{id}
	}
}
