package main

import "github.com/alecthomas/kong"

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command to explain."`
}

func (c *helpCommand) Run(parser *kong.Kong) error {
	_, err := parser.Parse(append(c.Command, "--help"))
	return err
}
