package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/facetheory/isr/store"
)

// A Pin keeps a page as it is.
type Pin struct {
	Target
	Seconds int64 `json:"seconds,omitempty" doc:"For how long. 0 or missing: until it is unpinned."`
}

func (a *API) pinPage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/pin", name: "pinPage", limit: lookTime,
		summary:  "Keep the current generation of a page from ageing, and from being regenerated.",
		details:  "An earlier pin is replaced. A purge is stronger than a pin.",
		problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(r *http.Request, in Pin) (Page, error) {
		k, d, err := in.pinning(in.Seconds)
		if err != nil {
			return Page{}, err
		}
		e, err := a.cache.Pin(r.Context(), k, d)
		return a.pinned(k, e, err)
	})
}

func (a *API) unpinPage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/unpin", name: "unpinPage", limit: lookTime,
		summary:  "Let the current generation of a page age again, and be replaced.",
		details:  "A page that is not pinned is left as it is: no error.",
		problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(r *http.Request, t Target) (Page, error) {
		k, err := t.key()
		if err != nil {
			return Page{}, err
		}
		e, err := a.cache.Unpin(r.Context(), k)
		return a.pinned(k, e, err)
	})
}

func (a *API) pinned(k store.Key, e store.Entry, err error) (Page, error) {
	if errors.Is(err, store.ErrNoVersion) {
		return Page{}, &Error{
			Status: http.StatusNotFound, Code: "no_version", Message: err.Error(),
			Hint: "only a page that isr has rendered can be pinned; have it rendered: isr regenerate",
		}
	}
	return a.asserted(k, e, err)
}

// Pin keeps a page as it is, and returns it.
func (c *Client) Pin(ctx context.Context, in Pin) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/pin", in)
}

// Unpin lets a page age again, and returns it.
func (c *Client) Unpin(ctx context.Context, t Target) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/unpin", t)
}
