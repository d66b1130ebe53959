package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

type outboxCommand struct {
	List  outboxListCommand  `cmd:"" default:"withargs" help:"List purges that have not reached downstream caches (the default)."`
	Retry outboxRetryCommand `cmd:"" help:"Deliver failed or delayed purges now."`
	Drop  outboxDropCommand  `cmd:"" help:"Delete purges that have not been delivered."`
}

func (*outboxCommand) Help() string {
	return `Purges, rollbacks and pins also go to the downstream caches of isr serve --downstream: CDNs, Varnish
and other isr servers. Jobs that wait for their delivery are pending. Those that a cache rejects, or
that could not be delivered for hours, have failed: they are kept for 30 days, and not delivered
unless they are retried.`
}

type outboxListCommand struct {
	JSON bool `name:"json" help:"Write JSON, one line for each job."`

	askFlags `embed:""`
}

func (c *outboxListCommand) Run(ctx context.Context, s *cli.Streams) error {
	return c.ask(ctx, func(client *admin.Client) error {
		out, t, n := json.NewEncoder(s.Out), tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0), 0
		for d, err := range client.Outbox(ctx) {
			if err != nil {
				return err
			}
			if c.JSON {
				if err := out.Encode(d); err != nil {
					return err
				}
				continue
			}
			if n++; n == 1 {
				fmt.Fprintln(t, "ID\tSTATE\tAGE\tATTEMPTS\tTARGETS\tREASON")
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", d.ID, d.State, cli.SpanText(time.Duration(d.AgeSeconds)*time.Second), d.Attempts, targetsText(d), reasonText(d))
		}
		if n == 0 && !c.JSON {
			fmt.Fprintln(s.Err, "the outbox is empty")
		}
		return t.Flush()
	})
}

// targetsText returns the targets of a delivery on one line.
func targetsText(d admin.Delivery) string {
	const shown = 2
	text := strings.Join(d.Targets[:min(len(d.Targets), shown)], ", ")
	if d.TargetCount > shown {
		text += fmt.Sprintf(" and %d more", d.TargetCount-shown)
	}
	return oneLine(text)
}

// reasonText returns why a delivery failed, on one line.
func reasonText(d admin.Delivery) string {
	if d.Malformed != "" {
		return oneLine(d.Malformed)
	}
	return oneLine(d.Reason)
}

// oneLine replaces what would break a line, or control a terminal: targets and reasons
// come from outside.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}

type outboxRetryCommand struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of jobs, like cdn/42."`
	All bool     `env:"-" help:"All failed jobs."`

	askFlags `embed:""`
}

func (c *outboxRetryCommand) Run(ctx context.Context, s *cli.Streams) error {
	if c.All == (len(c.IDs) > 0) {
		return cli.Usagef("give the ids of jobs, like cdn/42, or --all")
	}
	return c.ask(ctx, func(client *admin.Client) error {
		ids := c.IDs
		if c.All {
			for d, err := range client.Outbox(ctx) {
				if err != nil {
					return err
				}
				if d.State == admin.DeliveryFailed {
					ids = append(ids, d.ID)
				}
			}
		}
		for _, id := range ids {
			if _, err := client.RetryDelivery(ctx, admin.DeliveryTarget{ID: id}); err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "%s is pending\n", id)
		}
		return nil
	})
}

type outboxDropCommand struct {
	IDs []string `arg:"" name:"id" help:"Ids of jobs, like cdn/42."`

	askFlags `embed:""`
}

func (c *outboxDropCommand) Run(ctx context.Context, s *cli.Streams) error {
	return c.ask(ctx, func(client *admin.Client) error {
		for _, id := range c.IDs {
			if _, err := client.DropDelivery(ctx, admin.DeliveryTarget{ID: id}); err != nil {
				return err
			}
			fmt.Fprintf(s.Out, "dropped %s\n", id)
		}
		return nil
	})
}
