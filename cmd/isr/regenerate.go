package main

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/units"
	"github.com/facetheory/isr/store"
)

type regenerateCommand struct {
	pageFlags      `embed:""`
	IdempotencyKey string `env:"-" placeholder:"TEXT" help:"Idempotency key: a repeated request with the same key is not executed again and returns the earlier result."`
	Unpin          bool   `env:"-" help:"Regenerate a pinned page too, and unpin it."`
	JSON           bool   `name:"json" help:"Write JSON, as isr get does."`

	askFlags `embed:""`
}

func (c *regenerateCommand) Help() string {
	return `The server renders the page, even if it is fresh or was never requested, and the command waits until
it is published. Other servers may serve their copy in memory until its freshness window ends.`
}

func (c *regenerateCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	if c.IdempotencyKey != "" {
		if err := store.ValidRequestKey(c.IdempotencyKey); err != nil {
			return cli.Usagef("--idempotency-key: %v", err)
		}
	}
	in := admin.Regenerate{Target: admin.TargetOf(k), Unpin: c.Unpin, IdempotencyKey: c.IdempotencyKey}
	return c.ask(ctx, func(client *admin.Client) error {
		p, err := client.Regenerate(ctx, in)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.Out, p)
		}
		did := "regenerated"
		if p.Replayed {
			did = "already executed, not repeated:"
		}
		_, err = fmt.Fprintf(s.Out, "%s %s: %s, status %d, %s, generation %s\n",
			did, p.Key, p.State, p.Status, units.Bytes(p.BodyBytes), p.Generation)
		return err
	})
}
