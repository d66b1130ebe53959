package isr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// An outcome is how a flight ends. It is exactly one of:
//
//	storedPage       the store, or the negative cache, has a page that need not be rendered
//	renderedPage     the flight rendered a page, or had it validated, and published it
//	unpublishedPage  the flight rendered a page that is not in the store
//	refusal          the response must not be stored: every request passes through, except
//	                 the visitor's whose response it is (see handover)
//	failure          there is no new page; an older one may be served instead
//
// A step of a fill that returns nil has not ended it: another process was faster, and
// the fill reads the store again.
type outcome interface {
	// result is what a forced regeneration returns: the entry of the new page, or why
	// there is none.
	result() (store.Entry, error)
}

type storedPage struct {
	page   *page.Page
	waited bool // another process rendered it while the flight waited for it
}

type renderedPage struct {
	page          *page.Page
	forwardStatus int // what the renderer answered: 304 if it has validated the stored page
}

type unpublishedPage struct {
	page   *page.Page
	detail string // in Cache-Status: why it is not stored
	cause  error  // of a publish that failed; nil if none was attempted
}

type refusal struct{ reason string }

type failure struct {
	cause    error
	detail   string           // in Cache-Status
	response *render.Response // the renderer's own error page; nil if there is none
	own      *render.Response // the same for the visitor who caused the render, if it must not be shared
	fallback *page.Page       // an older page that may be served instead; nil if there is none
}

func (o storedPage) result() (store.Entry, error) { return o.page.Entry, nil }

func (o renderedPage) result() (store.Entry, error) { return o.page.Entry, nil }

func (o unpublishedPage) result() (store.Entry, error) { return o.page.Entry, o.cause }

func (o failure) result() (store.Entry, error) { return store.Entry{}, o.cause }

func (o refusal) result() (store.Entry, error) {
	return store.Entry{}, fmt.Errorf("%w: %s", render.ErrUncacheable, o.reason)
}

// shown is the response that a visitor gets for a failure without a fallback.
func (o failure) shown() *render.Response {
	if o.response != nil {
		return o.response
	}
	return plainFailure(o.cause)
}

// A reply is an outcome as one visitor gets it. A visitor may join a flight long after
// it found a page, so the page is judged once more when the reply is made. Nothing
// judges it after that.
type reply struct {
	outcome outcome
	stream  *render.Reader // the page while it is rendered, instead of an outcome
	offer   *offer         // of the stream
	own     *handover      // the response for this visitor alone, instead of an outcome
	flight  *flight        // the flight that has the stream, or has ended with the outcome; nil for others
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
func (h *handler) takes(f *flight, got reply, leader bool, known int64) bool {
	var p *page.Page
	switch o := got.outcome.(type) {
	case storedPage:
		if p = o.page; !o.waited {
			leader = true // a hit, which the state describes
		}
		f = nil
	case renderedPage:
		p = o.page
	case unpublishedPage:
		p = o.page
	default: // of a stream, attach has judged the page
		return true
	}
	if got.state == store.Purged {
		return f != nil && p.Entry.PurgeSeq >= known && h.c.engine.overtaken(f, p)
	}
	return h.takesPage(p, got.state, leader, known)
}

// takesPage is takes for a page in a state, which no flight has rendered to the end.
func (h *handler) takesPage(p *page.Page, state store.State, leader bool, known int64) bool {
	return state != store.Purged && (leader || h.c.node.Acceptable(p, known))
}

// worthRetrying reports whether a request that joined a flight, and did not start it,
// joins the next one instead of taking the reply.
func (h *handler) worthRetrying(r *http.Request, f *flight, got reply, attempt int, came time.Time) bool {
	if f.fill.onlyStored && got.state != store.Fresh {
		return true // its request would not have waited for a new page
	}
	switch o := got.outcome.(type) {
	case storedPage: // found for the leader, when it could still be served
		return !o.waited && got.state < store.Stale
	case refusal:
		return f.forced || o.reason == detailHead && r.Method != http.MethodHead
	case failure:
		switch {
		case o.fallback != nil, o.detail == detailStoreError:
			return false
		case f.forced: // this visitor did not ask for a forced render
			return true
		case o.detail == detailOriginBusy: // there may be room for this client where there is none for another
			return h.route.Client != nil && attempt < maxPayers && time.Since(came) < h.route.fills.wait
		}
	}
	return false
}

// orPurged is the reply to a visitor that has not taken any page: a failure if the last
// one was purged hard.
func orPurged(got reply) reply {
	if _, failed := got.outcome.(failure); !failed && got.state == store.Purged {
		return reply{outcome: failure{cause: store.ErrPurged, detail: detailPurged}}
	}
	return got
}

// judge is the only place where a handler judges a page: its freshness, and whether it may
// be served when rendering fails. It considers all purges that this process knows (see
// [nodecache.Cache.Purges]); f may be nil.
func (h *handler) judge(f *flight, p *page.Page, now time.Time) (state store.State, onError bool) {
	purges := h.c.node.Purges(f.learned(), p, now)
	state = store.Freshness(&p.Entry, purges, now)
	if state == store.Fresh {
		return state, true // a hit asks for nothing more
	}
	return state, h.route.servableOnError(&p.Entry, state, purges, now)
}

// servableOnError reports whether an entry in a state may be served while the origin or
// the store fails. The windows of a pinned entry may end long before its pin, and
// nothing is rendered while the pin lasts: such an entry is served until a render
// succeeds. An entry that outlives purge marks is not served: the mark of a hard purge of
// it may have expired.
func (b *routeRules) servableOnError(e *store.Entry, state store.State, purges store.PurgeState, now time.Time) bool {
	switch state {
	case store.Fresh, store.Stale:
		return true
	case store.Expired:
		switch {
		case e.OutlivesMarks(purges.MarkLifetime, now):
			return false
		case !e.PinnedUntil.IsZero():
			return true
		case now.Before(e.FreshUntil()): // a purge, or a newer build, has ended its freshness
			return b.rules.AllowsOnError(e.Header)
		}
		return now.Before(e.FreshUntil().Add(b.rules.StaleIfErrorOf(e.Status, e.Header)))
	}
	return false
}

// servableOnError is the same for a record.
func (s *fill) servableOnError(rec store.Record) bool {
	purges, now := s.e.Node.RecordPurges(&s.f.State, s.key, rec), s.e.Now()
	return s.policy.servableOnError(rec.Entry, store.Freshness(rec.Entry, purges, now), purges, now)
}

// reply makes the reply to a visitor of a flight that has ended. old is the page that
// was in memory when the request arrived; it may be nil.
func (h *handler) reply(f *flight, leader bool, old *page.Page) reply {
	switch o := f.outcome.(type) {
	case storedPage:
		state, _ := h.judge(f, o.page, h.c.now())
		return reply{outcome: o, state: state}
	case renderedPage:
		state, _ := h.judge(f, o.page, h.c.now())
		return reply{outcome: o, state: state}
	case unpublishedPage:
		state, _ := h.judge(f, o.page, h.c.now())
		return reply{outcome: o, state: state}
	case failure:
		switch {
		case o.fallback != nil:
			state, ok := h.judge(f, o.fallback, h.c.now())
			if !ok {
				o.fallback = nil
			}
			return reply{outcome: o, state: state}
		case leader || !f.forced:
			return h.orStale(f, o, old)
		}
	}
	return reply{outcome: f.outcome, flight: f}
}

// orStale replies with a failure, and with an older page instead of it if that is
// fresh or stale. A page that was dropped may have been withdrawn since.
func (h *handler) orStale(f *flight, o failure, old *page.Page) reply {
	if old == nil || old.Dropped.Load() {
		return reply{outcome: o}
	}
	state, _ := h.judge(f, old, h.c.now())
	if state >= store.Stale {
		o.fallback = old
	}
	return reply{outcome: o, state: state}
}

// orStaleIfError is orStale for an older page that may be used for longer, because it
// allows stale-if-error or was pinned.
func (h *handler) orStaleIfError(o failure, old *page.Page) reply {
	if old == nil || old.Dropped.Load() {
		return reply{outcome: o}
	}
	state, ok := h.judge(nil, old, h.c.now())
	if ok {
		o.fallback = old
	}
	return reply{outcome: o, state: state}
}

// fallbackDetail is the reason in Cache-Status of a page that is served because rendering
// failed.
func fallbackDetail(o failure, state store.State) string {
	switch {
	case state == store.Fresh && o.detail == detailStoreError:
		return page.DetailCutOff
	case state == store.Fresh:
		return ""
	case state == store.Stale:
		return o.detail
	}
	return detailStaleIfError
}

var errLate = errors.New("the new page was not rendered in time")

// plainFailure is the response to a visitor if the renderer has none to show. It
// reveals nothing about the server.
func plainFailure(err error) *render.Response {
	status := http.StatusBadGateway
	var held *store.HeldError
	var overBudget *budget.Error
	switch {
	case errors.As(err, &held), errors.As(err, &overBudget), errors.Is(err, store.ErrPurged):
		status = http.StatusServiceUnavailable
	case errors.Is(err, render.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	}
	return render.Plain(status)
}

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

// Reasons in Cache-Status of the outcome of a fill, besides the reasons of hits (see package page) and of a refusal (see
// httpcache).
const (
	detailOnlyIfCached  = "only-if-cached"
	detailStoreError    = "store-error"
	detailMinUses       = "min-uses"
	detailNoRoom        = "no-room"
	detailNoMemory      = httpcache.RefusedNoMemory
	detailBackOff       = "back-off"
	detailFailed        = "render-failed"
	detailTimeout       = "timeout"
	detailOriginBusy    = "origin-busy"
	detailOriginFailing = "origin-failing"
	detailClosing       = "closing"
	detailUnpublished   = "unpublished"
	detailVariants      = "variants"
	detailHead          = "head"
	detailLearned       = "learned"
)

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
