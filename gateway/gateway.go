// Package gateway puts an isr.Cache in front of a site that speaks HTTP: a
// reverse-proxy cache that can face the public.
//
//	visitor -> Edge -> isr.Cache -> reverse proxy -> origin
//	           │ which client, host and scheme      │ which connections, for how long
//
// The cache decides what is shared. The gateway carries requests to the origin and
// keeps out what an origin must be able to trust: forwarding fields and the internal
// headers of frameworks come from here or from trusted peers, never from a visitor.
//
// A render belongs to no visitor. It is made of a page's key, has no address, and
// the origin is told none: no X-Forwarded-For, no Forwarded, no X-Real-IP.
package gateway

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr"
)

// RouteName is the name of the gateway's one route.
const RouteName = "origin"

// Config are the settings of a [Renderer]. The zero value but for Origin is useful.
type Config struct {
	// Origin is the site, as [ParseOrigin] returns it.
	Origin *url.URL
	// PublicScheme is the scheme by which visitors reach the site, "http" or
	// "https": renders are told so, in X-Forwarded-Proto, and so are requests that
	// pass through, unless a trusted peer says another. It is in no key. Empty: http.
	PublicScheme string
	// MaxConnections bounds the requests that pass through to the origin at once,
	// upgraded connections among them; one client may have a quarter of them. Renders
	// are bounded by [budget.Budget]. Zero means DefaultMaxConnections.
	MaxConnections int
	// ClientTimeout bounds the time in which a client sends no byte of a request's
	// body. Zero means DefaultClientTimeout.
	ClientTimeout time.Duration
	// Logger is told of what goes wrong at the origin. Nil means slog.Default().
	Logger *slog.Logger
}

// Defaults of [Config].
const (
	DefaultMaxConnections = 256
	DefaultClientTimeout  = time.Minute
)

func (cfg Config) withDefaults() Config {
	cfg.PublicScheme = cmp.Or(cfg.PublicScheme, "http")
	cfg.MaxConnections = cmp.Or(cfg.MaxConnections, DefaultMaxConnections)
	cfg.ClientTimeout = cmp.Or(cfg.ClientTimeout, DefaultClientTimeout)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return cfg
}

// ParseOrigin checks the address of an origin, such as "http://127.0.0.1:3000".
func ParseOrigin(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, fmt.Errorf("the origin %q is not an address; expected one like http://127.0.0.1:3000", s)
	case u.User != nil:
		return nil, fmt.Errorf("the origin %q has a user name, which is not sent; remove it", u.Redacted())
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("the origin %q has a path or query; expected only scheme and host, as in %s://%s", s, u.Scheme, u.Host)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// New returns a handler that serves the origin's pages from the cache by the
// rules of the route, whose name is set to [RouteName]. In front of the public it
// belongs behind an [Edge]. Unless the route tells clients apart itself, an IPv4 address
// is a client, and so is an IPv6 /64.
//
// An origin behind plain http sees the Host that the visitor asked for; one
// behind https sees its own, because its certificate and virtual host are chosen
// by it. In both cases X-Forwarded-Host is the visitor's.
func New(cache *isr.Cache, route isr.Route, cfg Config) http.Handler {
	route.Name = RouteName
	if route.Client == nil {
		route.Client = func(r *http.Request) netip.Prefix { return clientOf(r.RemoteAddr) }
	}
	return cache.Handler(route, Renderer(cfg))
}

// Next is the preset for sites built with Next.js (App Router): what its pages
// vary on beside the URL. It adds to a route what is missing.
func Next(route isr.Route) isr.Route {
	route.Vary = append(slices.Clone(route.Vary),
		"RSC", "Next-Router-State-Tree", "Next-Router-Prefetch", "Next-Router-Segment-Prefetch", "Next-Url")
	route.Query = append(slices.Clone(route.Query), "_rsc")
	return route
}
