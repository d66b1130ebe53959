package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// connect returns a worker's functions: call executes an operation once, on the i-th
// item, and close is called when the worker is done.
type connect func() (call func(i int) error, close func() error, err error)

// result is one measurement.
type result struct {
	perSecond float64
	p50, p99  time.Duration
	processor time.Duration // CPU time of the server, per call
}

// load runs a closed loop of workers: each makes its next call when the last one
// returns. It fails with the first error of any worker.
func load(workers int, duration time.Duration, dial connect) (result, error) {
	latencies := make([][]time.Duration, workers)
	failures := make([]error, workers)
	begin := make(chan struct{})
	var ready, done sync.WaitGroup
	ready.Add(workers)
	for w := range workers {
		done.Go(func() {
			call, hangUp, err := dial()
			ready.Done()
			if err != nil {
				failures[w] = err
				return
			}
			<-begin
			latencies[w], failures[w] = repeat(duration, call)
			if err := hangUp(); err != nil && failures[w] == nil {
				failures[w] = err
			}
		})
	}
	ready.Wait()
	began := time.Now()
	close(begin)
	done.Wait()
	elapsed := time.Since(began)
	for _, err := range failures {
		if err != nil {
			return result{}, err
		}
	}
	return summary(slices.Concat(latencies...), elapsed)
}

// repeat calls with random items for duration, and returns the latency of each call.
func repeat(duration time.Duration, call func(i int) error) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, 1<<16)
	from := time.Now()
	for end := from.Add(duration); from.Before(end); {
		if err := call(rand.IntN(pages)); err != nil {
			return nil, err
		}
		now := time.Now()
		latencies = append(latencies, now.Sub(from))
		from = now
	}
	return latencies, nil
}

func summary(latencies []time.Duration, elapsed time.Duration) (result, error) {
	if len(latencies) == 0 {
		return result{}, fmt.Errorf("no call returned within %v", elapsed)
	}
	slices.Sort(latencies)
	return result{
		perSecond: float64(len(latencies)) / elapsed.Seconds(),
		p50:       latencies[len(latencies)/2],
		p99:       latencies[len(latencies)*99/100],
	}, nil
}

// median returns the median of each figure.
func median(rounds []result) result {
	return result{
		perSecond: middle(rounds, func(r result) float64 { return r.perSecond }),
		p50:       middle(rounds, func(r result) time.Duration { return r.p50 }),
		p99:       middle(rounds, func(r result) time.Duration { return r.p99 }),
		processor: middle(rounds, func(r result) time.Duration { return r.processor }),
	}
}

func middle[T float64 | time.Duration](rounds []result, figure func(result) T) T {
	figures := make([]T, len(rounds))
	for i, r := range rounds {
		figures[i] = figure(r)
	}
	slices.Sort(figures)
	return figures[len(figures)/2]
}
