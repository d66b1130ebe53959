package admin

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/store"
)

// States of a delivery.
const (
	DeliveryPending = "pending" // it is delivered as soon as possible
	DeliveryFailed  = "failed"  // it is not delivered any more, unless it is retried
)

// A Delivery is a job of the outbox: purges that are to reach a downstream cache.
type Delivery struct {
	ID          string    `json:"id" doc:"Destination and sequence of the change, such as cdn/42."`
	Destination string    `json:"destination" doc:"Name of the downstream cache."`
	State       string    `json:"state" doc:"pending or failed."`
	Targets     []string  `json:"targets" doc:"The first hundred targets of the purge, such as \"tag news\"."`
	TargetCount int       `json:"target_count" doc:"How many there are."`
	CreatedAt   time.Time `json:"created_at" doc:"When the change was made."`
	AgeSeconds  int64     `json:"age_seconds" doc:"Time since then."`
	Attempts    int       `json:"attempts" doc:"Failed deliveries."`
	Reason      string    `json:"reason,omitempty" doc:"Why the latest one failed."`
	NextAt      time.Time `json:"next_at,omitzero" doc:"When the next delivery is due. Missing: at once."`
	FailedAt    time.Time `json:"failed_at,omitzero" doc:"Since when it is not delivered any more."`
	Malformed   string    `json:"malformed,omitempty" doc:"Why the stored row cannot be read; it is delivered as a purge of everything."`
}

// A DeliveryTarget selects a job of the outbox.
type DeliveryTarget struct {
	ID string `json:"id" doc:"Id of the job, such as cdn/42."`
}

func (t DeliveryTarget) target() string { return t.ID }

// parse returns the destination and the sequence of the id.
func (t DeliveryTarget) parse() (destination string, seq int64, err error) {
	destination, digits, _ := strings.Cut(t.ID, "/")
	seq, err = strconv.ParseInt(digits, 10, 64)
	if err != nil || seq < 0 || store.ValidDestination(destination) != nil {
		return "", 0, invalid("id %.80q is not a job of the outbox; expected a destination and a number, like cdn/42", t.ID)
	}
	return destination, seq, nil
}

// outboxTime bounds the listing of the outbox.
const outboxTime = 10 * time.Minute

func (a *API) listOutbox() operation {
	return streaming(operation{
		method: http.MethodGet, path: "/-/outbox", name: "listOutbox", limit: outboxTime,
		summary: "List purges that have not been delivered to downstream caches.",
		details: "Failed jobs first, then pending ones.",
	}, func(r *http.Request, _ struct{}) iter.Seq2[Delivery, error] {
		return func(yield func(Delivery, error) bool) {
			for j, err := range a.store.Outbox(r.Context()) {
				if !yield(a.delivery(j), err) || err != nil {
					return
				}
			}
		}
	})
}

// shownTargets bounds the targets of a job in a list.
const shownTargets = 100

func (a *API) delivery(j store.Job) Delivery {
	d := Delivery{
		ID: j.ID(), Destination: j.Destination, State: DeliveryPending, Targets: []string{}, TargetCount: len(j.Targets),
		CreatedAt: moment(j.CreatedAt), AgeSeconds: int64(a.cfg.Now().Sub(j.CreatedAt) / time.Second),
		Attempts: j.Attempts, Reason: j.Error, NextAt: moment(j.NextAt), FailedAt: moment(j.FailedAt),
	}
	if j.Failed {
		d.State = DeliveryFailed
	}
	if j.Malformed != nil {
		d.Malformed = j.Malformed.Error()
	}
	for _, t := range j.Targets[:min(len(j.Targets), shownTargets)] {
		d.Targets = append(d.Targets, t.String())
	}
	return d
}

// Retried is the result of a retry.
type Retried struct {
	ID string `json:"id" doc:"Id of the job, which is pending now."`
}

func (a *API) retryDelivery() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/outbox/retry", name: "retryDelivery", limit: lookTime,
		summary:  "Deliver a failed or delayed purge now.",
		details:  "Ends the back-off of the destination as well.",
		problems: []int{http.StatusNotFound},
	}, func(r *http.Request, t DeliveryTarget) (Retried, error) {
		destination, seq, err := t.parse()
		if err == nil {
			err = jobError(a.store.RetryJob(r.Context(), destination, seq))
		}
		if err == nil {
			err = a.endPause(r.Context(), destination)
		}
		if err != nil {
			return Retried{}, err
		}
		if a.cfg.Downstream != nil {
			a.cfg.Downstream.Wake()
		}
		return Retried(t), nil
	})
}

// endPause ends the back-off of a destination, which would delay the retry.
func (a *API) endPause(ctx context.Context, destination string) error {
	rec, err := a.store.Read(ctx, store.OutboxPartition(destination))
	if err != nil || rec.Lock == nil || !rec.Lock.IsBackOff() {
		return err
	}
	if err := a.store.BreakLease(ctx, rec); err != nil && !errors.Is(err, store.ErrMoved) {
		return err
	}
	return nil
}

// Dropped is the result of dropping a job.
type Dropped struct {
	ID string `json:"id" doc:"Id of the job, which is gone."`
}

func (a *API) dropDelivery() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/outbox/drop", name: "dropDelivery", limit: lookTime,
		summary:  "Delete a purge that has not been delivered.",
		details:  "The downstream cache keeps its copies until they expire.",
		problems: []int{http.StatusNotFound},
	}, func(r *http.Request, t DeliveryTarget) (Dropped, error) {
		destination, seq, err := t.parse()
		if err == nil {
			err = jobError(a.store.DropJob(r.Context(), destination, seq))
		}
		if err != nil {
			return Dropped{}, err
		}
		return Dropped(t), nil
	})
}

func jobError(err error) error {
	if errors.Is(err, store.ErrNoJob) {
		return &Error{
			Status: http.StatusNotFound, Code: "no_job", Message: err.Error(),
			Hint: "it was delivered or dropped; isr outbox lists the jobs",
		}
	}
	return err
}

// Outbox yields the purges that have not been delivered to downstream caches.
func (c *Client) Outbox(ctx context.Context) iter.Seq2[Delivery, error] {
	return askLines[Delivery](ctx, c, http.MethodGet, "/-/outbox", struct{}{})
}

// RetryDelivery makes a job of the outbox pending and due at once.
func (c *Client) RetryDelivery(ctx context.Context, t DeliveryTarget) (Retried, error) {
	return ask[Retried](ctx, c, http.MethodPost, "/-/outbox/retry", t)
}

// DropDelivery deletes a job of the outbox.
func (c *Client) DropDelivery(ctx context.Context, t DeliveryTarget) (Dropped, error) {
	return ask[Dropped](ctx, c, http.MethodPost, "/-/outbox/drop", t)
}
