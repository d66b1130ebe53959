package admin

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"github.com/facetheory/isr/gc"
)

// A Collect is a collection of garbage.
type Collect struct {
	DryRun       bool  `json:"dry_run,omitempty" doc:"Delete nothing, and say what would be deleted."`
	GraceSeconds int64 `json:"grace_seconds,omitempty" doc:"How old a body must be before it is deleted: at least 3600. 0 or missing: a day."`
}

func (Collect) target() string { return "all pages" }

// A Garbage is one line of the answer: a body, or the sum at the end.
type Garbage struct {
	Body       string     `json:"body,omitempty" doc:"Key of a body that no row names, and that was deleted, or would be."`
	Bytes      int64      `json:"bytes,omitempty" doc:"Its size."`
	ModifiedAt time.Time  `json:"modified_at,omitzero" doc:"When it was written."`
	Partition  string     `json:"pk,omitempty" doc:"The partition key of its page. Missing if no row of that is left."`
	Sum        *Collected `json:"sum,omitempty" doc:"What the collection came to. In the last line alone."`
}

// Collected is what a collection came to.
type Collected struct {
	Bodies int   `json:"bodies" doc:"Bodies that were deleted, or would be."`
	Bytes  int64 `json:"bytes" doc:"Their size."`
	Kept   int   `json:"kept" doc:"Bodies old enough that rows name."`
	Young  int   `json:"young" doc:"Bodies that are not old enough to be looked at."`
	Busy   int   `json:"busy" doc:"Pages with garbage that were left alone, since they are being regenerated."`
}

// collectTime bounds a collection, which lists all bodies and reads the whole table.
const collectTime = time.Hour

func (a *API) collectGarbage() operation {
	return streaming(operation{
		method: http.MethodPost, path: "/-/gc", name: "collectGarbage", limit: collectTime,
		summary: "Delete the bodies that no row names.",
		details: "Lists all bodies and reads the whole table, and on DynamoDB costs as much. What is being published is not deleted: " +
			"the lease of the page is taken first. A client that leaves ends it. An answer without a sum is not whole.",
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

// collect collects garbage, and ends when the client has left, as report says.
func (a *API) collect(ctx context.Context, in Collect, report func(Garbage) bool) (sum Collected, left bool, err error) {
	const least, most = int64(time.Hour / time.Second), int64(maxPin / time.Second)
	if in.GraceSeconds != 0 && (in.GraceSeconds < least || in.GraceSeconds > most) {
		return sum, false, invalid("a grace period of %d seconds is not possible: %d to %d are", in.GraceSeconds, least, most)
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
	return Collected{Bodies: done.Bodies, Bytes: done.Bytes, Kept: done.Kept, Young: done.Young, Busy: done.Busy}, left, err
}

func collectError(err error) error {
	if errors.Is(err, gc.ErrForeignBodies) {
		return &Error{
			Status: http.StatusConflict, Code: "foreign_bodies", Message: err.Error(),
			Hint: "see that the table and the bucket belong together; nothing was deleted",
		}
	}
	return err
}

// Collect deletes the bodies that no row names, and yields them, and then the sum.
func (c *Client) Collect(ctx context.Context, in Collect) iter.Seq2[Garbage, error] {
	return askLines[Garbage](ctx, c, http.MethodPost, "/-/gc", in)
}
