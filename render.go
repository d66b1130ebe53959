package isr

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/store"
)

// A response is a complete response of a renderer.
type response struct {
	status int
	header http.Header
	body   []byte
	plain  bool // an error page (see WriteErrorPage), to which the id of the request is added
}

// plainResponse is a text for visitors, without the reason.
func plainResponse(status int) *response {
	return &response{
		status: status,
		header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		body:   []byte("This page is not available right now. Please try again in a moment.\n"),
		plain:  true,
	}
}

// A rendering is the result of calling a renderer. It has one of response, refused and
// failure.
type rendering struct {
	response *response         // storable under verdict
	verdict  httpcache.Verdict // with response or refused
	refused  string            // must not be stored, for this reason
	failure  error             // the renderer failed
	failed   *response         // with failure: the error response for all visitors; nil without
	own      *response         // the same for the visitor who caused the render; nil if it is failed
	outage   bool              // with failure: the origin was not reached, or not in time
	// notModified is the header of a 304, and tags are those of the route; with failure.
	notModified http.Header
	tags        []string
	renews      bool // with response: the stored page, which the origin has validated
	// status and size are those of what the renderer has sent, whatever is made of it.
	status int
	size   int64
}

// A timing is when a render took place.
type timing struct {
	began       time.Time // by the monotonic clock
	generatedAt time.Time // by the wall clock, in whole milliseconds
	took        time.Duration
}

// maxFailedBody bounds the body of an error response that is remembered. A longer one is
// replaced by a plain text.
const maxFailedBody = 64 << 10

var (
	errRenderTime   = errors.New("the renderer took too long")
	errTruncated    = errors.New("the response ended before it was complete")
	errRenderStatus = errors.New("the renderer failed")
	errPanicked     = errors.New("the renderer panicked")
	errUnreached    = errors.New("the origin was not reached")
	// errNotModified: the renderer answered 304.
	errNotModified = errors.New("the renderer answered 304 (Not Modified) to a request without a condition that matches")
	errRefused     = errors.New("the response is not cacheable")
)

// handOverWindow is how much of a response is kept that its visitor has not read yet, in bytes,
// in addition to the last piece that the renderer has written.
const handOverWindow = 64 << 10

// errEmpty: a page without content would replace one that has some.
var errEmpty = errors.New("the response is empty, and the stored page is not")

// render calls the renderer of a route with the request built from a key and forwarded headers, and reads the
// whole response (see callRenderer). limit is how long the renderer may take.
func (c *Cache) render(ctx context.Context, b *boundRoute, k store.Key, forwarded http.Header, limit time.Duration, memory *renderMemory, to audience) rendering {
	req, err := b.keys.Request(ctx, k)
	if err != nil {
		return rendering{failure: err}
	}
	maps.Copy(req.Header, forwarded)
	requested := c.now()
	return callRenderer(ctx, rendererCall{
		handler: b.renderer, request: req, tags: b.Tags,
		judge: func(status int, h http.Header, tags []string) httpcache.Verdict {
			return b.judge(k, status, h, b.maxBody, tags, requested)
		},
		limit: limit, maxBody: b.maxBody, memory: memory, pieces: c.reader.Pieces(), closing: c.ctx, to: to,
	})
}

// A rendererCall is one call of a renderer. All functions must be safe for concurrent use.
type rendererCall struct {
	handler http.Handler
	request *http.Request
	// tags returns the purge tags of the route, before the renderer is called; nil: there are none.
	tags func(*http.Request) []string
	// judge returns whether a response may be stored, by its header.
	judge func(status int, h http.Header, tags []string) httpcache.Verdict

	// limit is how long the renderer may take, and maxBody how many bytes of its body are kept.
	limit   time.Duration
	maxBody int64
	memory  *renderMemory // what the body takes of the budget of buffers
	pieces  *bodies.Pieces
	// closing ends the render, whoever reads it.
	closing context.Context //nolint:containedctx // of the process
	to      audience
}

// An audience is who may get a response while it is rendered. Its functions are called with the
// mutex of the recorder held, and at most once each.
type audience struct {
	// begun is called when the first bytes of the body of a storable response have arrived.
	begun func(renderHead)
	// refused is called with a response that must not be stored, and reports whether a visitor
	// reads it: by its header, or once its body has turned out to be too large or empty.
	refused func(renderHead) bool
}

// callRenderer calls a renderer, and reads the whole response. It returns when ctx ends, or as soon as the
// response is known not to be stored, even if the renderer does not return; the renderer goes on only
// if visitors read the response (see stream). It gets the values of ctx.
func callRenderer(ctx context.Context, c rendererCall) rendering {
	// It does not end with ctx, but with the process.
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(c.closing, func() { cancel(context.Cause(c.closing)) })
	// net/http/httputil panics on a truncated body only if it believes that it runs
	// inside a server.
	work = context.WithValue(work, http.ServerContextKey, &http.Server{})
	req := c.request.WithContext(work)
	rec := &recorder{
		call:   c,
		header: make(http.Header),
		asked:  req.Header.Clone(),
		ended:  make(chan struct{}),
		to:     c.to,
		stream: &stream{cancel: cancel, memory: c.memory, pieces: c.pieces},
		work:   work,
	}
	rec.timeout = time.AfterFunc(c.limit, func() { cancel(errRenderTime) })
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

// A renderHead is a response as it is known when its body begins, and its body while it comes. The headers may
// not be changed.
type renderHead struct {
	status  int
	header  http.Header
	verdict httpcache.Verdict
	hints   []string    // the links of the last interim response
	asked   http.Header // the header of the request
	stream  *stream

	rec *recorder
}

// A recorder is the ResponseWriter of a render. The cache abandons it if the renderer
// does not return in time.
type recorder struct {
	call   rendererCall
	header http.Header     // the renderer's own, until the header is written
	asked  http.Header     // the header of the request
	tags   []string        // of the route; set before the renderer is called
	work   context.Context //nolint:containedctx // of the render; the wait for memory ends with it
	ended  chan struct{}   // closed once the result is settled
	stream *stream         // the body
	// timeout ends the render. A response that is too large to be stored has no time limit,
	// like one that passes through.
	timeout *time.Timer

	mu      sync.Mutex
	settled bool
	err     error // why the response is unusable; nil if it is complete
	sent    http.Header
	status  int
	verdict httpcache.Verdict
	to      audience // without begun once it was called
	hints   []string // the links of the last interim response
	// handedOver: a visitor reads the response, which must not be shared (see handover).
	handedOver bool
	written    int64
	room       int64 // for how many bytes of the body there is memory
	overflow   bool  // an error response exceeds maxFailedBody
	outage     error // the origin was not reached, for this reason
	plain      bool  // the response is of WriteErrorPage
}

// OriginUnreachable is for renderers that call an origin over the network: it reports
// that the origin could not be reached, and why. The renderer's response is then treated
// like a 5xx, but the failure counts against the origin instead of the page alone (see
// [budget.Config]). w is the renderer's ResponseWriter, or one that unwraps to it (see
// [http.ResponseController]). If w is not that of a render, nothing happens.
func OriginUnreachable(w http.ResponseWriter, err error) {
	if r := recorderOf(w); r != nil {
		r.unreachable(err)
	}
}

// unreachable records that the origin was not reached.
func (r *recorder) unreachable(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outage == nil {
		r.outage = err
	}
}

// unreached returns why the renderer has not reached its origin; nil if it has.
func (r *recorder) unreached() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outage == nil {
		return nil
	}
	return r.unreachedLocked()
}

func (r *recorder) unreachedLocked() error { return fmt.Errorf("%w: %w", errUnreached, r.outage) }

// markPlain notes that the renderer answers by [WriteErrorPage].
func (r *recorder) markPlain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plain = r.sent == nil
}

// run calls the renderer and settles the result when it returns or panics.
func (r *recorder) run(req *http.Request) {
	defer func() {
		// If the context has ended, the renderer returned because of that, and its
		// response does not count.
		v, err := recover(), context.Cause(req.Context())
		switch {
		case err != nil:
		case v == nil:
			err = r.complete()
		case v == http.ErrAbortHandler: //nolint:errorlint // as net/http does
			err = errTruncated
		default:
			err = fmt.Errorf("%w: %v\n%s", errPanicked, v, debug.Stack())
		}
		r.stream.close(err) // first: the response of a stream that has ended is stored
		r.end(err)
		r.stream.cancel(context.Canceled)
	}()
	if r.call.tags != nil {
		r.tags = r.call.tags(req)
	}
	r.call.handler.ServeHTTP(r, req)
}

// complete reports an error if a renderer returned before its response was complete.
func (r *recorder) complete() error {
	r.WriteHeader(http.StatusOK) // in case nothing was written
	r.mu.Lock()
	defer r.mu.Unlock()
	if length := httpcache.DeclaredLength(r.sent); length >= 0 && length != r.written && !r.overflow {
		return fmt.Errorf("%w: %d bytes of %d", errTruncated, r.written, length)
	}
	return nil
}

// end settles the result. Only the first call counts.
func (r *recorder) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(err)
}

func (r *recorder) endLocked(err error) {
	if r.settled {
		return
	}
	r.settled = true
	r.err = err
	close(r.ended)
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
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
	r.verdict = r.call.judge(status, r.sent, r.tags)
	switch {
	case status == http.StatusNotModified:
		r.endLocked(errNotModified)
	case r.verdict.Refused != "":
		if r.handOverLocked() {
			r.timeout.Stop()
		}
		r.endLocked(errRefused)
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if err := r.store(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// store adds b to the body.
func (r *recorder) store(b []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := r.written + int64(len(b))
	switch {
	case r.settled && (r.err == nil || !r.stream.orphan()):
		return r.writeErrorLocked()
	case r.settled:
	case r.verdict.Failed && size > maxFailedBody:
		r.overflow = true
		return nil
	case size > r.call.maxBody:
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
	err := r.stream.write(b, r.call.maxBody)
	if r.to.begun != nil && !r.verdict.Failed && size > 0 {
		r.to.begun(r.headLocked())
		r.to.begun = nil
	}
	return err
}

// headLocked returns the response as it is known now. Callers must hold mu.
func (r *recorder) headLocked() renderHead {
	return renderHead{status: r.status, header: r.sent, verdict: r.verdict, hints: r.hints, asked: r.asked, stream: r.stream, rec: r}
}

// keepsLocked returns how much of the body is kept. Callers must hold mu.
func (r *recorder) keepsLocked() int64 {
	switch {
	case r.handedOver:
		return handOverWindow
	case r.verdict.Refused == httpcache.RefusedNoMemory:
		return 0
	}
	return r.call.maxBody
}

// handOverLocked offers a response that must not be stored, for the reason of the verdict, to the visitor who has
// caused it, and reports whether they read it.
func (r *recorder) handOverLocked() bool {
	r.handedOver = r.to.refused(r.headLocked())
	return r.handedOver
}

// overflowLocked ends a response that will not be stored because of its size. It goes on for the visitors who
// have attached, and the one who has caused it; if there are none, that is an error.
func (r *recorder) overflowLocked(reason string) error {
	r.verdict = httpcache.Verdict{Refused: reason, Withdraws: r.verdict.Withdraws}
	r.timeout.Stop()
	r.handOverLocked()
	kept := r.stream.orphan()
	r.endLocked(errRefused)
	if !kept {
		return httpcache.ErrTooLarge
	}
	return nil
}

// reserveLocked acquires memory for a body that has size bytes now, and may wait for it. It returns
// false if there is none, or the render has ended.
func (r *recorder) reserveLocked(size int64) bool {
	declared := min(httpcache.DeclaredLength(r.sent), r.call.maxBody)
	if r.written == 0 {
		r.room = min(renderFree, r.call.maxBody)
		r.stream.grow(min(max(declared, 0), r.room))
	}
	if r.verdict.Failed || size <= r.room {
		return true
	}
	r.mu.Unlock() // end must not wait for it
	room, ok := r.stream.memory.reserve(r.work, r.room, size, declared, r.call.maxBody)
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
func (r *recorder) Flush() { r.WriteHeader(http.StatusOK) }

// trailers copies the trailers of a response that has ended.
func (h renderHead) trailers(to http.Header) {
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

func (r *recorder) writeErrorLocked() error {
	if r.err != nil {
		return r.err
	}
	return http.ErrHandlerTimeout // the renderer writes after it returned
}

// result returns the rendering, once ended is closed.
func (r *recorder) result() (got rendering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { got.status, got.size = r.status, r.written }()
	switch {
	case errors.Is(r.err, errNotModified):
		return rendering{failure: r.err, notModified: r.sent, tags: r.tags}
	case errors.Is(r.err, errRefused):
		return rendering{refused: r.verdict.Refused, verdict: r.verdict}
	case errors.Is(r.err, errRenderTime): // a renderer that was interrupted may have reported that the origin was not reached
		return rendering{failure: r.err, outage: true}
	case r.outage != nil:
		got = rendering{failure: r.unreachedLocked(), outage: true}
		if r.verdict.Failed {
			got.failed, got.own = r.failedLocked()
		}
		return got
	case r.err != nil:
		return rendering{failure: r.err}
	case r.verdict.Failed:
		got = rendering{failure: fmt.Errorf("%w: status %d", errRenderStatus, r.status)}
		got.failed, got.own = r.failedLocked()
		return got
	}
	body, err := httpcache.Decode(r.sent["Content-Encoding"], r.stream.kept(), r.call.maxBody)
	switch {
	case errors.Is(err, httpcache.ErrTooLarge):
		return r.refusedLocked(httpcache.RefusedTooLarge, r.verdict.Withdraws)
	case err != nil:
		return rendering{failure: fmt.Errorf("%w: %w", errTruncated, err)}
	case len(body) == 0 && (r.status == http.StatusOK || r.status == http.StatusNonAuthoritativeInfo):
		return r.refusedLocked(httpcache.RefusedEmpty, false)
	}
	return rendering{
		response: &response{status: r.status, header: r.sent, body: body},
		verdict:  r.verdict,
	}
}

// refusedLocked returns the rendering of a response whose whole body forbids to store it.
func (r *recorder) refusedLocked(reason string, withdraws bool) rendering {
	r.verdict = httpcache.Verdict{Refused: reason, Withdraws: withdraws}
	r.handOverLocked()
	return rendering{refused: reason, verdict: r.verdict}
}

// failedLocked returns the renderer's error response for all visitors, and, if it must not be
// shared, for the visitor who caused the render; the others then get its status, and when to
// try again.
func (r *recorder) failedLocked() (shared, own *response) {
	plain := plainResponse(r.status)
	if retry := r.sent["Retry-After"]; len(retry) > 0 {
		plain.header["Retry-After"] = retry
	}
	body, err := httpcache.Decode(r.sent["Content-Encoding"], r.stream.kept(), maxFailedBody)
	if r.overflow || err != nil {
		return plain, nil
	}
	whole := &response{status: r.status, header: httpcache.StoredHeader(r.sent), body: body, plain: r.plain}
	if d, _ := httpcache.ForSharedCache(r.sent); d.Has("private") || d.Malformed() || httpcache.SetsCookie(r.sent) {
		return plain, whole
	}
	return whole, nil
}

// backOff is the pause after a number of failures in a row: exponential backoff from one
// second to half a minute, with jitter, so that servers and pages do not retry in step.
func (c *Cache) backOff(failures int) time.Duration {
	return c.jitter(backoff.Exponential(time.Second, maxBackOff, failures))
}

const maxBackOff = 30 * time.Second

// pass passes a request through. What an unsafe request changes is purged (see unsafe.go).
func (h *handler) pass(w http.ResponseWriter, r *http.Request, status httpcache.Status) {
	var observe func(int, http.Header)
	if !isSafe(r.Method) {
		observe = h.unsafeRequest(r).answered
	}
	h.passThrough(w, r, status, observe)
}

// passThrough sends a request to the renderer unchanged and streams the response to the
// visitor. Nothing is stored. observe, which may be nil, is called with the status and the
// header of the response before they are sent, and may change the header.
func (h *handler) passThrough(w http.ResponseWriter, r *http.Request, status httpcache.Status, observe func(int, http.Header)) {
	pw := &passWriter{ResponseWriter: w, request: r, as: h.route.present, status: status, observe: observe, report: ReportOf(w)}
	pw.report.answer(status) // in case there is no response
	h.route.renderer.ServeHTTP(pw, withoutReceipt(r))
	pw.WriteHeader(http.StatusOK) // in case nothing was written
}

// passJudged is passThrough for a request for the page of k. judged is called with the verdict on the response, as if it
// were that of a render, before it is sent. It is not called for a response to a range or to conditions, which renders
// do not have: it says nothing of the page.
func (h *handler) passJudged(w http.ResponseWriter, r *http.Request, k store.Key, status httpcache.Status, judged func(httpcache.Verdict)) {
	began := h.c.now()
	h.passThrough(w, r, status, func(code int, header http.Header) {
		switch code {
		case http.StatusPartialContent, http.StatusNotModified, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		default:
			judged(h.route.judge(k, code, header, h.route.maxBody, nil, began))
		}
	})
}

// ServeDraft implements [DraftHandler].
func (h *handler) ServeDraft(w http.ResponseWriter, r *http.Request) {
	k, _, err := h.route.keys.Key(r)
	h.identify(w, k)
	forwardRequestID(w, r)
	if err != nil {
		h.badRequest(w, err)
		return
	}
	h.passThrough(w, r, httpcache.Status{Forward: httpcache.ForwardBypass, Detail: detailDraft}, func(_ int, header http.Header) {
		for _, name := range []string{"Cdn-Cache-Control", "Surrogate-Control", "Expires", "Pragma"} {
			delete(header, name)
		}
		header["Cache-Control"] = []string{"private, no-store"}
	})
}

// passRefused passes through a request for a page that was not cacheable when it was
// last rendered. If the response is not cacheable either, the refusal is remembered for
// longer, without a separate render.
func (h *handler) passRefused(w http.ResponseWriter, r *http.Request, k store.Key, known *negativeEntry) {
	reason := known.refused
	h.passJudged(w, r, k, httpcache.Status{Forward: httpcache.ForwardBypass, Detail: reason}, func(v httpcache.Verdict) {
		switch {
		case v.Refused != "":
			h.c.negative.renew(k, known, &negativeEntry{readAt: known.readAt, until: time.Now().Add(remembered), refused: v.Refused})
		case !v.Failed && h.route.decidedByHeader(reason):
			h.c.negative.renew(k, known, &negativeEntry{readAt: known.readAt}) // expires at once
		}
	})
}

// A passWriter adds Cache-Status, and the fields of the route, to a response that passes
// through.
type passWriter struct {
	http.ResponseWriter
	request *http.Request
	as      *presentation
	status  httpcache.Status
	observe func(status int, h http.Header) // may be nil
	report  *Report                         // nil: there is none
	wrote   bool
	begun   bool // a part of the body was written
}

func (w *passWriter) WriteHeader(status int) {
	if w.wrote {
		return
	}
	if status >= 200 {
		w.begin(status)
	}
	w.ResponseWriter.WriteHeader(status)
}

// begin completes the header before it is sent.
func (w *passWriter) begin(status int) {
	w.wrote = true
	w.status.ForwardStatus = status
	w.report.answer(w.status)
	h := w.Header()
	// RFC 9211, section 2: caches closer to the origin come first.
	h["Cache-Status"] = append(h["Cache-Status"], w.status.String())
	if w.observe != nil {
		w.observe(status, h)
	}
	limitError(status, h)
	w.as.fields(h)
}

func (w *passWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !w.begun {
		w.begun = true
		w.promise(b)
	}
	return w.ResponseWriter.Write(b)
}

// promise has the response sent in one write if b is its whole body.
func (w *passWriter) promise(b []byte) {
	status := w.status.ForwardStatus
	if w.request.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		return // the server sends no body
	}
	if length := w.Header()["Content-Length"]; len(length) == 1 && length[0] == strconv.Itoa(len(b)) {
		httpconn.PromiseBody(w.request, len(b))
	}
}

// Flush implements [http.Flusher] for renderers that require it.
func (w *passWriter) Flush() {
	w.WriteHeader(http.StatusOK)
	// A writer that cannot flush does not buffer.
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack takes over the connection, for an upgrade.
func (w *passWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil && !w.wrote {
		w.begin(http.StatusSwitchingProtocols)
	}
	return conn, rw, err
}

// Unwrap lets http.ResponseController reach the connection, for deadlines.
func (w *passWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
