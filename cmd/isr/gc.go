package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/units"
)

type gcCommand struct {
	DryRun bool     `env:"-" help:"Show what would be deleted, without deleting it."`
	Grace  cli.Span `env:"-" default:"24h" placeholder:"TIME" help:"Minimum age of a body to be deleted, at least 1h (${default})."`
	JSON   bool     `name:"json" help:"Write JSON: one line for each body, then the sum."`

	askFlags `embed:""`
}

func (c *gcCommand) Help() string {
	return `A body is garbage once no row refers to it: a newer generation replaced it, its version expired, or
the server that wrote it crashed. Bodies of pages that are being regenerated are kept, and so are
objects that do not belong to this table. gc also deletes purge marks that a newer purge of the tenant or
the site includes, and renews permanent pins, which would otherwise end with the lifetime of purge marks.
A server with an embedded store runs gc daily.`
}

func (c *gcCommand) Run(ctx context.Context, s *cli.Streams) error {
	if time.Duration(c.Grace) < time.Hour {
		return cli.Usagef("--grace must be at least 1h (got %s): younger bodies may be about to be published", time.Duration(c.Grace))
	}
	in := admin.Collect{DryRun: c.DryRun, GraceSeconds: int64(time.Duration(c.Grace) / time.Second)}
	return c.ask(ctx, func(client *admin.Client) error {
		out := json.NewEncoder(s.Out)
		for g, err := range client.Collect(ctx, in) {
			switch {
			case err != nil:
				return err
			case c.JSON:
				err = out.Encode(g)
			case g.Sum == nil:
				_, err = fmt.Fprintf(s.Out, "%s  %s  %s\n", g.ModifiedAt.Format(time.RFC3339), g.Body, units.Bytes(g.Bytes))
			default:
				err = c.writeSum(s, *g.Sum)
			}
			if err != nil || g.Sum != nil {
				return err
			}
		}
		return errors.New("garbage collection ended early; run isr gc again")
	})
}

func (c *gcCommand) writeSum(s *cli.Streams, sum admin.Collected) error {
	did, renewed := "removed", "renewed"
	if c.DryRun {
		did, renewed = "would remove", "would renew"
	}
	young := ""
	if sum.Young > 0 {
		young = fmt.Sprintf("; not checked: %d younger than %s", sum.Young, time.Duration(c.Grace))
	}
	_, err := fmt.Fprintf(s.Out, "%s %d of %d bodies, %s%s\n", did, sum.Bodies, sum.Bodies+sum.Kept, units.Bytes(sum.Bytes), young)
	if err == nil && sum.Marks > 0 {
		_, err = fmt.Fprintf(s.Out, "%s %d purge marks that newer purges include\n", did, sum.Marks)
	}
	if err == nil && sum.Pins > 0 {
		_, err = fmt.Fprintf(s.Out, "%s %d permanent pins\n", renewed, sum.Pins)
	}
	if sum.Busy > 0 {
		fmt.Fprintf(s.Err, "skipped %d pages that are being regenerated; run isr gc again later\n", sum.Busy)
	}
	return err
}
