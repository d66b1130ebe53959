package isr

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// A visitor joins the flight of a key, waits for what the policy of the route lets them wait for, and gets a
// reply:
//
//	join ──► await ──► its end, a page that may be served before, a stream, or a response of their own
//	  ▲                  └──► judged for this visitor ──► taken ──► the reply
//	  └────────────────────────────────────────────────── not taken: the next flight, maxRejoins times

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

// joined is what a visitor gets of a flight.
type joined struct {
	reply
	end       joinEnd
	collapsed bool // another request had started the flight
	stored    bool // with joinOpen: the page will be stored
}

// A joinEnd is how a visitor's wait for a flight ends.
type joinEnd int

const (
	joinReply   joinEnd = iota // with the reply
	joinNothing                // no flight has what the request demands
	joinGone                   // the visitor went away; the flight goes on
	joinAgain                  // the store may answer again: it is to be asked
	joinOpen                   // of explanations alone: how is not known
)

// joinAny waits for what the policy of the route lets a visitor wait for.
func (v *visit) joinAny(r *http.Request, d *decision) (j joined) {
	h, k, old := v.h, d.key, d.page
	own := h.handOver(r)
	defer func() { own.waive(j.reply) }()
	came, known := time.Now(), h.c.follower.Committed()
	for attempt := 0; ; attempt++ {
		f, leader := h.joinFor(r, k, own, h.c.engine.Join)
		if f == nil {
			return joined{reply: h.orStale(nil, fill.Failure{Cause: ErrClosed, Detail: fill.DetailClosing}, old)}
		}
		if attempt == 0 {
			v.r = h.hintOld(v.w, r, old)
		}
		got, here := h.await(r, f, own, leader, known, old)
		if !here {
			return joined{end: joinGone, collapsed: !leader}
		}
		reportWaits(v.w, f.WaitTimes, came, got)
		if !leader && h.worthRetrying(r, f, got, attempt, came) {
			continue
		}
		if !h.takes(f, got, leader, known) {
			if attempt < maxRejoins {
				continue
			}
			got = orPurged(got)
		}
		return joined{reply: got, collapsed: !leader}
	}
}

// joinUnpublished waits for a page that is rendered without a store.
func (v *visit) joinUnpublished(r *http.Request, d *decision) (j joined) {
	h, k, old := v.h, d.key, d.page
	own := h.handOver(r)
	defer func() { own.waive(j.reply) }()
	came, known := time.Now(), h.c.follower.Committed()
	for attempt := 0; ; attempt++ {
		f, leader := h.joinFor(r, k, own, h.c.engine.JoinUnpublished)
		if f == nil {
			return joined{reply: reply{outcome: fill.Failure{Cause: ErrClosed, Detail: fill.DetailClosing}}}
		}
		got, here := h.awaitEnd(r, f, own, leader, known, old)
		if !here {
			return joined{end: joinGone, collapsed: !leader}
		}
		reportWaits(v.w, f.WaitTimes, came, got)
		if !leader && f.Fill.Head && h.worthRetrying(r, f, got, attempt, came) {
			continue
		}
		if !h.takes(f, got, leader, known) && attempt < maxRejoins {
			if h.c.stores.Down() == nil && !h.c.blind(h.c.now()) {
				return joined{end: joinAgain} // the render may have taken long
			}
			continue
		}
		return joined{reply: orPurged(got), collapsed: !leader}
	}
}

// Pauses before a visitor with a receipt joins a further flight, because the last one has
// found an older page.
const (
	firstRejoin = 20 * time.Millisecond
	maxRejoin   = time.Second
)

// joinSince waits for a page that is as new as the receipt of the request demands.
func (v *visit) joinSince(r *http.Request, d *decision) (j joined) {
	h, k, seq := v.h, d.key, d.minSeq
	own := h.handOver(r)
	defer func() { own.waive(j.reply) }()
	came := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), h.route.fills.Wait)
	defer cancel()
	// This process may know of later purges than the purge of the receipt.
	known := h.c.follower.Committed()
	for attempt := 0; h.c.stores.Down() == nil; attempt++ {
		s := h.waiting(r, k, own)
		s.MinSeq, s.Skip = seq, h.route.sections.Ask(k)
		f, leader := h.c.engine.Join(s)
		if f == nil {
			break // closing
		}
		select {
		case <-own.waits():
		case <-f.Done():
		case <-ctx.Done():
			return joined{end: joinNothing}
		}
		got, handed := own.reply()
		if !handed {
			got = h.reply(f, leader, nil)
		}
		reportWaits(v.w, f.WaitTimes, came, got)
		if !leader && f.Fill.Head && h.worthRetrying(r, f, got, attempt, came) {
			continue
		}
		if h.meets(got.outcome, seq) && (attempt >= maxRejoins || h.takes(f, got, leader, known)) {
			return joined{reply: got, collapsed: !leader}
		}
		if o, failed := got.outcome.(fill.Failure); failed && !h.worthRejoining(f, o, leader) {
			break
		}
		if backoff.Wait(ctx, h.c.jitter(backoff.Exponential(firstRejoin, maxRejoin, attempt))) != nil {
			break
		}
	}
	return joined{end: joinNothing}
}

// joinStored waits for a page that is stored.
func (v *visit) joinStored(r *http.Request, d *decision) joined {
	h, came, known := v.h, time.Now(), v.h.c.follower.Committed()
	s := h.fill(r, d.key)
	s.OnlyStored = true
	f, leader := h.c.engine.Join(s)
	if f == nil {
		return joined{end: joinNothing}
	}
	select {
	case <-f.Done():
	case <-r.Context().Done():
		return joined{end: joinGone}
	}
	got := h.reply(f, leader, nil)
	reportWaits(v.w, f.WaitTimes, came, got)
	if !h.takes(f, got, leader, known) {
		return joined{end: joinNothing}
	}
	return joined{reply: got}
}

// fill returns a fill for a visitor.
func (h *handler) fill(r *http.Request, k store.Key) *fill.Fill {
	return fill.NewFill(fill.Request{
		Policy: h.route.fills, Key: k, Cause: r.Context(), Forwarded: h.route.keys.Forwarded(r),
		Accept: httpcache.AcceptEncoding(r.Header["Accept-Encoding"]), Light: page.Light(r),
	}, h.clients(r))
}

// clients returns the client that a request comes from, if the route distinguishes
// clients.
func (h *handler) clients(r *http.Request) []netip.Prefix {
	if h.route.Client == nil {
		return nil
	}
	if client := h.route.Client(r); client.IsValid() {
		return []netip.Prefix{client}
	}
	return nil
}

// waiting returns a fill for a visitor who waits for it, with their claim to its response;
// nil if there is none.
func (h *handler) waiting(r *http.Request, k store.Key, own *handover) *fill.Fill {
	s := h.fill(r, k)
	s.Head = r.Method == http.MethodHead
	if own != nil {
		s.Own = own
	}
	return s
}

// joinFor joins a flight for a visitor, by join, which is [fill.Engine.Join] or
// [fill.Engine.JoinUnpublished]. leader: the visitor's request started it.
func (h *handler) joinFor(r *http.Request, k store.Key, own *handover, join func(*fill.Fill) (*fill.Flight, bool)) (f *fill.Flight, leader bool) {
	s := h.waiting(r, k, own)
	s.Skip = h.route.sections.Ask(k)
	if f, leader = join(s); f != nil && !leader {
		f.Fill.Join(s.Client())
	}
	return f, leader
}

// await waits for what the route's policy lets a visitor wait for: the end of the
// flight, a page that can be served before that, the page that is being rendered, or the response of
// own. ok is false if the visitor went away.
func (h *handler) await(r *http.Request, f *fill.Flight, own *handover, leader bool, known int64, old *page.Page) (got reply, ok bool) {
	usable, streaming := f.Usable, f.Streaming
	var late <-chan time.Time
	if h.route.Policy == Wait {
		timer := time.NewTimer(h.route.fills.Wait)
		defer timer.Stop()
		late = timer.C
	}
	for waited := false; ; {
		if waited {
			if got := h.orStale(f, fill.Failure{Cause: errLate, Detail: fill.DetailTimeout}, old); got.outcome.(fill.Failure).Fallback != nil {
				return got, true
			}
		}
		select {
		case <-own.waits():
			return own.reply()
		case <-usable:
			// The flight may have offered the page long before this visitor joined.
			usable = nil
			p := f.Stale.Load()
			if p == nil {
				continue
			}
			if h.c.late(p, h.c.now()) {
				// It was read, and judged, too long ago, as by a process that was frozen.
				old = p
				continue
			}
			if state, _ := h.judge(f, p, h.c.now()); state == store.Fresh || state == store.Stale && h.route.Policy != Wait {
				return reply{outcome: fill.StoredPage{Page: p}, state: state}, true
			}
			old = p
		case <-streaming:
			streaming = nil
			if got, ok := h.attach(r, f, leader, known, old); ok {
				return got, true
			}
		case <-f.Overdue:
			if got, ok := own.reply(); ok {
				return got, true
			}
			if rendered := f.Rendered.Load(); rendered != nil {
				p := (*rendered)()
				state, _ := h.judge(f, p, h.c.now())
				return reply{outcome: fill.UnpublishedPage{Page: p, Detail: fill.DetailUnpublished}, state: state}, true
			}
			return h.orStale(f, fill.Failure{Cause: guard.ErrSlow, Detail: fill.DetailStoreError}, old), true
		case <-late:
			waited = true // if the store is slow, the page is read later
		case <-f.Done():
			if got, ok := own.reply(); ok {
				return got, true
			}
			return h.reply(f, leader, old), true
		case <-r.Context().Done():
			return reply{}, false
		}
	}
}

// awaitEnd waits for the end of the flight, for its stream, or for the response of own. old is the
// page that the caller serves if the render fails; it may be nil. ok is false if the visitor went
// away.
func (h *handler) awaitEnd(r *http.Request, f *fill.Flight, own *handover, leader bool, known int64, old *page.Page) (got reply, ok bool) {
	streaming := f.Streaming
	for {
		select {
		case <-own.waits():
			return own.reply()
		case <-streaming:
			streaming = nil
			if got, ok := h.attach(r, f, leader, known, old); ok {
				return got, true
			}
		case <-f.Done():
			if got, ok := own.reply(); ok {
				return got, true
			}
			return h.reply(f, leader, nil), true
		case <-r.Context().Done():
			return reply{}, false
		}
	}
}

// hintOld sends the links of the page of which a visitor waits for a newer generation, and
// returns the request to go on with, so that the response has no hints again. old may be nil.
// Nothing is sent of a page that a hard purge covers, or may.
func (h *handler) hintOld(w http.ResponseWriter, r *http.Request, old *page.Page) *http.Request {
	as, now := h.route.present, h.c.now()
	if !h.route.EarlyHints || old == nil || old.Dropped.Load() || h.c.late(old, now) || !h.route.keys.Matches(old.Varies, r.Header) {
		return r
	}
	state, onError := h.judge(nil, old, now)
	purgesKnown := state == store.Expired && !old.Entry.OutlivesMarks(h.c.node.Current(old.Purges).MarkLifetime, now)
	if (onError || purgesKnown) && as.Hint(w, r, old) {
		return page.Hinted(r)
	}
	return r
}

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

// meets reports whether a visitor with a receipt takes an outcome: a page that is new
// enough, a refusal, for which the request passes through, or the failure of a new render.
func (h *handler) meets(o fill.Outcome, seq int64) bool {
	switch o := o.(type) {
	case fill.StoredPage:
		return h.mayServeSince(o.Page, h.c.now(), seq)
	case fill.RenderedPage:
		return h.mayServeSince(o.Page, h.c.now(), seq)
	case fill.UnpublishedPage:
		return h.mayServeSince(o.Page, h.c.now(), seq)
	case fill.Failure:
		return o.Fallback == nil && (o.Detail == fill.DetailFailed || o.Detail == page.DetailRejected)
	}
	return true
}

// worthRejoining reports whether the next flight may succeed where one has failed: a flight of
// another visitor, which did not wait for a new generation.
func (h *handler) worthRejoining(f *fill.Flight, o fill.Failure, leader bool) bool {
	return !leader && (f.Fill.MinSeq == 0 || f.Forced) && o.Detail != fill.DetailStoreError
}

// orPurged is the reply to a visitor that has not taken any page: a failure if the last
// one was purged hard.
func orPurged(got reply) reply {
	if _, failed := got.outcome.(fill.Failure); !failed && got.state == store.Purged {
		return reply{outcome: fill.Failure{Cause: store.ErrPurged, Detail: detailPurged}}
	}
	return got
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

var errLate = errors.New("the new page was not rendered in time")

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
