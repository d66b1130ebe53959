package isr

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Config are the settings of a [Cache]. The zero value is useful.
type Config struct {
	// Memory bounds the tier of pages kept in this process, in bytes. Zero means
	// DefaultMemory, a negative value that nothing is kept.
	Memory int64
	// Lease is how long the right to regenerate a page lasts without a sign of
	// life of its holder: how long a page waits for a crashed process. At least
	// a second; zero means DefaultLease.
	Lease time.Duration
	// Retention is how long a page that nobody regenerates stays in the table,
	// at least. Zero means DefaultRetention.
	Retention time.Duration
	// RenderTimeout bounds one call of a renderer, at most a day. Zero means
	// DefaultRenderTimeout.
	RenderTimeout time.Duration
	// Wait bounds how long a visitor waits for a page that another process
	// renders, or that waits for its turn at the origin (see [Budget]); and, under
	// the policy [Wait], for a new page while there is a stale one. Zero means the
	// render timeout and twice the lease.
	Wait time.Duration
	// MaxBody is the size of the largest body that is cached, in bytes; larger
	// responses pass through. Zero means DefaultMaxBody.
	MaxBody int64
	// Partition derives partition keys. Nil means HashedPartition.
	Partition Partition
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
	DefaultLease         = 30 * time.Second
	DefaultRetention     = 30 * 24 * time.Hour
	DefaultRenderTimeout = 30 * time.Second
	DefaultMaxBody       = 16 << 20
)

func (cfg Config) withDefaults() Config {
	setDefault(&cfg.Memory, DefaultMemory)
	setDefault(&cfg.Lease, DefaultLease)
	setDefault(&cfg.Retention, DefaultRetention)
	setDefault(&cfg.RenderTimeout, DefaultRenderTimeout)
	setDefault(&cfg.Wait, cfg.RenderTimeout+2*cfg.Lease)
	setDefault(&cfg.MaxBody, DefaultMaxBody)
	if cfg.Partition == nil {
		cfg.Partition = HashedPartition
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
		errs = append(errs, fmt.Errorf("the lease %s is not between 1s and 24h", cfg.Lease))
	}
	if cfg.Retention < 0 || cfg.Retention > maxInterval {
		errs = append(errs, fmt.Errorf("the retention %s is not between 0 and ten years", cfg.Retention))
	}
	if cfg.RenderTimeout < 0 || cfg.RenderTimeout > 24*time.Hour {
		errs = append(errs, fmt.Errorf("the render timeout %s is not between 0 and 24h", cfg.RenderTimeout))
	}
	if cfg.Wait < 0 {
		errs = append(errs, fmt.Errorf("the wait %s is negative", cfg.Wait))
	}
	if cfg.MaxBody < 0 || cfg.MaxBody > 1<<30 {
		errs = append(errs, fmt.Errorf("the largest body %d is not between 0 and 1 GiB", cfg.MaxBody))
	}
	return errors.Join(errs...)
}

// A Cache serves pages from memory and from its stores, and has each one
// rendered once per expiry by one of all the processes that share them. All
// methods are safe for concurrent use.
type Cache struct {
	meta   MetaStore
	bodies BodyStore
	cfg    Config
	now    func() time.Time
	log    *slog.Logger

	memory    *memory
	shortcuts *shortcuts
	flights   flights

	// ctx is that of all flights; it ends when Close runs out of patience.
	ctx   context.Context
	abort context.CancelCauseFunc

	mu     sync.Mutex
	routes map[string]*boundRoute // by name
	bound  []*boundRoute
}

// A boundRoute is a route with its renderer.
type boundRoute struct {
	*projector
	renderer http.Handler
	budget   *Budget // never nil
}

// New makes a cache on its stores. Close it to let its work end well.
func New(meta MetaStore, bodies BodyStore, cfg Config) (*Cache, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("isr: %w", err)
	}
	memory, err := newMemory(cfg.Memory)
	if err != nil {
		return nil, err
	}
	shortcuts, err := newShortcuts()
	if err != nil {
		return nil, err
	}
	c := &Cache{
		meta:      meta,
		bodies:    bodies,
		cfg:       cfg,
		now:       cfg.Now,
		log:       cfg.Logger,
		memory:    memory,
		shortcuts: shortcuts,
		flights:   flights{byKey: make(map[Key]*flight)},
		routes:    make(map[string]*boundRoute),
	}
	c.ctx, c.abort = context.WithCancelCause(context.Background())
	return c, nil
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
		b.budget = unlimited()
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

// Regenerate renders a page now, whatever its freshness, and returns the entry
// that was published. The render begins after the call: one that is under way is
// awaited, not joined.
//
// The renderer is that of the route by which the stored page was rendered; for
// a page that is not stored, that of the cache's only route. Errors: wrapping
// [ErrNoRenderer], if there is none; [ErrUncacheable], with the reason, if the
// response must not be stored; [*HeldError], if another process is
// regenerating the page, or it is in back-off; [*BudgetError], if the origin is to
// be spared; [ErrLeaseLost] or [ErrMoved], if another process was faster;
// [ErrClosed]; that of ctx, though the render goes on; else what the renderer or
// the store said.
func (c *Cache) Regenerate(ctx context.Context, k Key) (Entry, error) {
	route, err := c.routeOf(ctx, k)
	if err != nil {
		return Entry{}, err
	}
	for {
		f, began := c.join(&search{route: route, key: k, force: true})
		if f == nil {
			return Entry{}, ErrClosed
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return Entry{}, context.Cause(ctx)
		}
		if !began {
			continue
		}
		switch o := f.outcome; {
		case o.err != nil:
			return Entry{}, fmt.Errorf("regenerating %s: %w", k, o.err)
		case o.refused != "":
			return Entry{}, fmt.Errorf("regenerating %s: %w: %s", k, ErrUncacheable, o.refused)
		default:
			return o.page.entry, nil
		}
	}
}

// routeOf finds who renders a key.
func (c *Cache) routeOf(ctx context.Context, k Key) (*boundRoute, error) {
	rec, err := c.meta.Read(ctx, c.cfg.Partition(k))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", k, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if rec.Entry != nil && !rec.Entry.Foreign {
		if b := c.routes[rec.Entry.Route]; b != nil {
			return b, nil
		}
		return nil, fmt.Errorf("%w: %s was rendered by the route %q, which this process does not have", ErrNoRenderer, k, rec.Entry.Route)
	}
	if len(c.bound) == 1 && c.bound[0].Name != "" {
		return c.bound[0], nil
	}
	return nil, fmt.Errorf("%w: %s is not stored, and the cache has %d routes to choose from", ErrNoRenderer, k, len(c.bound))
}

// join finds the flight of a key, or begins one with a search that says what is
// wanted; nil once the cache is closed.
func (c *Cache) join(s *search) (f *flight, began bool) {
	return c.flights.join(s.key, s.force, func(f *flight) outcome {
		s.c, s.f, s.pk = c, f, c.cfg.Partition(s.key)
		return s.run(c.ctx)
	})
}

// Close ends the cache's work well: no regeneration begins any more, and those
// under way finish. When ctx ends first, their renders are cancelled and their
// leases released, and the error says so. Pages in memory can still be served.
func (c *Cache) Close(ctx context.Context) error {
	err := c.flights.close(ctx)
	if err == nil {
		c.abort(ErrClosed)
		return nil
	}
	c.abort(ErrClosed)
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*settleTime)
	defer cancel()
	if late := c.flights.close(settle); late != nil {
		return fmt.Errorf("closing: regenerations did not end, their leases are left to expire: %w", err)
	}
	return fmt.Errorf("closing: regenerations were cancelled: %w", err)
}
