package main

import (
	"fmt"
	"runtime"
	"time"
)

func printHead(p plan) {
	fmt.Printf("%d rounds of %v each, medians; %d CPUs shared by client and server\n", p.rounds, p.duration, runtime.NumCPU())
	fmt.Printf("items of 1 KB, %d of them; Query: %d of 100 bytes; writes replace existing items\n\nan acknowledged write is\n", pages, listItems)
	for _, s := range p.sides {
		fmt.Printf("  %-26s %s\n", s.title, s.promise)
	}
	fmt.Printf("\n\"CPU\" is the server's CPU time per call, with garbage collection;\n\"ours\" is the rate of localdynamo over HTTP, as a multiple of the line's rate\n")
}

func printSection(raw bool, workers int) {
	client := "through the SDK for Go"
	if raw {
		client = "presigned requests over raw connections, without idempotency tokens"
	}
	fmt.Printf("\n%s, workers: %d\n\n%-32s %10s %10s %10s %10s %8s\n", client, workers, "", "per second", "p50", "p99", "CPU", "ours")
}

func printRow(op operation, opponents []opponent, results [][]result, raw bool) {
	fmt.Println(op.name)
	var wire float64
	for i, o := range opponents {
		if o.name == ours && results[i] != nil {
			wire = median(results[i]).perSecond
		}
	}
	for i, o := range opponents {
		switch {
		case raw && o.address == "":
		case !o.supports(op):
			fmt.Printf("  %-30s %10s\n", o.title, "unsupported")
		default:
			r := median(results[i])
			ratio := ""
			if wire > 0 && o.name != ours {
				ratio = fmt.Sprintf("%.2fx", wire/r.perSecond)
			}
			fmt.Printf("  %-30s %10.0f %10v %10v %10v %8s\n", o.title, r.perSecond, short(r.p50), short(r.p99), short(r.processor), ratio)
		}
	}
}

// short rounds to the precision of the measurement.
func short(d time.Duration) time.Duration {
	if d < 100*time.Microsecond {
		return d.Round(100 * time.Nanosecond)
	}
	return d.Round(10 * time.Microsecond)
}
