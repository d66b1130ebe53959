// Conformance compares HTTP caches by the cases of internal/conformance: what RFC 9110, 9111,
// 9213 and 5861 require, and what they allow and a good cache does.
//
//	go run -C bench ./conformance
//	go run -C bench ./conformance -v -only isr
//	go run -C bench ./conformance -origin 127.0.0.1:9000 -cache http://127.0.0.1:8080
//
// The last form tests any cache that forwards to the address of -origin. Without it, isr is
// started with its defaults and with a configuration that fits the suite, and nginx, Varnish
// and Apache Traffic Server with what makes them cache (Debian: apt-get install nginx-light
// varnish trafficserver); those that are not installed are named. Caddy has no cache without a
// plugin.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"time"

	"github.com/facetheory/isr/bench/internal/peer"
	"github.com/facetheory/isr/bench/internal/process"
	"github.com/facetheory/isr/internal/conformance"
)

func main() {
	verbose := flag.Bool("v", false, "print every case that did not pass")
	only := flag.String("only", "", "test only the servers whose names match this `pattern`")
	match := flag.String("run", "", "run only the cases whose names match this `pattern`")
	origin := flag.String("origin", "127.0.0.1:0", "`address` of the origin")
	cache := flag.String("cache", "", "`URL` of a cache that is running, instead of starting some")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, options{*verbose, *only, *match, *origin, *cache}); err != nil {
		fmt.Fprintln(os.Stderr, "bench/conformance:", err)
		os.Exit(1)
	}
}

type options struct {
	verbose                    bool
	only, match, origin, cache string
}

func run(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	match, err := regexp.Compile(o.match)
	if err != nil {
		return err
	}
	var cases []conformance.Case
	for _, c := range conformance.Cases() {
		if match.MatchString(c.Name) {
			cases = append(cases, c)
		}
	}
	dir, err := os.MkdirTemp("", "isr-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("tcp", o.origin)
	if err != nil {
		return err
	}
	suite := conformance.New(strconv.FormatInt(time.Now().UnixNano(), 36))
	server := &http.Server{Handler: suite, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer server.Close()
	if o.cache != "" {
		report(o.cache, suite.Run(ctx, o.cache, cases), o.verbose)
		return nil
	}
	at := peer.Place{Dir: dir, Origin: listener.Addr().String()}
	if at.ISR, err = process.BuildISR(ctx, "..", dir); err != nil {
		return err
	}
	printHead()
	for _, p := range peers() {
		if !only.MatchString(p.Name) {
			continue
		}
		results, err := test(ctx, p, at, suite, cases)
		var missing *peer.NotInstalledError
		switch {
		case errors.As(err, &missing):
			fmt.Printf("%-22s not tested: %v\n", p.Name, err)
		case err != nil:
			return err
		default:
			report(p.Name, results, o.verbose)
		}
	}
	return nil
}

func printHead() {
	fmt.Printf("%-22s %24s %24s %14s\n", "", "required", "optimal", "not applicable")
}

// report prints what a cache passed. Cases that say nothing about it, since a step that prepares
// them failed, count neither as passed nor as failed.
func report(name string, results []conformance.Result, verbose bool) {
	var passed, failed [2]int
	inapplicable := 0
	for _, r := range results {
		switch r.Outcome {
		case conformance.Passed:
			passed[r.Case.Level]++
		case conformance.Failed:
			failed[r.Case.Level]++
		case conformance.Inapplicable:
			inapplicable++
		}
	}
	share := func(level conformance.Level) string {
		all := passed[level] + failed[level]
		return fmt.Sprintf("%d of %d, %5.1f %%", passed[level], all, 100*float64(passed[level])/float64(max(all, 1)))
	}
	fmt.Printf("%-22s %24s %24s %14d\n", name, share(conformance.Required), share(conformance.Optimal), inapplicable)
	if !verbose {
		return
	}
	for _, r := range results {
		if r.Outcome != conformance.Passed {
			fmt.Printf("    %-14s %-9s %-50s RFC %-9s %s\n", r.Outcome, r.Case.Level, r.Case.Name, r.Case.Section, r.Reason)
		}
	}
}
