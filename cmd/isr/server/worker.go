package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger/queue"
)

// WorkerCommand is isr worker: it regenerates the pages of a queue until its context ends.
type WorkerCommand struct {
	ServeCommand `embed:""`

	Queue       string `placeholder:"URL" help:"SQS queue of the requests (regenerate.queue of the configuration file)."`
	Concurrency int    `default:"16" placeholder:"N" help:"Pages to regenerate at the same time, 1 to 1000 (${default}). --max-renders bounds the renders at each origin, too."`
}

// Help returns the text below the usage line.
func (c *WorkerCommand) Help() string {
	return `Servers that have --regenerate-queue send stale pages there. A worker needs the table, the bucket and the
site of the servers; a configuration file can be the same. Any number of workers may run. See docs/queue.md.`
}

// serverOnly are the flags of isr serve that concern visitors, or an embedded store, by the
// beginnings of their names: commands that regenerate pages without listening do not have them.
func serverOnly() []string {
	return []string{
		"listen", "proxy-protocol", "admin", "purge-", "hook", "peer", "dynamodb-listen", "dynamodb-access-key", "dynamodb-secret-key", "health-path", "fast-path",
		"client-timeout", "data", "disk", "cache-", "create-table", "drain",
	}
}

// VisitorsOnly are the flags of isr serve that a worker does not have in addition: it
// answers no visitors.
func VisitorsOnly() []string {
	return append(serverOnly(), "regenerate-queue", "max-blind", "blind", "access-log", "request-id", "memory", "min-uses", "trusted-proxy", "policy", "early-refresh", "max-origin-connections", "store-timeout")
}

// refuseFlags returns an error for a flag of the command line that has no effect.
func refuseFlags(k *kong.Context, command string, names []string) error {
	for _, p := range k.Path {
		if p.Flag != nil && hasPrefix(p.Flag.Name, names) {
			return cli.Usagef("--%s has no effect with isr %s; remove it", p.Flag.Name, command)
		}
	}
	return nil
}

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool {
		return name == p || strings.HasSuffix(p, "-") && strings.HasPrefix(name, p) || strings.HasPrefix(name, p+"-")
	})
}

// HideFlags leaves flags that have no effect out of the help of a command.
func HideFlags(model *kong.Application, command string, names []string) {
	for _, node := range model.Children {
		if node.Name != command {
			continue
		}
		for _, f := range node.Flags {
			f.Hidden = f.Hidden || hasPrefix(f.Name, names)
		}
	}
}

// Run executes the command. Invalid flags are a [cli.UsageError].
func (c *WorkerCommand) Run(ctx context.Context, s *cli.Streams, k *kong.Context) error {
	hangups, stop := CatchHangups()
	defer stop()
	if err := refuseFlags(k, "worker", VisitorsOnly()); err != nil {
		return err
	}
	flags := givenFlags(k)
	file, err := c.prepare(flags)
	if err != nil {
		return err
	}
	if c.Queue == "" {
		c.Queue = c.RegenerateQueue
	}
	c.RegenerateQueue = "" // it sends nothing
	if err := c.validateWorker(); err != nil {
		return err
	}
	log := c.Logger(s)
	watch, err := c.observed(ctx, s.Out, log)
	if err != nil {
		return err
	}
	defer watch.close()
	health, inst := watch.health, watch.inst
	back, err := c.openBackend(ctx, k, file, inst, nil, withoutMemory, log)
	if err != nil {
		return err
	}
	defer back.close(log)
	reloader, err := c.serveSite(back.cache, file, flags, nil, back.digest, inst, log)
	if err != nil {
		return err
	}
	defer reloader.site.Close()
	client, err := c.SQS(ctx, "--queue", c.Queue, log)
	if err != nil {
		return err
	}
	handler, replaceHosts := regenerations(back.cache, file, log)
	reloader.edge = func(f *config.File, _ []string) { replaceHosts(f) }
	reloader.reopenLogs = inst.reopenLogs()
	consumer := queue.New(client, handler, queue.Config{
		URL: c.Queue, Concurrency: c.Concurrency, Note: inst.metrics.Message("regenerations"), Logger: log,
	})
	problems := func() []problem {
		all := degraded(back.st, back.cache, back.deliveries)
		if err := consumer.Failure(); err != nil {
			all = append(all, problem{checkQueue, fmt.Sprintf("messages cannot be received from %s: %v", c.Queue, err)})
		}
		return all
	}
	health.ready(problems)
	inst.metrics.Sample(sources(back.st, back.cache, reloader.site, nil, nil, back.deliveries, health, inst))
	defer hangups.Each(ctx, reloader.signaled)()
	supervisor{log}.ready()
	log.Info("regenerating pages", "queue", c.Queue, "concurrency", c.Concurrency, "origin", originText(file), "store", back.st.Where)
	return c.work(ctx, consumer, back.cache, watch, longestRender(file, time.Duration(c.RenderTimeout)), log)
}

// withoutMemory adjusts the cache of a process that answers no visitors.
func withoutMemory(cfg *isr.Config) { cfg.Memory, cfg.MinUses = -1, 0 }

// prepare reads the configuration of a command that has the flags of isr serve, and checks it.
func (c *ServeCommand) prepare(flags given) (*config.File, error) {
	file, err := c.read(flags)
	if err != nil {
		return nil, err
	}
	if err := c.Adopt(file); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Config, err)
	}
	return file, c.validate(file)
}

func (c *WorkerCommand) validateWorker() error {
	switch {
	case c.Table == "":
		return cli.Usagef("isr worker needs --table and --bucket: an embedded store belongs to one isr serve, which regenerates its pages itself")
	case c.Queue == "":
		return cli.Usagef("isr worker needs --queue URL, or regenerate.queue in the configuration file")
	case c.Concurrency < 1 || c.Concurrency > 1000:
		return cli.Usagef("--concurrency must be between 1 and 1000 (got %d)", c.Concurrency)
	}
	if err := queue.ValidURL(c.Queue); err != nil {
		return cli.Usagef("--queue %v", err)
	}
	return nil
}

// regenerations returns the handler of requests for the pages of a file, and what replaces its hosts
// with the ones of another file, at any time.
func regenerations(cache *isr.Cache, f *config.File, log *slog.Logger) (handler *queue.Regenerations, replace func(*config.File)) {
	var served atomic.Pointer[gateway.Hosts]
	replace = func(f *config.File) {
		if len(f.Hosts) == 0 {
			served.Store(nil) // any: a server on this machine, whose port is in its keys
			return
		}
		hosts := hostsOf(f)
		served.Store(&hosts)
	}
	replace(f)
	serves := func(k store.Key) error {
		hosts := served.Load()
		if host, _, _, _ := k.Split(); hosts != nil && !hosts.Serve(host) {
			return fmt.Errorf("the host %s is not served; expected one of %s; %s", host, *hosts, hosts.Advice(host))
		}
		return nil
	}
	return &queue.Regenerations{Cache: cache, Serves: serves, Now: time.Now, Logger: log}, replace
}

// site returns the site of a file, which renders pages for a process. within is the budget of what is
// buffered of request bodies; nil if there is no limit.
func (i *instruments) site(cache *isr.Cache, f *config.File, within *buffers.Budget, log *slog.Logger) (*gateway.Site, error) {
	cfg, err := SiteConfig(f, log)
	if err != nil {
		return nil, err
	}
	i.watch(&cfg)
	cfg.Buffers = within
	site, err := gateway.NewSite(cache, cfg)
	if err == nil {
		i.metrics.Configured()
	}
	return site, err
}

// work consumes the queue until ctx is done. Then it receives no more messages, those in hand are
// finished within the grace period, and the others are made visible again.
func (c *WorkerCommand) work(ctx context.Context, consumer *queue.Consumer, cache *isr.Cache, watch *watched, render time.Duration, log *slog.Logger) error {
	var working sync.WaitGroup
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	working.Go(func() { consumer.Run(consuming) })
	var failed error
	select {
	case failed = <-watch.probed.Failed:
		failed = fmt.Errorf("serving %s: %w", c.Health, failed)
	case failed = <-watch.scraped.Failed:
		failed = fmt.Errorf("serving %s: %w", c.Metrics, failed)
	case <-ctx.Done():
	}
	watch.health.drain()
	stop()
	graceful := c.graceTime(render)
	supervisor{log}.stopping(graceful)
	log.Info("stopping", "grace", graceful)
	grace, cancel := WithGrace(ctx, graceful)
	defer cancel()
	finished := make(chan struct{})
	go func() {
		working.Wait()
		close(finished)
	}()
	select {
	case <-finished:
	case <-grace.Done():
	}
	if err := cache.Close(grace); err != nil {
		log.Warn("regenerations canceled at shutdown; their messages will be delivered again", "error", err)
	}
	<-finished // their messages are returned now
	log.Info("stopped")
	return failed
}
