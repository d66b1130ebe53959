package main

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/gateway/admin"
)

type diffCommand struct {
	pageFlags `embed:""`
	A         string `arg:"" help:"Generation, as isr versions shows it, or a beginning of it that no other has."`
	B         string `arg:"" help:"The other, likewise."`
	JSON      bool   `name:"json" help:"Write JSON."`

	askFlags `embed:""`
}

func (c *diffCommand) Help() string {
	return `Shows what changed from A to B: status, header fields, tags, and the lines of bodies that are text.`
}

func (c *diffCommand) Run(ctx context.Context, s *streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		d, err := client.Diff(ctx, admin.Comparison{Target: admin.TargetOf(k), From: c.A, To: c.B})
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.out, d)
		}
		_, err = fmt.Fprint(s.out, d)
		return err
	})
}
