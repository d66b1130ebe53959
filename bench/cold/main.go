// Cold measures pages that are not stored yet: how many a cache stores in a second when 32 clients ask for
// new ones; how many it regenerates in a second while visitors get stale ones; and how long visitors wait
// for the first byte of a page that the origin sends in two parts.
//
//	go run -C bench ./cold
//	go run -C bench ./cold --only new/isr --seconds 10
//
// It needs what bench/hit needs. Caches differ in what they make durable, which is noted with each.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/facetheory/isr/bench/internal/compare"
	"github.com/facetheory/isr/bench/internal/peer"
	"github.com/facetheory/isr/bench/internal/site"
	"github.com/facetheory/isr/bench/internal/wrk"
)

const about = `
Cold measures pages that are not stored yet, in isr, nginx, Varnish and Apache Traffic Server: how many
come in a second when 32 clients ask for new ones, how many are regenerated in a second, and how long the
first byte takes.`

func main() {
	compare.Bench{Name: "cold", About: about, Rounds: 5, Seconds: 3, Scenarios: scenarios}.Main()
}

func scenarios(run *compare.Run) []compare.Scenario {
	caches := peer.Tuned(peer.Settings{Memory: 256})
	// One client, as wrk is, has half of the renders, which are 16 by default.
	more := append(caches[:len(caches):len(caches)], peer.ISR("isr --max-renders 64", "--max-renders", "64").Lasting(caches[0].Durable))
	return []compare.Scenario{fill(run, more), regenerate(run, more), firstByte(run, caches)}
}

// again is how many of the new pages are asked for again, to see whether they are stored: those before as many
// that are newest, of which some were not answered. A cache may have evicted the oldest.
const again = 200

// fill is a scenario in which all requests are for new pages. Each round has a new server in a new folder,
// since what a file system does with large folders, and after their removal, would affect the next.
func fill(run *compare.Run, peers []peer.Peer) compare.Scenario {
	load := wrk.Load{Threads: 1, Connections: 32, Seconds: run.Seconds}.New("/new/")
	noted := make([]peer.Peer, len(peers))
	for i, p := range peers {
		noted[i] = p.Noted("makes durable: " + p.Durable)
	}
	return compare.Scenario{
		Name: "new", Baseline: "nginx", Peers: noted, Fresh: true,
		About:   "32 clients, each request for another page of 10 KiB, into a new folder for each round.",
		Columns: append(wrk.Columns(), compare.Column{Key: "stored_percent", Title: "stored, %", Digits: 1}),
		Measure: func(ctx context.Context, server *peer.Server, _ int) (compare.Sample, error) {
			result, err := load.On(ctx, server, "")
			if err != nil {
				return nil, err
			}
			// Requests that had not been answered when the load ended are still in progress, or queued.
			if err := awaitIdle(ctx, run.Site); err != nil {
				return nil, err
			}
			last := max(result.Requests-again, 1)
			first := max(last-again+1, 1)
			before := run.Site.Served()
			if err := site.GetAll(ctx, server.URL+"/new/0/", first, last); err != nil {
				return nil, fmt.Errorf("the same pages again: %w", err)
			}
			sample := result.Sample()
			sample["stored_percent"] = 100 * (1 - float64(run.Site.Served()-before)/float64(last-first+1))
			return sample, nil
		},
	}
}

// awaitIdle waits, for a minute at most, until the origin has had nothing to do for a second, in which caches
// store what they got last.
func awaitIdle(ctx context.Context, s *site.Site) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return s.AwaitIdle(ctx, time.Second)
}
