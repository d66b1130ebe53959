package gateway

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"time"

	"github.com/facetheory/isr/budget"
)

// An Origin is a site behind the cache, at one or more addresses.
type Origin struct {
	// URLs are the addresses of servers that render the same pages, as [ParseOrigin]
	// returns them. They share the requests, as Balance says.
	URLs []*url.URL
	// Balance is how the addresses share requests. Empty means BalanceLeast.
	Balance Balance
	// Weights are the weights of URLs, from 1 on, by their indices. Nil means that all are equal.
	Weights []int
	// SlowStart is how long an address that is up again gets a growing share of the requests, from a tenth on.
	// Zero means that it gets its whole share at once.
	SlowStart time.Duration
	// Ejection is when an address is not used for a time.
	Ejection Ejection
	// Sticky keeps visitors at an address.
	Sticky Sticky
	// Host is the Host of requests: HostVisitor, HostURL, or a fixed one. Empty means HostURL for https addresses, whose
	// certificate and virtual host it selects, and HostVisitor for the others. X-Forwarded-Host is the visitor's host.
	Host string
	// TLS is how https addresses are connected to.
	TLS OriginTLS
	// Handler, if not nil, is the site itself, instead of URLs.
	Handler http.Handler
	// Renders, Failures: see [budget.Config].
	Renders, Failures int
	// MaxConnections bounds concurrent pass-through requests, including upgraded
	// connections; one client may use a quarter of them. Zero means
	// DefaultMaxConnections.
	MaxConnections int
	// ConnectTimeout bounds connecting to an address. Zero means
	// DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// ResponseTimeout bounds the wait for the header of a response. Renders have the
	// timeout of the cache as well. Zero means DefaultResponseTimeout.
	ResponseTimeout time.Duration
	// Health are the checks of the addresses.
	Health HealthCheck
}

// Defaults of [Origin].
const (
	DefaultConnectTimeout  = 5 * time.Second
	DefaultResponseTimeout = 2 * time.Minute
)

func (o Origin) withDefaults() Origin {
	o.Balance = cmp.Or(o.Balance, BalanceLeast)
	o.Ejection.Failures = cmp.Or(o.Ejection.Failures, DefaultEjectionFailures)
	o.Ejection.Time = cmp.Or(o.Ejection.Time, DefaultEjectionTime)
	o.Ejection.MaxTime = cmp.Or(o.Ejection.MaxTime, DefaultEjectionMaxTime)
	o.MaxConnections = cmp.Or(o.MaxConnections, DefaultMaxConnections)
	o.ConnectTimeout = cmp.Or(o.ConnectTimeout, DefaultConnectTimeout)
	o.ResponseTimeout = cmp.Or(o.ResponseTimeout, DefaultResponseTimeout)
	return o
}

// A HealthCheck finds out which addresses of an origin are up, by GET requests. A server is
// up if it answers with a status from 200 to 399.
type HealthCheck struct {
	Path     string        // empty: there are no checks
	Interval time.Duration // between two checks of an address
	Timeout  time.Duration // of a check
	Failures int           // consecutive failed checks after which an address is down
}

// A runningOrigin is an origin with what it has learned: its budget and circuit breaker, its
// connections, and which addresses are up. It survives reloads that do not change it.
type runningOrigin struct {
	cfg     Origin
	scheme  string // SiteConfig.PublicScheme
	handler http.Handler
	budget  *budget.Budget
	pool    *pool         // nil for a handler
	streams *eventStreams // nil for a handler
}

// startOrigin starts the health checks of an origin, which end with close.
func startOrigin(name string, cfg Origin, site SiteConfig, gateway pseudonym) (*runningOrigin, error) {
	cfg = cfg.withDefaults()
	o := &runningOrigin{
		cfg: cfg, scheme: site.PublicScheme, handler: cfg.Handler,
		budget: budget.New(budget.Config{Origin: name, Renders: cfg.Renders, Failures: cfg.Failures, Logger: site.Logger}),
	}
	switch {
	case cfg.Handler != nil:
		return o, nil
	case len(cfg.URLs) == 0:
		return nil, fmt.Errorf("origin %q has no address", name)
	case cfg.Weights != nil && (len(cfg.Weights) != len(cfg.URLs) || slices.Min(cfg.Weights) < 1):
		return nil, fmt.Errorf("origin %q has %d addresses and the weights %v; expected a weight from 1 on for each", name, len(cfg.URLs), cfg.Weights)
	}
	if s := cfg.Sticky; s.Cookie != "" && len(s.Secret) < MinStickySecret {
		return nil, fmt.Errorf("origin %q: the secret of the cookie %s has %d bytes; expected at least %d", name, s.Cookie, len(s.Secret), MinStickySecret)
	}
	secure, err := cfg.TLS.Config()
	if err != nil {
		return nil, fmt.Errorf("origin %q: %w", name, err)
	}
	o.pool = newPool(cfg, secure, site.Logger)
	if site.Answered != nil {
		o.pool.answered = func(method string, status int, err error, took time.Duration) {
			site.Answered(name, method, status, err, took)
		}
	}
	if site.Send != nil {
		o.pool.through = site.Send
	}
	p := newProxy(o.pool, cfg.MaxConnections, site.Buffers, Listener{PublicScheme: site.PublicScheme}, gateway, site.Logger)
	o.handler, o.streams = p, &p.streams
	return o, nil
}

// same reports whether a configuration is the origin's, in a site with a public scheme, so that it can go on.
func (o *runningOrigin) same(cfg Origin, scheme string) bool {
	if o.scheme != scheme {
		return false
	}
	a, b := o.cfg, cfg.withDefaults()
	if (a.Handler == nil) != (b.Handler == nil) {
		return false
	}
	a.Handler, b.Handler = nil, nil // handlers cannot be compared: there is only the demonstration site
	return reflect.DeepEqual(a, b)
}

// close ends the health checks and the event streams. Other requests in flight go on.
func (o *runningOrigin) close() {
	if o.pool != nil {
		o.pool.close()
	}
	o.drain()
}

// drain ends the event streams.
func (o *runningOrigin) drain() {
	if o.streams != nil {
		o.streams.drain()
	}
}

// logOf returns a logger that is never nil.
func logOf(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.Default()
	}
	return log
}
