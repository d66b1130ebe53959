package main

import (
	"context"
	"fmt"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

type rollbackCommand struct {
	pageFlags `embed:""`
	To        string `env:"-" placeholder:"GENERATION" help:"Generation, as isr versions shows it, or a unique prefix of it (the one published before the current one)."`
	Pin       pin    `env:"-" default:"forever" placeholder:"TIME" help:"Duration of the pin, like 2h (${default}: until isr unpin)."`
	JSON      bool   `name:"json" help:"Write JSON, as isr get does."`

	askFlags `embed:""`
}

func (c *rollbackCommand) Help() string {
	return `All servers serve the older generation within one poll of the log, even if a regeneration is in
progress. It is pinned: it does not age and is not regenerated until the pin ends.`
}

func (c *rollbackCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	in := admin.Rollback{Target: admin.TargetOf(k), To: c.To, PinSeconds: c.Pin.seconds()}
	return c.ask(ctx, func(client *admin.Client) error {
		p, err := client.Rollback(ctx, in)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.Out, p)
		}
		_, err = fmt.Fprintf(s.Out, "rolled back %s to generation %s, rendered %s; pinned %s\n",
			p.Key, p.Generation, p.GeneratedAt.Format(time.RFC3339), pinText(p.PinnedUntil))
		return err
	})
}

// A pin is the duration of a pin on the command line; zero means forever.
type pin time.Duration

func (p *pin) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*p = 0
		return nil
	}
	var d cli.Span
	err := d.UnmarshalText(text)
	if err != nil || time.Duration(d) < time.Second {
		return fmt.Errorf("%q is not a duration of a pin; expected one like 2h or 30d, between 1s and ten years, or forever", text)
	}
	*p = pin(d)
	return nil
}

// seconds returns the duration in seconds, rounded up.
func (p pin) seconds() int64 { return int64((time.Duration(p) + time.Second - 1) / time.Second) }
