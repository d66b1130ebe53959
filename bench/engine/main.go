// Engine measures localdynamo against AWS's DynamoDB Local and against dynalite:
// operations per second and latency of the same calls, on one machine, in turns.
//
//	go run -C bench ./engine            operations, the whole table
//	go run -C bench ./engine -start     time from exec to the first answer
//	go run -C bench ./engine -million   memory, file and opening of a million items
//
// Every server is a process of its own, started by this command and ended with
// it, and only one at a time has anything to do. The load comes from here: once
// through the SDK for Go, as programs will call it, where much of what is
// measured is the SDK's own work; and once as requests that were signed and
// written down beforehand, sent over bare connections, where little but the
// server is measured.
//
// It needs java, node and npm, and DynamoDB Local in .tools, where ./test puts
// it; dynalite it installs there itself. Run it in the folder bench. The
// figures that count are the ratios: machines differ, and a shared one differs
// from minute to minute.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A plan is what the flags ask for.
type plan struct {
	sides    []side
	workers  []int
	rounds   int
	duration time.Duration
	raw      bool
	rows     string
}

func main() {
	rounds := flag.Int("rounds", 5, "rounds that are counted; one more goes before, to warm up")
	duration := flag.Duration("duration", 2*time.Second, "length of one measurement")
	sides := flag.String("sides", "", "sides to measure, by `name`, with commas: "+strings.Join(sideNames(), ", ")+" (default all)")
	workers := flag.String("workers", "1,16", "`counts` of workers that call at the same time, with commas")
	raw := flag.Bool("raw", false, "measure only with requests signed beforehand, over bare connections")
	rows := flag.String("rows", "", "only the operations whose name contains this")
	starts := flag.Bool("start", false, "measure instead how long the servers take to their first answer")
	large := flag.Bool("million", false, "measure instead what a million small items cost; -sides is "+ours+" then, if it is not given")
	profile := flag.String("pprof", "", "run localdynamo in a server of this command's own, with net/http/pprof on this `address`")
	serve := flag.String("serve", "", "serve localdynamo on this `address`, and nothing else (used by -pprof)")
	data := flag.String("data", "", "file that -serve keeps its tables in")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *serve != "" {
		fail(runServer(ctx, *serve, *data, *profile))
		return
	}
	if *large && *sides == "" {
		*sides = ours // the others take long; name them
	}
	p := plan{rounds: *rounds, duration: *duration, raw: *raw, rows: *rows}
	var err error
	if p.sides, err = chooseSides(*sides, *profile); err != nil {
		fail(err)
	}
	if p.workers, err = counts(*workers); err != nil {
		fail(err)
	}
	run := compare
	switch {
	case *starts:
		run = compareStarts
	case *large:
		run = measureMillion
	}
	fail(inFolder(func(dir string) error { return run(ctx, p, dir) }))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/engine:", err)
		os.Exit(1)
	}
}

// inFolder runs fn with a folder that is gone afterwards.
func inFolder(fn func(dir string) error) error {
	dir, err := os.MkdirTemp("", "isr-bench-engine-")
	if err != nil {
		return err
	}
	return errors.Join(fn(dir), os.RemoveAll(dir))
}

func counts(list string) ([]int, error) {
	var numbers []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-workers: %q is not a number of workers", text)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
