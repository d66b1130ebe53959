package wrk

import (
	"context"
	"time"

	"github.com/facetheory/isr/bench/internal/compare"
	"github.com/facetheory/isr/bench/internal/peer"
	"github.com/facetheory/isr/bench/internal/process"
)

// On runs the load on a server, for a path unless a script chooses others, and adds the CPU time that the
// server took. Foreign load changes that less than anything else of a result.
func (l Load) On(ctx context.Context, server *peer.Server, path string) (Result, error) {
	before, err := process.UsageOf(server.ID)
	if err != nil {
		return Result{}, err
	}
	result, err := l.Run(ctx, server.URL+path)
	if err != nil {
		return Result{}, err
	}
	after, err := process.UsageOf(server.ID)
	result.CPU = (after.CPU - before.CPU) / time.Duration(max(result.Requests, 1))
	return result, err
}

// Columns returns the columns of a [Result.Sample].
func Columns() []compare.Column {
	return []compare.Column{
		{Key: "requests_per_second", Title: "requests/s"},
		{Key: "p50_ms", Title: "p50, ms", Digits: 2},
		{Key: "p99_ms", Title: "p99, ms", Digits: 2},
		{Key: "cpu_us", Title: "CPU of the server per request, µs", Digits: 1},
	}
}

// Sample returns the result as the values of [Columns], and the transfer.
func (r Result) Sample() compare.Sample {
	return compare.Sample{
		"requests_per_second":  r.PerSecond,
		"p50_ms":               float64(r.P50.Microseconds()) / 1000,
		"p99_ms":               float64(r.P99.Microseconds()) / 1000,
		"cpu_us":               float64(r.CPU.Nanoseconds()) / 1000,
		"megabytes_per_second": r.Megabytes,
	}
}
