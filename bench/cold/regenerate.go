package main

import (
	"context"
	"errors"
	"time"

	"github.com/facetheory/isr/bench/internal/compare"
	"github.com/facetheory/isr/bench/internal/peer"
	"github.com/facetheory/isr/bench/internal/site"
	"github.com/facetheory/isr/bench/internal/wrk"
)

// brief is the number of pages that are fresh for a second.
const brief = 5000

// regenerate is a scenario in which pages are stale when they are asked for, and may be served so while
// they are regenerated. Every request of the origin is a regeneration.
func regenerate(run *compare.Run, peers []peer.Peer) compare.Scenario {
	load := wrk.Load{Threads: 1, Connections: 32, Seconds: run.Seconds}
	columns := append([]compare.Column{{Key: "regenerations_per_second", Title: "regenerations/s"}}, wrk.Columns()...)
	return compare.Scenario{
		Name: "regenerate", Baseline: "nginx", Peers: peers, Columns: columns,
		About: "32 clients ask at random for 5,000 pages that are fresh for a second, and may be served stale for an hour.",
		Prepare: func(ctx context.Context, server *peer.Server) error {
			return site.GetAll(ctx, server.URL+site.Brief, 1, brief)
		},
		Measure: func(ctx context.Context, server *peer.Server, round int) (compare.Sample, error) {
			before, began := run.Site.Served(), time.Now()
			result, err := load.Random(site.Brief, brief, round).On(ctx, server, "")
			if err != nil {
				return nil, err
			}
			sample := result.Sample()
			sample["regenerations_per_second"] = float64(run.Site.Served()-before) / time.Since(began).Seconds()
			if sample["regenerations_per_second"] == 0 {
				return nil, errors.New("no page was regenerated")
			}
			return sample, nil
		},
	}
}
