package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
)

// refresh regenerates the stored pages that the targets cover, or counts them for a dry run.
func (c *purgeCommand) refresh(ctx context.Context, s *cli.Streams, client *admin.Client) error {
	if c.DryRun {
		return c.purge(ctx, s, client)
	}
	var targets []admin.PurgeTarget
	for batch, err := range batches(c.targets(s.In)) {
		switch {
		case err != nil:
			return err
		case batch.more:
			return errOneBatch("--refresh")
		}
		targets = batch.targets
	}
	if targets == nil {
		return errNoInput()
	}
	show := c.progress(s)
	for line, err := range client.Refresh(ctx, admin.Refresh{Targets: targets, Tenant: c.Tenant, Unpin: c.Unpin}) {
		if line.Sum != nil {
			writeWarnings(s, line.Sum.Warnings)
		}
		if err == nil {
			err = show(line)
		}
		switch {
		case err != nil:
			return err
		case line.Sum != nil && line.Sum.Failed > 0:
			return errNotRefreshed(line.Sum.Failed)
		case line.Sum != nil:
			return nil
		}
	}
	return errors.New("the refresh ended early; repeat it")
}

// pages counts pages, for people.
func pages(n int) string {
	if n == 1 {
		return "1 page"
	}
	return fmt.Sprintf("%d pages", n)
}

func errNotRefreshed(n int) error {
	if n == 1 {
		return errors.New("1 page was not regenerated; its old generation is still served")
	}
	return fmt.Errorf("%d pages were not regenerated; their old generations are still served", n)
}

// progress returns the function that shows a line of a refresh: a line of text or JSON each,
// and on a terminal a counter, with a line only for each failure.
func (c *purgeCommand) progress(s *cli.Streams) func(admin.Refreshed) error {
	out := json.NewEncoder(s.Out)
	terminal, done := cli.IsTerminal(s.Err), 0
	return func(line admin.Refreshed) (err error) {
		if terminal && done > 0 {
			_, err = fmt.Fprint(s.Err, "\r\x1b[K")
		}
		done++
		switch {
		case err != nil:
		case c.JSON:
			err = out.Encode(line)
		case line.Sum != nil:
			_, err = fmt.Fprintf(s.Out, "refreshed %d of %d stored pages\n", line.Sum.Pages, line.Sum.Stored)
		case line.Error != nil:
			_, err = fmt.Fprintf(s.Out, "failed     %s: %v\n", line.Key, line.Error)
		case !terminal:
			_, err = fmt.Fprintf(s.Out, "refreshed  %s\n", line.Key)
		}
		if terminal && err == nil && line.Sum == nil {
			_, err = fmt.Fprint(s.Err, pages(done))
		}
		return err
	}
}
