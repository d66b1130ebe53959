package admin

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A Store is the cache's store of pages, which can also list them. Implementations
// must be safe for concurrent use.
type Store interface {
	store.MetaStore
	// List yields all pages in no given order, and ends after the first error.
	List(ctx context.Context) iter.Seq2[store.ListedPage, error]
}

// Config adjusts an [API]. Its zero value is useful.
type Config struct {
	// Cache renders pages anew, and carries out what else changes them. Without one,
	// nothing can be regenerated.
	Cache *isr.Cache
	// Serve says whether visitors can ask for a host, with its port if it has one; pages
	// of others are not regenerated. Hosts lists those that they can, for people. Nil:
	// any host.
	Serve func(host string) bool
	Hosts string
	// Partition derives partition keys, as the cache does. Nil means
	// store.HashedPartition.
	Partition store.Partition
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time
	// Version and Place are shown by GET /-/health: which program this is, and
	// where its store is.
	Version, Place string
	// Meter counts what the store consumes. Nil: nobody does.
	Meter *Meter
	// Logger gets a line per change. Nil means slog.Default().
	Logger *slog.Logger
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

// An API answers operators. It is safe for concurrent use.
type API struct {
	store  Store
	bodies store.BodyStore
	cache  *isr.Cache
	cfg    Config
	log    *slog.Logger

	began    time.Time
	routes   map[string]map[string]operation // by path, then method
	document []byte                          // of GET /-/openapi.json
	slots    chan struct{}                   // one for each operation under way
}

// maxConcurrent bounds the operations under way at once: they are people's and
// scripts', and must leave the store to the visitors.
const maxConcurrent = 32

// New returns the API of a store and its bodies.
func New(store Store, bodies store.BodyStore, cfg Config) (*API, error) {
	if store == nil || bodies == nil {
		return nil, errors.New("admin: no store was given")
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
	}
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

// changesOnly is a cache that serves nothing and renders nothing. It keeps nothing
// in memory and has nothing under way, so that it need not be closed.
func changesOnly(store Store, bodies store.BodyStore, cfg Config) (*isr.Cache, error) {
	return isr.New(store, bodies, isr.Config{Memory: -1, Poll: -1, Partition: cfg.Partition, Now: cfg.Now, Logger: cfg.Logger})
}

// operations are all there are, in the order of the document.
func (a *API) operations() []operation {
	return []operation{
		a.listPages(),
		a.showPage(),
		a.regeneratePage(),
		a.listVersions(),
		a.compareVersions(),
		a.rollBackPage(),
		a.pinPage(),
		a.unpinPage(),
		a.collectGarbage(),
		a.showUsage(),
		a.showLease(),
		a.releaseLease(),
		a.showHealth(),
		a.showDocument(),
	}
}

// Handler returns the API for those who need no token, because nobody else can
// reach it: a socket that belongs to its user, or this very process.
func (a *API) Handler() http.Handler {
	return a.bounded(func(w http.ResponseWriter, r *http.Request) error {
		return a.answer(w, r, visitor{remote: "this machine", admitted: true})
	})
}

// answer is one request of a visitor who is known.
func (a *API) answer(w http.ResponseWriter, r *http.Request, v visitor) error {
	op, err := a.find(r)
	if !v.admitted && !op.public {
		return v.refusal
	}
	if err != nil {
		return err
	}
	// Operations differ in how long they take.
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(op.limit + writeTime)); err != nil {
		return err
	}
	return a.perform(w, r, op, v)
}

// find returns the operation that a request names. HEAD is GET, without a body.
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
			Status: http.StatusNotFound, Code: "not_found", Message: "there is nothing at " + r.URL.Path,
			Hint: "GET /-/openapi.json describes what there is",
		}
	}
	e := &Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: r.URL.Path + " cannot be asked with " + r.Method}
	for method := range methods {
		e.allow = append(e.allow, method)
	}
	return operation{}, e
}

// perform carries an operation out, with the time and the room that it may take.
func (a *API) perform(w http.ResponseWriter, r *http.Request, op operation, v visitor) (err error) {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	default:
		return &Error{
			Status: http.StatusTooManyRequests, Code: "busy", RetryAfter: time.Second,
			Message: "too many operations are under way", Hint: "try again in a moment",
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), op.limit)
	defer cancel()
	x := &exchange{w: w, r: r.WithContext(withVisitor(ctx, v))}
	if op.changes() {
		began := time.Now()
		defer func() { a.audit(ctx, v, op, x.target, err, time.Since(began)) }()
	}
	return op.serve(x)
}

// Time that clients may take, beside what an operation does.
const (
	bodyTime  = 10 * time.Second // to send a request
	writeTime = 20 * time.Second // to take an answer, or a part of a long one
)

// bounded keeps a client that sends or reads slowly from holding a connection,
// whoever it is, and answers with the error of serve.
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
