package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// A wrk is a closed loop: each connection sends its next request when it has a response.
type wrk struct {
	connections int
	duration    time.Duration
}

type result struct {
	perSecond float64
	p99       time.Duration
}

// run sends requests for a page, and fails if any of them fails.
func (w wrk) run(ctx context.Context, url string) (result, error) {
	out, err := exec.CommandContext(ctx, "wrk", "--latency", "-t", "1", "-c", strconv.Itoa(w.connections),
		"-d", fmt.Sprintf("%ds", int(w.duration.Seconds())), url).CombinedOutput()
	if err != nil {
		return result{}, fmt.Errorf("wrk: %w\n%s", err, out)
	}
	perSecond := regexp.MustCompile(`Requests/sec:\s+([\d.]+)`).FindSubmatch(out)
	p99 := regexp.MustCompile(`99%\s+([\d.]+(?:us|ms|s))`).FindSubmatch(out)
	if perSecond == nil || p99 == nil || regexp.MustCompile(`Non-2xx|Socket errors`).Match(out) {
		return result{}, fmt.Errorf("wrk reports errors, or in an unknown format:\n%s", out)
	}
	var r result
	if r.perSecond, err = strconv.ParseFloat(string(perSecond[1]), 64); err != nil {
		return result{}, err
	}
	r.p99, err = time.ParseDuration(string(p99[1]))
	return r, err
}
