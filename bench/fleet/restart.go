package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// restart measures what visitors of a process that was restarted with an empty memory wait for its
// first pages, and how many objects of the bucket it reads for them, while the other processes have
// all pages in memory.
func (p plan) restart(ctx context.Context, sides []*side, s *stores) error {
	fmt.Printf("%d pages, %d processes, a bucket %v away: a process that was restarted gets each page once from %d visitors\n\n", p.pages, p.nodes, p.latency, p.restartClients())
	fmt.Printf("%-8s %8s %8s %8s %8s %8s %8s %8s\n", "side", "p50 ms", "p90 ms", "p99 ms", "max ms", "seconds", "bodies", "codings")
	for _, side := range sides {
		for _, node := range side.nodes { // the first renders all, the others read them
			if _, err := side.getAll(ctx, p, node); err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
		}
	}
	for range p.rounds {
		for _, side := range sides {
			if err := side.again(ctx, len(side.nodes)-1); err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			pause(ctx, time.Second) // until it has read the log, and knows its peers
			before, began := s.bucket.read("isr-"+side.name), time.Now()
			took, err := side.getAll(ctx, p, side.nodes[len(side.nodes)-1])
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			lasted := time.Since(began)
			slices.Sort(took)
			at := func(share float64) float64 {
				return took[max(int(math.Ceil(share*float64(len(took))))-1, 0)].Seconds() * 1e3
			}
			now := s.bucket.read("isr-" + side.name)
			fmt.Printf("%-8s %8.1f %8.1f %8.1f %8.1f %8.2f %8d %8d\n", side.name, at(0.5), at(0.9), at(0.99), at(1), lasted.Seconds(), now.bodies-before.bodies, now.codings-before.codings)
		}
	}
	return nil
}

func (p plan) restartClients() int { return min(p.clients, 16) }

// getAll gets all pages from a process, and returns how long each took.
func (s *side) getAll(ctx context.Context, p plan, node string) ([]time.Duration, error) {
	next := make(chan int)
	took := make([]time.Duration, p.pages)
	errs := make([]error, p.restartClients())
	var clients sync.WaitGroup
	for i := range errs {
		clients.Go(func() {
			for n := range next {
				began := time.Now()
				errs[i] = errors.Join(errs[i], s.get(ctx, node, fmt.Sprintf("/kept/%d", n)))
				took[n] = time.Since(began)
			}
		})
	}
	for n := range p.pages {
		next <- n
	}
	close(next)
	clients.Wait()
	return took, errors.Join(errs...)
}
