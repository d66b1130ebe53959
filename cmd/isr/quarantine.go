package main

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/units"
	"github.com/facetheory/isr/store"
)

type quarantineCommand struct {
	List   quarantineListCommand   `cmd:"" default:"withargs" help:"List rejected generations (the default)."`
	Diff   quarantineDiffCommand   `cmd:"" help:"Compare the current generation of a page with the rejected one."`
	Accept quarantineAcceptCommand `cmd:"" help:"Publish the rejected generation of a page."`
	Drop   quarantineDropCommand   `cmd:"" help:"Delete the rejected generation of a page."`
}

func (*quarantineCommand) Help() string {
	return `The reject rules of a route keep suspicious generations from replacing good ones: those that are much
smaller, lack a required text, or have an error text. The last one of each page is kept in quarantine for
a week, while the current generation stays and the page is rendered again with exponential backoff.

The list reads the whole table, at half the cost of isr ls; the other commands read one page.`
}

type quarantineListCommand struct {
	JSON bool `name:"json" help:"Write JSON, one line for each page."`

	askFlags `embed:""`
}

func (c *quarantineListCommand) Run(ctx context.Context, s *cli.Streams) error {
	return c.ask(ctx, func(client *admin.Client) error {
		out, t, n := json.NewEncoder(s.Out), tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0), 0
		for q, err := range client.Quarantine(ctx) {
			if err != nil {
				return err
			}
			if c.JSON {
				if err := out.Encode(q); err != nil {
					return err
				}
				continue
			}
			if n++; n == 1 {
				fmt.Fprintln(t, "PAGE\tGENERATION\tREJECTED\tSTATUS\tSIZE\tREASON")
			}
			key := store.Key{Tenant: q.Tenant, Text: q.Key}
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", key, q.Generation, q.RejectedAt.Format(time.RFC3339), q.Status, units.Bytes(q.BodyBytes), oneLine(q.Reason))
		}
		if n == 0 && !c.JSON {
			fmt.Fprintln(s.Err, "nothing is in quarantine")
		}
		return t.Flush()
	})
}

type quarantineDiffCommand struct {
	pageFlags `embed:""`
	JSON      bool `name:"json" help:"Write JSON."`

	askFlags `embed:""`
}

func (c *quarantineDiffCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		d, err := client.DiffQuarantined(ctx, admin.TargetOf(k))
		if err != nil {
			return err
		}
		return writeDiff(s, d, c.JSON)
	})
}

type quarantineAcceptCommand struct {
	pageFlags  `embed:""`
	Generation string `arg:"" optional:"" help:"Generation as isr quarantine shows it, or a prefix of it, so that no other one is accepted."`
	JSON       bool   `name:"json" help:"Write JSON, as isr get does."`

	askFlags `embed:""`
}

func (c *quarantineAcceptCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		p, err := client.AcceptQuarantined(ctx, admin.QuarantineChoice{Target: admin.TargetOf(k), Generation: c.Generation})
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.Out, p)
		}
		_, err = fmt.Fprintf(s.Out, "%s has generation %s, rendered %s\n", p.Key, p.Generation, p.GeneratedAt.Format(time.RFC3339))
		return err
	})
}

type quarantineDropCommand struct {
	pageFlags `embed:""`

	askFlags `embed:""`
}

func (c *quarantineDropCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		d, err := client.DropQuarantined(ctx, admin.TargetOf(k))
		if err == nil {
			_, err = fmt.Fprintf(s.Out, "%s has nothing in quarantine\n", d.Key)
		}
		return err
	})
}
