package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

type leaseCommand struct {
	pageFlags `embed:""`
	Release   bool `env:"-" help:"Break the lease, whichever server holds it, or end the back-off after failures."`
	JSON      bool `name:"json" help:"Write JSON."`

	askFlags `embed:""`
}

func (c *leaseCommand) Help() string {
	return `The server that holds the lease of a page regenerates it; the others wait. The lease of a crashed
server blocks regeneration until it expires; --release breaks it at once. If its holder is still
rendering, the result is not published, and the next request renders the page again.`
}

func (c *leaseCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		if c.Release {
			released, err := client.ReleaseLease(ctx, admin.TargetOf(k))
			return c.show(s, err, released, func(w io.Writer) error { return writeReleased(w, released) })
		}
		lease, err := client.Lease(ctx, admin.TargetOf(k))
		return c.show(s, err, lease, func(w io.Writer) error { return writeLease(w, lease) })
	})
}

func (c *leaseCommand) show(s *cli.Streams, err error, answer any, people func(io.Writer) error) error {
	switch {
	case err != nil:
		return err
	case c.JSON:
		return writeJSON(s.Out, answer)
	}
	return people(s.Out)
}

func writeLease(w io.Writer, l admin.Lease) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "key\t%s\n", l.Key)
	fmt.Fprintf(t, "lease\t%s\n", leaseText(l.State, l.Owner, time.Duration(l.SecondsLeft)*time.Second, l.Failures))
	if !l.ExpiresAt.IsZero() {
		fmt.Fprintf(t, "expires\t%s\n", l.ExpiresAt.Format(time.RFC3339))
	}
	fmt.Fprintf(t, "failures\t%d\n", l.Failures)
	fmt.Fprintf(t, "partition\t%s\n", l.Partition)
	return t.Flush()
}

func writeReleased(w io.Writer, r admin.Released) error {
	if !r.Released {
		_, err := fmt.Fprintf(w, "the lease of %s was already free\n", r.Lease.Key)
		return err
	}
	was := leaseText(r.Lease.State, r.Lease.Owner, time.Duration(r.Lease.SecondsLeft)*time.Second, r.Lease.Failures)
	_, err := fmt.Fprintf(w, "released the lease of %s, which was %s\n", r.Lease.Key, was)
	return err
}

// leaseText describes the holder of a lease and the time left.
func leaseText(state, owner string, left time.Duration, failures int) string {
	switch state {
	case admin.LeaseFree:
		return "free"
	case admin.LeaseBackOff:
		return fmt.Sprintf("in back-off for %s more, after %d failures", cli.SpanText(left), failures)
	}
	if owner == "" {
		owner = "another holder"
	}
	return fmt.Sprintf("held by %s for %s more", owner, cli.SpanText(left))
}
