package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/telemetry/accesslog"
)

type logCommand struct {
	Where string `placeholder:"CONDITIONS" help:"Show only requests for which all conditions are true, such as 'status>=500 route=/shop/'."`
	JSON  bool   `name:"json" help:"Write the lines of the access log, in JSON."`
	Count int    `env:"-" placeholder:"N" help:"End after N requests (0: never)."`

	askFlags `embed:""`
}

func (c *logCommand) Help() string {
	return `Follows the requests of a running server, whether or not it writes an access log:

  isr log --where 'status>=500'
  isr log --where 'route=/shop/ duration>200ms cache!=hit'
  isr log --where 'request.user-agent~bot path~/api/*/items'

A condition is a field of the access log (docs/logs.md), an operator and a value: = and != for all, > >= < <= for numbers and
durations, ~ for a part of a text, in which * stands for any characters. "double quotes" are around values with spaces. A reader
that is too slow loses lines, and is told how many; requests never wait for it.`
}

func (c *logCommand) Run(ctx context.Context, s *cli.Streams) error {
	if c.Count < 0 {
		return cli.Usagef("--count must be 0 or more (got %d)", c.Count)
	}
	if _, err := accesslog.ParseFilter(c.Where); err != nil {
		return cli.Usagef("--where: %v", err)
	}
	return c.ask(ctx, func(client *admin.Client) error {
		left := c.Count
		for r, err := range client.Requests(ctx, c.Where) {
			switch {
			case err != nil && ctx.Err() != nil:
				return nil
			case err != nil:
				return err
			case r.Dropped > 0:
				fmt.Fprintf(s.Err, "isr: left out %s: they came faster than they were read\n", cli.Counted(int(r.Dropped), "request"))
				continue
			case c.JSON:
				fmt.Fprintf(s.Out, "%s\n", r.Line)
			default:
				text, err := logText(r.Line)
				if err != nil {
					return err
				}
				fmt.Fprintln(s.Out, text)
			}
			if left--; left == 0 {
				return nil
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		return errors.New("the server has ended the stream: it stops, or an hour has passed; run isr log again")
	})
}

// logText is a request for people: when, its status, how long it took, what the cache did, its method and its URL.
func logText(line json.RawMessage) (string, error) {
	var r struct {
		Time     time.Time `json:"time"`
		Status   int       `json:"http.response.status_code"`
		Duration float64   `json:"http.server.request.duration"`
		Cache    string    `json:"isr.cache"`
		Reason   string    `json:"isr.reason"`
		Method   string    `json:"http.request.method"`
		Host     string    `json:"server.address"`
		Path     string    `json:"url.path"`
		Query    string    `json:"url.query"`
		Route    string    `json:"http.route"`
		Client   string    `json:"client.address"`
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), &r); err != nil {
		return "", fmt.Errorf("decode a request: %w", err)
	}
	url := r.Host + r.Path
	if r.Query != "" {
		url += "?" + r.Query
	}
	text := fmt.Sprintf("%s  %3d  %8s  %-7s %s %s  route=%s client=%s", r.Time.UTC().Format("15:04:05.000"), r.Status, millisText(r.Duration*1000), r.Cache, r.Method, url, cmp.Or(r.Route, "-"), cmp.Or(r.Client, "-"))
	if r.Reason != "" {
		text += " reason=" + r.Reason
	}
	return printable(strings.TrimSpace(text)), nil
}
