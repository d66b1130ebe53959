package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/units"
	"github.com/facetheory/isr/store"
)

type versionsCommand struct {
	pageFlags `embed:""`
	JSON      bool `name:"json" help:"Write JSON."`

	askFlags `embed:""`
}

func (c *versionsCommand) Help() string {
	return `Lists the kept generations of a page, the last published first. Servers started with --history N keep
older generations; isr rollback makes one of them current again, and isr diff compares two.`
}

func (c *versionsCommand) Run(ctx context.Context, s *cli.Streams) error {
	k, err := c.key()
	if err != nil {
		return err
	}
	return c.ask(ctx, func(client *admin.Client) error {
		all, err := client.Versions(ctx, admin.TargetOf(k))
		if err != nil {
			return err
		}
		if c.JSON {
			err = writeJSON(s.Out, all)
		} else {
			err = writeVersions(s, all.Versions)
		}
		if err == nil && len(all.Versions) == 0 {
			return errNothingStored
		}
		return err
	})
}

func writeVersions(s *cli.Streams, versions []admin.Version) error {
	if len(versions) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GENERATION\tRENDERED\tSTATUS\tSIZE\tTAGS\tCURRENT\tPINNED\tKEPT UNTIL")
	for _, v := range versions {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", orNone(v.Generation), v.GeneratedAt.Format(time.RFC3339), v.Status,
			units.Bytes(v.BodyBytes), orNone(strings.Join(v.Tags, " ")), yesOrNo(v.Current), pinText(v.PinnedUntil), keptText(v.KeptUntil))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(versions) == 1 && versions[0].Current {
		fmt.Fprintln(s.Err, "no older generation is kept; there is one after the page has been rendered with other content, unless --history (history) is 0")
	}
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func yesOrNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// pinText describes how long a pin holds.
func pinText(until time.Time) string {
	switch {
	case until.IsZero():
		return "no"
	case !until.Before(store.Forever()):
		return "until unpinned"
	}
	return "until " + until.Format(time.RFC3339)
}

func keptText(until time.Time) string {
	if until.IsZero() {
		return "always"
	}
	return until.Format(time.RFC3339)
}
