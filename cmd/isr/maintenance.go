package main

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

type maintenanceCommand struct {
	Mode string `arg:"" enum:"on,off,status" help:"on, off, or status."`
	JSON bool   `name:"json" help:"Write JSON."`

	askFlags `embed:""`
}

func (c *maintenanceCommand) Help() string {
	return `In maintenance mode the origins are not called: stored pages are served, also stale ones, and all other requests
get the maintenance page with 503. Editors with a link of isr draft reach the site. The mode is the server's own and survives
a restart; maintenance: {on: true} in the configuration file is for all servers that read it. See docs/maintenance.md.`
}

func (c *maintenanceCommand) Run(ctx context.Context, s *cli.Streams) error {
	return c.ask(ctx, func(client *admin.Client) error {
		var now admin.Maintenance
		var err error
		if c.Mode == "status" {
			now, err = client.Maintenance(ctx)
		} else {
			now, err = client.SetMaintenance(ctx, c.Mode == "on")
		}
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, now)
		}
		_, err = fmt.Fprintln(s.Out, maintenanceText(now))
		return err
	})
}

func maintenanceText(m admin.Maintenance) string {
	switch {
	case m.Configured:
		return "maintenance mode is on, by maintenance.on of the configuration file"
	case m.On:
		return "maintenance mode is on"
	}
	return "maintenance mode is off"
}
