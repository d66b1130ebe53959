package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"text/tabwriter"
)

type lsCommand struct {
	JSON bool `name:"json" help:"Write JSON, a page a line."`

	storeFlags `embed:""`
}

func (c *lsCommand) Run(ctx context.Context, s *streams) (err error) {
	who, closeStore, err := c.inspect(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	if c.JSON {
		out := json.NewEncoder(s.out)
		return who.list(ctx, func(r report) error { return out.Encode(r) })
	}
	t := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	pages := 0
	err = who.list(ctx, func(r report) error {
		if pages == 0 {
			fmt.Fprintln(t, "STATE\tAGE\tLEFT\tSTATUS\tSIZE\tLEASE\tKEY")
		}
		pages++
		return r.writeRow(t)
	})
	if err == nil && pages == 0 {
		fmt.Fprintln(s.err, "nothing is stored yet: a page is stored when it is first asked for")
	}
	return errors.Join(err, t.Flush())
}

func (r report) writeRow(t *tabwriter.Writer) error {
	left := r.FreshFor
	if left <= 0 {
		left = r.StaleFor
	}
	key := r.Key
	switch {
	case r.Malformed != "":
		key = r.Partition + " (" + r.Malformed + ")"
	case key == "":
		key = r.Partition
	}
	_, err := fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", r.State, seconds(r.AgeSeconds), seconds(max(left, 0)),
		r.Status, bytesText(r.BodyBytes), r.leaseText(), key)
	return err
}
