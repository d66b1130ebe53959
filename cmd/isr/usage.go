package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/cost"
)

type usageCommand struct {
	ReadPrice  float64 `default:"${read_price}" placeholder:"USD" help:"Price of a million read units in dollars (${default}: on demand in us-east-1)."`
	WritePrice float64 `default:"${write_price}" placeholder:"USD" help:"Price of a million write units in dollars (${default}: on demand in us-east-1)."`
	JSON       bool    `name:"json" help:"Write JSON."`

	askFlags `embed:""`
}

func (c *usageCommand) Help() string {
	return `Shows the DynamoDB capacity units that a running server has consumed since its start, by kind of
operation, and their cost. Each server counts its own requests. An embedded store costs nothing: the
numbers are what DynamoDB would consume. S3 is not counted.`
}

func (c *usageCommand) Run(ctx context.Context, s *cli.Streams) error {
	if !(c.ReadPrice >= 0 && c.WritePrice >= 0) { // also refuses NaN
		return cli.Usagef("--read-price and --write-price must be at least 0, in dollars for a million units (got %v and %v)", c.ReadPrice, c.WritePrice)
	}
	return c.ask(ctx, func(client *admin.Client) error {
		u, err := client.Usage(ctx)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.Out, u)
		}
		return c.write(s, u)
	})
}

func (c *usageCommand) write(s *cli.Streams, u admin.Usage) error {
	t := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "OPERATION\tANSWERS\tREAD UNITS\tWRITE UNITS\tCOST")
	sum := admin.OperationUsage{Operation: "all"}
	for _, op := range u.Operations {
		c.writeRow(t, op)
		sum.Answers += op.Answers
		sum.ReadUnits += op.ReadUnits
		sum.WriteUnits += op.WriteUnits
	}
	c.writeRow(t, sum)
	if err := t.Flush(); err != nil {
		return err
	}
	const month = 30 * 24 * time.Hour
	took := max(u.Until.Sub(u.Since), time.Second)
	_, err := fmt.Fprintf(s.Out, "in %s; at this rate 30 days cost $%.2f\n", cli.SpanText(took), c.cost(sum)*float64(month)/float64(took))
	return err
}

func (c *usageCommand) writeRow(t *tabwriter.Writer, op admin.OperationUsage) {
	fmt.Fprintf(t, "%s\t%d\t%.1f\t%.1f\t$%.6f\n", op.Operation, op.Answers, op.ReadUnits, op.WriteUnits, c.cost(op))
}

// cost returns the cost of an operation in dollars.
func (c *usageCommand) cost(op admin.OperationUsage) float64 {
	return cost.Prices{ReadUnits: c.ReadPrice, WriteUnits: c.WritePrice}.Capacity(op.ReadUnits, op.WriteUnits)
}

// prices are the defaults of the flags, as kong's variables.
func (usageCommand) prices() kong.Vars {
	list := cost.USEast1()
	return kong.Vars{"read_price": fmt.Sprint(list.ReadUnits), "write_price": fmt.Sprint(list.WriteUnits)}
}
