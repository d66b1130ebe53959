package isr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/render"
)

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
		f.Obstacles = []Obstacle{obstacle(fill.FailureDetail(err), f.Failure)}
		return
	}
	f.Status, f.Header = a.status, tellingFields(a.header)
	if why, ok := details.Of(cmp.Or(s.Detail, s.Forward)); ok {
		f.Obstacles = []Obstacle{{Detail: cmp.Or(s.Detail, s.Forward), What: why.Meaning, Advice: why.Advice, RFC: why.RFC}}
	}
	for _, o := range x.h.route.obstacles(x.out.Key, a.status, a.header, began) {
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
