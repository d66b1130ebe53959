package http3

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"
)

// serveRequest serves a request as net/http does it for HTTP/2.
func (s *Server) serveRequest(w http.ResponseWriter, r *http.Request) {
	c, _ := r.Context().Value(connectionKey{}).(*connection)
	c.enter()
	s.running.Add(1)
	defer func() {
		s.running.Add(-1)
		c.leave(s.cfg.IdleTime)
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
				s.cfg.Log.Error(fmt.Sprintf("panic serving a request: %v\n%s", v, debug.Stack()), "client", r.RemoteAddr)
			}
			panic(http.ErrAbortHandler) // resets the stream
		}
	}()
	if s.cfg.Requests != nil {
		s.cfg.Requests.Add(1)
	}
	out := &response{ResponseWriter: w}
	if !c.confirmed(r) {
		return // the connection is closed
	}
	if !s.settleBody(w, r) {
		http.Error(out, "The request did not end in time.", http.StatusRequestTimeout)
		return
	}
	s.cfg.Handler.ServeHTTP(out, r)
}

// confirmed has early data served only of safe requests, which an attacker may repeat: others wait for the end of the handshake, after
// which nothing is repeated (RFC 8470, section 3). Origins are told by Early-Data. It returns false if the connection ends before.
func (c *connection) confirmed(r *http.Request) bool {
	select {
	case <-c.quic.HandshakeComplete():
		return true
	default:
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		r.Header["Early-Data"] = []string{"1"}
		return true
	}
	select {
	case <-c.quic.HandshakeComplete():
		return true
	case <-r.Context().Done():
		return false
	}
}

// settleBody finds out whether a request has a body, which HTTP/3 states by the end of its stream, unless it has a Content-Length, or
// a method for which a body is expected. It returns false if neither an end nor a body comes in time.
func (s *Server) settleBody(w http.ResponseWriter, r *http.Request) bool {
	switch {
	case r.ContentLength == 0:
		r.Body = http.NoBody
		return true
	case r.ContentLength > 0, r.Method == http.MethodPost, r.Method == http.MethodPut, r.Method == http.MethodPatch, r.Method == http.MethodConnect:
		return true
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.cfg.HeaderTime)) // fails if the stream is closed, as the read then does
	first := make([]byte, 1)
	n, err := io.ReadFull(r.Body, first)
	switch {
	case errors.Is(err, io.EOF) && n == 0:
		r.Body, r.ContentLength = http.NoBody, 0
	case err != nil:
		return false
	default:
		_ = control.SetReadDeadline(time.Time{}) // the same
		r.Body = prefixed{io.MultiReader(bytes.NewReader(first), r.Body), r.Body}
	}
	return true
}

// A prefixed is a body of which the beginning was read.
type prefixed struct {
	io.Reader
	io.Closer
}

// A response removes the fields of a connection, which are an error in HTTP/3 (RFC 9114, section 4.2), as net/http does it for HTTP/2.
type response struct{ http.ResponseWriter }

func (w *response) WriteHeader(status int) {
	w.clean()
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(p []byte) (int, error) {
	w.clean()
	return w.ResponseWriter.Write(p)
}

// FlushError implements the method that [http.ResponseController] looks for.
func (w *response) FlushError() error {
	w.clean()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() } // as net/http does it

// Unwrap lets http.ResponseController reach the stream.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *response) clean() {
	h := w.Header()
	for _, name := range [...]string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
		delete(h, name)
	}
}
