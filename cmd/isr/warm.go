package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/sitemap"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger/queue"
)

type warmCommand struct {
	Sitemap string   `env:"-" placeholder:"URL" help:"Pages of a sitemap, or of all sitemaps of an index."`
	From    string   `env:"-" placeholder:"FILE" help:"Pages of a file, a URL or key in each line; - reads standard input."`
	Tag     string   `env:"-" placeholder:"TAG" help:"Stored pages with this purge tag; reads the whole store."`
	Host    []string `env:"-" sep:"," placeholder:"NAME" help:"Hosts whose URLs and files a sitemap may name; repeatable (its own host)."`
	Resolve []string `env:"-" sep:"none" placeholder:"HOST:PORT:ADDRESS" help:"Read the sitemap of HOST from this IP address, as curl --resolve does: for a site whose name still points elsewhere. TLS and Host keep the name; repeatable."`
	Tenant  string   `env:"-" placeholder:"NAME" help:"Tenant of the pages, on a site with tenants."`

	Force       bool    `env:"-" help:"Render fresh pages too. Otherwise only pages that are missing, stale or expired are."`
	Concurrency int     `env:"-" default:"4" placeholder:"N" help:"Pages at the same time, 1 to 32 (${default})."`
	Rate        float64 `env:"-" default:"0" placeholder:"N" help:"Pages per second, at most (${default}: no limit)."`
	State       string  `env:"-" type:"path" placeholder:"FILE" help:"File that records the pages that are done: an interrupted command, repeated, goes on from there. Deleted when all are done."`
	Queue       string  `env:"-" placeholder:"URL" help:"Send the pages to this queue of regenerations, instead of a server (see isr help worker)."`
	DryRun      bool    `env:"-" help:"Print the keys of the pages, and regenerate nothing."`
	JSON        bool    `name:"json" help:"Write the summary as JSON."`

	askFlags `embed:""`
}

func (c *warmCommand) Help() string {
	return `Regenerates many pages, for example after a deployment or from a schedule, by a running server or a queue.

  isr warm --sitemap https://example.com/sitemap.xml
  isr warm --sitemap https://example.com/sitemap.xml --resolve example.com:443:203.0.113.7
  isr warm --from urls.txt --concurrency 8 --rate 20 --state warm.state
  isr warm --tag product --force

The exit code is 0 if all pages are fresh (or sent), 1 if some are not, 2 for a wrong command line. Twenty
failures in a row end the command.`
}

// Limits of a warm-up.
const (
	maxWarmFailures = 20        // in a row
	maxWarmPages    = 5_000_000 // of a list
	maxWarmTries    = 4         // of a page that is not rendered because the site is busy
	maxWarmWait     = 10 * time.Second
	warmProgress    = 10 * time.Second
)

func (c *warmCommand) Run(ctx context.Context, s *cli.Streams) error {
	if err := c.validateWarm(); err != nil {
		return err
	}
	w := &warming{c: c, s: s, began: time.Now()}
	w.name = fmt.Sprintf("isr warm of %.200s, begun at %s", cmp.Or(c.Sitemap, c.From, c.Tag), w.began.UTC().Format(time.RFC3339Nano))
	if err := w.openState(); err != nil {
		return err
	}
	run := func(client *admin.Client) error { return w.run(ctx, client) }
	var err error
	switch {
	case c.Queue != "" && c.Tag == "" || c.DryRun && c.Tag == "":
		err = run(nil)
	default:
		err = c.ask(ctx, run)
	}
	return errors.Join(err, w.closeState(err == nil && w.sum.Failed == 0))
}

func (c *warmCommand) validateWarm() error {
	given := 0
	for _, text := range []string{c.Sitemap, c.From, c.Tag} {
		if text != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return cli.Usagef("give one of --sitemap URL, --from FILE and --tag TAG")
	case len(c.Host) > 0 && c.Sitemap == "":
		return cli.Usagef("--host needs --sitemap")
	case len(c.Resolve) > 0 && c.Sitemap == "":
		return cli.Usagef("--resolve needs --sitemap: pages are named to a server, which renders them, and not visited")
	case c.Concurrency < 1 || c.Concurrency > 32:
		return cli.Usagef("--concurrency must be between 1 and 32 (got %d)", c.Concurrency)
	case c.Rate < 0 || c.Rate > 10_000:
		return cli.Usagef("--rate must be between 0 and 10000 (got %g)", c.Rate)
	case c.State != "" && c.DryRun:
		return cli.Usagef("--state has no effect with --dry-run")
	case c.Queue != "" && queue.ValidURL(c.Queue) != nil:
		return cli.Usagef("--queue %v", queue.ValidURL(c.Queue))
	}
	if c.Sitemap == "" {
		return nil
	}
	if u, err := url.Parse(c.Sitemap); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return cli.Usagef("--sitemap %q is not a URL; expected one like https://example.com/sitemap.xml", c.Sitemap)
	}
	if _, err := gateway.ParseHosts(c.Host); err != nil {
		return cli.Usagef("--host %v", err)
	}
	if _, err := cli.ParseAddresses(c.Resolve); err != nil {
		return cli.Usagef("--resolve %v", err)
	}
	return nil
}

// A warmSum is the summary of a warm-up.
type warmSum struct {
	Pages    int     `json:"pages"` // that were tried
	Rendered int     `json:"rendered"`
	Fresh    int     `json:"fresh"`
	Sent     int     `json:"sent,omitempty"`
	Failed   int     `json:"failed"`
	Skipped  int     `json:"skipped"` // of other hosts, or invalid
	Resumed  int     `json:"resumed"` // done by an earlier run
	Seconds  float64 `json:"seconds"`
}

// A warming is a warm-up in progress.
type warming struct {
	c     *warmCommand
	s     *cli.Streams
	began time.Time
	name  string     // of the run, for the audit of the server
	state *warmState // nil if there is none
	send  func(context.Context, queue.Request) error

	mu     sync.Mutex
	sum    warmSum // guarded by mu
	inARow int     // guarded by mu: failures
}

// run regenerates the pages. client may be nil.
func (w *warming) run(ctx context.Context, client *admin.Client) error {
	if w.c.Queue != "" {
		api, err := w.c.SQS(ctx, "--queue", w.c.Queue, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		w.send = queue.NewSender(api, w.c.Queue, time.Now).Request
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer w.showProgress(running)()
	keys := make(chan store.Key)
	var workers sync.WaitGroup
	for range w.c.Concurrency {
		workers.Go(func() {
			for k := range keys {
				if err := w.page(running, client, k); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := w.feed(running, client, keys)
	close(keys)
	workers.Wait()
	if cause := context.Cause(running); cause != nil {
		err = cause
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted; repeat the command with the same --state to go on")
	}
	if err == nil {
		err = w.failed()
	}
	return errors.Join(w.summarize(), err)
}

// feed sends the keys of the pages, each once, at the rate.
func (w *warming) feed(ctx context.Context, client *admin.Client, keys chan<- store.Key) error {
	seen, next := make(map[store.Key]bool), time.Now()
	for k, err := range w.keys(ctx, client) {
		switch {
		case err != nil:
			return err
		case seen[k]:
			continue
		case len(seen) >= maxWarmPages:
			return fmt.Errorf("there are more than %d pages; split the list", maxWarmPages)
		}
		seen[k] = true
		if w.state != nil && w.state.done[k.String()] {
			w.count(func(s *warmSum) { s.Resumed++ })
			continue
		}
		if w.c.DryRun {
			w.count(func(s *warmSum) { s.Pages++ })
			if _, err := fmt.Fprintln(w.s.Out, k); err != nil {
				return err
			}
			continue
		}
		if w.c.Rate > 0 {
			if backoff.Wait(ctx, time.Until(next)) != nil {
				return context.Cause(ctx)
			}
			next = latest(next, time.Now().Add(-time.Second)).Add(time.Duration(float64(time.Second) / w.c.Rate))
		}
		select {
		case keys <- k:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// keys yields the keys of the pages of the list.
func (w *warming) keys(ctx context.Context, client *admin.Client) iter.Seq2[store.Key, error] {
	return func(yield func(store.Key, error) bool) {
		if w.c.Tag != "" {
			for p, err := range client.Pages(ctx) {
				if err == nil && (p.Key == "" || !slices.Contains(p.Tags, w.c.Tag)) {
					continue
				}
				k := store.Key{Tenant: store.TenantOf(p.Partition)}
				if err == nil {
					k, err = store.ParseKey(k.Tenant, p.Key)
				}
				if !yield(k, err) || err != nil {
					return
				}
			}
			return
		}
		for text, err := range w.texts(ctx) {
			if err != nil {
				yield(store.Key{}, err)
				return
			}
			k, err := store.ParseAddress(w.c.Tenant, text)
			if err != nil {
				w.count(func(s *warmSum) { s.Skipped++ })
				fmt.Fprintf(w.s.Err, "skipped: %v\n", err)
				continue
			}
			if !yield(k, nil) {
				return
			}
		}
	}
}

// texts yields the URLs of the list.
func (w *warming) texts(ctx context.Context) iter.Seq2[string, error] {
	if w.c.Sitemap != "" {
		return w.sitemap(ctx)
	}
	return func(yield func(string, error) bool) {
		in := w.s.In
		if w.c.From != "-" {
			file, err := os.Open(w.c.From)
			if err != nil {
				yield("", fmt.Errorf("--from: %w", err))
				return
			}
			defer func() { _ = file.Close() }() // read only
			in = file
		}
		for text, err := range textLines(in, "--from "+w.c.From) {
			if !yield(text, err) || err != nil {
				return
			}
		}
	}
}

// sitemap yields the URLs of the sitemap.
func (w *warming) sitemap(ctx context.Context) iter.Seq2[string, error] {
	own, _ := url.Parse(w.c.Sitemap) // validated
	hosts, _ := gateway.ParseHosts(append(slices.Clone(w.c.Host), own.Hostname()))
	addresses, _ := cli.ParseAddresses(w.c.Resolve) // validated
	transport := addresses.Transport()
	r := &sitemap.Reader{Transport: transport, Serves: func(host string) bool {
		canonicalHost, ok := canonical.Host(host)
		return host == own.Host || ok && len(w.c.Host) > 0 && hosts.Serve(canonicalHost)
	}}
	return func(yield func(string, error) bool) {
		defer transport.CloseIdleConnections()
		defer func() { w.count(func(s *warmSum) { s.Skipped += r.Skipped }) }()
		r.URLs(ctx, w.c.Sitemap)(yield)
	}
}

// page regenerates a page, or sends it. The error ends the warm-up.
func (w *warming) page(ctx context.Context, client *admin.Client, k store.Key) error {
	if ctx.Err() != nil {
		return nil
	}
	outcome, err := w.regenerate(ctx, client, k)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		fmt.Fprintf(w.s.Err, "failed: %s: %v\n", k, err)
		w.count(func(s *warmSum) { s.Pages++; s.Failed++ })
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.inARow++; w.inARow == maxWarmFailures {
			return fmt.Errorf("%d pages in a row have failed; correct the cause, and repeat the command", maxWarmFailures)
		}
		return nil
	}
	w.count(func(s *warmSum) { s.Pages++; *outcome(s)++ })
	w.mu.Lock()
	w.inARow = 0
	w.mu.Unlock()
	return w.state.add(k)
}

// regenerate regenerates a page, or sends it to the queue, and returns the count of the summary that it belongs to.
func (w *warming) regenerate(ctx context.Context, client *admin.Client, k store.Key) (func(*warmSum) *int, error) {
	if w.send != nil {
		r := queue.Request{V: queue.Version, Tenant: k.Tenant, Key: k.Text, Reason: "warm", Force: w.c.Force, Created: w.began.UTC().Truncate(time.Second)}
		return func(s *warmSum) *int { return &s.Sent }, w.send(ctx, r)
	}
	for try := 1; ; try++ {
		p, err := client.Regenerate(ctx, admin.Regenerate{Target: admin.TargetOf(k), UnlessFresh: !w.c.Force, Run: w.name})
		var failed *admin.Error
		switch {
		case err == nil && p.Fresh:
			return func(s *warmSum) *int { return &s.Fresh }, nil
		case err == nil:
			return func(s *warmSum) *int { return &s.Rendered }, nil
		case try == maxWarmTries || !errors.As(err, &failed) || failed.RetryAfter == 0:
			return nil, err
		}
		if backoff.Wait(ctx, min(failed.RetryAfter, maxWarmWait)) != nil {
			return nil, err
		}
	}
}

func (w *warming) count(change func(*warmSum)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.sum)
}

// showProgress writes a line now and then, until the returned function is called.
func (w *warming) showProgress(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var showing sync.WaitGroup
	showing.Go(func() {
		for backoff.Wait(ctx, warmProgress) == nil {
			w.mu.Lock()
			sum := w.sum
			w.mu.Unlock()
			fmt.Fprintf(w.s.Err, "%d pages, %d failed, %.1f per second\n", sum.Pages, sum.Failed, float64(sum.Pages)/time.Since(w.began).Seconds())
		}
	})
	return func() {
		cancel()
		showing.Wait()
	}
}

// summarize writes the summary.
func (w *warming) summarize() error {
	w.sum.Seconds = time.Since(w.began).Round(time.Millisecond).Seconds()
	var err error
	switch sum := w.sum; {
	case w.c.JSON:
		err = json.NewEncoder(w.s.Out).Encode(sum)
	case w.c.DryRun:
		_, err = fmt.Fprintf(w.s.Err, "%d pages, %d skipped; nothing was regenerated\n", sum.Pages, sum.Skipped)
	case w.send != nil:
		_, err = fmt.Fprintf(w.s.Out, "%d pages sent, %d failed, %d skipped, %d done before, in %gs\n", sum.Sent, sum.Failed, sum.Skipped, sum.Resumed, sum.Seconds)
	default:
		_, err = fmt.Fprintf(w.s.Out, "%d pages: %d rendered, %d fresh, %d failed; %d skipped, %d done before, in %gs\n", sum.Pages, sum.Rendered, sum.Fresh, sum.Failed, sum.Skipped, sum.Resumed, sum.Seconds)
	}
	return err
}

// failed returns an error if pages have failed, or there were none.
func (w *warming) failed() error {
	switch s := w.sum; {
	case s.Failed > 0:
		return fmt.Errorf("%d of %d pages failed", s.Failed, s.Pages)
	case s.Pages+s.Resumed == 0:
		return errors.New("there are no pages in the list")
	}
	return nil
}
