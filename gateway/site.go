package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/internal/redirect"
	"github.com/facetheory/isr/internal/routing"
	"github.com/facetheory/isr/store"
)

// A SiteConfig has the routes of a [Site] and their origins.
type SiteConfig struct {
	// Routes are the rules of the site, in any order.
	Routes []SiteRoute
	// Origins are the sites behind the cache, by name.
	Origins map[string]Origin
	// PublicScheme is the scheme of the public URL of the site, "http" or "https", that
	// renders state. Empty means http.
	PublicScheme string
	// Protection says which requests are accepted, whatever their route.
	Protection Protection
	// Answered, if not nil, is called for each request to a server of an origin: with the status of
	// the response, or the error if there is none, and the time until its header was received. It
	// must not block, and must be safe for concurrent use. Health checks and handlers of this
	// process are left out. The one of an origin stays the same for as long as the origin does.
	Answered func(origin, method string, status int, err error, took time.Duration)
	// Send, if not nil, sends each request to a server of an origin by a function that it is
	// given, as for a trace. It must not change the request, and must be safe for concurrent use.
	// The one of an origin stays the same for as long as the origin does.
	Send func(*http.Request, func(*http.Request) (*http.Response, error)) (*http.Response, error)
	// CountryHeader is the request header in which trusted peers of an [Edge] state the country of the visitor, such as
	// CF-IPCountry. It is not read from others. Empty: there is none.
	CountryHeader string
	// Redirects has the requests that are redirected, before routes; nil if there are none.
	Redirects *redirect.Table
	// Maintenance is the maintenance mode of the site.
	Maintenance Maintenance
	// Buffers is the budget of what is buffered of request bodies. The one of an origin stays the same for
	// as long as the origin does. Nil means no limit.
	Buffers *buffers.Budget
	// Logger receives errors of origins. Nil means slog.Default().
	Logger *slog.Logger
}

// limitsRates reports whether there is a rate limit.
func (cfg *SiteConfig) limitsRates() bool {
	return len(cfg.Protection.Limits) > 0 || slices.ContainsFunc(cfg.Routes, func(rt SiteRoute) bool { return len(rt.Protection.Limits) > 0 })
}

// A SiteRoute is a route with the requests that it is for, and its origin.
type SiteRoute struct {
	// Pattern is a pattern of [http.ServeMux]: "GET example.com/blog/{slug}". Unlike
	// there, "/account/" also matches "/account", without a redirect.
	Pattern string
	// Route has the rules. Its Name is set to [RouteName]: pages belong to the route
	// that matches them, whatever its name. An empty Label means Pattern. If Client is nil,
	// each IPv4 address and each IPv6 /64 is a client. Budget is the origin's.
	Route isr.Route
	// Origin is the name of its origin.
	Origin string
	// Device: [DeviceHeader] is derived from the User-Agent of each request, with the values of the route's key class of
	// it; the first is that of devices without a value.
	Device bool
	// Country: [CountryHeader] is derived from SiteConfig.CountryHeader, with the values of the route's key class of it;
	// the first is that of countries without a value.
	Country bool
	// Protection says which requests are accepted, of those that the Protection of the site accepts.
	Protection Protection
}

// A Site serves the pages of several routes from one cache. Its routes and origins can be
// replaced while it serves. Public requests must pass an [Edge] first.
type Site struct {
	cache *isr.Cache
	name  pseudonym
	inner http.Handler // behind the check for loops
	draft http.Handler // the same, for requests with a draft token
	tree  atomic.Pointer[tree]
	mu    sync.Mutex // held by Reload, Close and what changes maintenance
	// buckets are the tokens of rate limits, which stay over reloads; nil until there is a limit. Guarded by mu.
	buckets *buckets

	maintenance maintenance
}

// A tree is the present configuration of a site.
type tree struct {
	redirects *redirect.Table
	table     *routing.Table
	handlers  []http.Handler // by index of the table
	labels    []string       // of the routes, by the same index
	gate      *gate          // of the site; nil if it accepts all
	gates     []*gate        // of the routes, by the same index; nil for one that accepts all
	derived   []derived      // by the same index
	tenants   []string       // the tenant headers, by the same index
	schemed   []bool         // whether renders get the public scheme, by the same index
	schemes   *schemeWatch
	origins   map[string]*runningOrigin
	sticky    []string // the names of the cookies of the origins
}

// NewSite returns a site, which replaces all routes of the cache. The caller must Close it.
func NewSite(cache *isr.Cache, cfg SiteConfig) (*Site, error) {
	s := &Site{cache: cache, name: newPseudonym()}
	s.inner = s.name.refuseLoops(routes{s})
	s.draft = s.name.refuseLoops(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, draftHandler) }))
	if err := s.Reload(cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload replaces the routes and origins. Requests in flight finish by the old ones; those
// that arrive after Reload has returned follow the new ones. Pages stay, and so do the
// budgets, circuit breakers and connections of origins that keep their names and are not
// changed. After an error nothing has changed.
func (s *Site) Reload(cfg SiteConfig) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.tree.Load()
	if s.buckets == nil && cfg.limitsRates() {
		s.buckets = newBuckets()
	}
	next, started, err := newTree(s.cache, cfg, s.name, old, s.buckets)
	if err != nil {
		for _, o := range started {
			o.close()
		}
		return err
	}
	s.tree.Store(next)
	s.maintenance.cfg = cfg.Maintenance
	s.maintain()
	if old != nil {
		old.closeExcept(next)
	}
	return nil
}

// Drain ends the event streams that pass through, and those that begin from now on: they do not end by themselves, and
// their clients connect again. Call it before the server waits for requests in flight. Other requests are served.
func (s *Site) Drain() {
	for _, o := range s.tree.Load().origins {
		o.drain()
	}
}

// Close ends the health checks of the origins, and event streams. Other requests can still be served.
func (s *Site) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tree.Load().closeExcept(&tree{})
}

// closeExcept closes the origins that are not part of next.
func (t *tree) closeExcept(next *tree) {
	for name, o := range t.origins {
		if next.origins[name] != o {
			o.close()
		}
	}
}

// newTree returns the tree of a configuration, and binds its routes. started are the
// origins that the old tree does not have.
func newTree(cache *isr.Cache, cfg SiteConfig, name pseudonym, old *tree, b *buckets) (t *tree, started []*runningOrigin, err error) {
	patterns := make([]string, len(cfg.Routes))
	for i, rt := range cfg.Routes {
		patterns[i] = rt.Pattern
	}
	t = &tree{redirects: cfg.Redirects, origins: make(map[string]*runningOrigin, len(cfg.Origins)), schemes: &schemeWatch{public: cmp.Or(cfg.PublicScheme, "http"), log: logOf(cfg.Logger)}}
	if t.table, err = routing.New(patterns); err != nil {
		return nil, nil, err
	}
	for origin, o := range cfg.Origins {
		if o.Sticky.Cookie != "" {
			t.sticky = append(t.sticky, o.Sticky.Cookie)
		}
		if old != nil && old.origins[origin] != nil && old.origins[origin].same(o, cfg.PublicScheme) {
			t.origins[origin] = old.origins[origin]
			continue
		}
		fresh, err := startOrigin(origin, o, cfg, name)
		if err != nil {
			return nil, started, err
		}
		t.origins[origin] = fresh
		started = append(started, fresh)
	}
	bindings := make([]isr.Binding, len(cfg.Routes))
	for i, rt := range cfg.Routes {
		o := t.origins[rt.Origin]
		if o == nil {
			return nil, started, fmt.Errorf("route %q: there is no origin %q", rt.Pattern, rt.Origin)
		}
		t.derived = append(t.derived, derivedOf(rt, cfg.CountryHeader))
		t.tenants = append(t.tenants, rt.Route.TenantHeader)
		t.schemed = append(t.schemed, mindsScheme(rt.Route))
		bindings[i] = isr.Binding{Route: rt.bound(o), Renderer: o.handler}
		t.labels = append(t.labels, bindings[i].Route.Label)
		t.gates = append(t.gates, newGate(rt.Protection, "route "+rt.Pattern, b))
	}
	t.gate = newGate(cfg.Protection, "the site", b)
	t.handlers, err = cache.Bind(bindings, t.find)
	return t, started, err
}

// bound returns the route as the cache gets it.
func (rt SiteRoute) bound(o *runningOrigin) isr.Route {
	route := atEdge(rt.Route)
	route.Label = cmp.Or(route.Label, rt.Pattern)
	route.Budget = o.budget
	return route
}

// find returns the index of the route of a page, or -1.
func (t *tree) find(k store.Key) int {
	host, path, _, _ := k.Split()
	index, err := t.table.Find(http.MethodGet, host, path)
	if err != nil {
		return -1
	}
	return index
}

// TenantHeader returns the request header that names the tenant of the page at the URL of a
// request, whatever its method; empty for a page without tenants, and without a route. It
// fails for a URL that ServeHTTP refuses.
func (s *Site) TenantHeader(r *http.Request) (string, error) {
	t := s.tree.Load()
	get := *r
	get.Method = http.MethodGet
	index, err := t.table.FindRequest(&get)
	switch {
	case errors.Is(err, routing.ErrNone):
		return "", nil
	case err != nil:
		return "", err
	}
	return t.tenants[index], nil
}

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.inner.ServeHTTP(w, r) }

// Lookup implements [isr.HitHandler].
func (s *Site) Lookup(r *http.Request, hit *isr.Hit) bool { return isr.LookupIn(s.inner, r, hit) }

// routes serve requests by the handlers of their routes.
type routes struct{ s *Site }

func (rt routes) ServeHTTP(w http.ResponseWriter, r *http.Request) { rt.s.serve(w, r, nil) }

// Lookup implements [isr.HitHandler].
func (rt routes) Lookup(r *http.Request, hit *isr.Hit) bool {
	t := rt.s.tree.Load()
	r = withoutSticky(r, t.sticky)
	if t.redirects.Has(r) {
		return false
	}
	index, err := t.table.FindRequest(r)
	if err != nil {
		return false
	}
	t.derived[index].set(r)
	return t.lookup(r, index, hit)
}

// serve serves a request by the handler of its route, or by what as makes of it.
func (s *Site) serve(w http.ResponseWriter, r *http.Request, as func(http.Handler) http.Handler) {
	t := s.tree.Load()
	r = withoutSticky(r, t.sticky)
	to, redirects := t.redirects.Find(r)
	index, err := t.table.FindRequest(r)
	if as == nil {
		w = s.maintenance.shownTo(w)
	}
	if err == nil {
		t.derived[index].set(r)
	}
	if hop := hopOf(r.Context()); err == nil && hop != nil && t.schemed[index] {
		t.schemes.note(r, hop.scheme)
	}
	var next http.Handler
	switch {
	case redirects:
		next = moved(to)
	case err == nil && as != nil:
		next = as(t.handlers[index])
	case err == nil:
		next = t.handlers[index]
	case errors.Is(err, routing.ErrNone):
		next = refusal{http.StatusNotFound, "No route of this site matches this request."}
	default:
		next = refusal{http.StatusBadRequest, "Bad request: " + err.Error() + "."}
	}
	if err != nil || redirects {
		index = -1
	}
	t.admit(w, r, index, as != nil, next)
}
