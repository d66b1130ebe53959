// Engine compares localdynamo with AWS's DynamoDB Local and with dynalite: operations
// per second and latency of the same calls, on one machine, in turns.
//
//	go run -C bench ./engine            operations, the whole table
//	go run -C bench ./engine -start     time from exec to the first response
//	go run -C bench ./engine -million   memory, file size and restart with a million items
//
// Each server is a process of its own, started and stopped by this command, and one at
// a time is under load. The load is generated here, in two ways: through the SDK for
// Go, as programs call it, where much of the time is the SDK's; and as presigned
// requests over raw connections, where the server takes nearly all of it.
//
// It needs java, node and npm, and DynamoDB Local in .tools, where ./test installs it.
// It installs dynalite there itself. Compare ratios rather than absolute figures:
// machines differ, and a shared one differs from minute to minute.
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

// A plan is the parsed flags.
type plan struct {
	sides    []side
	workers  []int
	rounds   int
	duration time.Duration
	raw      bool
	rows     string
}

func main() {
	rounds := flag.Int("rounds", 5, "number of measured rounds, after one round to warm up")
	duration := flag.Duration("duration", 2*time.Second, "length of one measurement")
	sides := flag.String("sides", "", "comma-separated `names` of the servers to measure: "+strings.Join(sideNames(), ", ")+" (default all)")
	workers := flag.String("workers", "1,16", "comma-separated `counts` of concurrent workers")
	raw := flag.Bool("raw", false, "measure only with presigned requests over raw connections")
	rows := flag.String("rows", "", "only operations whose `name` contains this")
	starts := flag.Bool("start", false, "measure the time from exec to the first response instead")
	large := flag.Bool("million", false, "measure memory, file size and restart with a million small items instead; the default of -sides is "+ours+" then")
	profile := flag.String("pprof", "", "run localdynamo in a server of this command, with net/http/pprof on this `address`")
	serve := flag.String("serve", "", "serve localdynamo on this `address` and do nothing else (used by -pprof)")
	data := flag.String("data", "", "`file` of the tables of -serve")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *serve != "" {
		fail(runServer(ctx, *serve, *data, *profile))
		return
	}
	if *large && *sides == "" {
		*sides = ours // the others take minutes
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

// inFolder runs fn with a temporary folder.
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
			return nil, fmt.Errorf("-workers must be numbers of at least 1 (got %q)", text)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
