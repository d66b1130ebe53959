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

// transport is the SDK's HTTP client: it calls the handler in the goroutine
// of its caller.
type transport struct {
	handler http.Handler
}

// Do implements dynamodb.HTTPClient.
func (t *transport) Do(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	attempt := &attempt{cause: errors.New("connection broken")}
	a := &answer{header: make(http.Header)}
	arrived := r.WithContext(context.WithValue(r.Context(), attemptKey{}, attempt))
	arrived.Host = r.URL.Host // which an SDK leaves to the connection
	broken := t.serve(a, arrived)
	if err := r.Context().Err(); err != nil {
		return nil, fmt.Errorf("localdynamotest: %w", err) // a real client would not have waited
	}
	if broken {
		return nil, fmt.Errorf("localdynamotest: no answer: %w", attempt.cause)
	}
	return a.response(r), nil
}

// serve reports whether the handler broke the connection. Any other panic of
// it is the test's to see.
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

// attempt is where the interceptor leaves why it broke the connection: that
// error, and not just any, is what the caller of the client can unwrap.
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

// answer collects what the handler writes.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

func (a *answer) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, Request: r,
		Body: io.NopCloser(&a.body), ContentLength: int64(a.body.Len()),
	}
}
