// Package function serves HTTP requests that reach an AWS Lambda function as events: of a function
// URL, of API Gateway (REST and HTTP APIs), and of an Application Load Balancer.
//
//	event ─► *http.Request ─► handler ─► response, buffered or streamed
//	                                       └► Settle, and only then the invocation ends
//
// A process freezes when its invocation ends: what must be done is done before that.
//
// The address of a client is the address of AWS's peer, from the context of the event. A load
// balancer states it only as the last member of X-Forwarded-For, which it appends.
package function

// The files:
//
//	event.go     parses the events of function URLs, API Gateway and load balancers
//	response.go  writes the response that each of them takes, buffered or streamed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/facetheory/isr/gateway"
)

// Config configures a [Handler].
type Config struct {
	// Stream streams the responses of function URLs, whose invoke mode is then RESPONSE_STREAM: up
	// to 200 MB, as they come. Otherwise, and for all other events, responses are buffered.
	Stream bool
	// Settle waits for what requests have begun and not waited for, such as [isr.Cache.Settle].
	// Nil: there is nothing.
	//
	// [isr.Cache.Settle]: https://pkg.go.dev/github.com/facetheory/isr#Cache.Settle
	Settle func(context.Context) error
	// Logger receives errors. Nil means slog.Default().
	Logger *slog.Logger
}

// A Handler handles the events of a function by an http.Handler, which must have passed an
// [gateway.Edge]. It is safe for concurrent use.
type Handler struct {
	next http.Handler
	cfg  Config
}

// New returns a handler.
func New(next http.Handler, cfg Config) *Handler {
	if cfg.Settle == nil {
		cfg.Settle = func(context.Context) error { return nil }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Handler{next: next, cfg: cfg}
}

// answerTime is what is left of an invocation for its answer when the context of its request ends.
const answerTime = 300 * time.Millisecond

// Invoke handles an event. Errors wrap [ErrEvent], or come from writing the response. The
// context of the request ends shortly before the context of the invocation.
func (h *Handler) Invoke(ctx context.Context, payload []byte) (any, error) {
	deadline, limited := ctx.Deadline()
	cancel := context.CancelFunc(func() {})
	working := ctx
	if limited {
		working, cancel = context.WithDeadline(ctx, deadline.Add(-answerTime))
	}
	e, r, err := parse(working, payload)
	if err != nil {
		cancel()
		return nil, err
	}
	r = r.WithContext(gateway.Listener{PublicScheme: e.scheme}.Context(r.Context()))
	if h.cfg.Stream && e.kind == functionURL {
		return h.stream(e, r, cancel), nil
	}
	defer cancel()
	var body bytes.Buffer
	w := &writer{header: make(http.Header), limit: int64(e.kind.limit()), body: &body}
	if !h.serve(e, w, r) {
		return nil, errors.New("the response was aborted")
	}
	out, err := w.buffered(e, &body)
	h.complain(w, r, e.kind)
	return out, err
}

// stream returns the response once its header is written. The rest follows, and its end after
// what the request has begun.
func (h *Handler) stream(e event, r *http.Request, cancel context.CancelFunc) *events.LambdaFunctionURLStreamingResponse {
	in, out := io.Pipe()
	begun := make(chan struct{})
	response := new(events.LambdaFunctionURLStreamingResponse)
	w := &writer{header: make(http.Header), limit: maxStreamed, body: out}
	w.begin = func() {
		response.StatusCode = w.status
		response.Headers, response.Cookies = single(w.sent, true)
		close(begun)
	}
	go func() {
		var err error
		if !h.serve(e, w, r) {
			err = errors.New("the response was aborted")
		} else if w.written > w.limit {
			err = errTooLarge
		}
		h.complain(w, r, functionURL)
		if w.status == 0 { // aborted before its header
			w.WriteHeader(http.StatusBadGateway)
		}
		_ = out.CloseWithError(err)
	}()
	<-begun
	response.Body = &stream{PipeReader: in, closed: cancel}
	return response
}

// serve serves a request, and what it has begun. It reports whether the response is complete.
func (h *Handler) serve(e event, w *writer, r *http.Request) (complete bool) {
	defer h.settle(r)
	defer func() {
		if cause := recover(); cause != nil {
			complete = false
			if err, ok := cause.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				h.cfg.Logger.Error("panic while serving a request", "panic", cause, "stack", string(debug.Stack()))
			}
		}
	}()
	if e.instead != nil {
		e.instead.ServeHTTP(w, r)
	} else {
		h.next.ServeHTTP(w, r)
	}
	w.finish()
	return true
}

func (h *Handler) settle(r *http.Request) {
	if err := h.cfg.Settle(r.Context()); err != nil {
		h.cfg.Logger.Warn("the invocation ends before its work is done; leases will expire", "error", err)
	}
}

// complain logs a response that was too large.
func (h *Handler) complain(w *writer, r *http.Request, k kind) {
	if w.refused || w.written > w.limit {
		h.cfg.Logger.Error("a response is too large for AWS Lambda, and was refused", "host", r.Host, "path", r.URL.Path, "limit", w.limit, "through", k.String(),
			"advice", "stream it (--stream, invoke mode RESPONSE_STREAM), or serve the path from elsewhere")
	}
}

// IsQueue reports whether an event is messages of an SQS queue, and returns them.
func IsQueue(payload []byte) (events.SQSEvent, bool) {
	var e events.SQSEvent
	if err := json.Unmarshal(payload, &e); err != nil || len(e.Records) == 0 || e.Records[0].EventSource != "aws:sqs" {
		return events.SQSEvent{}, false
	}
	return e, true
}
