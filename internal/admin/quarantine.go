package admin

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A Quarantined is a generation of a page that was rendered and not published, because the
// rules of its route reject it.
type Quarantined struct {
	Key         string    `json:"key,omitempty" doc:"Cache key of the page."`
	Tenant      string    `json:"tenant,omitempty" doc:"Tenant of the page, on a site with tenants."`
	Generation  string    `json:"generation_id" doc:"Id of the rejected generation."`
	Reason      string    `json:"reason" doc:"Why it was rejected."`
	RejectedAt  time.Time `json:"rejected_at" doc:"When it was rejected."`
	GeneratedAt time.Time `json:"generated_at" doc:"When its rendering began."`
	KeptUntil   time.Time `json:"kept_until" doc:"When the store may delete it."`
	Status      int       `json:"status" doc:"Its HTTP status."`
	BodyBytes   int64     `json:"body_bytes" doc:"Size of its body."`
	Route       string    `json:"route,omitempty" doc:"Name of the route that rendered it."`
}

// A QuarantineChoice selects the generation of a page that is in quarantine.
type QuarantineChoice struct {
	Target
	Generation string `json:"generation,omitempty" doc:"Its id, or a prefix of it, so that no other one is accepted. Missing: whichever is there."`
}

func quarantined(q store.Quarantined) Quarantined {
	e := q.Entry
	return Quarantined{
		Key: e.Key, Tenant: q.Tenant, Generation: e.GenerationID, Reason: q.Reason, RejectedAt: q.RejectedAt.UTC(),
		GeneratedAt: e.GeneratedAt.UTC(), KeptUntil: moment(e.Expires), Status: e.Status, BodyBytes: e.Length, Route: e.Route,
	}
}

// quarantineTime bounds the listing of the quarantine, which scans the table.
const quarantineTime = 10 * time.Minute

func (a *API) listQuarantine() operation {
	return streaming(operation{
		method: http.MethodGet, path: "/-/quarantine", name: "listQuarantine", limit: quarantineTime,
		summary: "List rejected generations, one for each page.",
		details: "They are kept for a week. Reads the whole table, in at most 10 minutes, at half the cost of listPages. A list that ends with an error is incomplete.",
	}, func(r *http.Request, _ struct{}) iter.Seq2[Quarantined, error] {
		return func(yield func(Quarantined, error) bool) {
			for q, err := range a.store.AllQuarantined(r.Context()) {
				if !yield(quarantined(q), err) || err != nil {
					return
				}
			}
		}
	})
}

func (a *API) compareQuarantined() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/quarantine/diff", name: "compareQuarantined", limit: lookTime, adminOnly: true,
		summary:  "Compare the current generation of a page with the rejected one.",
		problems: []int{http.StatusNotFound},
	}, func(r *http.Request, in Target) (Diff, error) {
		k, err := in.key()
		if err != nil {
			return Diff{}, err
		}
		d, err := a.cache.DiffQuarantined(r.Context(), k)
		if err != nil {
			return Diff{}, quarantineError(err)
		}
		return a.diff(k, d), nil
	})
}

func (a *API) acceptQuarantined() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/quarantine/accept", name: "acceptQuarantined", limit: lookTime,
		summary:  "Publish the rejected generation of a page.",
		details:  "All servers follow within one poll of the log. It is as old as its rendering, and may be regenerated at once.",
		problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(r *http.Request, in QuarantineChoice) (Page, error) {
		k, err := in.key()
		if err != nil {
			return Page{}, err
		}
		e, err := a.cache.AcceptQuarantined(r.Context(), k, in.Generation)
		if err != nil {
			return Page{}, quarantineError(err)
		}
		return a.asserted(k, e, nil)
	})
}

// DroppedQuarantined is the result of dropping a rejected generation.
type DroppedQuarantined struct {
	Key string `json:"key" doc:"Cache key of the page, which has no generation in quarantine."`
}

func (a *API) dropQuarantined() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/quarantine/drop", name: "dropQuarantined", limit: lookTime,
		summary: "Delete the rejected generation of a page.",
	}, func(r *http.Request, in Target) (DroppedQuarantined, error) {
		k, err := in.key()
		if err == nil {
			err = a.cache.DropQuarantined(r.Context(), k)
		}
		if err != nil {
			return DroppedQuarantined{}, err
		}
		return DroppedQuarantined{Key: k.String()}, nil
	})
}

func quarantineError(err error) error {
	var held *store.HeldError
	switch {
	case errors.Is(err, store.ErrNotQuarantined):
		return &Error{Status: http.StatusNotFound, Code: "not_quarantined", Message: err.Error(), Hint: "isr quarantine lists the rejected generations"}
	case errors.Is(err, store.ErrNoVersion):
		return errNoVersion(err)
	case errors.Is(err, store.ErrMoved):
		return conflict(err, "moved", "the page has a newer generation; isr quarantine drop deletes the rejected one")
	case errors.Is(err, store.ErrPurged):
		return conflict(err, "purged", "regenerate the page: isr regenerate")
	case errors.Is(err, store.ErrPinned):
		return conflict(err, "pinned", "unpin the page: isr unpin")
	case errors.Is(err, isr.ErrNoBody):
		return conflict(err, "no_body", "regenerate the page: isr regenerate")
	case errors.As(err, &held), errors.Is(err, store.ErrLeaseLost):
		return conflict(err, "held", "the page is being regenerated; retry in a moment")
	}
	return err
}

// Quarantine yields the rejected generations.
func (c *Client) Quarantine(ctx context.Context) iter.Seq2[Quarantined, error] {
	return askLines[Quarantined](ctx, c, http.MethodGet, "/-/quarantine", struct{}{})
}

// DiffQuarantined compares the current generation of a page with the rejected one.
func (c *Client) DiffQuarantined(ctx context.Context, t Target) (Diff, error) {
	return ask[Diff](ctx, c, http.MethodGet, "/-/quarantine/diff", t)
}

// AcceptQuarantined publishes the rejected generation of a page.
func (c *Client) AcceptQuarantined(ctx context.Context, in QuarantineChoice) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/quarantine/accept", in)
}

// DropQuarantined deletes the rejected generation of a page.
func (c *Client) DropQuarantined(ctx context.Context, t Target) (DroppedQuarantined, error) {
	return ask[DroppedQuarantined](ctx, c, http.MethodPost, "/-/quarantine/drop", t)
}
