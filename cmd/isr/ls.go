package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/facetheory/isr/gateway/admin"
)

type lsCommand struct {
	JSON bool `name:"json" help:"Write JSON, a page a line."`

	askFlags `embed:""`
}

func (c *lsCommand) Run(ctx context.Context, s *streams) error {
	return c.ask(ctx, func(client *admin.Client) error {
		if c.JSON {
			return writeLines(ctx, s, client)
		}
		return writeTable(ctx, s, client)
	})
}

func writeLines(ctx context.Context, s *streams, client *admin.Client) error {
	out := json.NewEncoder(s.out)
	for p, err := range client.Pages(ctx) {
		if err != nil {
			return err
		}
		if err := out.Encode(p); err != nil {
			return err
		}
	}
	return nil
}

// listBlock is how many pages a block of the table has. Columns are aligned within
// a block, so that no more than one is in memory.
const listBlock = 1000

// writeTable shows what was listed before an error too.
func writeTable(ctx context.Context, s *streams, client *admin.Client) error {
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	pages := 0
	for p, err := range client.Pages(ctx) {
		if err != nil {
			return errors.Join(err, t.Flush())
		}
		if pages == 0 {
			fmt.Fprintln(t, "STATE\tAGE\tLEFT\tSTATUS\tSIZE\tLEASE\tKEY")
		}
		pages++
		writeRow(t, p)
		if pages%listBlock == 0 {
			if err := t.Flush(); err != nil {
				return err
			}
		}
	}
	if pages == 0 {
		fmt.Fprintln(s.err, "nothing is stored yet: a page is stored when it is first asked for")
	}
	return t.Flush()
}

func writeRow(t *tabwriter.Writer, p admin.Page) {
	left := p.FreshFor
	if left <= 0 {
		left = p.StaleFor
	}
	key := p.Key
	switch {
	case p.Malformed != "":
		key = p.Partition + " (" + p.Malformed + ")"
	case key == "":
		key = p.Partition
	}
	fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", p.State, seconds(p.AgeSeconds), seconds(max(left, 0)),
		p.Status, bytesText(p.BodyBytes), pageLease(p), key)
}
