package main

import (
	"strings"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr/cmd/isr/cli"
)

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command to show the help of."`
}

func (c *helpCommand) Run(parser *kong.Kong) error {
	trace, err := kong.Trace(parser, c.Command)
	if err != nil {
		return err
	}
	if trace.Error != nil && len(c.Command) > 0 && trace.Selected() == nil {
		return cli.Usagef("unknown command %q (see: isr help)", strings.Join(c.Command, " "))
	}
	return trace.PrintUsage(false)
}
