package main

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/gateway/admin"
)

type regenerateCommand struct {
	pageFlags `embed:""`
	JSON      bool `name:"json" help:"Write JSON, as isr get does."`

	askFlags `embed:""`
}

func (c *regenerateCommand) Help() string {
	return `The server renders the page, whatever its freshness, and every visitor gets the new one. The
command waits until it is published. A page that was never asked for is rendered too.`
}

func (c *regenerateCommand) Run(ctx context.Context, s *streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		p, err := client.Regenerate(ctx, admin.Regenerate{Target: admin.TargetOf(k)})
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.out, p)
		}
		_, err = fmt.Fprintf(s.out, "regenerated %s: %s, status %d, %s, generation %s\n",
			p.Key, p.State, p.Status, bytesText(p.BodyBytes), p.Generation)
		return err
	})
}
