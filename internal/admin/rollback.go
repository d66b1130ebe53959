package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A Rollback is the input of a rollback.
type Rollback struct {
	Target
	To         string `json:"to,omitempty" doc:"Generation, or a unique prefix of its id. Missing: the one published last before the current one."`
	PinSeconds int64  `json:"pin_seconds,omitempty" doc:"Duration of the pin, in which the page does not age and is not regenerated. 0 or missing: until it is unpinned."`
}

func (a *API) rollBackPage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/rollback", name: "rollBackPage", limit: lookTime,
		summary: "Make an older generation of a page current again, and pin it.",
		details: "All servers follow within one poll of the log. A regeneration in progress does not undo it. " +
			"A rollback to the current generation pins it.",
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
		Hint: "isr versions shows the kept generations; isr serve --history N keeps older ones",
	}
}

// maxPin bounds the duration of a pin, as in package isr.
const maxPin = 10 * 365 * 24 * time.Hour

// pinning returns the page, and the validated duration of its pin.
func (t Target) pinning(pinSeconds int64) (store.Key, time.Duration, error) {
	k, err := t.key()
	if err != nil {
		return store.Key{}, 0, err
	}
	if pinSeconds < 0 || pinSeconds > int64(maxPin/time.Second) {
		return store.Key{}, 0, invalid("the duration of a pin must be between 1 and %d seconds, or 0 for no end (got %d)", int64(maxPin/time.Second), pinSeconds)
	}
	return k, time.Duration(pinSeconds) * time.Second, nil
}

// asserted returns the result of a rollback or pin.
func (a *API) asserted(k store.Key, e store.Entry, err error) (Page, error) {
	if err != nil {
		return Page{}, assertionError(err)
	}
	p := a.describe(a.cfg.Partition(k), store.Record{Entry: &e})
	p.Key, p.Header = k.String(), e.Header
	return p, nil
}

// assertionError maps an error of a rollback or pin to the response.
func assertionError(err error) error {
	switch {
	case errors.Is(err, isr.ErrNoBody):
		return &Error{
			Status: http.StatusConflict, Code: "no_body", Message: err.Error(),
			Hint: "choose another generation; isr versions shows the kept ones",
		}
	case errors.Is(err, store.ErrPurged):
		return &Error{
			Status: http.StatusConflict, Code: "purged", Message: err.Error(),
			Hint: "hard-purged generations are never served again; choose a newer generation, or regenerate the page",
		}
	case errors.Is(err, store.ErrUnknownOutcome):
		return &Error{
			Status: http.StatusBadGateway, Code: "unknown_outcome", Message: err.Error(),
			Hint: "it may have succeeded; check the current generation: isr versions",
		}
	case errors.Is(err, store.ErrMoved):
		return errOvertaken(err)
	}
	return err
}

func errOvertaken(err error) *Error {
	return &Error{
		Status: http.StatusConflict, Code: "overtaken", Message: err.Error(), RetryAfter: time.Second,
		Hint: "check the stored page, or retry",
	}
}

// Rollback makes an older generation of a page current again, and returns the page.
func (c *Client) Rollback(ctx context.Context, in Rollback) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/rollback", in)
}
