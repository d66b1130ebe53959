package admin

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/telemetry/accesslog"
	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/store"
)

// A Store is the metadata store of the cache, which can also list its pages.
// Implementations must be safe for concurrent use.
type Store interface {
	store.MetaStore
	// List yields all pages in no particular order, and ends after the first error.
	List(ctx context.Context) iter.Seq2[store.ListedPage, error]
}

// Config adjusts an [API]. Its zero value is useful.
type Config struct {
	// Cache executes regenerations and other changes. Nil: the API reads and changes the
	// store, but cannot regenerate.
	Cache *isr.Cache
	// Hosts returns the hosts that the gateway serves at present; pages of others are not
	// regenerated. Nil: any host.
	Hosts func() Hosts
	// Partition derives partition keys; it must be the cache's. Nil means
	// store.HashedPartition.
	Partition store.Partition
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time
	// Version (of the program) and Place (of its store) are returned by GET /-/health.
	Version, Place string
	// Meter has the consumed capacity of the store. Nil: GET /-/usage is an error.
	Meter *Meter
	// Process describes the process of a server. Nil: GET /-/process is an error.
	Process func() Process
	// Live has what the server did in the last hour. Nil: GET /-/overview is an error.
	Live *live.Monitor
	// Tail shows the requests of the server to those who follow them. Nil: GET /-/log is an error.
	Tail *accesslog.Tail
	// Node is isr.Config's name of this server in the fleet; empty: it is alone.
	Node string
	// Naming returns how a setting is set, for hints. Nil: hints have the names of the configuration file.
	Naming details.Naming
	// Sites returns URLs at which visitors reach the server, for examples in the console. Nil: there are none.
	Sites func() []string
	// Embedded: the store is embedded. Demo: the demonstration site is served.
	Embedded, Demo bool
	// Problems returns what the server does without, and why. Nil: nothing.
	Problems func() []string
	// Origins returns the state of the origins. Nil: GET /-/origins is an error.
	Origins func() []Origin
	// Observer receives the garbage that was collected. Nil: there is no observer.
	Observer isr.Observer
	// Metrics serves the metrics of the server. Nil: GET /metrics is an error.
	Metrics http.Handler
	// Maintenance switches the maintenance mode. Nil: GET and POST /-/maintenance are errors.
	Maintenance Maintainer
	// Reload reads the configuration file again. Nil: POST /-/reload is an error.
	Reload func(context.Context) (Reloaded, error)
	// Explain returns what the cache would do with a request, which has the context of the call, and
	// the key of its page; zero if there is none. Nil: POST /-/explain is an error.
	Explain func(r *http.Request, fetch bool) (Explained, store.Key, error)
	// Downstream names the downstream caches that changes are delivered to, if Cache is nil
	// (otherwise it is the cache's), and is woken by a retry. Nil: none.
	Downstream isr.Downstream
	// Logger receives one line for each change. Nil means slog.Default().
	Logger *slog.Logger
}

// Hosts are the hosts that a gateway serves. gateway.Hosts implements it.
type Hosts interface {
	// Serve reports whether a host is served, with its port if it has one.
	Serve(host string) bool
	// Only returns the only host of the site, in all forms that cache keys have (with a
	// port): prefixes of purges need none then. Nil: there may be several.
	Only() []string
	// String lists the hosts, and Advice is how to serve another one, for messages.
	String() string
	Advice(host string) string
}

func (cfg Config) withDefaults() Config {
	if cfg.Partition == nil {
		cfg.Partition = store.HashedPartition
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return cfg
}

// An API serves the operations. It is safe for concurrent use.
type API struct {
	store  Store
	bodies store.BodyStore
	cache  *isr.Cache
	cfg    Config
	log    *slog.Logger

	began    time.Time
	routes   map[string]map[string]operation // by path, then method
	document []byte                          // of GET /-/openapi.json
	slots    chan struct{}                   // semaphore of concurrent operations
	streams  chan struct{}                   // semaphore of those that watch
	readers  chan struct{}                   // semaphore of readers of RoleRead that watch, in addition
	trail    *trail
	index    *index

	closed context.Context // done after Close
	close  context.CancelFunc
}

// maxConcurrent bounds concurrent operations, so that scripts leave the store to visitors.
const maxConcurrent = 32

// New returns the API of a store and its bodies.
func New(store Store, bodies store.BodyStore, cfg Config) (*API, error) {
	if store == nil || bodies == nil {
		return nil, errors.New("admin: New needs a store and a body store")
	}
	cfg = cfg.withDefaults()
	cache := cfg.Cache
	if cache == nil {
		var err error
		if cache, err = changesOnly(store, bodies, cfg); err != nil {
			return nil, err
		}
	}
	a := &API{
		store: store, bodies: bodies, cache: cache, cfg: cfg, log: cfg.Logger, began: cfg.Now(),
		routes: make(map[string]map[string]operation),
		slots:  make(chan struct{}, maxConcurrent),
		trail:  &trail{since: cfg.Now()},

		streams: make(chan struct{}, maxStreams),
		readers: make(chan struct{}, maxReaders),
	}
	a.closed, a.close = context.WithCancel(context.Background())
	a.index = newIndex(a)
	operations := a.operations()
	for _, op := range operations {
		if a.routes[op.path] == nil {
			a.routes[op.path] = make(map[string]operation)
		}
		a.routes[op.path][op.method] = op
	}
	var err error
	a.document, err = document(operations, cfg.Version)
	return a, err
}

// changesOnly returns a cache without routes, memory or background work, which need not be
// closed.
func changesOnly(store Store, bodies store.BodyStore, cfg Config) (*isr.Cache, error) {
	return isr.New(store, bodies, isr.Config{Memory: -1, Poll: -1, Partition: cfg.Partition, Downstream: cfg.Downstream, Now: cfg.Now, Logger: cfg.Logger})
}

// operations returns all operations, in the order of the OpenAPI document.
func (a *API) operations() []operation {
	return []operation{
		a.listPages(),
		a.showPage(),
		a.explain(),
		a.regeneratePage(),
		a.listVersions(),
		a.compareVersions(),
		a.rollBackPage(),
		a.listQuarantine(),
		a.compareQuarantined(),
		a.acceptQuarantined(),
		a.dropQuarantined(),
		a.pinPage(),
		a.unpinPage(),
		a.purgePages(),
		a.refreshPages(),
		a.collectGarbage(),
		a.showOverview(),
		a.watchEvents(),
		a.watchRequests(),
		a.searchPages(),
		a.showActivity(),
		a.showBody(),
		a.showStored(),
		a.listPurges(),
		a.showTagMark(),
		a.listNodes(),
		a.listLeases(),
		a.listOrigins(),
		a.showUsage(),
		a.showProcess(),
		a.showMetrics(),
		a.reload(),
		a.showMaintenance(),
		a.setMaintenance(),
		a.listOutbox(),
		a.retryDelivery(),
		a.dropDelivery(),
		a.showLease(),
		a.releaseLease(),
		a.listAudit(),
		a.showSession(),
		a.signIn(),
		a.signOut(),
		a.showHealth(),
		a.showDocument(),
	}
}

// Handler returns the API without authentication, for connections that only trusted callers
// can open: a Unix socket with mode 0600, or a pipe in this process.
func (a *API) Handler() http.Handler {
	return a.bounded(func(w http.ResponseWriter, r *http.Request) error {
		return a.answer(w, r, visitor{remote: "this machine", role: RoleAdmin, via: "socket", admitted: true})
	})
}

// answer serves one request of an identified visitor.
func (a *API) answer(w http.ResponseWriter, r *http.Request, v visitor) error {
	op, err := a.find(r)
	if !v.admitted && !op.public {
		return v.refusal
	}
	if err != nil {
		return err
	}
	if err := v.permits(op); err != nil {
		return err
	}
	// Each operation has its own time limit.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(op.limit + writeTime)); err != nil {
		return err
	}
	return a.perform(w, r, op, v)
}

// find returns the operation of a request. HEAD is GET without a body.
func (a *API) find(r *http.Request) (operation, error) {
	methods := a.routes[r.URL.Path]
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if op, ok := methods[method]; ok {
		return op, nil
	}
	if methods == nil {
		return operation{}, &Error{
			Status: http.StatusNotFound, Code: "not_found", Message: "no operation at " + r.URL.Path,
			Hint: "GET /-/openapi.json describes all operations",
		}
	}
	e := &Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: r.URL.Path + " does not support the method " + r.Method}
	for method := range methods {
		e.allow = append(e.allow, method)
	}
	return operation{}, e
}

// perform executes an operation, within its time limit and the bound on concurrency.
func (a *API) perform(w http.ResponseWriter, r *http.Request, op operation, v visitor) (err error) {
	for _, slots := range a.slotsOf(op, v) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			return &Error{
				Status: http.StatusTooManyRequests, Code: "busy", RetryAfter: time.Second,
				Message: "too many concurrent operations", Hint: "retry after a second",
			}
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), op.limit)
	defer cancel()
	x := &exchange{w: w, r: r.WithContext(withVisitor(ctx, v)), visitor: v}
	if op.changes() {
		began := time.Now()
		defer func() {
			a.audit(ctx, x, op, err, time.Since(began))
			a.index.touch()
		}()
	}
	return op.serve(x)
}

// slotsOf returns the bounds on concurrency that an operation of a visitor needs a place in.
func (a *API) slotsOf(op operation, v visitor) []chan struct{} {
	switch {
	case op.watches && v.role == RoleRead:
		return []chan struct{}{a.readers, a.streams}
	case op.watches:
		return []chan struct{}{a.streams}
	}
	return []chan struct{}{a.slots}
}

// Timeouts of clients, in addition to the limit of an operation.
const (
	bodyTime  = 10 * time.Second // to read a request
	writeTime = 20 * time.Second // to write a response, or one line of a list
)

// bounded sets deadlines against clients that send or read slowly, and responds with the
// error of serve.
func (a *API) bounded(serve func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, now := http.NewResponseController(w), time.Now()
		err := errors.Join(c.SetReadDeadline(now.Add(bodyTime)), c.SetWriteDeadline(now.Add(bodyTime+writeTime)))
		if err == nil {
			err = serve(w, r)
		}
		if err != nil {
			a.refuse(w, err)
		}
	})
}
