package isr

import (
	"net/http"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// A visitor who waits for a page that is missing gets it while it is rendered:
//
//	renderer ──► recorder ──► stream ──► the body, publish                   (the flight)
//	                            ├──────► the visitor whose request started it
//	                            └──────► those who joined, from the beginning
//
// The body is kept once, and bounded by MaxBody. Each visitor is written to by the goroutine
// of his request, at his own pace, so that none slows the render. A render that breaks
// breaks the connections of its visitors, and nothing is stored.
//
// A visitor attaches once: when the header was judged storable, the first bytes of the body
// have come, and neither he nor the render needs the whole page first (see
// fill.streamable and handler.attach). The end of the response waits until the page is
// published, for Config.StoreTimeout at most, so that a visitor who has read a whole page
// finds it stored.
//
// If the flight can no longer store what is rendered, because its lease is lost or the body
// is larger than MaxBody, the render goes on for those who have attached, and ends when the
// last of them leaves. Beyond MaxBody nothing more is kept: the renderer then waits for the
// slowest of them.

// streamAfter is how long after the first bytes of a body visitors attach. A page that is
// rendered and published until then is served as a whole, with its length and entity tag.
const streamAfter = time.Millisecond

// settleStreams tells the visitors of a render that its page is stored, or will not be.
func (s *fill) settleStreams() {
	s.f.settleStream()
	if s.own != nil {
		s.own.Settle()
	}
}

// streamable reports whether visitors may get a response while it is rendered: nothing
// needs its body first, and there is no older page for them should the render fail. rec is
// what it replaces.
func (s *fill) streamable(rec store.Record, status int, h http.Header) bool {
	switch {
	case s.force, s.f.stream.Load() != nil:
		return false
	case status != http.StatusOK && status != http.StatusNonAuthoritativeInfo:
		return false // small, and kept or withdrawn by rules of their own
	case len(h["Content-Encoding"]) > 0, len(h["Content-Type"]) == 0:
		return false // it is decoded, or its type detected, as a whole
	case s.policy.rejectsText:
		return false
	}
	return !s.servableOnError(rec)
}

// An offer is a response that visitors may attach to while it is rendered.
type offer struct {
	*render.Stream
	page   *page.Page       // without body; its header and its purges
	length int64            // Content-Length, -1 if there is none
	status httpcache.Status // Stored, or the Detail for which it is not
	settle func()           // tells its visitors that the page is stored, or will not be
}

// offerStream shows a response, of which the first bytes have arrived, to the visitors who
// wait for it. unstored is the reason for which it is not stored; empty if it is.
func (s *fill) offerStream(st *render.Stream, e store.Entry, at timing, unstored string, length int64) {
	size := length
	if size < 0 {
		size = coding.MinBody
	}
	s.policy.present.VaryByCoding(e.Header, size) // as when it is stored
	stored := make(chan struct{})
	st.SettlesWith(stored)
	s.f.stream.Store(&offer{
		Stream: st,
		page:   page.New(s.key, e, store.PurgeState{}, page.Interval{Began: at.began, Ended: at.began}, nil, s.policy.present),
		length: length,
		status: httpcache.Status{Stored: unstored == "", Detail: unstored},
		settle: sync.OnceFunc(func() { close(stored) }),
	})
	time.AfterFunc(streamAfter, func() { close(s.f.streaming) })
}

// attach attaches a visitor to the stream of a flight, if he takes its page and his request
// does not need the whole page first. The caller must serve the reply.
func (h *handler) attach(r *http.Request, f *flight, leader bool, known int64, old *page.Page) (got reply, ok bool) {
	st := f.stream.Load()
	began := st.page.Read.Began
	if !h.streams(r, st) || h.c.node.Outdated(&f.State, began) {
		return reply{}, false
	}
	if h.orStaleIfError(failure{}, old).outcome.(failure).fallback != nil {
		return reply{}, false // this page is served if the render fails
	}
	if got.state, _ = h.judge(f, st.page, h.c.now()); !h.takesPage(st.page, got.state, leader, known) {
		return reply{}, false
	}
	got.stream, got.offer, got.flight = st.Attach(f.overdue), st, f
	return got, got.stream != nil
}

// streams reports whether a request can be answered by a stream. A page that the request does
// not match (see [cachekey.Mapper.Matches]) is never shown. HEAD, ranges and, if the
// origin states no entity tag, conditions need the whole page; so does HTTP/1.0 without a
// length, which has no way to tell a broken response from a complete one.
func (h *handler) streams(r *http.Request, st *offer) bool {
	if !h.route.keys.Matches(st.page.Varies, r.Header) || r.Method != http.MethodGet || len(r.Header["Range"]) > 0 || st.length < 0 && !r.ProtoAtLeast(1, 1) {
		return false
	}
	return st.page.Entry.ETag != "" || len(r.Header["If-None-Match"]) == 0
}

// serveStream answers with a page while it is rendered, and detaches the visitor. If the render has
// ended already, it serves the page p; an error is then as of [page.serveHit].
func (h *handler) serveStream(w http.ResponseWriter, r *http.Request, got reply, status httpcache.Status) (p *page.Page, err error) {
	rd, st, f, began := got.stream, got.offer, got.flight, time.Now()
	got.flight = nil // it has the body, and is not needed once that is copied
	defer rd.Leave()
	defer reportWaits(w, f.waitTimes, began, got) // once the render has ended
	status.Stored, status.Detail = st.status.Stored, st.status.Detail
	ending := &render.EndWriter{ResponseWriter: w, Await: func() { rd.AwaitStored(r.Context()) }}
	if rendered := f.rendered.Load(); rendered != nil {
		p := (*rendered)()
		state, _ := h.judge(f, p, h.c.now())
		if state != store.Purged && h.route.keys.Matches(p.Varies, r.Header) && p.Hold(&h.c.responses) {
			defer p.Release(&h.c.responses)
			return p, p.ServeNew(ending, httpconn.WithoutCoalescing(r), h.route.present, h.c.now(), state, status)
		}
	}
	if st.page.Begin(ending, r, h.route.present, h.c.now(), got.state, status, st.length) {
		rd.CopyTo(r.Context(), ending)
	}
	return nil, nil
}
