// Mapper measures package tabletheory against what else maps Go structs to
// DynamoDB items: the SDK's attributevalue and expression, guregu/dynamo, and
// code written by hand for the one struct.
//
//	go run -C bench ./mapper                 the whole table
//	go run -C bench ./mapper -rows unmarshal only rows whose name contains this
//
// Nothing is sent. Rows that end in "SDK" are whole calls of a real client of
// the SDK, whose transport answers at once with constant JSON, so that all sides
// pay alike for signing, serializing and parsing. Rows that end in "bare" are the
// same calls on a client that returns constant structs: what is left is the
// mapper's own work. In guregu/dynamo, and here, that client is an interface.
//
// The sides take turns in short rounds, so that a slow moment of the machine
// befalls all of them. Time is that of the processor, the garbage collector's
// included, which other processes disturb less than they do the clock; 64 MB are
// in use besides, so that garbage is collected as often as in a server. Of each
// side the medians are shown; and how many times the time, the bytes and the
// allocations of tabletheory's they are, the time round by round. The figures
// that count are these ratios: machines differ, and a shared one differs from
// minute to minute.
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
	rounds := flag.Int("rounds", 9, "rounds that are counted; one more goes before, to warm up")
	duration := flag.Duration("duration", 50*time.Millisecond, "length of one side's part of a round, about")
	only := flag.String("rows", "", "only the rows whose `name` contains this")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 || *duration <= 0 {
		fmt.Fprintln(os.Stderr, "bench/mapper: takes flags only, with -rounds of at least 1 and a -duration above 0; see -help")
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
	fmt.Printf("%d rounds of about %v a side, medians\n", rounds, duration)
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
		return fmt.Errorf("-rows: no row has %q in its name", only)
	}
	return nil
}

// A row is one operation, that several sides do, the first of them tabletheory.
type row struct {
	name  string
	sides []side
}

// A side does the operation in its own way.
type side struct {
	name string
	run  func() error
	// result is what the last run came to, for comparing the sides.
	result func() any
}

// rows are all operations.
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
