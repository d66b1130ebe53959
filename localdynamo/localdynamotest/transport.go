package localdynamotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/facetheory/isr/localdynamo/wire"
)

// transport is the HTTP client of the SDK. It calls the handler directly, in the
// goroutine of the caller.
type transport struct {
	handler http.Handler
}

// Do implements dynamodb.HTTPClient.
func (t *transport) Do(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	attempt := &attempt{cause: errors.New("connection broken")}
	w := &recorder{header: make(http.Header)}
	received := r.WithContext(context.WithValue(r.Context(), attemptKey{}, attempt))
	received.Host = r.URL.Host // the SDK leaves it to net/http
	broken := t.serve(w, received)
	if err := r.Context().Err(); err != nil {
		return nil, fmt.Errorf("localdynamotest: %w", err) // a real client would have stopped waiting
	}
	if broken {
		return nil, fmt.Errorf("localdynamotest: no response: %w", attempt.cause)
	}
	return w.response(r), nil
}

// serve calls the handler and reports whether it broke the connection. Other panics
// propagate to the test.
func (t *transport) serve(w http.ResponseWriter, r *http.Request) (broken bool) {
	defer func() {
		switch fault := recover(); fault {
		case nil:
		case http.ErrAbortHandler:
			broken = true
		default:
			panic(fault)
		}
	}()
	t.handler.ServeHTTP(w, r)
	return false
}

// attempt records why the interceptor broke the connection, so that the caller of the
// client can unwrap that error.
type attempt struct{ cause error }

type attemptKey struct{}

func recordCause(fn wire.Interceptor) wire.Interceptor {
	if fn == nil {
		return nil
	}
	return func(ctx context.Context, call wire.Call, apply func()) error {
		err := fn(ctx, call, apply)
		if a, ok := ctx.Value(attemptKey{}).(*attempt); ok && err != nil {
			a.cause = err
		}
		return err
	}
}

// recorder records the handler's response.
type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) { return w.body.Write(p) }

func (w *recorder) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Request: r,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()),
	}
}
