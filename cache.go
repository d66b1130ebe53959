package isr

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/frequency"
	"github.com/facetheory/isr/store"
)

// Config has the settings of a [Cache]. The zero value is useful.
type Config struct {
	// Memory bounds the memory of cached data in this process, in bytes: pages, and in
	// a sixteenth of it the negative cache. While a store is down, unpublished pages
	// take up to an eighth in addition. Zero means DefaultMemory. A negative value
	// means that no pages are kept; the negative cache then takes at most 1 MiB.
	Memory int64
	// MinUses is how often a page must be requested, within half an hour to an hour, to
	// be stored. Until then this process renders it for the requests that arrive, and
	// serves it for five seconds, so that pages that are not requested again, such as
	// those of invented URLs, use no storage. Stored pages are served at once. Uses are
	// counted per process, in 4 MiB. At most 100; zero means 1: every page is stored.
	MinUses int
	// Full reports whether the stores have no room: missing pages are then not stored,
	// and served as under MinUses. Stored pages are regenerated as usual. Full is called
	// for every page that is about to be rendered for the first time. It must not block,
	// and must be safe for concurrent use. Nil means that there is always room.
	Full func() bool
	// Lease is the duration of leases, which a heartbeat extends: how long a page waits
	// after its renderer's process has crashed. Between 1s and 24h; zero means
	// [store.DefaultLease].
	Lease time.Duration
	// Retention is how long, at least, a page that is not regenerated stays in the
	// table. At most ten years; zero means DefaultRetention.
	Retention time.Duration
	// RenderTimeout bounds one call of a renderer, at most 24h. Zero means
	// DefaultRenderTimeout.
	RenderTimeout time.Duration
	// Wait bounds how long a visitor waits for a page that another process renders, or
	// that waits for its turn at the origin (see [budget.Budget]); and, under the policy
	// [Wait], for a new page while there is a stale one. Zero means the render timeout
	// and twice the lease.
	Wait time.Duration
	// MaxBody is the size of the largest body that is cached, in bytes. Larger responses
	// pass through, and so do requests for pages that a process with a larger MaxBody
	// has stored: use the same value everywhere. At most 1 GiB; zero means
	// DefaultMaxBody.
	MaxBody int64
	// Poll is the longest interval at which this node reads the log of rollbacks, pins
	// and purges by other nodes. For that long, plus the duration of a poll, it may
	// serve the previous page from memory.
	//
	// A node that has not read the log for max(4*Poll, 2s), because it was frozen or
	// disconnected, polls before it serves a page from memory; if the poll fails, or
	// takes StoreTimeout, it serves the page with detail=cut-off.
	//
	// A poll that finds nothing is a strongly consistent read of one small row: one read
	// unit. One that finds changes costs half a unit more for each 4 KB of them. Polls are
	// nine tenths of Poll apart on average, because of jitter, and every minute a second
	// unit checks that the log is whole. At 250ms that is 385,000 units per day and node.
	//
	// Between 10ms and 5m; zero means DefaultPoll. A negative value means never, which is
	// for a process that uses its stores alone, or that keeps no pages in memory.
	Poll time.Duration
	// MaxBlind is how long a node that cannot read the log serves pages before Blind
	// applies; at least the bound of Poll after which they have detail=cut-off. Between
	// 1s and 24h; zero means DefaultMaxBlind.
	MaxBlind time.Duration
	// Blind decides what visitors get from then on. The zero value is [BlindServe].
	Blind BlindPolicy
	// StoreTimeout bounds how long a visitor waits for the stores in all, before the page
	// is rendered without being stored. The store calls go on in the background. Between
	// 1ms and 24h; zero means DefaultStoreTimeout.
	StoreTimeout time.Duration
	// Node is the name of this process, for people, such as its host and process id; at
	// most 256 bytes. With a name, the process announces itself in the table, so that
	// [Cache.AwaitPurge] waits for it, and in a fleet of more than Poll times 2,160 a
	// second (540 nodes at 250ms) all read the log less often, so that they do not exceed
	// what DynamoDB serves from one partition. Announcements cost a write unit every 20s.
	// Empty means that it does not; so does a negative Poll.
	Node string
	// Build identifies the build of the site that the renderers of this process are made
	// from, by 1 to 256 bytes of printable ASCII. Pages of older builds are then stale: they
	// are served, within their stale windows, while they are regenerated. A process of an
	// older build, as during a deployment, serves the pages of newer ones. Empty means that
	// pages of all builds are alike.
	Build string
	// LogLife is how long, at least, the writers of the table keep the rows of the log. A
	// node that has not read the log for half of it drops all pages from memory. It must
	// not exceed the LogLife of any store that writes to the table. At least a minute;
	// zero means [store.LogLife].
	LogLife time.Duration
	// Partition derives partition keys. Nil means [store.HashedPartition].
	Partition store.Partition
	// RequestLife is how long a request record is kept after it was made; after that, its
	// idempotency key counts as new. Between 1h and ten years; zero means
	// DefaultRequestLife.
	RequestLife time.Duration
	// Collect is the interval of garbage collection (see [gc.Collect], [gc.CompactMarks] and
	// [gc.RenewPins]); the first one runs after a tenth of it. It is for a process that uses
	// its stores alone: a fleet needs only one that runs now and then. At least 1h; zero
	// means never.
	Collect time.Duration
	// Downstream delivers purges, rollbacks, pins and withdrawals to the caches in front of
	// this one, such as a CDN. Nil means that there are none.
	Downstream Downstream
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time
	// Logger receives regenerations and all errors. Nil means slog.Default().
	Logger *slog.Logger
	// Random returns 64 random bits, from which all jitter is drawn. It must be safe for
	// concurrent use. Nil means [rand.Uint64].
	Random func() uint64
	// NewToken returns letters and digits that it has never returned before, on any
	// node. Generation ids are made from it. It must be safe for concurrent use. Nil
	// means [crypto/rand.Text].
	NewToken func() string
}

// Defaults of [Config].
const (
	DefaultMemory        = 256 << 20
	DefaultRetention     = 30 * 24 * time.Hour
	DefaultRenderTimeout = 30 * time.Second
	DefaultMaxBody       = 16 << 20
	DefaultPoll          = 250 * time.Millisecond
	DefaultMaxBlind      = 10 * time.Second
	DefaultStoreTimeout  = 300 * time.Millisecond
	DefaultRequestLife   = 24 * time.Hour
)

func (cfg Config) withDefaults() Config {
	setDefault(&cfg.Memory, DefaultMemory)
	setDefault(&cfg.Lease, store.DefaultLease)
	setDefault(&cfg.Retention, DefaultRetention)
	setDefault(&cfg.RenderTimeout, DefaultRenderTimeout)
	setDefault(&cfg.Wait, cfg.RenderTimeout+2*cfg.Lease)
	setDefault(&cfg.MaxBody, DefaultMaxBody)
	setDefault(&cfg.Poll, DefaultPoll)
	setDefault(&cfg.MaxBlind, DefaultMaxBlind)
	setDefault(&cfg.StoreTimeout, DefaultStoreTimeout)
	setDefault(&cfg.LogLife, store.LogLife)
	setDefault(&cfg.RequestLife, DefaultRequestLife)
	if cfg.Partition == nil {
		cfg.Partition = store.HashedPartition
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Random == nil {
		cfg.Random = rand.Uint64
	}
	if cfg.NewToken == nil {
		cfg.NewToken = cryptorand.Text
	}
	return cfg
}

// maxNodeName is the length of the longest Config.Node, in bytes.
const maxNodeName = 256

func setDefault[T ~int64](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

func (cfg Config) validate() error {
	var errs []error
	if cfg.Lease < time.Second || cfg.Lease > 24*time.Hour {
		errs = append(errs, configErrorf("Lease", "must be between 1s and 24h (got %s)", cfg.Lease))
	}
	if cfg.Retention < 0 || cfg.Retention > store.MaxInterval {
		errs = append(errs, configErrorf("Retention", "must be between 0 and ten years (got %s)", cfg.Retention))
	}
	if cfg.RenderTimeout < 0 || cfg.RenderTimeout > 24*time.Hour {
		errs = append(errs, configErrorf("RenderTimeout", "must be between 0 and 24h (got %s)", cfg.RenderTimeout))
	}
	if cfg.MinUses < 0 || cfg.MinUses > frequency.Max {
		errs = append(errs, configErrorf("MinUses", "must be between 0 and %d (got %d)", frequency.Max, cfg.MinUses))
	}
	if cfg.Wait < 0 {
		errs = append(errs, configErrorf("Wait", "must not be negative (got %s)", cfg.Wait))
	}
	if cfg.MaxBody < 0 || cfg.MaxBody > 1<<30 {
		errs = append(errs, configErrorf("MaxBody", "must be between 0 and 1GiB (got %d bytes)", cfg.MaxBody))
	}
	if cfg.Poll >= 0 && (cfg.Poll < 10*time.Millisecond || cfg.Poll > 5*time.Minute) {
		errs = append(errs, configErrorf("Poll", "must be between 10ms and 5m (got %s)", cfg.Poll))
	}
	if cfg.MaxBlind < time.Second || cfg.MaxBlind > 24*time.Hour {
		errs = append(errs, configErrorf("MaxBlind", "must be between 1s and 24h (got %s)", cfg.MaxBlind))
	}
	if !cfg.Blind.valid() {
		errs = append(errs, configErrorf("Blind", "must be BlindServe, BlindRevalidate or BlindRefuse (got %d)", int(cfg.Blind)))
	}
	if cfg.StoreTimeout < time.Millisecond || cfg.StoreTimeout > 24*time.Hour {
		errs = append(errs, configErrorf("StoreTimeout", "must be between 1ms and 24h (got %s)", cfg.StoreTimeout))
	}
	if len(cfg.Node) > maxNodeName || !utf8.ValidString(cfg.Node) {
		errs = append(errs, configErrorf("Node", "must be UTF-8 of at most %d bytes (got %.300q)", maxNodeName, cfg.Node))
	}
	if cfg.Build != "" && store.ValidBuild(cfg.Build) != nil {
		errs = append(errs, configErrorf("Build", "must be at most 256 bytes of printable ASCII (got %.300q)", cfg.Build))
	}
	if cfg.LogLife < time.Minute {
		errs = append(errs, configErrorf("LogLife", "must be at least 1m (got %s)", cfg.LogLife))
	}
	if cfg.RequestLife < time.Hour || cfg.RequestLife > store.MaxInterval {
		errs = append(errs, configErrorf("RequestLife", "must be between 1h and ten years (got %s)", cfg.RequestLife))
	}
	if cfg.Collect != 0 && cfg.Collect < time.Hour {
		errs = append(errs, configErrorf("Collect", "must be at least 1h (got %s)", cfg.Collect))
	}
	return errors.Join(errs...)
}

// A Cache serves pages from memory and from its stores. Of all processes that share the
// stores, one renders each page once per expiry. All methods are safe for concurrent
// use.
type Cache struct {
	meta   store.MetaStore
	bodies store.BodyStore
	cfg    Config
	now    func() time.Time
	log    *slog.Logger

	floor       floor
	marks       markTable
	memory      *memory
	unpublished *unpublishedPages
	negative    *negativeCache
	flights     flights
	lookUps     chan struct{} // has an element for each read of a search in progress (see maxLookUps)
	unstored    flights       // those that call no store
	follower    *follower
	presence    *presence

	invalidations *invalidations // by unsafe requests

	tableBreaker, bodiesBreaker *breaker
	complaints                  *complaints
	uses                        *frequency.Counter[store.Key] // nil: every page is stored

	// ctx is the context of all flights; it ends when the context of Close does.
	ctx   context.Context
	abort context.CancelCauseFunc
	// background has the goroutines other than flights; they end with ctx.
	background sync.WaitGroup

	mu     sync.Mutex
	routes map[string]*boundRoute // by name; those of Handler
	bound  []*boundRoute
	// find returns the route of a page, nil for none; it is nil until Bind.
	find        func(store.Key) *boundRoute
	hadVariants bool // routes that Bind has replaced had variants
}

// A boundRoute is a route with its renderer.
type boundRoute struct {
	*projector
	renderer http.Handler
	budget   *budget.Budget // never nil

	// Those of the route, or else of the cache.
	renderTimeout time.Duration
	wait          time.Duration
	maxBody       int64

	// renderTime is the moving average of render times in this process, in
	// nanoseconds; 0 before the first.
	renderTime atomic.Int64
}

// observe adds a render to the average. Of two concurrent calls, one may be lost.
func (b *boundRoute) observe(took time.Duration) {
	old := b.renderTime.Load()
	if old == 0 {
		old = int64(took)
	}
	b.renderTime.Store(max(old+(int64(took)-old)/8, 1))
}

// New returns a Cache on its stores. The caller must Close it. If fields of cfg are
// invalid, the error joins a *[ConfigError] for each.
func New(meta store.MetaStore, bodies store.BodyStore, cfg Config) (*Cache, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Cache{
		cfg:           cfg,
		now:           cfg.Now,
		log:           cfg.Logger,
		flights:       newFlights(),
		lookUps:       make(chan struct{}, maxLookUps),
		unstored:      newFlights(),
		tableBreaker:  &breaker{store: "table", log: cfg.Logger},
		bodiesBreaker: &breaker{store: "bodies", log: cfg.Logger},
		complaints:    &complaints{logger: cfg.Logger},
		routes:        make(map[string]*boundRoute),
	}
	if cfg.MinUses > 1 {
		c.uses = frequency.New[store.Key](useWindow)
	}
	c.meta, c.bodies = &watchedTable{meta, c}, &watchedBodies{bodies, c}
	var err error
	if c.unpublished, err = newUnpublishedPages(cfg.Memory/unpublishedShare, c); err != nil {
		return nil, err
	}
	negative := cfg.Memory / negativeShare
	if c.memory, err = newMemory(cfg.Memory-negative, &c.floor); err != nil {
		return nil, err
	}
	if cfg.Memory < 0 {
		negative = minNegative
	}
	if c.negative, err = newNegativeCache(negative, c); err != nil {
		return nil, err
	}
	c.ctx, c.abort = context.WithCancelCause(context.Background())
	c.invalidations = newInvalidations(c)
	c.follow()
	if cfg.Collect > 0 {
		c.background.Go(func() { c.collectPeriodically(c.ctx) })
	}
	return c, nil
}

// follow starts to read the log, unless Config.Poll is negative.
func (c *Cache) follow() {
	c.follower = &follower{c: c, log: c.meta, staleness: newStaleness(c), begun: make(chan struct{})}
	c.presence = newPresence(c)
	c.follower.units.Store(math.Float64bits(1))
	if c.cfg.Poll < 0 {
		if c.cfg.Build == "" {
			close(c.follower.begun)
			return
		}
		c.background.Go(func() { c.awaitBuild(c.ctx) })
		return
	}
	c.background.Go(func() { c.follower.run(c.ctx) })
	if c.presence != nil {
		c.background.Go(func() { c.presence.run(c.ctx) })
	}
}

// Handler returns a handler that answers from the cache. It calls h to render missing
// and stale pages, and for every request that bypasses the cache. Like http.ServeMux, it
// panics on mistakes in the program: if the route is invalid (see [Route.Validate]), or
// its name is taken, or after [Cache.Bind].
//
// For a page, h gets a GET request built from the key alone: host, path, declared query
// parameters, declared headers and tenant. Requests whose response may depend on more
// (another method, Authorization, cookies, other parameters) reach h unchanged, and the
// responses are not stored.
func (c *Cache) Handler(rt Route, h http.Handler) http.Handler {
	if err := rt.Validate(); err != nil {
		panic(fmt.Sprintf("isr: route %q: %v", rt.Name, err))
	}
	b := c.bind(rt, h)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find != nil {
		panic("isr: the routes of this cache are those of Bind")
	}
	if rt.Name != "" {
		if c.routes[rt.Name] != nil {
			panic(fmt.Sprintf("isr: there are two routes named %q", rt.Name))
		}
		c.routes[rt.Name] = b
	}
	c.bound = append(c.bound, b)
	return &handler{c: c, route: b}
}

// routeAt returns the route that the last Bind chooses for a key, nil for none. bound is
// false if there was none.
func (c *Cache) routeAt(k store.Key) (b *boundRoute, bound bool) {
	c.mu.Lock()
	find := c.find
	c.mu.Unlock()
	if find == nil {
		return nil, false
	}
	return find(k), true
}

// routeOf returns the route that renders a key.
func (c *Cache) routeOf(ctx context.Context, k store.Key) (*boundRoute, error) {
	pk, err := c.partition(k)
	if err != nil {
		return nil, err
	}
	switch b, bound := c.routeAt(k); {
	case b != nil:
		return b, nil
	case bound:
		return nil, fmt.Errorf("%w: no route matches %s", ErrNoRenderer, k)
	}
	rec, _, err := c.read(ctx, k, pk)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Entries of other services name no route.
	if rec.Entry != nil && rec.Entry.Route != "" {
		if b := c.routes[rec.Entry.Route]; b != nil {
			return b, nil
		}
		return nil, fmt.Errorf("%w: the route %q, which rendered %s, does not exist in this process", ErrNoRenderer, rec.Entry.Route, k)
	}
	if len(c.bound) == 1 && c.bound[0].Name != "" {
		return c.bound[0], nil
	}
	return nil, fmt.Errorf("%w: the stored entry of %s names no route, and the cache has %d routes instead of one with a name", ErrNoRenderer, k, len(c.bound))
}

// join returns the flight of the search's key, or starts one that runs the search, which
// leader reports. It returns nil once the cache is closed.
func (c *Cache) join(s *search) (f *flight, leader bool) {
	return c.flights.join(s, func(f *flight) outcome {
		s.c, s.f, s.pk = c, f, c.cfg.Partition(s.key)
		return s.run(c.ctx)
	})
}

// joinUnstored is join for a search that calls no store.
func (c *Cache) joinUnstored(s *search) (f *flight, leader bool) {
	return c.unstored.join(s, func(f *flight) outcome {
		s.c, s.f, s.pk = c, f, c.cfg.Partition(s.key)
		return s.runUnstored(c.ctx, detailStoreError)
	})
}

// Close prevents further regenerations, and waits for those in progress, and for the purges
// that unsafe requests have caused. If ctx ends first, it cancels their renders, releases
// their leases, and returns an error. Pages in memory can still be served, but the log is no
// longer read.
func (c *Cache) Close(ctx context.Context) error {
	defer c.background.Wait()
	err := c.closeFlights(ctx)
	if err == nil {
		c.abort(ErrClosed)
		return nil
	}
	c.abort(ErrClosed)
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*settleTime)
	defer cancel()
	if late := c.closeFlights(settle); late != nil {
		return fmt.Errorf("closing: regenerations did not end, and their leases will expire: %w", err)
	}
	return fmt.Errorf("closing: regenerations were cancelled: %w", err)
}

// closeFlights prevents further flights, and waits for those in progress. Both kinds are
// shut first, so that a request whose flight fails meanwhile cannot start one of the
// other kind.
func (c *Cache) closeFlights(ctx context.Context) error {
	c.flights.shut()
	c.unstored.shut()
	c.invalidations.shut()
	return errors.Join(c.flights.wait(ctx), c.unstored.wait(ctx), c.invalidations.wait(ctx))
}

// partition returns the partition key of a caller's key. Errors wrap ErrInvalidKey.
func (c *Cache) partition(k store.Key) (string, error) {
	if err := store.ValidKey(k); err != nil {
		return "", err
	}
	return c.cfg.Partition(k), nil
}

// collectPeriodically collects garbage at intervals until ctx ends.
func (c *Cache) collectPeriodically(ctx context.Context) {
	for next := c.cfg.Collect / 10; backoff.Wait(ctx, next) == nil; next = c.jitter(c.cfg.Collect) {
		done, err := gc.Collect(ctx, c.meta, c.bodies, gc.CollectOptions{Now: c.now})
		if err != nil && ctx.Err() == nil {
			c.log.Error("failed to collect garbage, retrying later", "error", err)
		}
		if done.Bodies > 0 {
			c.log.Info("collected garbage", "bodies", done.Bodies, "bytes", done.Bytes, "busy", done.Busy)
		}
		if err := c.keepPurges(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("failed to compact purge marks or to renew pins, retrying later", "error", err)
		}
	}
}

// keepPurges compacts the purge marks and renews permanent pins.
func (c *Cache) keepPurges(ctx context.Context) error {
	marks, err := gc.CompactMarks(ctx, c.meta, false)
	pins, err2 := gc.RenewPins(ctx, c.meta, gc.RenewOptions{Partition: c.cfg.Partition, Now: c.now})
	if marks.Marks > 0 || pins.Pins > 0 || pins.Purged > 0 {
		c.log.Info("compacted purge marks and renewed permanent pins", "marks", marks.Marks, "pins", pins.Pins, "purged", pins.Purged)
	}
	return errors.Join(err, err2)
}

// below draws a number in [0, n).
func (c *Cache) below(n uint64) uint64 {
	high, _ := bits.Mul64(c.cfg.Random(), n)
	return high
}

// jitter draws a duration between half and one and a half of d.
func (c *Cache) jitter(d time.Duration) time.Duration {
	return backoff.Jitter(d, c.cfg.Random())
}
