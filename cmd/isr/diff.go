package main

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

type diffCommand struct {
	pageFlags `embed:""`
	Old       string `arg:"" optional:"" help:"Generation as isr versions shows it, or an unambiguous prefix of it."`
	New       string `arg:"" optional:"" help:"The generation to compare it with. Without both, the current generation is compared with the previous one."`
	JSON      bool   `name:"json" help:"Write JSON."`

	askFlags `embed:""`
}

func (c *diffCommand) Help() string {
	return `Shows what changed from OLD to NEW: status, header fields, tags, and the lines of text bodies.`
}

func (c *diffCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	if c.Old != "" && c.New == "" {
		return cli.Usagef("give two generations: isr diff URL OLD NEW; or none, for the last two")
	}
	return c.ask(ctx, func(client *admin.Client) error {
		d, err := client.Diff(ctx, admin.Comparison{Target: admin.TargetOf(k), From: c.Old, To: c.New})
		if err != nil {
			return err
		}
		return writeDiff(s, d, c.JSON)
	})
}

// writeDiff writes a comparison as text or JSON.
func writeDiff(s *cli.Streams, d admin.Diff, asJSON bool) error {
	if asJSON {
		return writeJSON(s.Out, d)
	}
	_, err := fmt.Fprint(s.Out, d)
	return err
}
