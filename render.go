package isr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A response is what a renderer gave, read to its clean end.
type response struct {
	status int
	header http.Header
	body   []byte
}

// A rendering is the end of one call of a renderer: exactly one of its cases.
type rendering struct {
	response *response         // storable under verdict
	verdict  httpcache.Verdict // with response or refused
	refused  string            // not to be stored, for this reason
	failure  error             // the renderer failed
	failed   *response         // with a failure: what it answered, if that may be shown
	outage   bool              // with a failure: the origin was not reached, or not in time
}

// maxFailedBody bounds the body of a failed response that is kept to be shown
// again; longer ones are replaced by a plain sentence.
const maxFailedBody = 64 << 10

var (
	errRenderTime   = errors.New("the renderer took too long")
	errTruncated    = errors.New("the response ended before it was complete")
	errEmpty        = errors.New("the response is empty, and a good one exists")
	errRenderStatus = errors.New("the renderer failed")
	errUnreached    = errors.New("the origin was not reached")
)

// render calls a renderer with the request that a key stands for, and reads its
// whole answer. It returns at the deadline of ctx, or as soon as the answer is
// known to be worthless, even if the renderer does not.
func (c *Cache) render(ctx context.Context, p *projector, h http.Handler, k store.Key) rendering {
	ctx, cancel := context.WithTimeoutCause(ctx, c.cfg.RenderTimeout, errRenderTime)
	defer cancel()
	// net/http/httputil reports a body that breaks off by a panic only where it
	// believes itself inside a server.
	ctx = context.WithValue(ctx, http.ServerContextKey, &http.Server{})
	req, err := p.request(ctx, k)
	if err != nil {
		return rendering{failure: err}
	}
	rec := &recorder{
		header: make(http.Header),
		limit:  c.cfg.MaxBody,
		judge:  func(status int, h http.Header) httpcache.Verdict { return p.judge(status, h, c.cfg.MaxBody) },
		ended:  make(chan struct{}),
	}
	go rec.run(h, req)
	select {
	case <-rec.ended:
	case <-ctx.Done():
		rec.end(context.Cause(ctx))
	}
	return rec.result()
}

// A recorder is the ResponseWriter of a rendering. It is used by the renderer
// and, where that does not return in time, given up by the cache.
type recorder struct {
	header http.Header // the renderer's own, until the header is written
	limit  int64
	judge  func(status int, h http.Header) httpcache.Verdict
	ended  chan struct{} // closed once the result is settled

	mu       sync.Mutex
	settled  bool
	err      error // why the response is no good; nil at a clean end
	sent     http.Header
	status   int
	verdict  httpcache.Verdict
	body     bytes.Buffer
	overflow bool  // a failed response longer than what is kept of one
	outage   error // the origin was not reached, for this reason
}

// OriginUnreachable is for a renderer that asks an origin over the network: it tells
// the cache that the origin could not be asked, and why. What the renderer answers is
// shown as the page's failure, as a 5xx is, but the failure counts against the origin,
// and not against the page alone (see [budget.Config]). w is the renderer's own
// ResponseWriter, or one that unwraps to it (see [http.ResponseController]); nothing is
// done where it is not that of a render.
func OriginUnreachable(w http.ResponseWriter, err error) {
	for {
		switch inner := w.(type) {
		case *recorder:
			inner.unreachable(err)
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = inner.Unwrap()
		default:
			return
		}
	}
}

func (r *recorder) unreachable(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.outage == nil {
		r.outage = err
	}
}

// run calls the renderer and settles the result when it returns or panics.
func (r *recorder) run(h http.Handler, req *http.Request) {
	defer func() {
		// A renderer that returns, in whatever way, because its context ended
		// has not answered.
		v, gone := recover(), context.Cause(req.Context())
		switch {
		case gone != nil:
			r.end(gone)
		case v == nil:
			r.finish()
		case v == http.ErrAbortHandler: //nolint:errorlint // net/http compares it so
			r.end(errTruncated)
		default:
			r.end(fmt.Errorf("the renderer panicked: %v\n%s", v, debug.Stack()))
		}
	}()
	h.ServeHTTP(r, req)
}

// finish settles a response whose renderer returned.
func (r *recorder) finish() {
	r.WriteHeader(http.StatusOK) // nothing written yet: that is what it means
	r.mu.Lock()
	length, got := httpcache.DeclaredLength(r.sent), int64(r.body.Len())
	short := length >= 0 && length != got && !r.overflow
	r.mu.Unlock()
	if short {
		r.end(fmt.Errorf("%w: %d bytes of %d", errTruncated, got, length))
		return
	}
	r.end(nil)
}

// end settles the result; the first to do so decides.
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
	if status < 200 { // informational: for a visitor, and there is none
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status != 0 || r.settled {
		return
	}
	r.status = status
	r.sent = r.header.Clone()
	r.verdict = r.judge(status, r.sent)
	if r.verdict.Refused != "" {
		r.endLocked(ErrUncacheable)
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.settled {
		return 0, r.writeErrorLocked()
	}
	switch {
	case r.verdict.Failed && r.body.Len()+len(b) > maxFailedBody:
		r.overflow = true
		return len(b), nil
	case int64(r.body.Len()+len(b)) > r.limit:
		r.verdict = httpcache.Verdict{Refused: httpcache.RefusedTooLarge, Withdraws: r.verdict.Withdraws}
		r.endLocked(ErrUncacheable)
		return 0, httpcache.ErrTooLarge
	}
	return r.body.Write(b)
}

// Flush is for renderers that insist on a flusher; a page is stored as a whole.
func (r *recorder) Flush() { r.WriteHeader(http.StatusOK) }

func (r *recorder) writeErrorLocked() error {
	if r.err != nil {
		return r.err
	}
	return http.ErrHandlerTimeout // a renderer that writes after it returned
}

// result is valid once ended is closed.
func (r *recorder) result() rendering {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case errors.Is(r.err, ErrUncacheable):
		return rendering{refused: r.verdict.Refused, verdict: r.verdict}
	case r.outage != nil:
		failed := rendering{failure: fmt.Errorf("%w: %w", errUnreached, r.outage), outage: true}
		if r.verdict.Failed {
			failed.failed = r.failedLocked()
		}
		return failed
	case r.err != nil:
		return rendering{failure: r.err, outage: errors.Is(r.err, errRenderTime)}
	case r.verdict.Failed:
		return rendering{failure: fmt.Errorf("%w with status %d", errRenderStatus, r.status), failed: r.failedLocked()}
	}
	body, err := httpcache.Decode(r.sent.Get("Content-Encoding"), r.body.Bytes(), r.limit)
	switch {
	case errors.Is(err, httpcache.ErrTooLarge):
		return rendering{refused: httpcache.RefusedTooLarge, verdict: r.verdict}
	case err != nil:
		return rendering{failure: fmt.Errorf("%w: %w", errTruncated, err)}
	case len(body) == 0 && (r.status == http.StatusOK || r.status == http.StatusNonAuthoritativeInfo):
		return rendering{refused: httpcache.RefusedEmpty}
	}
	return rendering{
		response: &response{status: r.status, header: r.sent, body: body},
		verdict:  r.verdict,
	}
}

// failedLocked is the renderer's own error page, if others may see it.
func (r *recorder) failedLocked() *response {
	d, _ := httpcache.ForSharedCache(r.sent)
	body, err := httpcache.Decode(r.sent.Get("Content-Encoding"), r.body.Bytes(), maxFailedBody)
	if r.overflow || err != nil || d.Has("private") || d.Malformed() || httpcache.SetsCookie(r.sent) {
		return nil
	}
	return &response{status: r.status, header: httpcache.StoredHeader(r.sent), body: body}
}

// backOff is the pause after a number of failures in a row: doubling from one
// second to half a minute, and jittered, so that a fleet and its pages do not
// come back in step.
func (c *Cache) backOff(failures int) time.Duration {
	return c.jitter(backoff.Exponential(time.Second, maxBackOff, failures))
}

const maxBackOff = 30 * time.Second
