// Fleet measures how long after the end of a render the visitors of a fleet have a page that was
// not stored: three isr processes on one table, and 200 visitors who ask for the page at the same
// time. One process renders it; the measure is how the others learn that it is stored. Sides are
// measured in turns:
//
//	table   the processes look at the table
//	peers   they tell each other (--peer)
//	before  as table, with the isr of another checkout (-before), if there is one
//
//	go run -C bench ./fleet -before ../../isr-of-yesterday
//
// With -restart it measures the first pages of a process that was restarted with an empty memory, and what
// it reads of a bucket that is 30 ms away, while the other processes have all pages in memory:
//
//	go run -C bench ./fleet -restart 600 -rounds 3 -plain
//
// The table is served by isr dynamodb, and the bucket by versitygw, both on this machine: what a
// round trip to AWS takes is to be added to each side.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/facetheory/isr/bench/internal/process"
)

// A plan is what a run measures.
type plan struct {
	nodes, clients, rounds int
	render, spread         time.Duration
	before, gateway        string
	json                   bool
	plain                  bool // visitors accept no content coding
	pages                  int  // of a restarted process; 0 measures renders
	latency                time.Duration
}

func main() {
	var p plan
	flag.IntVar(&p.nodes, "nodes", 3, "number of isr processes of a side")
	flag.IntVar(&p.clients, "clients", 200, "number of visitors who ask for a page")
	flag.IntVar(&p.rounds, "rounds", 20, "number of rounds; each measures all sides once")
	flag.DurationVar(&p.render, "render", time.Second, "how long a render takes")
	flag.DurationVar(&p.spread, "spread", 0, "how much longer or shorter it takes at most, by chance")
	flag.StringVar(&p.before, "before", "", "`DIR` of another checkout, whose isr is measured too")
	flag.StringVar(&p.gateway, "versitygw", "../.tools/bin/versitygw", "`FILE` of versitygw")
	flag.IntVar(&p.pages, "restart", 0, "measure the first `PAGES` of a process that was restarted, instead of renders")
	flag.DurationVar(&p.latency, "latency", 30*time.Millisecond, "with -restart: what each request to the bucket takes longer")
	flag.BoolVar(&p.plain, "plain", false, "visitors accept no content coding")
	flag.BoolVar(&p.json, "json", false, "print JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := p.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench/fleet:", err)
		os.Exit(1)
	}
}

// acquaintance is how long peers may take to find each other in the table.
const acquaintance = 25 * time.Second

// lessons are rounds that are not measured: processes learn how long renders take.
const lessons = 3

func (p plan) run(ctx context.Context) error {
	if p.pages == 0 {
		p.latency = 0
	} else {
		p.render, p.spread = time.Millisecond, 0
	}
	if p.pages < 0 || p.latency < 0 || p.nodes < 2 || p.clients < p.nodes || p.rounds < 1 {
		return errors.New("give at least two nodes, a client for each, and a round")
	}
	dir, err := os.MkdirTemp("", "isr-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := process.BuildISR(ctx, "..", dir)
	if err != nil {
		return err
	}
	s, err := startStores(ctx, dir, binary, p.gateway, p.latency)
	defer s.stop()
	if err != nil {
		return err
	}
	sides := []*side{{name: "table", binary: binary}, {name: "peers", binary: binary, peers: true}}
	if p.before != "" {
		old, err := os.MkdirTemp(dir, "before")
		if err != nil {
			return err
		}
		if old, err = process.BuildISR(ctx, p.before, old); err != nil {
			return err
		}
		sides = append(sides, &side{name: "before", binary: old})
	}
	for _, side := range sides {
		defer side.stop()
		if err := side.start(ctx, p, dir, s); err != nil {
			return fmt.Errorf("%s: %w", side.name, err)
		}
	}
	time.Sleep(acquaintance)
	if p.pages > 0 {
		return p.restart(ctx, sides, s)
	}
	for round := range lessons + p.rounds {
		for i := range sides {
			side := sides[(i+round)%len(sides)] // each is first in turn
			late, err := side.round(ctx, p, round)
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			if round >= lessons {
				side.late = append(side.late, late...)
			}
		}
	}
	return p.print(sides)
}

// A row is the result of a side: how long after the end of the render visitors had the page, in
// milliseconds.
type row struct {
	Side    string  `json:"side"`
	Answers int     `json:"answers"`
	Renders int64   `json:"renders"`
	P50     float64 `json:"p50_ms"`
	P90     float64 `json:"p90_ms"`
	P99     float64 `json:"p99_ms"`
	Max     float64 `json:"max_ms"`
}

func (p plan) print(sides []*side) error {
	var rows []row
	for _, s := range sides {
		slices.Sort(s.late)
		at := func(share float64) float64 {
			d := s.late[max(int(math.Ceil(share*float64(len(s.late))))-1, 0)]
			return math.Round(d.Seconds()*1e4) / 10
		}
		rows = append(rows, row{s.name, len(s.late), s.site.renders.Load(), at(0.5), at(0.9), at(0.99), at(1)})
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.Side, b.Side) })
	if p.json {
		return json.NewEncoder(os.Stdout).Encode(rows)
	}
	fmt.Printf("%d visitors of %d processes, renders of %v (spread %v), %d pages a side: milliseconds after the end of the render\n\n", p.clients, p.nodes, p.render, p.spread, p.rounds)
	fmt.Printf("%-8s %8s %8s %8s %8s %8s\n", "side", "p50", "p90", "p99", "max", "renders")
	for _, r := range rows {
		fmt.Printf("%-8s %8.1f %8.1f %8.1f %8.1f %8d\n", r.Side, r.P50, r.P90, r.P99, r.Max, r.Renders-lessons)
	}
	return nil
}
