package httpconn

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// unreadTime is how long the rest of a body is waited for that a handler has not read.
	unreadTime = time.Second
	// unreadBytes is how much of it is read at most, the same as in net/http.
	unreadBytes = 256 << 10
)

// LimitUnread returns a handler that waits for one second, and not for as long as the client takes, for the rest of a
// request body of HTTP/1 that next has neither read to its end nor closed. Up to 256 KiB are read, so that the connection can have
// more requests. If the body has not ended by then, the server closes the connection after the response. net/http
// reads as much without a time limit, of a body in chunks also before it closes the connection.
func LimitUnread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		body := &trackedBody{ReadCloser: r.Body}
		tracked := *r // the server keeps r
		tracked.Body = body
		next.ServeHTTP(w, &tracked)
		if body.done.Load() {
			return
		}
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(unreadTime)) // fails if the connection is closed, or hijacked
		if r.Header["Expect"] != nil {
			return // a read would ask the client for the body
		}
		if _, err := io.CopyN(io.Discard, body, unreadBytes); errors.Is(err, io.EOF) {
			_ = control.SetReadDeadline(time.Time{}) // the server reads on, to notice a disconnect
		}
	})
}

// A trackedBody notes that a body has ended, or is closed.
type trackedBody struct {
	io.ReadCloser
	done atomic.Bool
}

func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.done.Store(true)
	}
	return n, err
}

func (b *trackedBody) Close() error {
	b.done.Store(true)
	return b.ReadCloser.Close()
}
