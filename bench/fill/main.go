// Fill measures what a new page costs isr while its table, and then its memory tier, fill: 32 clients ask
// for pages that it does not have, and after each tenth of them it prints the pages stored per second, the CPU
// time per page, and the memory of the process.
//
//	go run -C bench ./fill -pages 210000
//	go run -C bench ./fill -pages 80000 -- --memory 64MiB
//
// What follows -- are flags of isr serve.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/facetheory/isr/bench/internal/process"
	"github.com/facetheory/isr/bench/internal/site"
)

// steps is the number of rows.
const steps = 10

func main() {
	pages := flag.Int("pages", 210000, "number of pages")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := fill(ctx, *pages, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "bench/fill:", err)
		os.Exit(1)
	}
}

func fill(ctx context.Context, pages int, flags []string) error {
	if pages < steps {
		return fmt.Errorf("-pages %d: expected at least %d", pages, steps)
	}
	dir, err := os.MkdirTemp("", "isr-fill-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	origin, err := site.Serve(site.New())
	if err != nil {
		return err
	}
	defer origin.Close()
	binary, err := process.BuildISR(ctx, "..", dir)
	if err != nil {
		return err
	}
	address, err := process.FreeAddress()
	if err != nil {
		return err
	}
	command := append([]string{"serve", "--listen", address, "--origin", "http://" + origin.Addr, "--data", filepath.Join(dir, "data"), "--log-level", "warn"}, flags...)
	server, err := process.Start(ctx, exec.CommandContext(ctx, binary, command...), process.Answers("http://"+address+"/", http.StatusOK))
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop() }() // it is not needed any more
	fmt.Println("   pages  pages/s  CPU/page, ms  RSS, MiB  anonymous, MiB")
	before, err := process.UsageOf(server.ID)
	if err != nil {
		return err
	}
	for step := 1; step <= steps; step++ {
		n, began := pages/steps, time.Now()
		if err := site.GetAll(ctx, fmt.Sprintf("http://%s/fill/%d/", address, step), 1, n); err != nil {
			return err
		}
		took := time.Since(began)
		now, err := process.UsageOf(server.ID)
		if err != nil {
			return err
		}
		fmt.Printf("%8d %8.0f %13.2f %9d %15d\n", step*n, float64(n)/took.Seconds(),
			float64((now.CPU-before.CPU).Microseconds())/1000/float64(n), now.Resident>>20, now.Anonymous>>20)
		before = now
	}
	return nil
}
