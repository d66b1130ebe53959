package isr

import (
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// attach attaches a visitor to the stream of a flight, if he takes its page and his request
// does not need the whole page first. The caller must serve the reply.
func (h *handler) attach(r *http.Request, f *fill.Flight, leader bool, known int64, old *page.Page) (got reply, ok bool) {
	st := f.Stream.Load()
	began := st.Page.Read.Began
	if !h.streams(r, st) || h.c.node.Outdated(&f.State, began) {
		return reply{}, false
	}
	if h.orStaleIfError(fill.Failure{}, old).outcome.(fill.Failure).Fallback != nil {
		return reply{}, false // this page is served if the render fails
	}
	if got.state, _ = h.judge(f, st.Page, h.c.now()); !h.takesPage(st.Page, got.state, leader, known) {
		return reply{}, false
	}
	got.stream, got.offer, got.flight = st.Attach(f.Overdue), st, f
	return got, got.stream != nil
}

// streams reports whether a request can be answered by a stream. A page that the request does
// not match (see [cachekey.Mapper.Matches]) is never shown. HEAD, ranges and, if the
// origin states no entity tag, conditions need the whole page; so does HTTP/1.0 without a
// length, which has no way to tell a broken response from a complete one.
func (h *handler) streams(r *http.Request, st *fill.Offer) bool {
	if !h.route.keys.Matches(st.Page.Varies, r.Header) || r.Method != http.MethodGet || len(r.Header["Range"]) > 0 || st.Length < 0 && !r.ProtoAtLeast(1, 1) {
		return false
	}
	return st.Page.Entry.ETag != "" || len(r.Header["If-None-Match"]) == 0
}

// serveStream answers with a page while it is rendered, and detaches the visitor. If the render has
// ended already, it serves the page p; an error is then as of [page.serveHit].
func (h *handler) serveStream(w http.ResponseWriter, r *http.Request, got reply, status httpcache.Status) (p *page.Page, err error) {
	rd, st, f, began := got.stream, got.offer, got.flight, time.Now()
	got.flight = nil // it has the body, and is not needed once that is copied
	defer rd.Leave()
	defer reportWaits(w, f.WaitTimes, began, got) // once the render has ended
	status.Stored, status.Detail = st.Status.Stored, st.Status.Detail
	ending := &render.EndWriter{ResponseWriter: w, Await: func() { rd.AwaitStored(r.Context()) }}
	if rendered := f.Rendered.Load(); rendered != nil {
		p := (*rendered)()
		state, _ := h.judge(f, p, h.c.now())
		if state != store.Purged && h.route.keys.Matches(p.Varies, r.Header) && p.Hold(&h.c.responses) {
			defer p.Release(&h.c.responses)
			return p, p.ServeNew(ending, httpconn.WithoutCoalescing(r), h.route.present, h.c.now(), state, status)
		}
	}
	if st.Page.Begin(ending, r, h.route.present, h.c.now(), got.state, status, st.Length) {
		rd.CopyTo(r.Context(), ending)
	}
	return nil, nil
}
