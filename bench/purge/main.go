// Purge measures how long a fleet serves old content as fresh after a purge by tag: three
// isr processes on one table, with 100,000 stored pages under one tag. In the same run it
// measures the usual alternative: find the tag's keys through an index, and delete them one
// by one.
//
//	go run -C bench ./purge -dynamodb http://127.0.0.1:8000 -s3 http://127.0.0.1:7070
//
// It needs DynamoDB Local and an S3 server, with the credentials in AWS_ACCESS_KEY_ID and
// AWS_SECRET_ACCESS_KEY. It creates tables and a bucket of its own, and leaves them there.
// Consumed units do not depend on the machine; times do.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/bench/internal/process"
)

// A plan is what a run measures.
type plan struct {
	dynamodb, s3          string // addresses of servers
	nodes, pages, purges  int
	poll                  time.Duration
	table, index, bucket  string
	accessKey, privateKey string
}

func main() {
	p := plan{accessKey: os.Getenv("AWS_ACCESS_KEY_ID"), privateKey: os.Getenv("AWS_SECRET_ACCESS_KEY")}
	flag.StringVar(&p.dynamodb, "dynamodb", "", "`URL` of DynamoDB Local")
	flag.StringVar(&p.s3, "s3", "", "`URL` of an S3 server")
	flag.IntVar(&p.nodes, "nodes", 3, "number of isr processes")
	flag.IntVar(&p.pages, "pages", 100_000, "number of stored pages under the tag")
	flag.IntVar(&p.purges, "purges", 200, "number of purges")
	flag.DurationVar(&p.poll, "poll", 250*time.Millisecond, "the processes' interval of reading the log")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := p.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench/purge:", err)
		os.Exit(1)
	}
}

func (p plan) run(ctx context.Context) error {
	if p.dynamodb == "" || p.s3 == "" || p.accessKey == "" {
		return errors.New("give -dynamodb URL and -s3 URL, and the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	name := "isr-bench-" + strings.ToLower(rand.Text())
	p.table, p.index, p.bucket = name, name+"-by-index", name
	dir, err := os.MkdirTemp("", "isr-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := process.BuildISR(ctx, "..", dir)
	if err != nil {
		return err
	}
	site, err := startSite()
	if err != nil {
		return err
	}
	defer site.close()
	if err := p.createBucket(ctx); err != nil {
		return err
	}
	fleet, err := p.startFleet(ctx, dir, binary, site)
	defer fleet.stop()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := p.store(ctx, fleet[0]); err != nil {
		return err
	}
	fmt.Printf("stored %d pages with the tag %q in %s\n", p.pages, tag, time.Since(began).Round(time.Second))
	if err := p.measurePurges(ctx, fleet, site); err != nil {
		return err
	}
	return p.measureIndex(ctx)
}

// measurePurges purges the tag again and again, and prints how long the old content was
// served as fresh.
func (p plan) measurePurges(ctx context.Context, fleet fleet, site *site) error {
	var answered, everywhere []time.Duration
	units := 0.0
	for n := range p.purges {
		path := pagePath((n * 7919) % p.pages)
		if err := fleet.warm(ctx, site, path); err != nil {
			return err
		}
		site.version.Add(1)
		began := time.Now()
		done := fleet.awaitChange(ctx, path, site.text(path, site.version.Load()-1))
		reply, err := fleet[n%len(fleet)].purge(ctx)
		if err != nil {
			return err
		}
		answered = append(answered, time.Since(began))
		units += reply.Units
		at, err := done()
		if err != nil {
			return err
		}
		everywhere = append(everywhere, at.Sub(began))
	}
	fmt.Printf("\n%d purges of the tag, %d nodes, log read every %s\n", p.purges, len(fleet), p.poll)
	printTimes("until the purge is acknowledged", answered)
	printTimes("until no node serves the old content as fresh", everywhere)
	fmt.Printf("  %-46s %10.1f write units\n", "consumed per purge", units/float64(p.purges))
	return nil
}

func printTimes(what string, times []time.Duration) {
	slices.Sort(times)
	at := func(share float64) time.Duration {
		return times[int(math.Ceil(share*float64(len(times))))-1].Round(100 * time.Microsecond)
	}
	fmt.Printf("  %-46s p50 %9v   p99 %9v   max %9v\n", what, at(0.5), at(0.99), at(1))
}
