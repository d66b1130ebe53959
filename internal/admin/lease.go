package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/facetheory/isr/store"
)

// States of a lease.
const (
	LeaseFree    = "free"     // any server may acquire it
	LeaseHeld    = "held"     // a server is regenerating the page
	LeaseBackOff = "back_off" // no server regenerates the page until the back-off expires
)

// A Lease is the state of the lease of a page.
type Lease struct {
	Key         string    `json:"key" doc:"The page's key."`
	Partition   string    `json:"pk" doc:"The partition key of its rows."`
	State       string    `json:"state" doc:"free, held, or back_off (after failed renders)."`
	Owner       string    `json:"owner,omitempty" doc:"Name of its holder."`
	ExpiresAt   time.Time `json:"expires_at,omitzero" doc:"When it expires. Missing if it is free."`
	SecondsLeft int64     `json:"seconds_left" doc:"Time until then."`
	Failures    int       `json:"failures" doc:"Consecutive failed regenerations."`
}

func (a *API) showLease() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/lease", name: "showLease", limit: lookTime,
		summary: "Show the lease of a page.",
	}, func(r *http.Request, t Target) (Lease, error) {
		k, err := t.key()
		if err != nil {
			return Lease{}, err
		}
		rec, err := a.store.Read(r.Context(), a.cfg.Partition(k))
		if err != nil {
			return Lease{}, err
		}
		return a.lease(k, rec.Lock), nil
	})
}

// lease describes a lease row, nil if there is none.
func (a *API) lease(k store.Key, lock *store.Lock) Lease {
	l := Lease{Key: k.String(), Partition: a.cfg.Partition(k), State: LeaseFree}
	if lock == nil {
		return l
	}
	l.Failures = lock.Failures
	now := a.cfg.Now()
	if !lock.HeldAt(now) {
		return l
	}
	left := lock.ExpiresAt.Sub(now)
	l.State, l.Owner, l.ExpiresAt = LeaseHeld, lock.Owner, lock.ExpiresAt.UTC()
	l.SecondsLeft = int64(left.Round(time.Second) / time.Second)
	if lock.IsBackOff() {
		l.State = LeaseBackOff
	}
	return l
}

// Lease returns the lease of a page.
func (c *Client) Lease(ctx context.Context, t Target) (Lease, error) {
	return ask[Lease](ctx, c, http.MethodGet, "/-/lease", t)
}

// A Released is the result of breaking a lease.
type Released struct {
	Released bool  `json:"released" doc:"Whether there was a lease, or a back-off, to break."`
	Lease    Lease `json:"lease" doc:"The lease before the operation."`
}

func (a *API) releaseLease() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/lease/release", name: "releaseLease", limit: lookTime,
		summary:  "Break the lease of a page, or end its back-off.",
		details:  "The publish of a holder that is still rendering is refused. If another holder has acquired the lease by then, it is not broken.",
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
