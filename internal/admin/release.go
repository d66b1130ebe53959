package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/facetheory/isr/store"
)

// A Released is the result of breaking a lease.
type Released struct {
	Released bool  `json:"released" doc:"Whether there was a lease, or a back-off, to break."`
	Lease    Lease `json:"lease" doc:"The lease before the operation."`
}

func (a *API) releaseLease() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/lease/release", name: "releaseLease", limit: lookTime,
		summary:  "Break the lease of a page, or end its back-off.",
		details:  "The publish of a holder that is still rendering is refused. If another holder acquires the lease meanwhile, it is not broken.",
		problems: []int{http.StatusConflict},
	}, func(r *http.Request, t Target) (Released, error) {
		k, err := t.key()
		if err != nil {
			return Released{}, err
		}
		rec, err := a.store.Read(r.Context(), a.cfg.Partition(k))
		if err != nil {
			return Released{}, err
		}
		was := a.lease(k, rec.Lock)
		if was.State == LeaseFree {
			return Released{Lease: was}, nil
		}
		err = a.store.BreakLease(r.Context(), rec)
		if errors.Is(err, store.ErrMoved) {
			// The current holder is not the one that was read.
			return Released{}, &Error{
				Status: http.StatusConflict, Code: "changed_hands", Message: "the lease changed hands before it could be broken",
				Hint: "show the current holder: isr lease",
			}
		}
		if err != nil {
			return Released{}, err
		}
		return Released{Released: true, Lease: was}, nil
	})
}

// ReleaseLease breaks the lease of a page, whichever server holds it, or ends its back-off.
func (c *Client) ReleaseLease(ctx context.Context, t Target) (Released, error) {
	return ask[Released](ctx, c, http.MethodPost, "/-/lease/release", t)
}
