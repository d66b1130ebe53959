package render

import (
	"context"
	"errors"
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/httpcache"
)

// A Response is a complete response of a renderer.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	Plain  bool // an error page (see isr.WriteErrorPage), to which the id of the request is added
}

// Plain returns a failed response: a text for visitors, without the reason.
func Plain(status int) *Response {
	return &Response{
		Status: status,
		Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		Body:   []byte("This page is not available right now. Please try again in a moment.\n"),
		Plain:  true,
	}
}

// A Rendering is the result of calling a renderer. It has one of Response, Refused and Failure.
type Rendering struct {
	Response *Response         // may be stored by Verdict
	Verdict  httpcache.Verdict // of Response or Refused
	Refused  string            // the response must not be stored, for this reason
	Failure  error             // the renderer failed
	// With Failure: Failed is the error response for all visitors, Own the one for the visitor who has
	// caused the render. Nil if there is none; Own is nil, too, if it is Failed.
	Failed, Own *Response
	Outage      bool // with Failure: the origin was not reached, or not in time
	// With ErrNotModified: NotModified is the header of the 304, and Tags are the tags of the route.
	NotModified http.Header
	Tags        []string
	Renews      bool // Response is the stored page, which the origin has validated
	// Status and Size are of what the renderer has sent, whatever is made of it.
	Status int
	Size   int64
}

// MaxFailedBody bounds the body of an error response that is remembered. A longer one is
// replaced by a plain text.
const MaxFailedBody = 64 << 10

// Failures of renderers.
var (
	ErrTimeout   = errors.New("the renderer took too long")
	ErrTruncated = errors.New("the response ended before it was complete")
	ErrStatus    = errors.New("the renderer failed")
	ErrPanicked  = errors.New("the renderer panicked")
	ErrUnreached = errors.New("the origin was not reached")
	// ErrNotModified: the renderer answered 304.
	ErrNotModified = errors.New("the renderer answered 304 (Not Modified) to a request without a condition that matches")
	// ErrUncacheable is returned to a renderer that goes on writing a response which is refused.
	ErrUncacheable = errors.New("the response is not cacheable")
)

// window is how much of a response is kept that its visitor has not read yet, in bytes,
// in addition to the last piece that the renderer has written.
const window = 64 << 10

// A Call is one call of a renderer. All functions must be safe for concurrent use.
type Call struct {
	Handler http.Handler
	Request *http.Request // its context is replaced
	// Tags returns the purge tags of the route, before the renderer is called; nil: there are none.
	Tags func(*http.Request) []string
	// Judge returns whether a response may be stored, by its header.
	Judge func(status int, h http.Header, tags []string) httpcache.Verdict

	// Limit is how long the renderer may take, and MaxBody how many bytes of its body are kept.
	Limit   time.Duration
	MaxBody int64
	Memory  *Memory        // what the body takes of the budget of buffers; nil: it has no limit
	Pieces  *bodies.Pieces // buffers of visitors
	// Closing ends the render, even if visitors read it.
	Closing context.Context //nolint:containedctx // of the process
	To      Audience
}

// An Audience is who may get a response while it is rendered. Its functions are called with the
// mutex of the recorder held, and at most once each.
type Audience struct {
	// Begun is called when the first bytes of the body of a storable response have arrived.
	Begun func(Head)
	// Refused is called with a response that must not be stored, and reports whether a visitor
	// reads it: by its header, or once its body has turned out to be too large or empty.
	Refused func(Head) bool
}

// Do calls a renderer, and reads the whole response. It returns when ctx ends, or as soon as the
// response is known not to be stored, even if the renderer does not return; the renderer goes on only
// if visitors read the response (see [Stream]). It gets the values of ctx.
func Do(ctx context.Context, c Call) Rendering {
	// It does not end with ctx, but with the process.
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.Closing, func() { cancel(context.Cause(c.Closing)) })
	// net/http/httputil panics on a truncated body only if it believes that it runs
	// inside a server.
	work = context.WithValue(work, http.ServerContextKey, &http.Server{})
	req := c.Request.WithContext(work)
	rec := &Recorder{
		call:   c,
		header: make(http.Header),
		asked:  req.Header.Clone(),
		ended:  make(chan struct{}),
		to:     c.To,
		stream: &Stream{cancel: cancel, memory: c.Memory, pieces: c.Pieces},
		work:   work,
	}
	rec.timeout = time.AfterFunc(c.Limit, func() { cancel(ErrTimeout) })
	context.AfterFunc(work, func() {
		stop()
		rec.timeout.Stop()
		rec.stream.close(context.Cause(work))
	})
	go rec.run(req)
	select {
	case <-rec.ended:
	case <-work.Done():
		rec.end(context.Cause(work))
	case <-ctx.Done():
		rec.end(context.Cause(ctx))
	}
	if !rec.stream.orphan() {
		cancel(context.Canceled)
	}
	return rec.result()
}

// A Head is a response as it is known when its body begins, and its body while it comes. The headers may
// not be changed.
type Head struct {
	Status  int
	Header  http.Header
	Verdict httpcache.Verdict
	Hints   []string    // the links of the last interim response
	Asked   http.Header // the header of the request
	Stream  *Stream

	rec *Recorder
}

// Trailers copies the trailers of a response that has ended.
func (h Head) Trailers(to http.Header) {
	r := h.rec
	for name, values := range r.header {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			to[name] = values
		}
	}
	for _, line := range r.sent["Trailer"] {
		for name := range httpcache.Members(line) {
			name = textproto.CanonicalMIMEHeaderKey(name)
			if values := r.header[name]; len(values) > 0 {
				to[name] = values
			}
		}
	}
}
