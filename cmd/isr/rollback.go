package main

import (
	"context"
	"fmt"
	"time"

	"github.com/facetheory/isr/gateway/admin"
)

type rollbackCommand struct {
	pageFlags `embed:""`
	To        string `env:"-" placeholder:"GENERATION" help:"Generation, as isr versions shows it, or a beginning of it that no other has (the one published before the current)."`
	Pin       pin    `env:"-" default:"forever" placeholder:"TIME" help:"How long the page stays so, like 2h, before it is regenerated as others are (${default}: until isr unpin)."`
	JSON      bool   `name:"json" help:"Write JSON, as isr get does."`

	askFlags `embed:""`
}

func (c *rollbackCommand) Help() string {
	return `The page is again as it was, for every visitor of every server, at once; a regeneration that is
under way does not undo it. It is pinned: it does not age, and is not regenerated, until the pin ends.`
}

func (c *rollbackCommand) Run(ctx context.Context, s *streams) error {
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
			return writeJSON(s.out, p)
		}
		_, err = fmt.Fprintf(s.out, "rolled back %s to generation %s, rendered %s; pinned %s\n",
			p.Key, p.Generation, p.GeneratedAt.Format(time.RFC3339), pinText(p.PinnedUntil))
		return err
	})
}

// A pin is for how long a page is pinned, on the command line; zero is for ever.
type pin time.Duration

func (p *pin) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*p = 0
		return nil
	}
	var d span
	err := d.UnmarshalText(text)
	if err != nil || time.Duration(d) < time.Second {
		return fmt.Errorf("%q is no time for a pin; expected one like 2h or 30d, of a second to ten years, or forever", text)
	}
	*p = pin(d)
	return nil
}

// seconds are whole ones, rounded up.
func (p pin) seconds() int64 { return int64((time.Duration(p) + time.Second - 1) / time.Second) }
