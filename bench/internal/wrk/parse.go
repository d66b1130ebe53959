package wrk

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

var (
	perSecond = regexp.MustCompile(`(?m)^Requests/sec:\s+([\d.]+)$`)
	transfer  = regexp.MustCompile(`(?m)^Transfer/sec:\s+([\d.]+)(B|KB|MB|GB)$`)
	total     = regexp.MustCompile(`(?m)^\s+(\d+) requests in `)
	half      = regexp.MustCompile(`(?m)^\s+50%\s+(\S+)$`)
	almostAll = regexp.MustCompile(`(?m)^\s+99%\s+(\S+)$`)
	failures  = regexp.MustCompile(`(?m)^\s*(?:Socket errors:|Non-2xx or 3xx responses:).*$`)
)

// parse reads what wrk prints.
func parse(out string) (Result, error) {
	if failed := failures.FindString(out); failed != "" {
		return Result{}, fmt.Errorf("requests failed: %s", failed)
	}
	r := reader{out: out}
	result := Result{
		Requests:  int(r.number(total)),
		PerSecond: r.number(perSecond),
		P50:       r.duration(half),
		P99:       r.duration(almostAll),
		Megabytes: r.megabytes(),
	}
	if r.err != nil {
		return Result{}, fmt.Errorf("wrk printed an unknown format: %w\n%s", r.err, out)
	}
	return result, nil
}

// A reader reads values until the first that fails.
type reader struct {
	out string
	err error
}

func (r *reader) find(pattern *regexp.Regexp) []string {
	match := pattern.FindStringSubmatch(r.out)
	if match == nil && r.err == nil {
		r.err = fmt.Errorf("no line matches %s", pattern)
	}
	return match
}

func (r *reader) number(pattern *regexp.Regexp) float64 {
	match := r.find(pattern)
	if r.err != nil {
		return 0
	}
	var n float64
	n, r.err = strconv.ParseFloat(match[1], 64)
	return n
}

func (r *reader) duration(pattern *regexp.Regexp) time.Duration {
	match := r.find(pattern)
	if r.err != nil {
		return 0
	}
	var d time.Duration
	d, r.err = time.ParseDuration(match[1])
	return d
}

// megabytes reads the rate of transfer, for which wrk chooses a unit.
func (r *reader) megabytes() float64 {
	n := r.number(transfer)
	if r.err != nil {
		return 0
	}
	return n * map[string]float64{"B": 1 / 1e6, "KB": 1 << 10 / 1e6, "MB": 1 << 20 / 1e6, "GB": 1 << 30 / 1e6}[r.find(transfer)[2]]
}
