package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
)

type healthcheckCommand struct {
	Health  string   `placeholder:"ADDR" help:"Address of the server's health checks, the --health of isr serve (the socket in its data folder)."`
	Data    string   `default:"./isr-data" type:"path" placeholder:"DIR" help:"Data folder of the server (${default})."`
	Timeout cli.Span `default:"3s" placeholder:"TIME" help:"How long to wait for the answer, between 1ms and 1m (${default})."`
}

func (c *healthcheckCommand) Help() string {
	return `For containers and scripts: isr serve answers /readyz at --health, and on the socket in its data folder.
A server that serves visitors without its stores is ready, but degraded; the reasons are printed.`
}

func (c *healthcheckCommand) Run(ctx context.Context, s *cli.Streams) error {
	if c.Timeout < cli.Span(time.Millisecond) || c.Timeout > cli.Span(time.Minute) {
		return cli.Usagef("--timeout must be between 1ms and 1m (got %s)", time.Duration(c.Timeout))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Timeout))
	defer cancel()
	url, transport, err := c.target(ctx)
	if err != nil {
		return err
	}
	code, report, err := readHealth(ctx, url, transport)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("the server has not answered within %s", time.Duration(c.Timeout))
		}
		return fmt.Errorf("not healthy: %w", err)
	}
	text := strings.Join(append([]string{report.Status}, report.Reasons...), ": ")
	if code != http.StatusOK {
		return fmt.Errorf("not ready: %s", text)
	}
	_, err = fmt.Fprintln(s.Out, text)
	return err
}

// target returns the URL to ask, and the transport to do it by.
func (c *healthcheckCommand) target(ctx context.Context) (url string, t http.RoundTripper, err error) {
	if c.Health == "" {
		if t = server.DialSocket(ctx, c.Data); t == nil {
			return "", nil, fmt.Errorf("no server runs in data folder %s; give the folder with --data, or the address of its health checks with --health", c.Data)
		}
		return "http://isr/readyz", t, nil
	}
	host, port, err := net.SplitHostPort(c.Health)
	if err != nil {
		return "", nil, cli.Usagef("--health %q is not an address; expected host:port, like 127.0.0.1:9181", c.Health)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1" // where a server that listens on all addresses listens too
	}
	return "http://" + net.JoinHostPort(host, port) + "/readyz", new(http.Transport), nil
}

// maxHealth bounds the report of a server.
const maxHealth = 64 << 10

// readHealth asks a server for its readiness.
func readHealth(ctx context.Context, url string, t http.RoundTripper) (code int, r server.HealthReport, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, r, err
	}
	resp, err := t.RoundTrip(req)
	if err != nil {
		return 0, r, err
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxHealth)).Decode(&r); err != nil || r.Status == "" {
		return 0, r, fmt.Errorf("%s answered %s, but not with the health of isr serve; correct --health", url, resp.Status)
	}
	return resp.StatusCode, r, nil
}
