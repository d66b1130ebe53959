// Package wrk runs the load generator wrk: a closed loop, in which each connection sends its next
// request when it has a response.
package wrk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// A Load is one run of wrk.
type Load struct {
	Threads     int
	Connections int
	Seconds     int
	Headers     []string // each like "Accept: text/html"
	Script      string   // a Lua script that chooses the requests; empty: all are for the URL
	Arguments   []string // of the script
}

// A Result is what a run measured.
type Result struct {
	Requests  int           // responses that came within the run
	PerSecond float64       // responses
	P50, P99  time.Duration // from sending a request to the end of its response
	Megabytes float64       // read, per second
	CPU       time.Duration // of the server, per request; only [Load.On] measures it
}

// Run sends requests for a URL. It fails if any request failed: by a status of 400 and higher, or by
// an error of its connection.
func (l Load) Run(ctx context.Context, url string) (Result, error) {
	if _, err := exec.LookPath("wrk"); err != nil {
		return Result{}, errors.New("wrk is not installed (Debian: apt-get install wrk)")
	}
	dir, err := os.MkdirTemp("", "isr-wrk-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "requests.lua")
	if err := os.WriteFile(script, []byte(l.Script), 0o600); err != nil {
		return Result{}, err
	}
	out, err := exec.CommandContext(ctx, "wrk", l.command(script, url)...).CombinedOutput()
	if err != nil {
		return Result{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	return parse(string(out))
}

func (l Load) command(script, url string) []string {
	args := []string{
		"--latency", "--timeout", "10s", "-t", strconv.Itoa(l.Threads), "-c", strconv.Itoa(l.Connections),
		"-d", strconv.Itoa(l.Seconds) + "s",
	}
	for _, h := range l.Headers {
		args = append(args, "-H", h)
	}
	if l.Script != "" {
		args = append(args, "-s", script)
	}
	return append(append(args, url, "--"), l.Arguments...)
}
