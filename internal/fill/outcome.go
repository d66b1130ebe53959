package fill

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// ErrRejected: the generation is suspicious by the rules of its route.
var ErrRejected = errors.New("the generation was rejected")

// ErrClosed: the process closes.
var ErrClosed = errors.New("the cache is closed")

// ErrOnlyIfCached: nothing is rendered for the request.
var ErrOnlyIfCached = errors.New("no stored page can be served, and the request has only-if-cached")

// errEmpty: a page without content would replace one that has some.
var errEmpty = errors.New("the response is empty, and the stored page is not")

// An Outcome is how a flight ends. It is exactly one of:
//
//	StoredPage       the store, or the negative cache, has a page that need not be rendered
//	RenderedPage     the flight rendered a page, or had it validated, and published it
//	UnpublishedPage  the flight rendered a page that is not in the store
//	Refusal          the response must not be stored: every request passes through, except
//	                 the visitor's whose response it is (see [Claimant])
//	Failure          there is no new page; an older one may be served instead
//
// A step of a fill that returns nil has not ended it: another process was faster, and
// the fill reads the store again.
type Outcome interface {
	// Result is what a forced regeneration returns: the entry of the new page, or why
	// there is none.
	Result() (store.Entry, error)
}

// A StoredPage is a page that was found.
type StoredPage struct {
	Page   *page.Page
	Waited bool // another process rendered it while the flight waited for it
}

// A RenderedPage is a page that was published.
type RenderedPage struct {
	Page          *page.Page
	ForwardStatus int // what the renderer answered: 304 if it has validated the stored page
}

// An UnpublishedPage is a page that is not stored.
type UnpublishedPage struct {
	Page   *page.Page
	Detail string // in Cache-Status: why it is not stored
	cause  error  // of a publish that failed; nil if none was attempted
}

// A Refusal is the reason for which a response must not be stored, a detail of Cache-Status.
type Refusal struct{ Reason string }

// A Failure is why there is no new page.
type Failure struct {
	Cause    error
	Detail   string           // in Cache-Status
	response *render.Response // the renderer's own error page; nil if there is none
	Own      *render.Response // the same for the visitor who caused the render, if it must not be shared
	Fallback *page.Page       // an older page that may be served instead; nil if there is none
}

// Result returns the entry of the page.
func (o StoredPage) Result() (store.Entry, error) { return o.Page.Entry, nil }

// Result returns the entry of the page.
func (o RenderedPage) Result() (store.Entry, error) { return o.Page.Entry, nil }

// Result returns the entry of the page, and why its publish failed.
func (o UnpublishedPage) Result() (store.Entry, error) { return o.Page.Entry, o.cause }

// Result returns the cause.
func (o Failure) Result() (store.Entry, error) { return store.Entry{}, o.Cause }

// Result returns an error that wraps [render.ErrUncacheable].
func (o Refusal) Result() (store.Entry, error) {
	return store.Entry{}, fmt.Errorf("%w: %s", render.ErrUncacheable, o.Reason)
}

// Shown is the response that a visitor gets for a failure that has no fallback.
func (o Failure) Shown() *render.Response {
	if o.response != nil {
		return o.response
	}
	return plainFailure(o.Cause)
}

// servableOnError is the same for a record.
func (s *Fill) servableOnError(rec store.Record) bool {
	purges, now := s.e.Node.RecordPurges(&s.f.State, s.Key, rec), s.e.Now()
	return s.Policy.ServableOnError(rec.Entry, store.Freshness(rec.Entry, purges, now), purges, now)
}

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

// Reasons in Cache-Status of the outcome of a fill, besides the reasons of hits (see package page) and of a refusal (see
// httpcache).
const (
	DetailOnlyIfCached  = "only-if-cached"
	DetailStoreError    = "store-error"
	detailMinUses       = "min-uses"
	detailNoRoom        = "no-room"
	DetailNoMemory      = httpcache.RefusedNoMemory
	DetailBackOff       = "back-off"
	DetailFailed        = "render-failed"
	DetailTimeout       = "timeout"
	DetailOriginBusy    = "origin-busy"
	detailOriginFailing = "origin-failing"
	DetailMaintenance   = "maintenance"
	DetailClosing       = "closing"
	DetailUnpublished   = "unpublished"
	DetailVariants      = "variants"
	DetailHead          = "head"
	DetailLearned       = "learned"
)
