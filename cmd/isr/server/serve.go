package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/internal/handover"
	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/trigger/queue"
)

// ServeCommand is isr serve: it serves a site through the cache until its context ends.
type ServeCommand struct {
	Config string `type:"path" placeholder:"FILE" help:"Configuration file (isr.yaml), instead of flags. A setting of the file cannot also be a flag or variable. SIGHUP makes isr serve and isr worker read it again; so does isr reload. SIGUSR2 makes isr serve start the program again and hand its listeners over to it, for an upgrade (docs/upgrade.md)."`

	Watch bool `help:"Reload the configuration file when it changes, within a few seconds, as isr reload does. Needs --config."`

	Origin string `placeholder:"URL" help:"URL of the site behind the cache, like http://127.0.0.1:3000."`
	Demo   bool   `xor:"origin" help:"Serve the built-in demonstration site."`
	Listen string `default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address to listen on (${default})."`

	Revalidate   cli.Span  `default:"0" placeholder:"TIME" help:"Freshness window of pages for which the origin sends none (${default}: they are not cached)."`
	Stale        *cli.Span `placeholder:"TIME" help:"Stale window: how long after its freshness window a page may be served while it is regenerated. It bounds the stale-while-revalidate of responses, and replaces a missing one; 0 for never (stale-while-revalidate of the response, unless it has s-maxage; 1d with --demo and --preset; see --keep-stale)."`
	KeepStale    bool      `default:"true" negatable:"" help:"Keep pages at hand whose freshness window is --revalidate, because their response states none: without --stale, such a page is served for another freshness window while it is regenerated, and in any case for a day while the origin fails; on by default."`
	Vary         []string  `sep:"," placeholder:"NAME" help:"Request header that is part of the cache key; repeatable."`
	Query        []string  `sep:"," placeholder:"NAME" help:"Query parameter that is part of the cache key; repeatable."`
	IgnoreCookie []string  `sep:"," placeholder:"NAME" help:"Cookie that does not affect pages; NAME may end in *, and * means all; with a ! before NAME the cookie counts although it is well-known; repeatable."`
	Preset       string    `enum:",next,nuxt,astro,sveltekit,react-router,django,rails,laravel,wordpress" default:"" placeholder:"NAME" help:"Framework of the site: next, nuxt, astro, sveltekit, react-router, django, rails, laravel or wordpress. It sets windows, what pages depend on, and paths that are never cached; isr config preset NAME prints it (docs/sites.md)."`
	TenantHeader string    `placeholder:"NAME" help:"Request header that names the tenant; requests without it are refused."`

	Build string `placeholder:"ID" help:"Id of the build of the site, such as a commit or a date: pages of older builds are stale, and regenerated at their next request (none)."`

	StoreNegative bool `help:"Store 404 and 410 responses of pages that are not stored yet, for all servers, instead of keeping them in the negative cache."`

	OwnRequest bool `help:"Send each visitor's own request for a response that must not be shared, also the request of the visitor who caused its render: the origin then sees two requests. For sites that answer by a visitor's address or headers and do not name them in Vary."`

	EdgeFlags    `embed:""`
	RenderFlags  `embed:""`
	historyFlags `embed:""`

	RegenerateQueue string `placeholder:"URL" help:"SQS queue to which stale pages are sent, instead of regenerating them here; isr worker regenerates them. Missing pages are rendered at once, and all pages if the queue fails. Needs --table. See docs/queue.md."`

	TriggerFlags `embed:""`

	adminFlags  `embed:""`
	purgeFlags  `embed:""`
	StoreFlags  `embed:""`
	peerFlags   `embed:""`
	CreateTable bool `help:"Create the DynamoDB table if it does not exist."`

	StoreTimeout cli.Span `default:"300ms" placeholder:"TIME" help:"Total time that a request waits for the stores, between 1ms and 24h; then the page is rendered without being stored (${default})."`
	RequireStore bool     `help:"Fail at start if the stores do not answer, instead of serving without them until they do."`

	healthFlags `embed:""`

	metricsFlags `embed:""`

	Lease     cli.Span  `default:"30s" placeholder:"TIME" help:"Duration of a lease, between 1s and 24h: how long a crashed server can delay the regeneration of a page (${default})."`
	Retention cli.Span  `default:"30d" placeholder:"TIME" help:"How long a page without requests is kept (${default})."`
	Memory    cli.Size  `default:"256MiB" placeholder:"BYTES" help:"Size of the page cache in memory (${default}); 0 disables it."`
	Buffers   *cli.Size `placeholder:"BYTES" help:"Bytes that are buffered for requests and responses, of all clients, at least 4MiB; one client may use a quarter (a quarter of --memory, at least 32MiB)."`
	Disk      *cli.Size `placeholder:"BYTES" help:"Size of the embedded store, at least 1MiB; beyond it the least recently used pages are evicted (a tenth of the free space, at least 1GiB)."`
	CacheDir  string    `type:"path" placeholder:"DIR" help:"Folder on a local disk with copies of the bodies in the bucket, so that each is read from there once; for one server (none)."`
	CacheSize *cli.Size `placeholder:"BYTES" help:"Size of --cache-dir, at least 1MiB; beyond it the least recently used bodies are removed (10GiB)."`
	MinUses   int       `default:"1" placeholder:"N" help:"Store a page only from its Nth request within half an hour, 1 to 100 (${default})."`
	LogFlag   `embed:""`

	telemetryFlags `embed:""`

	buffered *buffers.Budget // of this process, once it runs

	freezes bool // after each response, as a Lambda function: nothing is done in the background

	DynamodbListen string `placeholder:"ADDR" help:"Address at which to serve the embedded store to other programs as DynamoDB (none); see isr help dynamodb."`
	DynamodbKeys   `embed:"" prefix:"dynamodb-"`
}

// Run executes the command. Invalid flags are a [cli.UsageError].
func (c *ServeCommand) Run(ctx context.Context, s *cli.Streams, k *kong.Context) error {
	hangups, stop := CatchHangups()
	defer stop()
	upgrades, stopUpgrades := catchUpgrades()
	defer stopUpgrades()
	sockets, err := handover.Receive()
	if err != nil {
		return err
	}
	srv := &server{setup: &setup{ServeCommand: c}, base: *c, flags: givenFlags(k), streams: s, hangups: hangups, upgrades: upgrades, sockets: sockets}
	if err := srv.configure(); err != nil {
		return err
	}
	return srv.serve(ctx)
}

// serveSite returns the reloader of the site of a configuration, which reads the file again by read, and replaces parts.
func (s *setup) serveSite(cache *isr.Cache, flags given, digest *digest, inst *instruments, log *slog.Logger) (*reloader, error) {
	site, err := inst.site(cache, s.file, s.buffered, log)
	if err != nil {
		return nil, err
	}
	r := &reloader{path: s.Config, site: site, digest: digest, metrics: inst.metrics, live: inst.live, watch: inst.watch, buffered: s.buffered, log: log, flags: flags}
	r.retired, r.endAll = context.WithCancel(context.Background())
	r.current.Store(s)
	return r, nil
}

// warnOfOrigin connects once to an address of an origin, and logs a warning if that fails:
// the site is not started yet, or the address is wrong.
func warnOfOrigin(ctx context.Context, origin *url.URL, log *slog.Logger) {
	port := origin.Port()
	if port == "" {
		port = "80"
		if origin.Scheme == "https" {
			port = "443"
		}
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

// manyBypasses is after how many requests without the cache the log tells why, once.
const manyBypasses = 100

// reportBypasses logs why requests were answered without the cache, once there were many, and ends.
func reportBypasses(ctx context.Context, monitor *live.Monitor, url string, name details.Naming, log *slog.Logger) {
	for backoff.Wait(ctx, 10*time.Second) == nil {
		requests, reasons, most := details.Bypasses(monitor.Snapshot(time.Now()).Hour.Reasons)
		if requests >= manyBypasses {
			why, _ := details.Named(most, name)
			log.Info("requests were answered without the cache", "requests", requests, "reasons", reasons, "do", why.Do(), "more", "isr doctor --url "+url+"/")
			return
		}
	}
}

// openStores opens the stores. Without --require-store, stores that do not answer are
// no error: the server starts without them.
func (c *ServeCommand) openStores(ctx context.Context, log *slog.Logger) (*Stores, error) {
	st, err := c.Open(ctx, c.CreateTable || c.Table == "", log)
	switch {
	case err != nil:
		return nil, err
	case st.Reach == nil:
		return st, nil
	case c.RequireStore:
		err = st.Reach.must(ctx)
	default:
		err = st.Reach.begin(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

// degraded returns what a server does without, and why: stores, and deliveries to
// downstream caches.
func degraded(st *Stores, cache *isr.Cache, deliveries *deliveries) (all []problem) {
	if unreached := st.Reach.problem(); unreached != "" {
		all = append(all, problem{checkStores, "", "the stores are not used: " + unreached})
	}
	for _, store := range cache.StoresDown() {
		all = append(all, problem{checkStores, store, "the store of the " + store + " does not answer"})
	}
	if cache.QueueDown() {
		all = append(all, problem{checkQueue, "", "the queue of regenerations does not take stale pages"})
	}
	for _, f := range deliveries.failures() {
		all = append(all, problem{checkDownstream, f.Destination, fmt.Sprintf("purges are not delivered to %s since %s: %v", f.Destination, f.Since.UTC().Format(time.RFC3339), f.Err)})
	}
	return all
}

// schemeProblems returns how trusted proxies contradict public_scheme.
func schemeProblems(site *gateway.Site) []problem {
	if text := site.SchemeProblem().String(); text != "" {
		return []problem{{checkScheme, "", text}}
	}
	return nil
}

// validate checks the flags, and the fields of the file that are flags.
func (c *ServeCommand) validate(f *config.File) error {
	if err := c.StoreFlags.Check(); err != nil {
		return err
	}
	switch {
	case c.Disk != nil && c.Table != "":
		return cli.Usagef("--disk bounds the embedded store and cannot be combined with --table; use a lifecycle rule of the bucket, and --retention")
	case c.CacheDir != "" && c.Table == "":
		return cli.Usagef("--cache-dir keeps copies of the bodies in a bucket and needs --table and --bucket; the embedded store is on a local disk already")
	case c.CacheSize != nil && c.CacheDir == "":
		return cli.Usagef("--cache-size needs --cache-dir DIR")
	case c.CacheSize != nil && *c.CacheSize < 1<<20:
		return cli.Usagef("--cache-size must be at least 1MiB (got %d bytes)", *c.CacheSize)
	case c.MinUses < 1 || c.MinUses > 100:
		return cli.Usagef("--min-uses must be between 1 and 100 (got %d)", c.MinUses)
	case c.Buffers != nil && *c.Buffers < 4<<20:
		return cli.Usagef("--buffers must be at least 4MiB (got %d bytes)", *c.Buffers)
	case c.Disk != nil && *c.Disk < embedded.LeastBound:
		return cli.Usagef("--disk must be at least 1MiB (got %d bytes)", *c.Disk)
	case c.RegenerateQueue != "" && c.Table == "":
		return cli.Usagef("--regenerate-queue needs --table NAME: workers cannot use an embedded store")
	case c.RegenerateQueue != "" && queue.ValidURL(c.RegenerateQueue) != nil:
		return cli.Usagef("--regenerate-queue %v", queue.ValidURL(c.RegenerateQueue))
	case c.Watch && c.Config == "":
		return cli.Usagef("--watch needs --config FILE: flags are read only once")
	case c.CreateTable && c.Table == "":
		return cli.Usagef("--create-table needs --table NAME")
	case c.Table != "" && f.CertificateHosts() != nil && f.ACME.Storage == "":
		return cli.Usagef("--table needs acme.storage in %s: a folder that all servers share", c.Config)
	}
	if err := c.validateSharing(); err != nil {
		return err
	}
	if err := errors.Join(c.RenderFlags.validate(), c.historyFlags.validate(), c.healthFlags.validate(), c.metricsFlags.validate(), c.telemetryFlags.validate()); err != nil {
		return err
	}
	if c.StoreTimeout < cli.Span(time.Millisecond) || c.StoreTimeout > cli.Span(24*time.Hour) {
		return cli.Usagef("--store-timeout must be between 1ms and 24h (got %s)", time.Duration(c.StoreTimeout))
	}
	if c.Config != "" {
		return nil // the rest is in the file
	}
	rt, err := routeOf(f.Routes[0], c.Demo)
	if err != nil {
		return err
	}
	if err := rt.Validate(); err != nil {
		return flagErrors(err)
	}
	if err := c.EdgeFlags.validate(c.Listen); err != nil {
		return err
	}
	return c.validateOrigin()
}

// validateOrigin checks that the command line names one site.
func (c *ServeCommand) validateOrigin() error {
	switch {
	case c.Demo && c.Origin != "":
		return cli.Usagef("--demo and --origin %s exclude each other; give one of them", c.Origin)
	case c.Demo:
		return nil
	case c.Origin == "":
		return cli.Usagef("no site given; use --origin http://127.0.0.1:3000, --config FILE, or --demo for the demonstration site")
	}
	if _, err := gateway.ParseOrigin(c.Origin); err != nil {
		return cli.Usagef("--origin: %v", err)
	}
	return nil
}

func (c *ServeCommand) validateSharing() error {
	switch {
	case c.DynamodbListen == "" && c.DynamodbKeys != DynamodbKeys{}:
		return cli.Usagef("--dynamodb-access-key and --dynamodb-secret-key need --dynamodb-listen ADDR")
	case c.DynamodbListen == "":
		return nil
	case c.Table != "":
		return cli.Usagef("--dynamodb-listen serves the embedded store and cannot be combined with --table; other programs can use the table %s on DynamoDB itself", c.Table)
	}
	return c.DynamodbKeys.Validate("--dynamodb-listen", c.DynamodbListen)
}

func (c *ServeCommand) config(st *Stores, deliveries isr.Downstream, digest *digest, log *slog.Logger) isr.Config {
	cfg := c.RenderFlags.config(isr.Config{
		Memory:    int64(c.Memory),
		Buffers:   c.buffered,
		Lease:     time.Duration(c.Lease),
		Retention: time.Duration(c.Retention),

		MinUses:      c.MinUses,
		Downstream:   deliveries,
		StoreTimeout: time.Duration(c.StoreTimeout),
		Logger:       log,
	})
	cfg = c.historyFlags.config(cfg, c.Table == "", c.DynamodbListen != "")
	if c.freezes {
		cfg.Freezes = true
	} else if cfg.Poll > 0 {
		cfg.Node = nodeName() // other processes may use the table
		cfg.Release, cfg.Configuration = cli.Version(), digest.get
	}
	cfg.Build = c.Build
	if cfg.Memory == 0 {
		cfg.Memory = -1
	}
	if st.disk != nil {
		cfg.Full = st.disk.Full
	}
	return cfg
}

// nodeName names this process to operators, as it names the holder of a lease.
func nodeName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// originText names the origins of a file, for the log.
func originText(f *config.File) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(f.Origins)) {
		if o := f.Origins[name]; o.Demo {
			texts = append(texts, "the demonstration site")
		} else {
			texts = append(texts, o.URL...)
		}
	}
	return strings.Join(texts, ", ")
}

// longestRender returns the longest render timeout of a file.
func longestRender(f *config.File, otherwise time.Duration) time.Duration {
	longest := otherwise
	for _, r := range f.Routes {
		if r.RenderTimeout != nil {
			longest = max(longest, *r.RenderTimeout)
		}
	}
	return longest
}

// RenderFlags configure when pages are rendered and the load on the origin. On the command
// line zero means none or no limit; in the library it means the default.
type RenderFlags struct {
	Policy       isr.Policy `default:"serve-stale" placeholder:"NAME" help:"Response while a page is not fresh: serve-stale, or wait (for the new page) (${default})."`
	EarlyRefresh float64    `default:"0" placeholder:"FACTOR" help:"Refresh popular pages shortly before they expire (XFetch beta; 1 is typical, 0 disables) (${default})."`
	Jitter       float64    `default:"0.05" placeholder:"PART" help:"Shorten each freshness window by a random part, at most this one, so that pages do not expire together; 0 to 0.5 (${default})."`

	RenderTimeout   cli.Span `default:"30s" placeholder:"TIME" help:"Time limit for the origin to render a page, at most 24h (${default})."`
	MaxBody         cli.Size `default:"16MiB" placeholder:"BYTES" help:"Largest page that is stored, at most 1GiB (${default})."`
	MaxHeader       cli.Size `default:"64KiB" placeholder:"BYTES" help:"Largest response header that is stored, 1KiB to 128KiB; each field counts for its name, its value and 32 bytes (${default})."`
	MaxTags         int      `default:"512" placeholder:"N" help:"How many purge tags a page may have, at most 2048 (${default})."`
	MaxRenders      int      `default:"16" placeholder:"N" help:"Concurrent renders at the origin; others queue; 0 means no limit (${default})."`
	BreakerFailures int      `default:"10" placeholder:"N" help:"Consecutive failures of different pages that open the circuit breaker of the origin for five seconds; 0 disables it (${default})."`
}

func (f *RenderFlags) validate() error {
	switch {
	case f.RenderTimeout <= 0:
		return cli.Usagef("--render-timeout must be more than 0 and at most 24h (got %s)", time.Duration(f.RenderTimeout))
	case f.MaxBody <= 0:
		return cli.Usagef("--max-body must be more than 0 and at most 1GiB (got %d bytes)", int64(f.MaxBody))
	case f.MaxHeader < 1<<10 || f.MaxHeader > 128<<10:
		return cli.Usagef("--max-header must be between 1KiB and 128KiB (got %d bytes)", int64(f.MaxHeader))
	case f.MaxTags < 1 || f.MaxTags > 2048:
		return cli.Usagef("--max-tags must be between 1 and 2048 (got %d)", f.MaxTags)
	case f.MaxRenders < 0:
		return cli.Usagef("--max-renders must not be negative (got %d); 0 means no limit", f.MaxRenders)
	case f.BreakerFailures < 0:
		return cli.Usagef("--breaker-failures must not be negative (got %d); 0 disables the circuit breaker", f.BreakerFailures)
	case f.Jitter < 0:
		return cli.Usagef("--jitter must be between 0 and 0.5 (got %v)", f.Jitter)
	}
	return nil
}

// config sets the fields of a cache configuration.
func (f *RenderFlags) config(cfg isr.Config) isr.Config {
	cfg.RenderTimeout = time.Duration(f.RenderTimeout)
	cfg.MaxBody, cfg.MaxHeader, cfg.MaxTags = int64(f.MaxBody), int64(f.MaxHeader), f.MaxTags
	return cfg
}

// historyFlags configure which generations are kept, and how servers learn of changes.
type historyFlags struct {
	History     int      `default:"3" placeholder:"N" help:"Generations of a page that are kept for rollbacks, including the current one, at most 100; 0 keeps none (${default})."`
	RequestLife cli.Span `default:"24h" placeholder:"TIME" help:"How long the record of a request with an idempotency key is kept, 1h to ten years (${default})."`
	Poll        cli.Span `default:"250ms" placeholder:"TIME" help:"Interval at which the log is read for changes by other servers, 10ms to 5m; each read costs one read unit (${default})."`

	MaxBlind cli.Span        `default:"10s" placeholder:"TIME" help:"How long a server that cannot read the log serves pages before --blind applies, 1s to 24h (${default})."`
	Blind    isr.BlindPolicy `default:"serve" placeholder:"NAME" help:"Response of a server that could not read the log for --max-blind: serve (what it has), or refuse (503) (${default})."`
}

func (f *historyFlags) validate() error {
	switch life, poll, blind := time.Duration(f.RequestLife), time.Duration(f.Poll), time.Duration(f.MaxBlind); {
	case life < time.Hour:
		return cli.Usagef("--request-life must be between 1h and ten years (got %s)", life)
	case poll < 10*time.Millisecond || poll > 5*time.Minute:
		return cli.Usagef("--poll must be between 10ms and 5m (got %s)", poll)
	case blind < time.Second || blind > 24*time.Hour:
		return cli.Usagef("--max-blind must be between 1s and 24h (got %s)", blind)
	}
	return nil
}

// collectEvery is the interval of garbage collection in an embedded store, which only one
// server uses.
const collectEvery = 24 * time.Hour

// config sets the fields of a cache configuration. An embedded store may be shared with
// other programs.
func (f *historyFlags) config(cfg isr.Config, embedded, shared bool) isr.Config {
	cfg.RequestLife = time.Duration(f.RequestLife)
	cfg.Poll = time.Duration(f.Poll)
	cfg.MaxBlind, cfg.Blind = time.Duration(f.MaxBlind), f.Blind
	if embedded {
		cfg.Collect = collectEvery
		if !shared {
			cfg.Poll = -1 // no other process changes the table
		}
	}
	return cfg
}

// deliveryDelay returns how long purges wait for the other servers of the table before
// they are delivered to the caches in front. The embedded store has one server.
func (c *ServeCommand) deliveryDelay(running *atomic.Pointer[isr.Cache]) func() time.Duration {
	return func() time.Duration {
		switch cache := running.Load(); {
		case c.Table == "":
			return 0
		case cache == nil:
			return time.Minute // starting
		default:
			return cache.StalenessBound()
		}
	}
}
