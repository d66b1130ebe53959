package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/facetheory/isr/store"
)

// A Pin is the input of a pin.
type Pin struct {
	Target
	Seconds int64 `json:"seconds,omitempty" doc:"Duration of the pin. 0 or missing: until it is unpinned."`
}

func (a *API) pinPage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/pin", name: "pinPage", limit: lookTime,
		summary:  "Pin the current generation of a page: it does not age and is not regenerated.",
		details:  "Replaces an earlier pin. A purge overrides a pin.",
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
		summary:  "Unpin a page: its current generation ages again and is regenerated.",
		details:  "No effect, and no error, if the page is not pinned.",
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
			Hint: "only a page that isr has rendered can be pinned; render it first: isr regenerate",
		}
	}
	return a.asserted(k, e, err)
}

// Pin pins the current generation of a page, and returns the page.
func (c *Client) Pin(ctx context.Context, in Pin) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/pin", in)
}

// Unpin removes the pin of a page, and returns the page.
func (c *Client) Unpin(ctx context.Context, t Target) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/unpin", t)
}
