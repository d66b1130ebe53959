package isr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/changelog"
	"github.com/facetheory/isr/internal/encoder"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/fleet"
	"github.com/facetheory/isr/internal/frequency"
	"github.com/facetheory/isr/internal/generations"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/invalidate"
	"github.com/facetheory/isr/internal/local"
	"github.com/facetheory/isr/internal/nodecache"
	"github.com/facetheory/isr/internal/offload"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/purge"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/internal/suspicion"
	"github.com/facetheory/isr/internal/variants"
	"github.com/facetheory/isr/store"
)

// Errors of a [Cache], in addition to the errors of package store.
var (
	// ErrNoBody: the body of an entry is missing, or differs from what was published.
	// The entry counts as missing.
	ErrNoBody = bodies.ErrMissing

	// ErrNoRenderer: no route of this process renders the key.
	ErrNoRenderer = errors.New("no renderer for this key")
	// ErrUnreachable: no request maps to the key.
	ErrUnreachable = cachekey.ErrUnreachable
	// ErrUncacheable: the response must not be stored.
	ErrUncacheable = render.ErrUncacheable
	// ErrClosed is returned after Close.
	ErrClosed = fill.ErrClosed
)

// A Cache serves pages from memory and from its stores. Of all processes that share the
// stores, one renders each page once per expiry. All methods are safe for concurrent
// use.
type Cache struct {
	meta   store.MetaStore
	bodies store.BodyStore
	cfg    Config
	now    func() time.Time
	// created is by the monotonic clock.
	created time.Time
	log     *slog.Logger

	node        *nodecache.Cache       // what this process knows of pages
	activity    *singleflight.Activity // what requests have begun and need not wait for
	flights     *fill.Flights
	engine      *fill.Engine  // executes fills
	unpublished *fill.Flights // those that call no store
	follower    *changelog.Follower
	presence    *fleet.Members // nil: it has no name
	peers       *fleet.Peers

	operator      *generations.Operator
	purges        *purge.Purges
	variants      *variants.List
	sender        *offload.Sender    // nil: there is no queue
	invalidations *invalidate.Purges // by unsafe requests
	encoder       *encoder.Encoder
	local         *local.Pages        // of stubs, from the local disk
	reader        *bodies.Reader      // of stored bodies
	responses     page.ResponseMemory // of bodies that are being sent
	rendered      *buffers.Budget     // of bodies that are rendered or read: a part of Config.Buffers

	stores               *guard.Stores
	complaints, refusals *guard.Complaints             // of stores, and of responses
	uses                 *frequency.Counter[store.Key] // nil: every page is stored

	// ctx is the context of all flights; it ends when the context of Close does.
	ctx   context.Context
	abort context.CancelCauseFunc
	// background has the goroutines other than flights; they end with ctx.
	background sync.WaitGroup

	sections *nodecache.Sections // what was learned of renders that were refused

	mu     sync.Mutex
	routes map[string]*boundRoute // by name; the routes of Handler
	bound  []*boundRoute
	// find returns the route of a page, nil for none; it is nil until Bind.
	find        func(store.Key) *boundRoute
	hadVariants bool // routes that Bind has replaced had variants
}

// A boundRoute is a route with its renderer.
type boundRoute struct {
	*routeRules
	fills    *fill.Policy
	sections *nodecache.RouteSections
}

// New returns a Cache on its stores. The caller must Close it. If fields of cfg are
// invalid, the error joins a *[ConfigError] for each.
func New(meta store.MetaStore, bodies store.BodyStore, cfg Config) (*Cache, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Cache{
		cfg:        cfg,
		now:        cfg.Now,
		created:    time.Now(),
		log:        cfg.Logger,
		activity:   new(singleflight.Activity),
		complaints: guard.NewComplaints(cfg.Logger, slog.LevelError),
		refusals:   guard.NewComplaints(cfg.Logger, slog.LevelWarn),
		sections:   nodecache.NewSections(cfg.Logger),
		routes:     make(map[string]*boundRoute),
	}
	c.flights, c.unpublished = singleflight.New[*fill.Flight](c.activity.Begin, c.activity.End), singleflight.New[*fill.Flight](c.activity.Begin, c.activity.End)
	if cfg.MinUses > 1 {
		c.uses = frequency.New[store.Key](useWindow)
	}
	c.ctx, c.abort = context.WithCancelCause(context.Background())
	c.stores = newStores(c, meta, bodies)
	c.meta, c.bodies = c.stores.Meta, c.stores.Bodies
	var err error
	if c.node, err = newNode(c); err != nil {
		return nil, err
	}
	c.responses.Open(cfg.Buffers)
	_, bytes := cfg.Buffers.Usage()
	c.rendered = cfg.Buffers.Part(bytes / renderShare)
	c.sender = newSender(c)
	c.encoder = newEncoder(c)
	c.peers = fleet.NewPeers(cfg.Peers)
	c.reader = newReader(c, bodies)
	c.follow()
	c.variants = newVariants(c)
	c.engine = newCacheEngine(c)
	c.operator, c.purges = newOperator(c), newPurges(c)
	c.local = &local.Pages{Reader: c.reader, Node: c.node, Encoder: c.encoder, SentFromDisk: c.engine.SentFromDisk, Timeout: cfg.StoreTimeout}
	c.invalidations = newInvalidations(c)
	if cfg.Collect > 0 {
		c.background.Go(func() { c.collectPeriodically(c.ctx) })
	}
	return c, nil
}

// newStores returns the stores of a cache, guarded and observed.
func newStores(c *Cache, meta store.MetaStore, bodies store.BodyStore) *guard.Stores {
	return guard.New(c.ctx, meta, bodies, guard.Options{
		Table: calls(c.cfg.Observer, OperationTable), Bodies: calls(c.cfg.Observer, OperationBodies),
		MaxBody:      c.cfg.MaxBody,
		Sequence:     func(s store.Sequence) { c.node.Marks.Note(s) },
		Destinations: c.destinations, Changed: c.deliver,
		Answers: []error{ErrNoBody, ErrClosed},
		Go:      c.background.Go, Now: c.now, Jitter: c.jitter, Log: c.log,
	})
}

// newNode returns what a cache knows of pages: nothing at first.
func newNode(c *Cache) (*nodecache.Cache, error) {
	o := nodecache.Options{
		Memory: c.cfg.Memory, Table: c.meta, Now: c.now, Partition: c.cfg.Partition,
		FollowsLog: func(now time.Time) bool { _, ok := c.follower.Recent(now); return ok },
		Learn:      c.flights.Learn,
		InvalidateFlights: func(k store.Key, now time.Time) {
			c.flights.Invalidate(k, now)
			c.unpublished.Invalidate(k, now)
		},
	}
	if c.cfg.Observer != nil {
		o.Evicted = func(reason string, bytes int64) {
			c.note(Event{Kind: EventEvicted, Reason: reason, Bytes: bytes})
		}
	}
	return nodecache.New(o)
}

// newReader returns the reader of bodies of a cache, whose store has all of them.
func newReader(c *Cache, all store.BodyStore) *bodies.Reader {
	o := bodies.Options{
		Store: c.bodies, Local: c.stores.Local, LocalRead: c.stores.BodyRead, LocalSlow: c.stores.BodySlow,
		Peers: c.peers,
		Asked: func(result string, bytes int64) {
			c.note(Event{Kind: EventPeerBody, Reason: result, Bytes: bytes})
		},
		Reuse: func(k store.Key, e *store.Entry) ([]byte, bool) {
			if last := c.node.Last(k); last != nil && page.SameBody(&last.Entry, e) {
				return last.Body(), true
			}
			return nil, false
		},
		MaxBody: c.cfg.MaxBody, Reads: c.cfg.Fills, Memory: c.rendered, Jitter: c.jitter,
	}
	o.Cached, _ = all.(store.CachedReader) // observers learn of these reads as hits
	o.Keeper, _ = all.(store.LocalKeeper)
	if c.cfg.Peers != nil {
		o.Ask = c.cfg.Peers.ReadBody
	}
	return bodies.New(c.ctx, o)
}

// newEncoder returns the encoder of the pages of a cache.
func newEncoder(c *Cache) *encoder.Encoder {
	return encoder.New(c.ctx, encoder.Options{
		Bodies: c.stores.Observed, Local: c.stores.Local,
		Full: c.full, Reweigh: c.node.Reweigh,
		Go: c.background.Go, Begin: c.activity.Begin, End: c.activity.End,
		Complain: c.complaints.Log,
	})
}

// newCacheEngine returns what executes the fills of a cache.
func newCacheEngine(c *Cache) *fill.Engine {
	o := fill.Options{
		Meta: c.meta, Bodies: c.bodies, Reader: c.reader, Encoder: c.encoder, Node: c.node, Follower: c.follower, Sender: c.sender, Variants: c.variants, Peers: c.peers,
		Flights: c.flights, Unpublished: c.unpublished, Closing: c.ctx, Go: c.background.Go,
		Now: c.now, Random: c.cfg.Random, Below: c.below, Jitter: c.jitter, NewToken: c.cfg.NewToken, Partition: c.cfg.Partition,
		StoreTimeout: c.cfg.StoreTimeout, Lease: c.cfg.Lease, Retention: c.cfg.Retention, RenderTimeout: c.cfg.RenderTimeout,
		MaxBody: c.cfg.MaxBody, Memory: c.rendered, Freezes: c.cfg.Freezes,
		Uses: c.uses, MinUses: c.cfg.MinUses, Full: c.full, Blind: c.blind,
		Log: c.log, Complaints: c.complaints, Refusals: c.refusals,
	}
	if c.cfg.Peers != nil {
		o.AwaitLease = c.cfg.Peers.AwaitLease
	}
	if all := c.cfg.Observer; all != nil {
		kinds := [...]OperationKind{fill.OperationFlight: OperationFlight, fill.OperationRender: OperationRender, fill.OperationQueue: OperationQueue, fill.OperationLease: OperationLease}
		events := [...]EventKind{fill.EventLease: EventLease, fill.EventPeer: EventPeer, fill.EventNotStored: EventNotStored}
		o.Begin = func(ctx context.Context, op fill.Operation) (context.Context, func(fill.Result)) {
			ctx, end := all.Begin(ctx, Operation{Kind: kinds[op.Kind], Route: op.Route, Key: op.Key, Trigger: op.Trigger, Cause: op.Cause})
			return ctx, func(r fill.Result) { end(Result(r)) }
		}
		o.Joined = all.Join
		o.Note = func(kind fill.EventKind, reason string) { all.Note(Event{Kind: events[kind], Reason: reason}) }
	}
	return fill.New(o)
}

// StoresDown returns the stores whose circuit breaker is open: "table", "bodies".
// Visitors are served without them.
func (c *Cache) StoresDown() []string { return c.stores.Names() }

// useWindow is how long the uses of a page count for Config.MinUses, at least; up to twice that.
const useWindow = 30 * time.Minute

// full reports whether the stores have no room for another page.
func (c *Cache) full() bool { return c.cfg.Full != nil && c.cfg.Full() }

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
		panic("isr: Bind has set the routes of this cache; Handler cannot add one")
	}
	if rt.Name != "" {
		if c.routes[rt.Name] != nil {
			panic(fmt.Sprintf("isr: there are two routes named %q", rt.Name))
		}
		c.routes[rt.Name] = b
	}
	c.bound = append(c.bound, b)
	return &handler{c, b}
}

// A Binding is a route with its renderer.
type Binding struct {
	Route    Route
	Renderer http.Handler
}

// Bind replaces all routes of the cache at once, as when a configuration is reloaded, and
// returns their handlers in the same order. Stored pages stay, also in memory, and belong to
// the routes that find chooses from now on: it returns the index of the route of a page, or
// -1, and must be safe for concurrent use. Names of routes need not be unique.
//
// Refusals and failures that were remembered under the old routes are forgotten. Requests in
// flight, and handlers that were returned before, go on by their routes.
//
// The error joins a *[ConfigError] for each invalid field; nothing has changed then.
func (c *Cache) Bind(bindings []Binding, find func(store.Key) int) ([]http.Handler, error) {
	var errs []error
	for _, b := range bindings {
		if err := b.Route.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("route %q: %w", b.Route.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	handlers, bound := make([]http.Handler, len(bindings)), make([]*boundRoute, len(bindings))
	for i, b := range bindings {
		bound[i] = c.bind(b.Route, b.Renderer)
		handlers[i] = &handler{c, bound[i]}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Pages of variants stay stored under routes without variants, and may be reached
	// again after the next change.
	c.hadVariants = c.hadVariants || len(c.bound) > 0 && c.hasVariantsLocked()
	c.routes, c.bound = nil, bound
	c.find = func(k store.Key) *boundRoute {
		if i := find(k); i >= 0 {
			return bound[i]
		}
		return nil
	}
	c.node.Negative.Flush(time.Now())
	c.sections.Forget()
	return handlers, nil
}

// bind returns a route with its renderer, and what the cache decides for it.
func (c *Cache) bind(rt Route, h http.Handler) *boundRoute {
	b := &boundRoute{routeRules: newRouteRules(rt)}
	rules := &b.judge.Rules
	rules.Responses.MaxHeader, rules.MaxTags = c.cfg.MaxHeader, c.cfg.MaxTags
	if rules.Responses.MaxBody = c.cfg.MaxBody; rt.MaxBody > 0 {
		rules.Responses.MaxBody = min(rt.MaxBody, c.cfg.MaxBody)
	}
	b.present.Responses, b.present.Bodies = &c.responses, &page.BodyStore{Reader: c.reader, Patience: c.cfg.StoreTimeout, Suspect: c.engine.Suspect}
	b.present.Want = func(p *page.Page, wanted httpcache.Coding) { c.encoder.Want(p, b.present, wanted) }
	b.Label = cmp.Or(b.Label, b.Name)
	b.present.Report = func(w http.ResponseWriter, p *page.Page, status httpcache.Status, age time.Duration) {
		if r := ReportOf(w); r != nil {
			r.ofPage(b.Label, p, status, age)
		}
	}
	b.sections = c.sections.Route(b.Label, b.judge.DecidedByHeader)
	b.fills = c.policy(b, h)
	return b
}

// policy returns what fills use of a route, whose renderer is h.
func (c *Cache) policy(b *boundRoute, h http.Handler) *fill.Policy {
	p := &fill.Policy{
		Name: b.Name, Label: b.Label, Keys: b.keys, View: b.present, Renderer: h, Budget: b.Budget,
		RenderTimeout: cmp.Or(b.RenderTimeout, c.cfg.RenderTimeout), Wait: b.Wait, AwaitsNew: b.Policy == Wait, MaxBody: b.judge.Responses.MaxBody,
		Jitter: b.jitter, MinWindow: b.Auto.Min, MaxWindow: b.Auto.Max, NextWindow: b.Auto.Next,
		ForeignStale: max(b.Stale, 0), History: b.History, MaxVariants: cmp.Or(b.MaxVariants, DefaultMaxVariants),
		StoreNegative: b.StoreNegative, Tags: b.Tags,
		Judge: b.judge.Verdict, Reject: suspicion.Rules(b.Reject), ServableOnError: b.judge.ServableOnError,
		Cacheable: b.sections.Cacheable, Refused: b.sections.Refused,
		Renders: new(fill.RecentTimes),
	}
	if p.Budget == nil {
		p.Budget = budget.Unlimited()
	}
	switch {
	case b.Wait == 0 && b.RenderTimeout > 0:
		p.Wait = b.RenderTimeout + 2*c.cfg.Lease
	case b.Wait == 0:
		p.Wait = c.cfg.Wait
	}
	return p
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

// RouteLabel returns the label of the route that [Cache.Bind] has chosen for a page; empty for
// none.
func (c *Cache) RouteLabel(k store.Key) string {
	if b, _ := c.routeAt(k); b != nil {
		return b.Label
	}
	return ""
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
	rec, _, err := c.node.Read(ctx, k, pk)
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

// Close prevents further regenerations, and waits for those in progress, and for the purges
// that unsafe requests have caused. If ctx ends first, it cancels their renders, releases
// their leases, and returns an error. Pages in memory can still be served, but the log is no
// longer read.
func (c *Cache) Close(ctx context.Context) error {
	defer c.cfg.Buffers.Release(netip.Prefix{}, c.responses.Shut())
	defer c.background.Wait()
	defer c.engine.LogSummary()
	c.encoder.Shut()
	err := c.closeFlights(ctx)
	if err == nil {
		c.abort(ErrClosed)
		return nil
	}
	c.abort(ErrClosed)
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*fill.SettleTime)
	defer cancel()
	if late := c.closeFlights(settle); late != nil {
		return fmt.Errorf("closing: regenerations did not end, and their leases will expire: %w", err)
	}
	return fmt.Errorf("closing: regenerations were cancelled: %w", err)
}

// closeFlights prevents further flights, and waits for those in progress. Both kinds are
// shut first, so that a request whose flight fails during the wait cannot start one of the
// other kind.
func (c *Cache) closeFlights(ctx context.Context) error {
	c.flights.Shut()
	c.unpublished.Shut()
	c.invalidations.Shut()
	return errors.Join(c.flights.Wait(ctx), c.unpublished.Wait(ctx), c.invalidations.Wait(ctx))
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
			c.note(Event{Kind: EventCollected, Bytes: done.Bytes})
			c.log.Info("collected garbage", "bodies", done.Bodies, "bytes", done.Bytes, "busy", done.Busy)
		}
		if err := c.keepPurges(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("failed to compact purge marks or to renew pins, retrying later", "error", err)
		}
	}
}

// keepPurges compacts the purge marks and renews permanent pins.
func (c *Cache) keepPurges(ctx context.Context) error {
	compacted, err := gc.CompactMarks(ctx, c.meta, false)
	pins, err2 := gc.RenewPins(ctx, c.meta, gc.RenewOptions{Partition: c.cfg.Partition, Now: c.now})
	if compacted.Marks > 0 || pins.Pins > 0 || pins.Purged > 0 {
		c.log.Info("compacted purge marks and renewed permanent pins", "marks", compacted.Marks, "pins", pins.Pins, "purged", pins.Purged)
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

// A LearnedSection is a part of a site whose pages are not rendered before the requests of
// visitors for them pass through, because the last renders there were refused.
type LearnedSection struct {
	Route   string // label of the route
	Tenant  string // empty if there are no tenants
	Section string // host and beginning of the path, such as "example.com/link/"
	Reason  string // why the renders were refused: a detail of Cache-Status
	Since   time.Time
}

// Learned returns the sections of this process that are learned, sorted by Section; at most
// 1,024.
func (c *Cache) Learned() []LearnedSection {
	var all []LearnedSection
	for _, s := range c.sections.Learned() {
		all = append(all, LearnedSection(s))
	}
	return all
}

// In a process that is frozen after its responses (see Config.Freezes), nothing may be left to do
// when a response ends:
//
//	flights         a render whose visitor has gone away, or a stale page: awaited by Settle
//	invalidations   purges after unsafe requests: awaited by Settle, and not spread over time
//	codings         awaited by Settle; what is cut off is made again
//	the log         is not followed while the process is frozen: a request polls it first
//	                (see package changelog)
//
// What has a deadline ends with the request that began it: renders, and leases, which another
// process can take over soon after this one is gone.

// Settle waits until all work that requests have begun, and have not waited for, is done:
// regenerations, purges after unsafe requests, and codings. It returns the cause of ctx if that
// is done first. Work that begins during the wait is awaited too.
func (c *Cache) Settle(ctx context.Context) error { return c.activity.Wait(ctx) }
