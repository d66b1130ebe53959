package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/handover"
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
	w := &worker{WorkerCommand: c, flags: givenFlags(k), streams: s, base: c.ServeCommand, hangups: hangups}
	if err := w.configure(); err != nil {
		return err
	}
	return w.run(ctx)
}

// A worker is a running isr worker.
type worker struct {
	*WorkerCommand
	flags   given
	streams *cli.Streams
	base    ServeCommand // the flags, before a file has set any
	hangups Hangups

	// configure sets these.
	file      *config.File
	log       *slog.Logger
	adjustLog func(*config.File) // after a reload
	seen      fileStamp          // of the configuration file, when it was read

	// The parts set these when they start.
	watch    *watched
	back     *backend
	reloader *reloader
	consumer *queue.Consumer
	// replaceHosts replaces the hosts whose pages are regenerated.
	replaceHosts func(*config.File)
	refuse       func()        // receives no more messages, and makes those visible again that are not begun
	finished     chan struct{} // closed once no message is in hand
}

// parts lists the parts of a worker in the order in which they start. It is drained, and then ends, in the
// reverse order: messages in hand are finished, or canceled with their regenerations, and then returned to the
// queue.
func (w *worker) parts() []part {
	return []part{
		{prepare: w.prepareAccessLog}, // which startWatch opens
		{start: w.startWatch, prepare: w.prepareWatch},
		{start: w.startBackend, prepare: w.prepareDeliveries},
		{start: w.startSite},
		{start: w.startReloads, drain: w.drainReloads},
		{start: w.startQueue, prepare: w.prepareQueue},
		{start: w.startHangups},
		{start: w.startFileWatch},
		{drain: w.awaitMessages}, // all of them: they are returned now
		{drain: w.drainCache},
		{start: w.startConsumer, drain: w.drainConsumer},
	}
}

// run starts the parts, and works until ctx is done or a part fails. Then it finishes the messages in hand within
// the grace period.
func (w *worker) run(ctx context.Context) error {
	parts := w.parts()
	end, err := startParts(ctx, parts)
	defer end()
	if err != nil {
		return err
	}
	failed := w.failure(ctx)
	w.watch.health.drain()
	w.refuse()
	graceful := w.graceTime(longestRender(w.file, time.Duration(w.RenderTimeout)))
	supervisor{w.log}.stopping(graceful)
	w.log.Info("stopping", "grace", graceful)
	grace, cancel := WithGrace(ctx, graceful)
	defer cancel()
	drainParts(grace, parts)
	w.log.Info("stopped")
	return failed
}

// failure waits for the failure of a part. It returns nil once ctx is done.
func (w *worker) failure(ctx context.Context) error {
	select {
	case err := <-w.watch.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

// configure reads and validates the configuration. It starts nothing.
func (w *worker) configure() (err error) {
	w.seen = stampOf(w.Config)
	if w.file, err = w.prepare(w.flags); err != nil {
		return err
	}
	w.Queue = cmp.Or(w.Queue, w.RegenerateQueue)
	w.RegenerateQueue = "" // it sends nothing
	log, adjust := w.adjustable(w.streams)
	w.log, w.adjustLog = log, w.adjustedBy(w.flags, adjust)
	return w.validateWorker()
}

func (w *worker) startWatch(ctx context.Context) (end func(), err error) {
	if w.watch, err = w.observed(ctx, new(handover.Sockets), w.streams.Out, w.log); err != nil {
		return nil, err
	}
	return w.watch.close, nil
}

func (w *worker) prepareWatch(ctx context.Context, old, next *setup) (replacement, error) {
	return w.watch.prepare(ctx, new(handover.Sockets), old, next, w.log)
}

func (w *worker) prepareAccessLog(_ context.Context, old, next *setup) (replacement, error) {
	return w.watch.inst.access.prepare(old.accessLog(), next.accessLog())
}

func (w *worker) startBackend(ctx context.Context) (end func(), err error) {
	if w.back, err = w.openBackend(ctx, w.file, w.watch.inst, nil, withoutMemory, w.log); err != nil {
		return nil, err
	}
	return func() { w.back.close(w.log) }, nil
}

func (w *worker) startSite(context.Context) (end func(), err error) {
	present := &setup{ServeCommand: &w.ServeCommand, file: w.file}
	if w.reloader, err = present.serveSite(w.back.cache, w.flags, w.back.digest, w.watch.inst, w.log); err != nil {
		return nil, err
	}
	w.reloader.parts, w.reloader.adjustLog = w.parts(), w.adjustLog
	w.reloader.read = func() (*config.File, error) { return w.base.read(w.flags) }
	w.reloader.plan = func(f *config.File) (*setup, error) { return w.base.adopt(w.flags, f, &w.ServeCommand) }
	w.reloader.reopenLogs = w.watch.inst.access.reopen
	return w.reloader.site.Close, nil
}

// startQueue makes the consumer of the queue. It receives nothing until startConsumer.
func (w *worker) startQueue(ctx context.Context) (end func(), err error) {
	client, err := w.SQS(ctx, "--queue", w.Queue, w.log)
	if err != nil {
		return nil, err
	}
	var handler *queue.Regenerations
	handler, w.replaceHosts = regenerations(w.back.cache, w.file, w.log)
	w.consumer = queue.New(client, handler, queue.Config{
		URL: w.Queue, Concurrency: w.Concurrency, Note: w.watch.inst.metrics.Message("regenerations"), Logger: w.log,
	})
	return nil, nil
}

// prepareQueue prepares other hosts whose pages are regenerated.
func (w *worker) prepareQueue(_ context.Context, _, next *setup) (replacement, error) {
	return replacement{use: func() { w.replaceHosts(next.file) }}, nil
}

func (w *worker) prepareDeliveries(ctx context.Context, old, next *setup) (replacement, error) {
	return w.back.deliveries.prepare(ctx, old, next)
}

// startReloads lets parts that were replaced end before the cache closes.
func (w *worker) startReloads(context.Context) (end func(), err error) { return w.reloader.end, nil }

func (w *worker) drainReloads(ctx context.Context) { w.reloader.drain(ctx) }

// startHangups begins to handle SIGHUP.
func (w *worker) startHangups(ctx context.Context) (end func(), err error) {
	return w.hangups.Each(ctx, w.reloader.signaled), nil
}

func (w *worker) startFileWatch(ctx context.Context) (end func(), err error) {
	return w.watchFile(ctx, w.reloader, w.seen), nil
}

func (w *worker) startConsumer(ctx context.Context) (end func(), err error) {
	inst := w.watch.inst
	w.watch.health.ready(w.problems)
	inst.metrics.Sample(sources(w.back.st, w.back.cache, w.reloader.site, nil, nil, w.back.deliveries, w.watch.health, inst))
	supervisor{w.log}.ready()
	w.log.Info("regenerating pages", "queue", w.Queue, "concurrency", w.Concurrency, "origin", originText(w.file), "store", w.back.st.Where)
	w.reloader.begin()
	ctx, w.refuse = context.WithCancel(ctx)
	w.finished = make(chan struct{})
	go func() {
		defer close(w.finished)
		w.consumer.Run(ctx)
	}()
	return w.refuse, nil
}

// problems returns why the worker is degraded.
func (w *worker) problems() []problem {
	all := degraded(w.back.st, w.back.cache, w.back.deliveries)
	if err := w.consumer.Failure(); err != nil {
		all = append(all, problem{checkQueue, "messages", fmt.Sprintf("messages cannot be received from %s: %v", w.Queue, err)})
	}
	return all
}

func (w *worker) drainConsumer(ctx context.Context) {
	select {
	case <-w.finished:
	case <-ctx.Done():
	}
}

func (w *worker) drainCache(ctx context.Context) {
	if err := w.back.cache.Close(ctx); err != nil {
		w.log.Warn("regenerations canceled at shutdown; their messages will be delivered again", "error", err)
	}
}

func (w *worker) awaitMessages(context.Context) { <-w.finished }

// withoutMemory adjusts the cache of a process that answers no visitors.
func withoutMemory(cfg *isr.Config) { cfg.Memory, cfg.MinUses = -1, 0 }

// prepare reads the configuration of a command that has the flags of isr serve, and checks it.
func (c *ServeCommand) prepare(flags given) (*config.File, error) {
	file, err := c.read(flags)
	if err != nil {
		return nil, flags.named(err, nil)
	}
	_, err = c.adopt(flags, file, nil)
	return file, err
}

// adopt validates a file with the flags of a command that has the flags of isr serve, which it sets. If the command runs, next is
// a copy of the flags, and the command stays as it is.
func (c *ServeCommand) adopt(flags given, file *config.File, running *ServeCommand) (next *setup, err error) {
	if running != nil {
		fresh := *c
		fresh.buffered, fresh.throttled, fresh.requests = running.buffered, running.throttled, running.requests
		c = &fresh
	}
	if err := c.Adopt(file); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Config, err)
	}
	if err := c.validate(file); err != nil {
		return nil, flags.named(err, file)
	}
	return &setup{ServeCommand: c, file: file}, nil
}

// plan is adopt for isr serve.
func (c *ServeCommand) plan(flags given, file *config.File, running *ServeCommand) (next *setup, err error) {
	if next, err = c.adopt(flags, file, running); err != nil {
		return nil, err
	}
	embedded := next.Table == ""
	if next.admin, err = next.adminFlags.plan(embedded); err != nil {
		return nil, err
	}
	if next.triggerPlan, err = next.planTriggers(next.admin.address != nil); err != nil {
		return nil, err
	}
	if err := next.purgeFlags.validate(embedded, next.admin); err != nil {
		return nil, err
	}
	if next.errorPages, err = errorPages(file); err != nil {
		return nil, err
	}
	next.draftSecrets, err = draftSecrets(file)
	return next, err
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
