package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A Rollback is what to roll a page back to.
type Rollback struct {
	Target
	To         string `json:"to,omitempty" doc:"Generation, or a beginning of its id that no other version has. Missing: the one published last before the current."`
	PinSeconds int64  `json:"pin_seconds,omitempty" doc:"How long it is pinned: it does not age, and is not regenerated. 0 or missing: until it is unpinned."`
}

func (a *API) rollBackPage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/rollback", name: "rollBackPage", limit: lookTime,
		summary: "Make an older generation of a page current again, and pin it.",
		details: "Every server of the table follows within its poll of the log. A regeneration that is under way does not undo it. " +
			"Rolling back to the current generation pins that.",
		problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(r *http.Request, in Rollback) (Page, error) {
		k, pin, err := in.pinning(in.PinSeconds)
		if err != nil {
			return Page{}, err
		}
		e, err := a.cache.Rollback(r.Context(), k, isr.RollbackTo(in.To), isr.PinFor(pin))
		if errors.Is(err, store.ErrNoVersion) {
			return Page{}, errNoVersion(err)
		}
		return a.asserted(k, e, err)
	})
}

func errNoVersion(err error) *Error {
	return &Error{
		Status: http.StatusNotFound, Code: "no_version", Message: err.Error(),
		Hint: "isr versions shows what is kept; older generations are kept from when isr serve is started with --history N",
	}
}

// maxPin bounds a pin that ends by itself, as package isr does.
const maxPin = 10 * 365 * 24 * time.Hour

// pinning is the page that is meant, and for how long it is to be pinned.
func (t Target) pinning(pinSeconds int64) (store.Key, time.Duration, error) {
	k, err := t.key()
	if err != nil {
		return store.Key{}, 0, err
	}
	if pinSeconds < 0 || pinSeconds > int64(maxPin/time.Second) {
		return store.Key{}, 0, invalid("a pin of %d seconds is not possible: 1 to %d are, or 0 for one that does not end", pinSeconds, int64(maxPin/time.Second))
	}
	return k, time.Duration(pinSeconds) * time.Second, nil
}

// asserted is the answer to who has declared something of a page.
func (a *API) asserted(k store.Key, e store.Entry, err error) (Page, error) {
	if err != nil {
		return Page{}, assertionError(err)
	}
	p := a.describe(a.cfg.Partition(k), store.Record{Entry: &e})
	p.Key, p.Header = k.String(), e.Header
	return p, nil
}

// assertionError says which of the ways of a rollback or a pin to fail it was.
func assertionError(err error) error {
	switch {
	case errors.Is(err, isr.ErrNoBody):
		return &Error{
			Status: http.StatusConflict, Code: "no_body", Message: err.Error(),
			Hint: "choose another generation; isr versions shows what is kept",
		}
	case errors.Is(err, store.ErrPurged):
		return &Error{
			Status: http.StatusConflict, Code: "purged", Message: err.Error(),
			Hint: "what was purged hard is never served again; choose a generation from after the purge, or regenerate the page",
		}
	case errors.Is(err, store.ErrUnknownOutcome):
		return &Error{
			Status: http.StatusBadGateway, Code: "unknown_outcome", Message: err.Error(),
			Hint: "it may have happened; see what is current: isr versions",
		}
	case errors.Is(err, store.ErrMoved):
		return errOvertaken(err)
	}
	return err
}

func errOvertaken(err error) *Error {
	return &Error{
		Status: http.StatusConflict, Code: "overtaken", Message: err.Error(), RetryAfter: time.Second,
		Hint: "look at what is stored now, or try again",
	}
}

// Rollback makes an older generation of a page current again, and returns the page.
func (c *Client) Rollback(ctx context.Context, in Rollback) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/rollback", in)
}
