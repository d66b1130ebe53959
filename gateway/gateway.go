// Package gateway is a caching reverse proxy: an isr.Cache in front of an HTTP origin, safe
// to expose to the public.
//
//	visitor -> Edge -> isr.Cache -> reverse proxy -> origin
//	           │ which client, host and scheme      │ which connections, for how long
//
// The cache decides which responses are shared. The gateway forwards requests to the origin
// and removes headers that origins trust: forwarding fields and internal headers of
// frameworks are set here or by trusted peers, never by a visitor.
//
// A render does not belong to a visitor. It is a projection of the cache key, has no client
// address, and is sent without X-Forwarded-For, Forwarded and X-Real-IP.
package gateway

// The files:
//
//	gateway.go, edge.go, hosts.go   the public edge: hosts and their sites
//	forwarded.go, peers.go          trusted proxies, and the client that a request comes from
//	https.go, schemes.go            redirects to https, HSTS; proxies that contradict the public scheme
//	protection.go, networks.go      which requests are accepted
//	ratelimit.go, buckets.go        how many of them
//	site.go                         routes and origins, replaced while they serve
//	origin.go, origins.go, pool.go  the addresses of an origin, failover, health checks
//	origintls.go                    the host of requests, and TLS to origins
//	sticky.go                       the cookie that keeps a visitor at an address
//	balance.go                      which address gets a request, and which are ejected
//	proxy.go                        the reverse proxy to an origin, as a renderer
//	via.go                          the field Via, and requests that come back
//	requestbody.go, admission.go    limits per client
//	draft.go                        unpublished content for editors
//	maintenance.go                  stored pages, and one page for the rest, while the origin is not called
//	errorpages.go                   pages of the site's own for errors
//	redirects.go                    requests that are redirected, before routes
//	nexttags.go                     the tags of paths by which Next.js revalidates
//	explain.go                      all of this for one request, without serving it

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/internal/canonical"
)

// RouteName is the name that the pages of a gateway have as their route.
const RouteName = "origin"

// Config configures a [Renderer]. Only Origin is required.
type Config struct {
	// Origin is the site, as [ParseOrigin] returns it.
	Origin *url.URL
	// PublicScheme is the scheme of the public URL of the site, "http" or "https". It is
	// sent as X-Forwarded-Proto, unless a trusted peer sets another. It is not part of
	// cache keys. Empty means http.
	PublicScheme string
	// MaxConnections bounds concurrent pass-through requests, including upgraded
	// connections; one client may use a quarter of them. Renders are bounded by
	// [budget.Budget]. Zero means DefaultMaxConnections.
	MaxConnections int
	// ClientTimeout bounds the wait for the next bytes of a request body. Zero means
	// DefaultClientTimeout.
	ClientTimeout time.Duration
	// Buffers is the budget of what is buffered of request bodies. Nil means no limit.
	Buffers *buffers.Budget
	// Logger receives errors of the origin. Nil means slog.Default().
	Logger *slog.Logger
}

// Defaults of [Config].
const (
	DefaultMaxConnections = 256
	DefaultClientTimeout  = time.Minute
)

// ParseOrigin parses the URL of an origin, such as "http://127.0.0.1:3000". The scheme h2c is
// HTTP/2 without TLS, with prior knowledge (RFC 9113, section 3.3), as gRPC servers expect it.
func ParseOrigin(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "h2c"):
		return nil, fmt.Errorf("%q is not an http, https or h2c address; expected one such as http://127.0.0.1:3000", s)
	case u.User != nil:
		return nil, fmt.Errorf("%q has a user name, which isr does not send; remove it", u.Redacted())
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q has a path or query; expected only scheme and host, like %s://%s", s, u.Scheme, u.Host)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}

// New returns a handler that serves the pages of an origin from the cache, by the rules of a
// route, whose name is set to [RouteName]. Public requests must pass an [Edge] first. If
// route.Client is nil, each IPv4 address and each IPv6 /64 is a client.
//
// An http or h2c origin receives the Host that the visitor requested. An https origin receives its
// own host, which selects its certificate and virtual host. X-Forwarded-Host is the host of the
// visitor in both cases.
func New(cache *isr.Cache, route isr.Route, cfg Config) http.Handler {
	name := newPseudonym()
	return name.refuseLoops(cache.Handler(atEdge(route), renderer(cfg, name)))
}

// atEdge returns a route as the cache gets it: with the name that all routes of a gateway have,
// and clients by the address that the [Edge] has found.
func atEdge(route isr.Route) isr.Route {
	route.Name = RouteName
	if route.Client == nil {
		route.Client = func(r *http.Request) netip.Prefix { return canonical.Client(r.RemoteAddr) }
	}
	return route
}

// Next is the preset for sites built with Next.js (App Router): it adds to a route the
// headers and query parameters that their pages vary on, the tags of [NextTags], and a stale
// window of a day if it has none, since Next.js states its own beside s-maxage.
func Next(route isr.Route) isr.Route {
	route.Vary = append(slices.Clone(route.Vary),
		"RSC", "Next-Router-State-Tree", "Next-Router-Prefetch", "Next-Router-Segment-Prefetch", "Next-Url")
	route.Query = append(slices.Clone(route.Query), "_rsc")
	if route.Stale == 0 {
		route.Stale = 24 * time.Hour
	}
	return WithNextTags(route)
}
