package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"syscall"
	"time"
)

// A result is the cost of one operation on one side, in one round or as the median of all.
type result struct {
	time        float64 // CPU time in nanoseconds
	bytes       float64
	allocations float64
	ratio       float64 // to the time of the first side in the same round
}

// measure measures the sides in turns and returns the median of each.
func measure(r row, rounds int, duration time.Duration) ([]result, error) {
	times := make([]int, len(r.sides))
	for i, s := range r.sides {
		n, err := repetitions(s, duration)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", r.name, s.name, err)
		}
		times[i] = n
	}
	all := make([][]result, len(r.sides))
	for round := range rounds + 1 {
		measured := make([]result, len(r.sides))
		for i := range r.sides {
			at := (i + round) % len(r.sides) // each is first in turn
			m, err := repeat(r.sides[at], times[at])
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", r.name, r.sides[at].name, err)
			}
			measured[at] = m
		}
		if round == 0 {
			continue // warm-up
		}
		for i, m := range measured {
			m.ratio = m.time / measured[0].time
			all[i] = append(all[i], m)
		}
	}
	medians := make([]result, len(all))
	for i, results := range all {
		medians[i] = median(results)
	}
	return medians, nil
}

// repetitions returns how many operations a side does in about that time.
func repetitions(s side, duration time.Duration) (int, error) {
	for n := 1; ; n *= 2 {
		m, err := repeat(s, n)
		if err != nil {
			return 0, err
		}
		if total := m.time * float64(n); total > float64(duration)/8 {
			return max(1, int(float64(duration)/m.time)), nil
		}
	}
}

// repeat executes the operation n times in sequence.
func repeat(s side, n int) (result, error) {
	var before, after runtime.MemStats
	runtime.GC() // of garbage of another side
	runtime.ReadMemStats(&before)
	start := processorTime()
	for range n {
		if err := s.run(); err != nil {
			return result{}, err
		}
	}
	elapsed := processorTime() - start
	runtime.ReadMemStats(&after)
	return result{
		time:        float64(elapsed) / float64(n),
		bytes:       float64(after.TotalAlloc-before.TotalAlloc) / float64(n),
		allocations: math.Round(float64(after.Mallocs-before.Mallocs) / float64(n)),
	}, nil
}

// processorTime returns the user and system CPU time of this process.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // fails for invalid arguments only
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func median(results []result) result {
	of := func(value func(result) float64) float64 {
		values := make([]float64, len(results))
		for i, r := range results {
			values[i] = value(r)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return result{
		time:        of(func(r result) float64 { return r.time }),
		bytes:       of(func(r result) float64 { return r.bytes }),
		allocations: of(func(r result) float64 { return r.allocations }),
		ratio:       of(func(r result) float64 { return r.ratio }),
	}
}
