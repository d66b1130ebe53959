package main

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/gateway/admin"
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

func (c *diffCommand) Run(ctx context.Context, s *streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	if c.Old != "" && c.New == "" {
		return usagef("give two generations: isr diff URL OLD NEW; or none, for the last two")
	}
	return c.ask(ctx, func(client *admin.Client) error {
		d, err := client.Diff(ctx, admin.Comparison{Target: admin.TargetOf(k), From: c.Old, To: c.New})
		if err != nil {
			return err
		}
		return s.writeDiff(d, c.JSON)
	})
}

// writeDiff writes a comparison as text or JSON.
func (s *streams) writeDiff(d admin.Diff, asJSON bool) error {
	if asJSON {
		return writeJSON(s.out, d)
	}
	_, err := fmt.Fprint(s.out, d)
	return err
}
