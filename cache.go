package isr

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/frequency"
	"github.com/facetheory/isr/store"
)

// Config are the settings of a [Cache]. The zero value is useful.
type Config struct {
	// Memory bounds what is kept in this process, in bytes: pages, and in a
	// sixteenth of it what is remembered of keys that have none (see
	// [Route.StoreNegative]). While the stores cannot be asked, pages that were
	// not stored take up to an eighth in addition. Zero means DefaultMemory, a
	// negative value that no pages are kept, and the rest takes 1 MiB at most.
	Memory int64
	// MinUses is how often a page must be asked for, within half an hour to an hour, to
	// be stored: pages that are not requested again, such as invented URLs, then leave
	// nothing behind. Until then this process renders the page for those who ask, and
	// serves it for five seconds. What the stores have is served at once. It is counted
	// per process, in 4 MiB. At most 100; zero means 1: every page is stored.
	MinUses int
	// Full says that the stores have no room: a page that they do not have is then not
	// stored, and served as one that was not asked for often enough (see MinUses).
	// Pages that they have are regenerated as ever. It is called for every page that
	// is about to be rendered for the first time, must not block, and must be safe for
	// concurrent use. Nil means that there is always room.
	Full func() bool
	// Lease is how long the right to regenerate a page lasts without a sign of
	// life of its holder: how long a page waits for a crashed process. At least
	// a second; zero means [store.DefaultLease].
	Lease time.Duration
	// Retention is how long a page that nobody regenerates stays in the table,
	// at least. Zero means DefaultRetention.
	Retention time.Duration
	// RenderTimeout bounds one call of a renderer, at most a day. Zero means
	// DefaultRenderTimeout.
	RenderTimeout time.Duration
	// Wait bounds how long a visitor waits for a page that another process
	// renders, or that waits for its turn at the origin (see [budget.Budget]); and, under
	// the policy [Wait], for a new page while there is a stale one. Zero means the
	// render timeout and twice the lease.
	Wait time.Duration
	// MaxBody is the size of the largest body that is cached, in bytes; larger
	// responses pass through, and so do requests for pages that another process,
	// whose MaxBody is larger, has stored: give all the same. Zero means
	// DefaultMaxBody.
	MaxBody int64
	// Poll is how often the node asks the log what others rolled back, pinned or
	// unpinned, at least: for so long, and the time of an answer, it may serve
	// from memory what was current before. A node that has not read the log for four
	// times Poll, or two seconds if that is more, because it was frozen or is cut
	// off, polls before it serves a page from memory; if that fails, or takes
	// StoreTimeout, it serves the page with detail=cut-off. A poll that finds nothing is a
	// strongly consistent Query of nothing, one read unit; by jitter polls lie
	// nine tenths of Poll apart on average, and every minute a second unit shows
	// that nothing was missed. At 250ms that is 385,000 units a day and node.
	// Between 10ms and 5m; zero means DefaultPoll. A negative value: never. That
	// is for a process that is alone on its stores, whose own rollbacks it sees
	// at once, or that keeps nothing in memory.
	Poll time.Duration
	// StoreTimeout bounds how long a visitor waits for the stores in all, before
	// the page is rendered for him without being stored. What the stores were
	// asked for goes on behind. At least a millisecond, at most a day; zero means
	// DefaultStoreTimeout.
	StoreTimeout time.Duration
	// LogLife is how long the writers of the table keep the rows of the log, at
	// least: a node that has not read the log for half of it drops all pages from
	// memory and reads them again. It must not exceed the LogLife of any store
	// that writes to the table. At least a minute; zero means [store.LogLife].
	LogLife time.Duration
	// Partition derives partition keys. Nil means HashedPartition.
	Partition store.Partition
	// RequestLife is how long the record of a request with an idempotency key is
	// kept after it was made; later, the key is as good as new. At least an hour;
	// zero means DefaultRequestLife.
	RequestLife time.Duration
	// Collect is how often bodies are deleted that nothing names any more (see
	// [gc.Collect]), for the first time after a tenth of it. It is for a process that
	// is alone on its stores: in a fleet, one that runs now and then does it for
	// all. At least an hour; zero means never.
	Collect time.Duration
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time
	// Logger is told of regenerations and of all that goes wrong. Nil means
	// slog.Default().
	Logger *slog.Logger
	// Random returns 64 random bits, of which every jitter and lot is made. It
	// must be safe for concurrent use. Nil means [rand.Uint64].
	Random func() uint64
	// NewToken returns text that was never returned before, on any node: letters
	// and digits, of which the id of a generation is made. It must be safe for
	// concurrent use. Nil means [crypto/rand.Text].
	NewToken func() string
}

// Defaults of [Config].
const (
	DefaultMemory        = 256 << 20
	DefaultRetention     = 30 * 24 * time.Hour
	DefaultRenderTimeout = 30 * time.Second
	DefaultMaxBody       = 16 << 20
	DefaultPoll          = 250 * time.Millisecond
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
	if cfg.StoreTimeout < time.Millisecond || cfg.StoreTimeout > 24*time.Hour {
		errs = append(errs, configErrorf("StoreTimeout", "must be between 1ms and 24h (got %s)", cfg.StoreTimeout))
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

// A Cache serves pages from memory and from its stores, and has each one
// rendered once per expiry by one of all the processes that share them. All
// methods are safe for concurrent use.
type Cache struct {
	meta   store.MetaStore
	bodies store.BodyStore
	cfg    Config
	now    func() time.Time
	log    *slog.Logger

	floor       floor
	marks       marks
	memory      *memory
	unpublished *unpublishedPages
	negative    *negativeCache
	flights     flights
	lookUps     chan struct{} // holds an element for each read that searches have under way
	unstored    flights       // those that ask no store
	follower    *follower

	table, shelf *breaker // of the two stores
	complaints   *complaints
	uses         *frequency.Counter[store.Key] // nil: every page is stored

	// ctx is that of all flights; it ends when Close runs out of patience.
	ctx   context.Context
	abort context.CancelCauseFunc
	// background are the goroutines that are no flights; they end with ctx.
	background sync.WaitGroup

	mu     sync.Mutex
	routes map[string]*boundRoute // by name
	bound  []*boundRoute
}

// A boundRoute is a route with its renderer.
type boundRoute struct {
	*projector
	renderer http.Handler
	budget   *budget.Budget // never nil
	// renderTime is how long renders take on average in this process, in
	// nanoseconds; 0 before the first.
	renderTime atomic.Int64
}

// observe takes note of how long a render took. Of two at once, one may be lost.
func (b *boundRoute) observe(took time.Duration) {
	old := b.renderTime.Load()
	if old == 0 {
		old = int64(took)
	}
	b.renderTime.Store(max(old+(int64(took)-old)/8, 1))
}

// New makes a cache on its stores. Call Close to shut it down. If fields of cfg are invalid
// the error is a *[ConfigError], or several joined.
func New(meta store.MetaStore, bodies store.BodyStore, cfg Config) (*Cache, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Cache{
		cfg:        cfg,
		now:        cfg.Now,
		log:        cfg.Logger,
		flights:    newFlights(),
		lookUps:    make(chan struct{}, maxLookUps),
		unstored:   newFlights(),
		table:      &breaker{store: "table", log: cfg.Logger},
		shelf:      &breaker{store: "bodies", log: cfg.Logger},
		complaints: &complaints{logger: cfg.Logger},
		routes:     make(map[string]*boundRoute),
	}
	if cfg.MinUses > 1 {
		c.uses = frequency.New[store.Key](useWindow)
	}
	c.meta, c.bodies = &watchedTable{meta, c}, &watchedShelf{bodies, c}
	var err error
	if c.unpublished, err = newUnpublishedPages(cfg.Memory/unpublishedShare, &c.floor); err != nil {
		return nil, err
	}
	negative := cfg.Memory / negativeShare
	if c.memory, err = newMemory(cfg.Memory-negative, &c.floor); err != nil {
		return nil, err
	}
	if cfg.Memory < 0 {
		negative = minNegative
	}
	if c.negative, err = newNegativeCache(negative, &c.floor); err != nil {
		return nil, err
	}
	c.ctx, c.abort = context.WithCancelCause(context.Background())
	c.follow()
	if cfg.Collect > 0 {
		c.background.Go(func() { c.collectPeriodically(c.ctx) })
	}
	return c, nil
}

// follow begins to read the log, if that is wanted.
func (c *Cache) follow() {
	c.follower = &follower{c: c, staleness: newStaleness(c), begun: make(chan struct{})}
	if c.cfg.Poll < 0 {
		close(c.follower.begun)
		return
	}
	c.background.Go(func() { c.follower.run(c.ctx) })
}

// Handler returns a handler that answers from the cache, and calls h to render
// what is missing or stale, and for every request that is not the cache's
// business. It panics if the route is invalid (see [Route.Validate]) or its name
// is taken, as http.ServeMux does: both are mistakes in the program.
//
// For a page, h sees a GET request made of the key alone: the host, path,
// declared query parameters, declared headers and the tenant of the visitor's
// request, and nothing else of it. Requests that may depend on more (another
// method, Authorization, cookies, other parameters) reach h unchanged, and their
// answers are not stored.
func (c *Cache) Handler(rt Route, h http.Handler) http.Handler {
	if err := rt.Validate(); err != nil {
		panic(fmt.Sprintf("isr: route %q: %v", rt.Name, err))
	}
	b := &boundRoute{projector: newProjector(rt), renderer: h, budget: rt.Budget}
	if b.budget == nil {
		b.budget = budget.Unlimited()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if rt.Name != "" {
		if c.routes[rt.Name] != nil {
			panic(fmt.Sprintf("isr: there are two routes named %q", rt.Name))
		}
		c.routes[rt.Name] = b
	}
	c.bound = append(c.bound, b)
	return &handler{c: c, route: b}
}

// routeOf finds who renders a key.
func (c *Cache) routeOf(ctx context.Context, k store.Key) (*boundRoute, error) {
	pk, err := c.partition(k)
	if err != nil {
		return nil, err
	}
	rec, _, err := c.read(ctx, k, pk)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Other services' entries name no route, be they described in full or not.
	if rec.Entry != nil && rec.Entry.Route != "" {
		if b := c.routes[rec.Entry.Route]; b != nil {
			return b, nil
		}
		return nil, fmt.Errorf("%w: %s was rendered by the route %q, which this process does not have", ErrNoRenderer, k, rec.Entry.Route)
	}
	if len(c.bound) == 1 && c.bound[0].Name != "" {
		return c.bound[0], nil
	}
	return nil, fmt.Errorf("%w: nothing stored says which route %s is of, and the cache has %d to choose from", ErrNoRenderer, k, len(c.bound))
}

// join finds the flight of a key, or begins one with a search that says what is
// wanted; nil once the cache is closed.
func (c *Cache) join(s *search) (f *flight, began bool) {
	return c.flights.join(s, func(f *flight) outcome {
		s.c, s.f, s.pk = c, f, c.cfg.Partition(s.key)
		return s.run(c.ctx)
	})
}

// joinUnstored is join for a search that asks no store.
func (c *Cache) joinUnstored(s *search) (f *flight, began bool) {
	return c.unstored.join(s, func(f *flight) outcome {
		s.c, s.f, s.pk = c, f, c.cfg.Partition(s.key)
		return s.runUnstored(c.ctx, detailStoreError)
	})
}

// Close ends the cache's work well: no regeneration begins any more, and those
// under way finish. When ctx ends first, their renders are cancelled and their
// leases released, and the error says so. Pages in memory can still be served,
// though what others do to them is not heard of any more.
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
		return fmt.Errorf("closing: regenerations did not end, their leases are left to expire: %w", err)
	}
	return fmt.Errorf("closing: regenerations were cancelled: %w", err)
}

// closeFlights lets no further flight begin, and waits for those under way. Both kinds
// are shut first: a request whose flight fails meanwhile does not begin one of the
// other kind.
func (c *Cache) closeFlights(ctx context.Context) error {
	c.flights.shut()
	c.unstored.shut()
	return errors.Join(c.flights.wait(ctx), c.unstored.wait(ctx))
}

// partition is the partition key of a caller's key. Errors wrap ErrInvalidKey.
func (c *Cache) partition(k store.Key) (string, error) {
	if err := store.ValidKey(k); err != nil {
		return "", err
	}
	return c.cfg.Partition(k), nil
}

// collectPeriodically deletes garbage at an interval until ctx ends.
func (c *Cache) collectPeriodically(ctx context.Context) {
	for next := c.cfg.Collect / 10; backoff.Wait(ctx, next) == nil; next = c.jitter(c.cfg.Collect) {
		done, err := gc.Collect(ctx, c.meta, c.bodies, gc.CollectOptions{Now: c.now})
		if err != nil && ctx.Err() == nil {
			c.log.Error("garbage could not be collected, trying again later", "error", err)
		}
		if done.Bodies > 0 {
			c.log.Info("collected garbage", "bodies", done.Bodies, "bytes", done.Bytes, "busy", done.Busy)
		}
	}
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
