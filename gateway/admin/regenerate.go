package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/store"
)

// regenerateTime bounds the wait for a render, which may come after one that was
// under way. The render itself goes on.
const regenerateTime = 2 * time.Minute

// A Regenerate is which page to render, and how.
type Regenerate struct {
	Target
	Unpin bool `json:"unpin,omitempty" doc:"Render the page even if it is pinned, and unpin it."`

	// IdempotencyKey names the request, so that it is carried out once however
	// often it is made: 1 to 256 bytes of printable ASCII without spaces. Empty:
	// each request is carried out.
	IdempotencyKey string `json:"-"`
}

// A Regenerated is what a page became.
type Regenerated struct {
	Page
	Replayed bool `json:"replayed,omitempty" doc:"The request was carried out before, and this is what it published then. Nothing was rendered now."`
}

// idempotencyKey is the name of the header.
const idempotencyKey = "Idempotency-Key"

// header carries what the body does not.
func (in Regenerate) header() http.Header {
	if in.IdempotencyKey == "" {
		return nil
	}
	return http.Header{idempotencyKey: {in.IdempotencyKey}}
}

// named adds the idempotency key of a request. Some write it in quotes, as HTTP
// writes strings (RFC 9651): those are not part of it.
func (in Regenerate) named(h http.Header) (Regenerate, error) {
	keys := h.Values(idempotencyKey)
	switch len(keys) {
	case 0:
		return in, nil
	case 1:
	default:
		return in, invalid("the header %s is there more than once", idempotencyKey)
	}
	in.IdempotencyKey = keys[0]
	if n := len(keys[0]); n >= 2 && keys[0][0] == '"' && keys[0][n-1] == '"' {
		in.IdempotencyKey = keys[0][1 : n-1]
	}
	if err := store.ValidRequestKey(in.IdempotencyKey); err != nil {
		return in, invalid("the header %s cannot be used: %v", idempotencyKey, err)
	}
	return in, nil
}

// options are those of package isr.
func (in Regenerate) options(k store.Key) []isr.RegenerateOption {
	var options []isr.RegenerateOption
	if in.Unpin {
		options = append(options, isr.WithUnpin())
	}
	if in.IdempotencyKey != "" {
		// All that makes a difference to what is done. A page that is named by its
		// URL is the same as by its key.
		inputs := map[string]any{"tenant": k.Tenant, "key": k.Text, "unpin": in.Unpin}
		options = append(options, isr.WithIdempotencyKey(in.IdempotencyKey), isr.WithInputs(inputs))
	}
	return options
}

func (a *API) regeneratePage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/regenerate", name: "regeneratePage", limit: regenerateTime,
		summary: "Render a page now, whatever its freshness.",
		details: "Answers when the page is published. The render begins after the request: one that is under way is awaited, not joined.",
		headers: map[string]string{
			idempotencyKey: "Names the request, with 1 to 256 bytes of printable ASCII without spaces, so that it is carried out once however often it is made.",
		},
		problems: []int{http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity},
	}, func(r *http.Request, in Regenerate) (Regenerated, error) {
		k, err := in.key()
		if err != nil {
			return Regenerated{}, err
		}
		if in, err = in.named(r.Header); err != nil {
			return Regenerated{}, err
		}
		if a.cfg.Cache == nil {
			return Regenerated{}, errNobodyRenders()
		}
		if err := a.served(k); err != nil {
			return Regenerated{}, err
		}
		made, err := a.cache.Regenerate(r.Context(), k, in.options(k)...)
		if err != nil {
			return Regenerated{}, a.regenerateError(err)
		}
		p := a.describe(a.cfg.Partition(k), store.Record{Entry: &made.Entry})
		p.Key, p.Header = k.String(), made.Header
		return Regenerated{Page: p, Replayed: made.Replayed}, nil
	})
}

// served returns an error for a page of a host that no visitor can ask for.
func (a *API) served(k store.Key) error {
	if a.cfg.Serve == nil {
		return nil
	}
	host := k.Text
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	if a.cfg.Serve(host) {
		return nil
	}
	return &Error{
		Status: http.StatusUnprocessableEntity, Code: "unreachable",
		Message: fmt.Sprintf("no visitor can reach %s: the host %s is not served; expected one of %s", k, host, a.cfg.Hosts),
		Hint:    "name the page as visitors do, with the port if it is neither 80 nor 443; or have the host served: isr serve --host " + host,
	}
}

func errNobodyRenders() *Error {
	return &Error{
		Status: http.StatusConflict, Code: "no_renderer", Message: "no server runs here that could render the page",
		Hint: "start isr serve, or name a server that runs with --server URL",
	}
}

// regenerateError says which of the ways of [isr.Cache.Regenerate] to fail it was.
func (a *API) regenerateError(err error) error {
	var held *store.HeldError
	var spared *budget.Error
	var earlier *store.RequestError
	switch {
	case errors.As(err, &earlier):
		return a.requestError(err, earlier)
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
	case errors.Is(err, isr.ErrUnreachable):
		return &Error{
			Status: http.StatusUnprocessableEntity, Code: "unreachable", Message: err.Error(),
			Hint: "name the page as visitors do; or declare the parameter: isr serve --query NAME",
		}
	case errors.Is(err, isr.ErrNoRenderer):
		return &Error{
			Status: http.StatusConflict, Code: "no_renderer", Message: err.Error(),
			Hint: "ask a server that has the route",
		}
	case errors.Is(err, store.ErrPinned):
		return &Error{
			Status: http.StatusConflict, Code: "pinned", Message: err.Error(),
			Hint: "unpin it: isr unpin; or have it regenerated all the same: isr regenerate --unpin",
		}
	case errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved):
		return errOvertaken(err)
	case errors.Is(err, store.ErrInvalidKey), errors.Is(err, isr.ErrClosed), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	}
	return &Error{
		Status: http.StatusBadGateway, Code: "regeneration_failed", Message: err.Error(),
		Hint: "what was stored before is kept; the log of the server says more",
	}
}

// soon is when it is worth asking for the result of a request in progress.
const soon = 5 * time.Second

// requestError says what became of the same request, made before.
func (a *API) requestError(err error, earlier *store.RequestError) *Error {
	e := &Error{Message: err.Error()}
	switch {
	case errors.Is(err, store.ErrRequestInProgress):
		// Most renders end long before the time that they may take.
		e.Status, e.Code, e.RetryAfter = http.StatusConflict, "in_progress", min(a.until(earlier.Record.InProgressUntil), soon)
		e.Hint = "ask again for the result; should the server that is at it be gone, the next request takes over"
	case errors.Is(err, store.ErrRequestMismatch):
		e.Status, e.Code, e.Hint = http.StatusUnprocessableEntity, "key_reused", "what counts is the page, and whether it is to be unpinned"
	default: // ErrResultGone: what is completed and kept is no error
		e.Status, e.Code = http.StatusGone, "result_gone"
		e.Hint = "it was carried out; what it published was replaced since. Older generations are kept with isr serve --history N"
	}
	return e
}

// Regenerate has a page rendered now, and returns it when it is published.
func (c *Client) Regenerate(ctx context.Context, in Regenerate) (Regenerated, error) {
	return ask[Regenerated](ctx, c, http.MethodPost, "/-/regenerate", in)
}
