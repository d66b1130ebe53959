package isr

import (
	"errors"
	"net/http"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// A reply is an outcome as one visitor gets it. A visitor may join a flight long after
// it found a page, so the page is judged once more when the reply is made. Nothing
// judges it after that.
type reply struct {
	outcome fill.Outcome
	stream  *render.Reader // the page while it is rendered, instead of an outcome
	offer   *fill.Offer    // of the stream
	own     *handover      // the response for this visitor alone, instead of an outcome
	flight  *fill.Flight   // the flight that has the stream, or has ended with the outcome; nil for others
	state   store.State    // of the page, or of the fallback of a failure
}

// maxRejoins is how many more flights a visitor joins, or starts, whose page was purged
// while it was rendered.
const maxRejoins = 2

// takes reports whether a visitor takes the page of a reply. A visitor that has joined a flight
// is held to all purges that this process knew when the request arrived, up to the sequence
// known: it does not take a page whose render began before one of them as a new page. A page
// that is purged hard is never served, unless only visitors have purged it, and only since then
// (see overtaken).
func (h *handler) takes(f *fill.Flight, got reply, leader bool, known int64) bool {
	var p *page.Page
	switch o := got.outcome.(type) {
	case fill.StoredPage:
		if p = o.Page; !o.Waited {
			leader = true // a hit, which the state describes
		}
		f = nil
	case fill.RenderedPage:
		p = o.Page
	case fill.UnpublishedPage:
		p = o.Page
	default: // of a stream, attach has judged the page
		return true
	}
	if got.state == store.Purged {
		return f != nil && p.Entry.PurgeSeq >= known && h.c.engine.Overtaken(f, p)
	}
	return h.takesPage(p, got.state, leader, known)
}

// takesPage is takes for a page in a state, which no flight has rendered to the end.
func (h *handler) takesPage(p *page.Page, state store.State, leader bool, known int64) bool {
	return state != store.Purged && (leader || h.c.node.Acceptable(p, known))
}

// worthRetrying reports whether a request that joined a flight, and did not start it,
// joins the next one instead of taking the reply.
func (h *handler) worthRetrying(r *http.Request, f *fill.Flight, got reply, attempt int, came time.Time) bool {
	if f.Fill.OnlyStored && got.state != store.Fresh {
		return true // its request would not have waited for a new page
	}
	switch o := got.outcome.(type) {
	case fill.StoredPage: // found for the leader, when it could still be served
		return !o.Waited && got.state < store.Stale
	case fill.Refusal:
		return f.Forced || o.Reason == fill.DetailHead && r.Method != http.MethodHead
	case fill.Failure:
		switch {
		case o.Fallback != nil, o.Detail == fill.DetailStoreError:
			return false
		case f.Forced: // this visitor did not ask for a forced render
			return true
		case o.Detail == fill.DetailOriginBusy: // there may be room for this client where there is none for another
			return h.route.Client != nil && attempt < fill.MaxPayers && time.Since(came) < h.route.fills.Wait
		}
	}
	return false
}

// orPurged is the reply to a visitor that has not taken any page: a failure if the last
// one was purged hard.
func orPurged(got reply) reply {
	if _, failed := got.outcome.(fill.Failure); !failed && got.state == store.Purged {
		return reply{outcome: fill.Failure{Cause: store.ErrPurged, Detail: detailPurged}}
	}
	return got
}

// judge is the only place where a handler judges a page: its freshness, and whether it may
// be served when rendering fails. It considers all purges that this process knows (see
// [nodecache.Cache.Purges]); f may be nil.
func (h *handler) judge(f *fill.Flight, p *page.Page, now time.Time) (state store.State, onError bool) {
	purges := h.c.node.Purges(f.Learned(), p, now)
	state = store.Freshness(&p.Entry, purges, now)
	if state == store.Fresh {
		return state, true // a hit asks for nothing more
	}
	return state, h.route.judge.ServableOnError(&p.Entry, state, purges, now)
}

// reply makes the reply to a visitor of a flight that has ended. old is the page that
// was in memory when the request arrived; it may be nil.
func (h *handler) reply(f *fill.Flight, leader bool, old *page.Page) reply {
	switch o := f.Outcome.(type) {
	case fill.StoredPage:
		state, _ := h.judge(f, o.Page, h.c.now())
		return reply{outcome: o, state: state}
	case fill.RenderedPage:
		state, _ := h.judge(f, o.Page, h.c.now())
		return reply{outcome: o, state: state}
	case fill.UnpublishedPage:
		state, _ := h.judge(f, o.Page, h.c.now())
		return reply{outcome: o, state: state}
	case fill.Failure:
		switch {
		case o.Fallback != nil:
			state, ok := h.judge(f, o.Fallback, h.c.now())
			if !ok {
				o.Fallback = nil
			}
			return reply{outcome: o, state: state}
		case leader || !f.Forced:
			return h.orStale(f, o, old)
		}
	}
	return reply{outcome: f.Outcome, flight: f}
}

// orStale replies with a failure, and with an older page instead of it if that is
// fresh or stale. A page that was dropped may have been withdrawn since.
func (h *handler) orStale(f *fill.Flight, o fill.Failure, old *page.Page) reply {
	if old == nil || old.Dropped.Load() {
		return reply{outcome: o}
	}
	state, _ := h.judge(f, old, h.c.now())
	if state >= store.Stale {
		o.Fallback = old
	}
	return reply{outcome: o, state: state}
}

// orStaleIfError is orStale for an older page that may be used for longer, because it
// allows stale-if-error or was pinned.
func (h *handler) orStaleIfError(o fill.Failure, old *page.Page) reply {
	if old == nil || old.Dropped.Load() {
		return reply{outcome: o}
	}
	state, ok := h.judge(nil, old, h.c.now())
	if ok {
		o.Fallback = old
	}
	return reply{outcome: o, state: state}
}

// fallbackDetail is the reason in Cache-Status of a page that is served because rendering
// failed.
func fallbackDetail(o fill.Failure, state store.State) string {
	switch {
	case state == store.Fresh && o.Detail == fill.DetailStoreError:
		return page.DetailCutOff
	case state == store.Fresh:
		return ""
	case state == store.Stale:
		return o.Detail
	}
	return detailStaleIfError
}

var errLate = errors.New("the new page was not rendered in time")

// retryAt is the time for Retry-After: the end of a back-off, or soon if another
// process holds the lease, since it may release it at any time.
func retryAt(err error, now time.Time) time.Time {
	var held *store.HeldError
	var overBudget *budget.Error
	switch {
	case errors.As(err, &held) && held.Lock.IsBackOff():
		return held.Lock.ExpiresAt
	case errors.As(err, &overBudget):
		return now.Add(overBudget.RetryAfter)
	}
	return now.Add(budget.BusyRetry)
}

// Reasons in Cache-Status, besides the reasons of fills, of hits (see package page), of a bypass (see package cachekey) and
// of a refusal (see httpcache).
const (
	detailStaleIfError = "stale-if-error"
	detailPurged       = "purged"
	detailMinSeq       = "min-seq"
	detailDraft        = "draft"
	detailBadRequest   = "bad-request"
	detailCanceled     = "canceled" // the visitor went away: in reports alone
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
