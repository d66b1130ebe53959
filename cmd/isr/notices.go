package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/internal/notices"
)

type noticesCommand struct {
	Test noticesTestCommand `cmd:"" help:"Send a test message to the destinations of a configuration file."`
}

type noticesTestCommand struct {
	Name   []string `arg:"" optional:"" help:"Names of destinations (all)."`
	Config string   `type:"path" env:"-" default:"isr.yaml" placeholder:"FILE" help:"Configuration file (${default})."`
}

func (*noticesTestCommand) Help() string {
	return `Sends one message, which says that it is a test, from this machine. No server need run. The exit code is 1 if a destination
does not take it.

  isr notices test
  isr notices test ops --config /etc/isr/isr.yaml`
}

// noticeTime bounds the delivery of a test message.
const noticeTime = 15 * time.Second

func (c *noticesTestCommand) Run(ctx context.Context, s *cli.Streams) error {
	f, err := server.ReadConfig(c.Config)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(f.Notices.To))
	if len(names) == 0 {
		return fmt.Errorf("%s has no destinations; add notices: {to: {ops: {url: {file: /run/secrets/slack-url}}}}", c.Config)
	}
	for _, name := range c.Name {
		if !slices.Contains(names, name) {
			return cli.Usagef("there is no destination %s in %s; expected one of %s", name, c.Config, strings.Join(names, ", "))
		}
	}
	if len(c.Name) > 0 {
		names = c.Name
	}
	failed := false
	for _, name := range names {
		err := send(ctx, server.NoticeDestination(f, f.Notices.To[name]))
		if err != nil {
			failed = true
			fmt.Fprintf(s.Out, "%s: %v\n", name, err)
			continue
		}
		fmt.Fprintf(s.Out, "%s: delivered\n", name)
	}
	if failed {
		return errors.New("a test message was not delivered; correct the url of the destination, or what it answers for")
	}
	return nil
}

// send sends a test message.
func send(ctx context.Context, to notices.Destination) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	now := time.Now()
	return to.Send(ctx, notices.Message{
		ID: fmt.Sprintf("test-%d", now.UnixNano()), At: now, Server: host,
		Notices: []notices.Notice{{
			Problem: notices.Problem{Kind: notices.Test, Text: "this is a test of isr notices test; nothing is wrong", Link: "/"}, State: notices.Begun, Since: now,
		}},
	})
}
