// Mapper compares package tabletheory with other mappers of Go structs to DynamoDB
// items: the SDK's attributevalue and expression, guregu/dynamo, and code written by
// hand for one struct.
//
//	go run -C bench ./mapper                 the whole table
//	go run -C bench ./mapper -rows unmarshal only rows whose name contains this
//
// Nothing is sent. Rows that end in "SDK" are calls of a real client of the SDK with a
// transport that returns constant JSON, so that all sides pay the same for signing,
// serializing and parsing. Rows that end in "bare" are the same calls on a client that
// returns constant structs, which leaves the mapper's own work. tabletheory and
// guregu/dynamo take that client as an interface.
//
// The sides are measured in turns in short rounds, so that a slow moment of the machine
// affects all of them. Time is CPU time, with garbage collection, which other processes
// disturb less than elapsed time. 64 MB of live heap make garbage collection as frequent
// as in a server. The table has the median of each side, and the ratios to tabletheory's
// time (the median of the rounds), bytes and allocations. Compare these ratios rather
// than absolute figures: machines differ, and a shared one differs from minute to minute.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 9, "number of measured rounds, after one round to warm up")
	duration := flag.Duration("duration", 50*time.Millisecond, "approximate time of one side in a round")
	only := flag.String("rows", "", "only rows whose `name` contains this")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 || *duration <= 0 {
		fmt.Fprintln(os.Stderr, "bench/mapper: -rounds must be at least 1, -duration above 0, and there are no arguments; see -help")
		os.Exit(2)
	}
	if err := run(*rounds, *duration, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench/mapper:", err)
		os.Exit(1)
	}
}

func run(rounds int, duration time.Duration, only string) error {
	all, err := rows()
	if err != nil {
		return err
	}
	inUse := make([]byte, 64<<20)
	defer runtime.KeepAlive(inUse)
	fmt.Printf("%d rounds of about %v per side, medians\n", rounds, duration)
	measured := 0
	for _, r := range all {
		if !strings.Contains(r.name, only) {
			continue
		}
		results, err := measure(r, rounds, duration)
		if err != nil {
			return err
		}
		print(r, results)
		measured++
	}
	if measured == 0 {
		return fmt.Errorf("-rows: no row name contains %q", only)
	}
	return nil
}

// A row is one operation on several sides, the first of which is tabletheory.
type row struct {
	name  string
	sides []side
}

// A side is one implementation of the operation.
type side struct {
	name string
	run  func() error
	// result returns the result of the last run, which must be the same on all sides.
	result func() any
}

// rows returns all operations.
func rows() ([]row, error) {
	list, err := codingRows()
	if err != nil {
		return nil, err
	}
	for _, stub := range []struct {
		name string
		api  api
	}{{"SDK", sdkStub()}, {"bare", newBareStub()}} {
		calls, err := callRows(stub.name, stub.api)
		if err != nil {
			return nil, err
		}
		list = append(list, calls...)
	}
	return list, nil
}
