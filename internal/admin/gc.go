package admin

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gc"
)

// A Collect is the input of a garbage collection.
type Collect struct {
	DryRun       bool  `json:"dry_run,omitempty" doc:"Report what would be deleted, without deleting it."`
	GraceSeconds int64 `json:"grace_seconds,omitempty" doc:"Minimum age of a body to be deleted, at least 3600. 0 or missing: a day."`
}

func (Collect) target() string { return "all pages" }

// A Garbage is one line of the response: a body, or the sum in the last line.
type Garbage struct {
	Body       string     `json:"body,omitempty" doc:"Key of a body that no row refers to; it was deleted, or would be."`
	Bytes      int64      `json:"bytes,omitempty" doc:"Its size."`
	ModifiedAt time.Time  `json:"modified_at,omitzero" doc:"When it was written."`
	Partition  string     `json:"pk,omitempty" doc:"Partition key of its page. Missing if the page has no rows."`
	Sum        *Collected `json:"sum,omitempty" doc:"Result of the collection, only in the last line."`
}

// Collected is the result of a garbage collection.
type Collected struct {
	Bodies int   `json:"bodies" doc:"Bodies that were deleted, or would be."`
	Bytes  int64 `json:"bytes" doc:"Their total size."`
	Kept   int   `json:"kept" doc:"Bodies past the grace period that rows refer to."`
	Young  int   `json:"young" doc:"Bodies within the grace period, which were not checked."`
	Busy   int   `json:"busy" doc:"Pages with garbage that were skipped because they are being regenerated."`
	Marks  int   `json:"marks" doc:"Purge marks that were deleted, or would be, because a newer purge of the tenant or the site includes them."`
	Pins   int   `json:"pins" doc:"Permanent pins that were renewed, or would be, so that they outlive the lifetime of purge marks."`
}

// collectTime bounds a collection, which lists all bodies and reads the whole table.
const collectTime = time.Hour

func (a *API) collectGarbage() operation {
	return streaming(operation{
		method: http.MethodPost, path: "/-/gc", name: "collectGarbage", limit: collectTime,
		summary: "Delete stored bodies that no row refers to, compact purge marks and renew permanent pins.",
		details: "Lists all bodies and reads the whole table, which costs as much on DynamoDB. Bodies that are being published are not deleted: " +
			"the lease of the page is acquired first. It ends if the client disconnects. A response without a sum is incomplete.",
		problems: []int{http.StatusConflict},
	}, func(r *http.Request, in Collect) iter.Seq2[Garbage, error] {
		return func(yield func(Garbage, error) bool) {
			sum, left, err := a.collect(r.Context(), in, func(g Garbage) bool { return yield(g, nil) })
			switch {
			case left:
			case err != nil:
				yield(Garbage{}, collectError(err))
			default:
				yield(Garbage{Sum: &sum}, nil)
			}
		}
	})
}

// collect collects garbage, and stops when report returns false, because the client has
// disconnected.
func (a *API) collect(ctx context.Context, in Collect, report func(Garbage) bool) (sum Collected, left bool, err error) {
	const least, most = int64(time.Hour / time.Second), int64(maxPin / time.Second)
	if in.GraceSeconds != 0 && (in.GraceSeconds < least || in.GraceSeconds > most) {
		return sum, false, invalid("grace_seconds must be between %d and %d (got %d)", least, most, in.GraceSeconds)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done, err := gc.Collect(ctx, a.store, a.bodies, gc.CollectOptions{
		Grace: time.Duration(in.GraceSeconds) * time.Second, DryRun: in.DryRun, Now: a.cfg.Now,
		Report: func(g gc.Garbage) {
			if !left && !report(Garbage{Body: g.Key, Bytes: g.Length, ModifiedAt: moment(g.ModifiedAt), Partition: g.PK}) {
				left = true
				cancel()
			}
		},
	})
	if a.cfg.Observer != nil && !in.DryRun && done.Bytes > 0 {
		a.cfg.Observer.Note(isr.Event{Kind: isr.EventCollected, Bytes: done.Bytes})
	}
	sum = Collected{Bodies: done.Bodies, Bytes: done.Bytes, Kept: done.Kept, Young: done.Young, Busy: done.Busy}
	if err == nil {
		err = a.keepPurges(ctx, in.DryRun, &sum)
	}
	return sum, left, err
}

// keepPurges compacts the purge marks and renews permanent pins.
func (a *API) keepPurges(ctx context.Context, dry bool, sum *Collected) error {
	marks, err := gc.CompactMarks(ctx, a.store, dry)
	sum.Marks = marks.Marks
	if err != nil {
		return err
	}
	pins, err := gc.RenewPins(ctx, a.store, gc.RenewOptions{Partition: a.cfg.Partition, DryRun: dry, Now: a.cfg.Now})
	sum.Pins = pins.Pins
	return err
}

func collectError(err error) error {
	if errors.Is(err, gc.ErrForeignBodies) {
		return conflict(err, "foreign_bodies", "nothing was deleted; check that the table and the bucket belong together")
	}
	return err
}

// Collect deletes the bodies that no row refers to, and yields them and then the sum.
func (c *Client) Collect(ctx context.Context, in Collect) iter.Seq2[Garbage, error] {
	return askLines[Garbage](ctx, c, http.MethodPost, "/-/gc", in)
}
