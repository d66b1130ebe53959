package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/examples/demosite/site"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/httpconn"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/localdynamo"
)

type serveCommand struct {
	Origin string `placeholder:"URL" help:"URL of the site behind the cache, like http://127.0.0.1:3000."`
	Demo   bool   `xor:"origin" help:"Serve the built-in demonstration site."`
	Listen string `default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address to listen on (${default})."`

	Revalidate   span     `default:"0" placeholder:"TIME" help:"Freshness window of pages for which the origin sends none (${default}: they are not cached)."`
	Stale        span     `default:"24h" placeholder:"TIME" help:"Stale window: how long after that a page may be served while it is regenerated, at most (${default})."`
	Vary         []string `sep:"," placeholder:"NAME" help:"Request header that is part of the cache key; repeatable."`
	Query        []string `sep:"," placeholder:"NAME" help:"Query parameter that is part of the cache key; repeatable."`
	IgnoreCookie []string `sep:"," placeholder:"NAME" help:"Cookie that does not affect pages; NAME may end in *, and * means all; repeatable."`
	Preset       string   `enum:",next" default:"" placeholder:"NAME" help:"Framework whose pages declare what they vary on: next."`
	TenantHeader string   `placeholder:"NAME" help:"Request header that names the tenant; requests without it are refused."`

	StoreNegative bool `help:"Store 404 and 410 responses of pages that are not stored yet, for all servers, instead of keeping them in the negative cache."`

	edgeFlags    `embed:""`
	renderFlags  `embed:""`
	historyFlags `embed:""`

	adminFlags  `embed:""`
	storeFlags  `embed:""`
	CreateTable bool `help:"Create the DynamoDB table if it does not exist."`

	StoreTimeout span `default:"300ms" placeholder:"TIME" help:"Total time that a request waits for the stores, between 1ms and 24h; then the page is rendered without being stored (${default})."`
	RequireStore bool `help:"Fail at start if the stores do not answer, instead of serving without them until they do."`

	healthFlags `embed:""`

	Lease     span  `default:"30s" placeholder:"TIME" help:"Duration of a lease, between 1s and 24h: how long a crashed server can delay the regeneration of a page (${default})."`
	Retention span  `default:"30d" placeholder:"TIME" help:"How long a page without requests is kept (${default})."`
	Memory    size  `default:"256MiB" placeholder:"BYTES" help:"Size of the page cache in memory (${default}); 0 disables it."`
	Disk      *size `placeholder:"BYTES" help:"Size of the embedded store, at least 1MiB; beyond it the least recently used pages are evicted (a tenth of the free space, at least 1GiB)."`
	MinUses   int   `default:"1" placeholder:"N" help:"Store a page only from its Nth request within half an hour, 1 to 100 (${default})."`
	logFlag   `embed:""`

	DynamodbListen string `placeholder:"ADDR" help:"Address at which to serve the embedded store to other programs as DynamoDB (none); see isr help dynamodb."`
	dynamodbKeys   `embed:"" prefix:"dynamodb-"`
}

func (c *serveCommand) Run(ctx context.Context, s *streams) error {
	origin, err := c.validate()
	if err != nil {
		return err
	}
	plan, err := c.plan(c.Table == "")
	if err != nil {
		return err
	}
	log := c.logger(s)
	folder, err := claim(c.Data)
	if err != nil {
		return err
	}
	defer folder.release()
	health := newHealth()
	probed, err := c.healthFlags.serve(health, log)
	if err != nil {
		return err
	}
	defer func() { _ = probed.server.Close() }() // answers to the end
	st, err := c.openStores(ctx, log)
	if err != nil {
		return err
	}
	// Acknowledged writes are already on disk.
	defer func() {
		if err := st.close(); err != nil {
			log.Error("failed to close store", "error", err)
		}
	}()
	cache, err := isr.New(st.meta, st.bodies, c.config(st, log))
	if err != nil {
		return flagErrors(err)
	}
	defer c.keepDisk(ctx, st, cache, log)()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w; give another address with --listen", c.Listen, err)
	}
	administration, err := plan.administer(folder, st, cache, c.hosts(listener.Addr()), s, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer administration.close()
	shared, err := c.share(st.engine, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	relaxCollector()
	limitMemory(int64(c.Memory))
	log.Info("serving http://"+displayAddress(listener.Addr()), "origin", c.originText(), "store", st.where)
	server := newServer(c.edge(listener.Addr(), c.handler(cache, origin, log), c.HealthPath, health, log), log)
	at := listener.Addr()
	listener = c.accept(server, httpconn.CoalesceWrites(server, listener, time.Duration(c.ClientTimeout)))
	go warnOfOrigin(ctx, origin, log)
	health.ready(func() []string { return degraded(st, cache) })
	return c.attend(ctx, attended{start(server, listener), shared, probed, cache, health, c.drainTime(at)}, log)
}

// warnOfOrigin connects once to an origin, nil for none, and logs a warning if that fails:
// the site is not started yet, or --origin is wrong.
func warnOfOrigin(ctx context.Context, origin *url.URL, log *slog.Logger) {
	if origin == nil {
		return
	}
	port := origin.Port()
	if port == "" {
		port = origin.Scheme // also a service name
	}
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(origin.Hostname(), port))
	if err == nil {
		_ = conn.Close()
		return
	}
	if ctx.Err() == nil {
		log.Warn("failed to connect to origin: start the site, or correct --origin", "origin", origin.String(), "error", err)
	}
}

// openStores opens the stores. Without --require-store, stores that do not answer are
// no error: the server starts without them.
func (c *serveCommand) openStores(ctx context.Context, log *slog.Logger) (*stores, error) {
	st, err := c.open(ctx, c.CreateTable || c.Table == "", log)
	switch {
	case err != nil:
		return nil, err
	case st.reach == nil:
		return st, nil
	case c.RequireStore:
		err = st.reach.must(ctx)
	default:
		err = st.reach.begin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

// keepDisk keeps the embedded store within its bound until stop is called.
func (c *serveCommand) keepDisk(ctx context.Context, st *stores, cache *isr.Cache, log *slog.Logger) (stop func()) {
	if st.disk == nil {
		return func() {}
	}
	bound := int64(0)
	if c.Disk != nil {
		bound = int64(*c.Disk)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { st.disk.keep(ctx, bound, c.Data, cache, st.meta) })
	return func() {
		cancel()
		keeping.Wait()
	}
}

// degraded returns the stores that a server does without, and why.
func degraded(st *stores, cache *isr.Cache) (reasons []string) {
	if problem := st.reach.problem(); problem != "" {
		reasons = append(reasons, "the stores are not used: "+problem)
	}
	for _, store := range cache.StoresDown() {
		reasons = append(reasons, "the store of the "+store+" does not answer")
	}
	return reasons
}

func (c *serveCommand) validate() (*url.URL, error) {
	if err := c.storeFlags.validate(); err != nil {
		return nil, err
	}
	switch {
	case c.Disk != nil && c.Table != "":
		return nil, usagef("--disk bounds the embedded store and cannot be combined with --table; use a lifecycle rule of the bucket, and --retention")
	case c.MinUses < 1 || c.MinUses > 100:
		return nil, usagef("--min-uses must be between 1 and 100 (got %d)", c.MinUses)
	case c.Disk != nil && *c.Disk < 1<<20:
		return nil, usagef("--disk must be at least 1MiB (got %d bytes)", *c.Disk)
	}
	if c.CreateTable && c.Table == "" {
		return nil, usagef("--create-table needs --table NAME")
	}
	if err := c.validateSharing(); err != nil {
		return nil, err
	}
	if err := errors.Join(c.renderFlags.validate(), c.historyFlags.validate(), c.healthFlags.validate()); err != nil {
		return nil, err
	}
	if c.StoreTimeout < span(time.Millisecond) || c.StoreTimeout > span(24*time.Hour) {
		return nil, usagef("--store-timeout must be between 1ms and 24h (got %s)", time.Duration(c.StoreTimeout))
	}
	if err := c.route().Validate(); err != nil {
		return nil, flagErrors(err)
	}
	if err := c.edgeFlags.validate(c.Listen); err != nil {
		return nil, err
	}
	if c.Demo && c.Origin != "" {
		return nil, usagef("--demo and --origin %s exclude each other; give one of them, and check whether ISR_ORIGIN or ISR_DEMO is set", c.Origin)
	}
	if c.Demo {
		return nil, nil
	}
	if c.Origin == "" {
		return nil, usagef("no site given; use --origin http://127.0.0.1:3000, or --demo for the demonstration site")
	}
	origin, err := gateway.ParseOrigin(c.Origin)
	if err != nil {
		return nil, usagef("--origin: %v", err)
	}
	return origin, nil
}

func (c *serveCommand) validateSharing() error {
	switch {
	case c.DynamodbListen == "" && c.dynamodbKeys != dynamodbKeys{}:
		return usagef("--dynamodb-access-key and --dynamodb-secret-key need --dynamodb-listen ADDR")
	case c.DynamodbListen == "":
		return nil
	case c.Table != "":
		return usagef("--dynamodb-listen serves the embedded store and cannot be combined with --table; other programs can use the table %s on DynamoDB itself", c.Table)
	}
	return c.dynamodbKeys.validate("--dynamodb-listen", c.DynamodbListen)
}

func (c *serveCommand) route() isr.Route {
	rt := c.renderFlags.route(isr.Route{
		Name:          gateway.RouteName,
		Revalidate:    time.Duration(c.Revalidate),
		Stale:         time.Duration(c.Stale),
		Query:         c.Query,
		Vary:          c.Vary,
		IgnoreCookies: c.IgnoreCookie,
		TenantHeader:  c.TenantHeader,
		History:       c.History,
		StoreNegative: c.StoreNegative,
	})
	if rt.Stale == 0 {
		rt.Stale = -1 // 0 disables it on the command line, and means the default in the library
	}
	if c.Preset == "next" {
		rt = gateway.Next(rt)
	}
	if c.Demo {
		rt.Query = append(rt.Query, site.QueryParameters()...)
	}
	return rt
}

func (c *serveCommand) config(st *stores, log *slog.Logger) isr.Config {
	cfg := c.renderFlags.config(isr.Config{
		Memory:    int64(c.Memory),
		Lease:     time.Duration(c.Lease),
		Retention: time.Duration(c.Retention),

		MinUses:      c.MinUses,
		StoreTimeout: time.Duration(c.StoreTimeout),
		Logger:       log,
	})
	cfg = c.historyFlags.config(cfg, c.Table == "", c.DynamodbListen != "")
	if cfg.Memory == 0 {
		cfg.Memory = -1
	}
	if st.disk != nil {
		cfg.Full = st.disk.full
	}
	return cfg
}

func (c *serveCommand) handler(cache *isr.Cache, origin *url.URL, log *slog.Logger) http.Handler {
	rt := c.route()
	rt.Budget = c.budget(c.originText(), log)
	if c.Demo {
		return cache.Handler(rt, site.Handler(site.Config{}))
	}
	return gateway.New(cache, rt, c.gateway(origin, log))
}

func (c *serveCommand) originText() string {
	if c.Demo {
		return "the demonstration site"
	}
	return c.Origin
}

// share serves the embedded store to other programs as DynamoDB. Without --dynamodb-listen
// it returns an idle server, which never fails.
func (c *serveCommand) share(engine *localdynamo.DB, log *slog.Logger) (*running, error) {
	if c.DynamodbListen == "" {
		return &running{server: new(http.Server)}, nil
	}
	return c.dynamodbKeys.serve("--dynamodb-listen", c.DynamodbListen, engine, log)
}

// attended are the parts of a running server.
type attended struct {
	gateway, shared, probed *running
	cache                   *isr.Cache
	health                  *health
	drain                   time.Duration
}

// attend serves until ctx is done, then shuts down in this order: /readyz fails while the
// server still serves (--drain), so that load balancers remove it; the gateway accepts no
// more requests; requests and regenerations in flight finish within the grace period, and
// the leases of the others are released. The shared store stops last, because the site may
// need it to render.
func (c *serveCommand) attend(ctx context.Context, a attended, log *slog.Logger) error {
	select {
	case err := <-a.gateway.failed:
		return fmt.Errorf("serving %s: %w", c.Listen, err)
	case err := <-a.shared.failed:
		return fmt.Errorf("serving %s: %w", c.DynamodbListen, err)
	case err := <-a.probed.failed:
		return fmt.Errorf("serving %s: %w", c.Health, err)
	case <-ctx.Done():
	}
	a.health.drain()
	if a.drain > 0 {
		log.Info("draining: not ready, still serving", "for", a.drain)
		_ = backoff.Wait(context.WithoutCancel(ctx), a.drain)
	}
	graceful := c.graceTime(time.Duration(c.RenderTimeout))
	log.Info("stopping", "grace", graceful)
	grace, cancel := withGrace(ctx, graceful)
	defer cancel()
	a.gateway.stop(grace, log)
	if err := a.cache.Close(grace); err != nil {
		log.Warn("regenerations canceled at shutdown", "error", err)
	}
	grace, cancel = withGrace(ctx, graceTime) // a grace period of its own: its clients learn of the shutdown only now
	defer cancel()
	a.shared.stop(grace, log)
	log.Info("stopped")
	return nil
}

// limitMemory sets a soft memory limit, because the GC percentage of relaxCollector would
// let the heap of a large memory tier grow several times. GOMEMLIMIT takes precedence.
func limitMemory(tier int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(tier + tier/2 + 256<<20)
	}
}

// displayAddress returns an address that a browser on this machine can open.
func displayAddress(a net.Addr) string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
