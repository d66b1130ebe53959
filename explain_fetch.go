package isr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/internal/storable"
	"github.com/facetheory/isr/store"
)

// Fetched is what a renderer has answered to an [Explainer], and what the cache makes of it.
type Fetched struct {
	// Status is 0 if the renderer has sent none.
	Status int
	// Header has the fields that decide about caching. Of Set-Cookie it has the names of the
	// cookies alone.
	Header http.Header
	Bytes  int64 // of the body, after decoding; 0 unless it would be stored
	Took   time.Duration
	// Failure is why the render failed; empty if it did not.
	Failure string
	// Stored: the response would be stored, to be fresh for FreshFor, and served for StaleFor
	// after that. The first window may be shortened at random (see [Route.Jitter]).
	Stored             bool
	FreshFor, StaleFor time.Duration
	Tags               []string
	// Obstacles are all the reasons for which it would not be stored.
	Obstacles []Obstacle
}

// An Obstacle keeps a response from being stored.
type Obstacle struct {
	Detail string // of Cache-Status: "private", "vary", …
	What   string // what forbids it, such as `Cache-Control: private`
	Advice string // what to change
	RFC    string // the section; empty if there is none
}

// An answer is the header of a response.
type answer struct {
	status int
	header http.Header
}

// A watcher shows the header of a response before it is judged.
type watcher struct {
	http.ResponseWriter
	show func(answer)
}

func (w *watcher) WriteHeader(status int) {
	w.sent(status)
	w.ResponseWriter.WriteHeader(status)
}

// sent shows the header, once.
func (w *watcher) sent(status int) {
	if w.show != nil && status >= 200 {
		w.show(answer{status, w.Header().Clone()})
		w.show = nil
	}
}

func (w *watcher) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher] for renderers that require it.
func (w *watcher) Flush() {
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w.ResponseWriter).Flush() // a recorder can flush
}

// Unwrap lets [OriginUnreachable] reach the recorder.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// watched returns a renderer that shows the header of what h answers.
func watched(h http.Handler, show func(answer)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen := &watcher{ResponseWriter: w, show: show}
		h.ServeHTTP(seen, r)
		if r.Context().Err() == nil {
			seen.sent(http.StatusOK) // in case nothing was written
		}
	})
}

var _ fill.Explainer = (*explainer)(nil)

// RendersVariant records that a variant by learned headers is described as rendered.
func (x *explainer) RendersVariant() {
	x.out.Open = x.out.Open || x.learned
	x.learned = true
}

// Fetches reports whether the renderer may be called.
func (x *explainer) Fetches() bool { return x.fetch }

// Watch returns a renderer that shows the header of what h answers.
func (x *explainer) Watch(h http.Handler) http.Handler {
	answers := make(chan answer, 2) // a validation may be repeated without conditions
	x.answers = answers
	return watched(h, func(a answer) {
		select {
		case answers <- a:
		default:
		}
	})
}

// Fetched describes what the renderer has answered.
func (x *explainer) Fetched(k store.Key, got render.Rendering, requested time.Time, took time.Duration, rejected string) {
	f := &Fetched{Took: took}
	x.out.Fetched = f
	for len(x.answers) > 0 {
		a := <-x.answers
		f.Status, f.Header = a.status, storable.Telling(a.header)
		f.Obstacles = x.h.obstacles(k, a, requested)
	}
	switch {
	case got.Failure != nil:
		f.Failure = got.Failure.Error()
		if len(f.Obstacles) == 0 {
			f.Obstacles = []Obstacle{obstacleOf(fill.FailureDetail(got.Failure), f.Failure)}
		}
	case got.Response != nil:
		f.Bytes, f.Stored, f.FreshFor, f.StaleFor, f.Tags = int64(len(got.Response.Body)), true, got.Verdict.Revalidate, got.Verdict.Stale, got.Verdict.Tags
		f.Obstacles = nil
		if rejected != "" {
			f.Stored, f.Obstacles = false, []Obstacle{obstacleOf(page.DetailRejected, rejected)}
		}
	case len(f.Obstacles) == 0:
		f.Obstacles = []Obstacle{obstacleOf(got.Refused, cmp.Or(errorText(got.Verdict.Cause), got.Refused))}
	}
}

// obstacleOf describes what keeps a response from being stored, by its detail.
func obstacleOf(detail, what string) Obstacle { return Obstacle(storable.ObstacleOf(detail, what)) }

// obstacles returns all that keeps an answer of the renderer from being stored.
func (h *handler) obstacles(k store.Key, a answer, requested time.Time) (all []Obstacle) {
	for _, o := range h.route.judge.Obstacles(k, a.status, a.header, requested, fill.DetailFailed) {
		all = append(all, Obstacle(o))
	}
	return all
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ExplainDraft implements [Explainer].
func (h *handler) ExplainDraft(r *http.Request, fetch bool) Decision {
	x := &explainer{h: h, r: r, fetch: fetch}
	x.out.Explanation.Parts = partsOf(h.route.keys, r)
	if _, _, err := h.route.keys.Key(r); err != nil {
		x.refuse(err)
		return x.out
	}
	x.out.Bypass, x.out.Memory = detailDraft, h.remembered(x.out.Key)
	x.passes(httpcache.Status{Forward: httpcache.ForwardBypass, Detail: detailDraft})
	return x.out
}

// askPassing sends the request to the renderer as passThrough does, and describes the header of
// what it answers. The rest of the response is not read.
func (x *explainer) askPassing(s httpcache.Status) {
	if why := x.unaskable(); why != "" {
		x.Because("the origin was not asked: "+why, "")
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx(), x.h.route.fills.RenderTimeout)
	defer cancel()
	began := x.h.c.now()
	f := &Fetched{}
	x.out.Fetched = f
	a, err := x.h.headerOf(x.r.WithContext(ctx))
	if f.Took = x.h.c.now().Sub(began); err != nil {
		f.Failure = err.Error()
		f.Obstacles = []Obstacle{obstacleOf(fill.FailureDetail(err), f.Failure)}
		return
	}
	f.Status, f.Header = a.status, storable.Telling(a.header)
	if why, ok := details.Of(cmp.Or(s.Detail, s.Forward)); ok {
		f.Obstacles = []Obstacle{{Detail: cmp.Or(s.Detail, s.Forward), What: why.Meaning, Advice: why.Advice, RFC: why.RFC}}
	}
	for _, o := range x.h.obstacles(x.out.Key, a, began) {
		if o.Detail != s.Detail {
			f.Obstacles = append(f.Obstacles, o)
		}
	}
}

// unaskable says why an explanation must not send the request to the renderer; empty if it may.
func (x *explainer) unaskable() string {
	switch {
	case x.r.Method != http.MethodGet && x.r.Method != http.MethodHead:
		return "a " + x.r.Method + " request may change something there"
	case x.r.Header["Authorization"] != nil:
		return "explanations have no credentials, without which it answers otherwise"
	case x.r.Header["Upgrade"] != nil:
		return "it would change the protocol of the connection"
	}
	return ""
}

// headerOf sends a request to the renderer, and returns the header of what it answers. The
// renderer may go on until the context of the request ends.
func (h *handler) headerOf(r *http.Request) (answer, error) {
	answers, failed := make(chan answer, 1), make(chan error, 1)
	to := discarded{header: make(http.Header), outage: new(render.Recorder)}
	w := &watcher{ResponseWriter: to, show: func(a answer) { answers <- a }}
	go func() {
		defer func() {
			if v := recover(); v != nil {
				failed <- fmt.Errorf("%w: %v", render.ErrPanicked, v)
			}
		}()
		h.route.fills.Renderer.ServeHTTP(w, withoutReceipt(r))
		w.sent(http.StatusOK) // in case nothing was written
	}()
	select {
	case a := <-answers:
		return a, to.outage.Unreached() // then it is the error page of a proxy
	case err := <-failed:
		select {
		case a := <-answers: // it panicked after that
			return a, nil
		default:
			return answer{}, err
		}
	case <-r.Context().Done():
		return answer{}, render.ErrTimeout
	}
}

// errDiscarded ends a response of which only the header is read.
var errDiscarded = errors.New("only the header of the response is read")

// discarded is an [http.ResponseWriter] that takes no body.
type discarded struct {
	header http.Header
	outage *render.Recorder // knows whether the renderer has reached its origin (see [OriginUnreachable])
}

func (d discarded) Header() http.Header { return d.header }

func (discarded) WriteHeader(int) {}

func (discarded) Write([]byte) (int, error) { return 0, errDiscarded }

// Flush implements [http.Flusher]: there is nothing to flush.
func (discarded) Flush() {}

// Unwrap lets [OriginUnreachable] reach the recorder.
func (d discarded) Unwrap() http.ResponseWriter { return d.outage }
