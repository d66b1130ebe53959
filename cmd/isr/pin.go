package main

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

type pinCommand struct {
	pageFlags `embed:""`
	For       pin  `env:"-" default:"forever" placeholder:"TIME" help:"Duration of the pin, like 2h (${default}: until isr unpin)."`
	JSON      bool `name:"json" help:"Write JSON, as isr get does."`

	askFlags `embed:""`
}

func (c *pinCommand) Help() string {
	return `The current generation does not age and is not regenerated until the pin ends. A new pin replaces an
earlier one.`
}

func (c *pinCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		p, err := client.Pin(ctx, admin.Pin{Target: admin.TargetOf(k), Seconds: c.For.seconds()})
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.Out, p)
		}
		_, err = fmt.Fprintf(s.Out, "pinned %s %s, at generation %s\n", p.Key, pinText(p.PinnedUntil), p.Generation)
		return err
	})
}

type unpinCommand struct {
	pageFlags `embed:""`
	JSON      bool `name:"json" help:"Write JSON, as isr get does."`

	askFlags `embed:""`
}

func (c *unpinCommand) Help() string {
	return `The page ages again: if its freshness window has passed, the next request regenerates it. Without
effect on a page that is not pinned.`
}

func (c *unpinCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		p, err := client.Unpin(ctx, admin.TargetOf(k))
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.Out, p)
		}
		_, err = fmt.Fprintf(s.Out, "unpinned %s: %s, generation %s\n", p.Key, stateText(p), p.Generation)
		return err
	})
}
