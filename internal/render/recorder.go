package render

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
)

// Of returns the recorder that w is, or unwraps to; nil if w does not belong to a render.
func Of(w http.ResponseWriter) *Recorder {
	for {
		switch inner := w.(type) {
		case *Recorder:
			return inner
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return nil
		}
	}
}

// A Recorder is the ResponseWriter of a render. The cache abandons it if the renderer
// does not return in time.
type Recorder struct {
	call   Call
	header http.Header     // the renderer's own, until the header is written
	asked  http.Header     // the header of the request
	tags   []string        // of the route; set before the renderer is called
	work   context.Context //nolint:containedctx // of the render; the wait for memory ends with it
	ended  chan struct{}   // closed once the result is settled
	stream *Stream         // the body
	// timeout ends the render. A response that is too large to be stored has no time limit,
	// like one that passes through.
	timeout *time.Timer

	mu      sync.Mutex
	settled bool
	err     error // why the response is unusable; nil if it is complete
	sent    http.Header
	status  int
	verdict httpcache.Verdict
	to      Audience // without Begun once it was called
	hints   []string // the links of the last interim response
	// handedOver: a visitor reads the response, which must not be shared (see handover).
	handedOver bool
	written    int64
	room       int64 // for how many bytes of the body there is memory
	overflow   bool  // an error response exceeds MaxFailedBody
	outage     error // the origin was not reached, for this reason
	plain      bool  // the response is of WriteErrorPage
}

// Unreachable records that the origin was not reached.
func (r *Recorder) Unreachable(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outage == nil {
		r.outage = err
	}
}

// Unreached returns why the renderer has not reached its origin; nil if it has.
func (r *Recorder) Unreached() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outage == nil {
		return nil
	}
	return r.unreachedLocked()
}

func (r *Recorder) unreachedLocked() error { return fmt.Errorf("%w: %w", ErrUnreached, r.outage) }

// MarkPlain notes that the renderer answers by isr.WriteErrorPage.
func (r *Recorder) MarkPlain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plain = r.sent == nil
}

// run calls the renderer and settles the result when it returns or panics.
func (r *Recorder) run(req *http.Request) {
	defer func() {
		// If the context has ended, the renderer returned because of that, and its
		// response does not count.
		v, err := recover(), context.Cause(req.Context())
		switch {
		case err != nil:
		case v == nil:
			err = r.complete()
		case v == http.ErrAbortHandler: //nolint:errorlint // as net/http does
			err = ErrTruncated
		default:
			err = fmt.Errorf("%w: %v\n%s", ErrPanicked, v, debug.Stack())
		}
		r.stream.close(err) // first: the response of a stream that has ended is stored
		r.end(err)
		r.stream.cancel(context.Canceled)
	}()
	if r.call.Tags != nil {
		r.tags = r.call.Tags(req)
	}
	r.call.Handler.ServeHTTP(r, req)
}

// complete reports an error if a renderer returned before its response was complete.
func (r *Recorder) complete() error {
	r.WriteHeader(http.StatusOK) // in case nothing was written
	r.mu.Lock()
	defer r.mu.Unlock()
	if length := httpcache.DeclaredLength(r.sent); length >= 0 && length != r.written && !r.overflow {
		return fmt.Errorf("%w: %d bytes of %d", ErrTruncated, r.written, length)
	}
	return nil
}

// end settles the result. Only the first call counts.
func (r *Recorder) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(err)
}

func (r *Recorder) endLocked(err error) {
	if r.settled {
		return
	}
	r.settled = true
	r.err = err
	close(r.ended)
}

func (r *Recorder) Header() http.Header { return r.header }

func (r *Recorder) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if status < 200 { // informational responses are for visitors, whom a render may not have
		if status == http.StatusEarlyHints && r.status == 0 {
			r.hints = httpcache.EarlyHints(r.header["Link"])
		}
		return
	}
	if r.status != 0 || r.settled {
		return
	}
	r.status = status
	r.sent = r.header.Clone()
	r.verdict = r.call.Judge(status, r.sent, r.tags)
	switch {
	case status == http.StatusNotModified:
		r.endLocked(ErrNotModified)
	case r.verdict.Refused != "":
		if r.handOverLocked() {
			r.timeout.Stop()
		}
		r.endLocked(ErrUncacheable)
	}
}

func (r *Recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if err := r.store(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// store adds b to the body.
func (r *Recorder) store(b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := r.written + int64(len(b))
	switch {
	case r.settled && (r.err == nil || !r.stream.orphan()):
		return r.writeErrorLocked()
	case r.settled:
	case r.verdict.Failed && size > MaxFailedBody:
		r.overflow = true
		return nil
	case size > r.call.MaxBody:
		if err := r.overflowLocked(httpcache.RefusedTooLarge); err != nil {
			return err
		}
	case !r.reserveLocked(size):
		if r.settled {
			return r.writeErrorLocked()
		}
		if err := r.overflowLocked(httpcache.RefusedNoMemory); err != nil {
			return err
		}
	}
	r.written = size
	if r.settled {
		// Readers may be slow: end must not wait for them.
		keeps := r.keepsLocked()
		r.mu.Unlock()
		defer r.mu.Lock()
		return r.stream.write(b, keeps)
	}
	err := r.stream.write(b, r.call.MaxBody)
	if r.to.Begun != nil && !r.verdict.Failed && size > 0 {
		r.to.Begun(r.headLocked())
		r.to.Begun = nil
	}
	return err
}

// headLocked returns the response as it is known now. Callers must hold mu.
func (r *Recorder) headLocked() Head {
	return Head{Status: r.status, Header: r.sent, Verdict: r.verdict, Hints: r.hints, Asked: r.asked, Stream: r.stream, rec: r}
}

// keepsLocked returns how much of the body is kept. Callers must hold mu.
func (r *Recorder) keepsLocked() int64 {
	switch {
	case r.handedOver:
		return window
	case r.verdict.Refused == httpcache.RefusedNoMemory:
		return 0
	}
	return r.call.MaxBody
}

// handOverLocked offers a response that must not be stored, for the reason of the verdict, to the visitor who has
// caused it, and reports whether they read it.
func (r *Recorder) handOverLocked() bool {
	r.handedOver = r.to.Refused(r.headLocked())
	return r.handedOver
}

// overflowLocked ends a response that will not be stored because of its size. It goes on for the visitors who
// have attached, and the one who has caused it; if there are none, that is an error.
func (r *Recorder) overflowLocked(reason string) error {
	r.verdict = httpcache.Verdict{Refused: reason, Withdraws: r.verdict.Withdraws}
	r.timeout.Stop()
	r.handOverLocked()
	kept := r.stream.orphan()
	r.endLocked(ErrUncacheable)
	if !kept {
		return httpcache.ErrTooLarge
	}
	return nil
}

// reserveLocked acquires memory for a body that has size bytes now, and may wait for it. It returns
// false if there is none, or the render has ended.
func (r *Recorder) reserveLocked(size int64) bool {
	declared := min(httpcache.DeclaredLength(r.sent), r.call.MaxBody)
	if r.written == 0 {
		r.room = min(free, r.call.MaxBody)
		r.stream.grow(min(max(declared, 0), r.room))
	}
	if r.verdict.Failed || size <= r.room {
		return true
	}
	r.mu.Unlock() // end must not wait for it
	room, ok := r.stream.memory.reserve(r.work, r.room, size, declared, r.call.MaxBody)
	r.mu.Lock()
	if !ok || r.settled {
		return false
	}
	r.room = room
	r.stream.grow(room)
	return true
}

// Flush implements [http.Flusher] for renderers that require it. A page is stored as a
// whole.
func (r *Recorder) Flush() { r.WriteHeader(http.StatusOK) }

func (r *Recorder) writeErrorLocked() error {
	if r.err != nil {
		return r.err
	}
	return http.ErrHandlerTimeout // the renderer writes after it returned
}

// result returns the rendering, once ended is closed.
func (r *Recorder) result() (got Rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { got.Status, got.Size = r.status, r.written }()
	switch {
	case errors.Is(r.err, ErrNotModified):
		return Rendering{Failure: r.err, NotModified: r.sent, Tags: r.tags}
	case errors.Is(r.err, ErrUncacheable):
		return Rendering{Refused: r.verdict.Refused, Verdict: r.verdict}
	case errors.Is(r.err, ErrTimeout): // a renderer that was interrupted may have reported that the origin was not reached
		return Rendering{Failure: r.err, Outage: true}
	case r.outage != nil:
		got = Rendering{Failure: r.unreachedLocked(), Outage: true}
		if r.verdict.Failed {
			got.Failed, got.Own = r.failedLocked()
		}
		return got
	case r.err != nil:
		return Rendering{Failure: r.err}
	case r.verdict.Failed:
		got = Rendering{Failure: fmt.Errorf("%w: status %d", ErrStatus, r.status)}
		got.Failed, got.Own = r.failedLocked()
		return got
	}
	body, err := httpcache.Decode(r.sent["Content-Encoding"], r.stream.kept(), r.call.MaxBody)
	switch {
	case errors.Is(err, httpcache.ErrTooLarge):
		return r.refusedLocked(httpcache.RefusedTooLarge, r.verdict.Withdraws)
	case err != nil:
		return Rendering{Failure: fmt.Errorf("%w: %w", ErrTruncated, err)}
	case len(body) == 0 && (r.status == http.StatusOK || r.status == http.StatusNonAuthoritativeInfo):
		return r.refusedLocked(httpcache.RefusedEmpty, false)
	}
	return Rendering{
		Response: &Response{Status: r.status, Header: r.sent, Body: body},
		Verdict:  r.verdict,
	}
}

// refusedLocked returns the rendering of a response whose whole body forbids to store it.
func (r *Recorder) refusedLocked(reason string, withdraws bool) Rendering {
	r.verdict = httpcache.Verdict{Refused: reason, Withdraws: withdraws}
	r.handOverLocked()
	return Rendering{Refused: reason, Verdict: r.verdict}
}

// failedLocked returns the renderer's error response for all visitors, and, if it must not be
// shared, for the visitor who caused the render; the others then get its status, and when to
// try again.
func (r *Recorder) failedLocked() (shared, own *Response) {
	plain := Plain(r.status)
	if retry := r.sent["Retry-After"]; len(retry) > 0 {
		plain.Header["Retry-After"] = retry
	}
	body, err := httpcache.Decode(r.sent["Content-Encoding"], r.stream.kept(), MaxFailedBody)
	if r.overflow || err != nil {
		return plain, nil
	}
	whole := &Response{Status: r.status, Header: httpcache.StoredHeader(r.sent), Body: body, Plain: r.plain}
	if d, _ := httpcache.ForSharedCache(r.sent); d.Has("private") || d.Malformed() || httpcache.SetsCookie(r.sent) {
		return plain, whole
	}
	return whole, nil
}
