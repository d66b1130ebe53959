// Disk measures cache hits that are mostly not in memory: 20,000 pages of 10 KiB in caches with a memory
// tier of 32 MiB, asked for at random; and the memory that each server takes.
//
//	go run -C bench ./disk
//
// It needs what bench/hit needs. The files are in the kernel's page cache: no cache waits for the disk.
package main

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/bench/internal/compare"
	"github.com/facetheory/isr/bench/internal/peer"
	"github.com/facetheory/isr/bench/internal/process"
	"github.com/facetheory/isr/bench/internal/site"
	"github.com/facetheory/isr/bench/internal/wrk"
)

const about = `
Disk measures hits on 20,000 pages of 10 KiB, asked for at random, in caches with a memory tier of 32 MiB
(isr, nginx, Varnish, Apache Traffic Server), and the memory that each server takes.`

const (
	pages  = 20_000
	prefix = "/p/"
	memory = 32 // MiB
	passes = 5
)

func main() {
	compare.Bench{Name: "disk", About: about, Rounds: 5, Seconds: 3, Scenarios: scenarios}.Main()
}

func scenarios(run *compare.Run) []compare.Scenario {
	load := wrk.Load{Threads: 1, Connections: 64, Seconds: run.Seconds}
	return []compare.Scenario{{
		Name: "random", About: "20,000 pages of 10 KiB at random, a memory tier of 32 MiB; 1 thread of wrk, 64 connections.",
		Baseline: "nginx",
		Columns: append(wrk.Columns(), compare.Column{Key: "resident_mib", Title: "RSS, MiB"},
			compare.Column{Key: "anonymous_mib", Title: "anonymous, MiB"}),
		Peers:   peer.Tuned(peer.Settings{Memory: memory, OnDisk: true}),
		Prepare: func(ctx context.Context, server *peer.Server) error { return fill(ctx, run.Site, server) },
		Measure: func(ctx context.Context, server *peer.Server, round int) (compare.Sample, error) {
			before := run.Site.Served()
			result, err := load.Random(prefix, pages, round).On(ctx, server, "")
			if err != nil {
				return nil, err
			}
			if fetched := run.Site.Served() - before; fetched > int64(result.Requests/100) {
				return nil, fmt.Errorf("%d of %d requests reached the origin", fetched, result.Requests)
			}
			usage, err := process.UsageOf(server.ID)
			sample := result.Sample()
			sample["resident_mib"] = float64(usage.Resident) / (1 << 20)
			sample["anonymous_mib"] = float64(usage.Anonymous) / (1 << 20)
			return sample, err
		},
	}}
}

// fill stores all pages, in a few passes since a busy server may pass a page through, and fails if one in
// a hundred is not stored in the end.
func fill(ctx context.Context, origin *site.Site, server *peer.Server) error {
	var fetched int64
	for range passes {
		before := origin.Served()
		if err := site.GetAll(ctx, server.URL+prefix, 1, pages); err != nil {
			return err
		}
		if fetched = origin.Served() - before; fetched <= pages/100 {
			return nil
		}
	}
	return fmt.Errorf("%d of %d pages are not stored after they were requested %d times", fetched, pages, passes)
}
