package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/facetheory/isr"
)

// regenerateTime bounds the wait for a render, which may come after one that was
// under way. The render itself goes on.
const regenerateTime = 2 * time.Minute

func (a *API) regeneratePage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/regenerate", name: "regeneratePage", limit: regenerateTime,
		summary: "Render a page now, whatever its freshness.",
		details: "Answers when the page is published. The render begins after the request: one that is under way is awaited, not joined.",
		problems: []int{
			http.StatusConflict, http.StatusUnprocessableEntity,
		},
	}, func(r *http.Request, t Target) (Page, error) {
		k, err := t.key()
		if err != nil {
			return Page{}, err
		}
		if a.cfg.Cache == nil {
			return Page{}, errNobodyRenders()
		}
		entry, err := a.cfg.Cache.Regenerate(r.Context(), k)
		if err != nil {
			return Page{}, a.regenerateError(err)
		}
		p := a.describe(a.cfg.Partition(k), isr.Record{Entry: &entry.Entry})
		p.Key, p.Header = k.String(), entry.Header
		return p, nil
	})
}

func errNobodyRenders() *Error {
	return &Error{
		Status: http.StatusConflict, Code: "no_renderer", Message: "no server runs here that could render the page",
		Hint: "start isr serve, or name a server that runs with --server URL",
	}
}

// regenerateError says which of the ways of [isr.Cache.Regenerate] to fail it was.
func (a *API) regenerateError(err error) error {
	var held *isr.HeldError
	var spared *isr.BudgetError
	switch {
	case errors.As(err, &held):
		e := &Error{
			Status: http.StatusConflict, Code: "held", Message: err.Error(), RetryAfter: a.until(held.Lock.ExpiresAt),
			Hint: "another server is rendering the page; isr lease shows who",
		}
		if held.Lock.IsBackOff() {
			e.Code, e.Hint = "back_off", "wait, or end the back-off: isr lease --release"
		}
		return e
	case errors.As(err, &spared):
		return &Error{
			Status: http.StatusServiceUnavailable, Code: "origin_spared", Message: err.Error(),
			RetryAfter: max(spared.RetryAfter, time.Second), Hint: "what was stored before is kept",
		}
	case errors.Is(err, isr.ErrUncacheable):
		return &Error{
			Status: http.StatusUnprocessableEntity, Code: "uncacheable", Message: err.Error(),
			Hint: "the page is asked of the site each time; see docs/caching.md",
		}
	case errors.Is(err, isr.ErrNoRenderer):
		return &Error{
			Status: http.StatusConflict, Code: "no_renderer", Message: err.Error(),
			Hint: "ask a server that has the route",
		}
	case errors.Is(err, isr.ErrLeaseLost), errors.Is(err, isr.ErrMoved):
		return &Error{
			Status: http.StatusConflict, Code: "overtaken", Message: err.Error(), RetryAfter: time.Second,
			Hint: "look at what is stored now, or try again",
		}
	case errors.Is(err, isr.ErrInvalidKey), errors.Is(err, isr.ErrClosed), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	}
	return &Error{
		Status: http.StatusBadGateway, Code: "regeneration_failed", Message: err.Error(),
		Hint: "what was stored before is kept; the log of the server says more",
	}
}

// Regenerate has a page rendered now, and returns it when it is published.
func (c *Client) Regenerate(ctx context.Context, t Target) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/regenerate", t)
}
