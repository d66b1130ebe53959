package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

type reloadCommand struct {
	askFlags `embed:""`
}

func (c *reloadCommand) Help() string {
	return `The server must run with --config. Requests in flight finish under the old configuration, later ones
follow the new one, and pages stay in memory. An invalid file changes nothing, and neither does one
whose parts cannot be made, such as a listener at an address in use, or one that changes what cannot change
while the server runs: the error names it (docs/configuration.md has the list). SIGHUP does the same, and isr serve --watch does it when the file changes.`
}

func (c *reloadCommand) Run(ctx context.Context, s *cli.Streams) error {
	return c.ask(ctx, func(client *admin.Client) error {
		done, err := client.Reload(ctx)
		if err != nil {
			return err
		}
		changed := "nothing has changed"
		if len(done.Changed) > 0 {
			changed = "changed: " + strings.Join(done.Changed, ", ")
		}
		_, err = fmt.Fprintf(s.Out, "reloaded %s: %s, %s; %s\n", done.File, cli.Counted(done.Routes, "route"), cli.Counted(done.Origins, "origin"), changed)
		return err
	})
}
