// Package compare measures servers against each other in one run: in interleaved rounds, so that a slow
// minute of the machine affects all of them, with medians, their spread, and ratios to a baseline.
//
// Each measurement notes the machine's load average before it, and how much CPU went to processes that
// do not belong to the benchmark. Measurements with foreign load are marked, and their rounds are not part of
// the medians of any server as long as half of the rounds are free of it. A measurement in which requests
// failed is refused.
//
// A report is printed, and is kept as JSON; the report of the last complete run is in bench/results.
package compare

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/facetheory/isr/bench/internal/peer"
	"github.com/facetheory/isr/bench/internal/process"
	"github.com/facetheory/isr/bench/internal/site"
)

// A Bench is a command that compares servers.
type Bench struct {
	Name    string // of its folder
	About   string // what it measures, for its help
	Rounds  int    // the default of --rounds
	Seconds int    // the default of --seconds
	// Scenarios are measured one after the other.
	Scenarios func(*Run) []Scenario
}

// A Scenario is a load, under which servers are compared.
type Scenario struct {
	Name     string
	About    string   // one sentence
	Baseline string   // the server to which the others are compared
	Columns  []Column // what Measure returns; the first is the one that is compared
	Peers    []peer.Peer
	// Fresh starts each server once per round, in a new folder, instead of once.
	Fresh bool
	// Prepare is called after each start of a server, before it is measured.
	Prepare func(context.Context, *peer.Server) error
	// Measure measures a server once. Rounds count from 0.
	Measure func(ctx context.Context, server *peer.Server, round int) (Sample, error)
}

// A Column is a value that a scenario measures.
type Column struct {
	Key    string `json:"key"`
	Title  string `json:"title"` // with its unit
	Digits int    `json:"digits"`
}

// A Sample has values by the keys of columns.
type Sample map[string]float64

// A Run is what the scenarios of one run share.
type Run struct {
	Rounds  int
	Seconds int        // of one measurement
	Site    *site.Site // the origin of the servers
	place   peer.Place
	only    *regexp.Regexp
	output  string
	command string
}

// Main runs a benchmark by the flags of its command line, and exits.
func (b Bench) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.main(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintf(os.Stderr, "bench/%s: %v\n", b.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (b Bench) main(ctx context.Context, args []string) error {
	run, err := b.parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "isr-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	run.Site = site.New()
	origin, err := site.Serve(run.Site)
	if err != nil {
		return err
	}
	defer origin.Close()
	run.place = peer.Place{Dir: dir, Origin: origin.Addr}
	if run.place.ISR, err = process.BuildISR(ctx, "..", dir); err != nil {
		return err
	}
	report, err := run.all(ctx, b)
	if err != nil {
		return err
	}
	report.print(os.Stdout)
	if run.output != "" {
		if err := report.write(run.output); err != nil {
			return err
		}
	}
	return report.refused()
}

// parse reads the flags, which all benchmarks have.
func (b Bench) parse(args []string) (*Run, error) {
	run := &Run{command: "go run -C bench ./" + b.Name}
	for _, a := range args {
		run.command += " " + quote(a)
	}
	flags := flag.NewFlagSet("bench/"+b.Name, flag.ContinueOnError)
	flags.IntVar(&run.Rounds, "rounds", b.Rounds, "number of rounds, 1 to 1000; each measures every server once")
	flags.IntVar(&run.Seconds, "seconds", b.Seconds, "length of one measurement, 1 to 600")
	only := flags.String("only", "", "measure only what matches this `pattern`, like 1-thread/(isr|nginx): SCENARIO/SERVER")
	flags.StringVar(&run.output, "output", "", "`file` for the report, as JSON (results/"+b.Name+".json, with --only none)")
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "Usage: go run -C bench ./%s [flags]\n\n%s\n\nFlags:\n", b.Name, strings.TrimSpace(b.About))
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 || run.Rounds < 1 || run.Rounds > 1000 || run.Seconds < 1 || run.Seconds > 600 {
		return nil, errors.New("--rounds must be 1 to 1000 and --seconds 1 to 600, and there are no arguments; see --help")
	}
	var err error
	if run.only, err = regexp.Compile(*only); err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	if run.output == "" && *only == "" {
		run.output = filepath.Join("results", b.Name+".json")
	}
	return run, nil
}

// quote returns an argument as a shell takes it.
func quote(argument string) string {
	if regexp.MustCompile(`^[\w.,:/=-]+$`).MatchString(argument) {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}
