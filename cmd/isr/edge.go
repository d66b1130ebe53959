package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/facetheory/isr/gateway"
)

// edgeFlags configure which public requests are accepted, and their limits.
type edgeFlags struct {
	Host                 []string `sep:"," placeholder:"NAME" help:"Host to serve: example.com, *.example.com, or * for any; repeatable. Requests for other hosts get 421. Required if --listen is reachable from other machines (localhost)."`
	TrustedProxy         []string `sep:"," placeholder:"CIDR" help:"Network whose X-Forwarded-* and Forwarded headers are trusted: a CIDR like 10.0.0.0/8, loopback or private; repeatable (none)."`
	ProxyProtocol        bool     `help:"Require the PROXY protocol, v1 or v2, on connections from --trusted-proxy."`
	PublicScheme         string   `enum:"http,https" default:"http" placeholder:"SCHEME" help:"Scheme of the public URL of the site, sent to the origin as X-Forwarded-Proto: http or https (${default})."`
	ClientTimeout        span     `default:"60s" placeholder:"TIME" help:"How long a client may neither read nor send a byte of a body before its connection is closed, at least 1s (${default})."`
	MaxOriginConnections int      `default:"256" placeholder:"N" help:"Concurrent pass-through requests at the origin, 4 to 1048576; a client may use a quarter of them (${default}). Renders are bounded by --max-renders."`
}

func (f *edgeFlags) validate(listen string) error {
	at, err := resolveListen(listen)
	if err != nil {
		return err
	}
	if _, err := gateway.ParseHosts(f.Host); err != nil {
		return usagef("--host %v", err)
	}
	if _, err := gateway.ParseTrust(f.TrustedProxy); err != nil {
		return usagef("--trusted-proxy %v", err)
	}
	switch {
	case len(f.Host) == 0 && !at.IP.IsLoopback():
		return usagef("--listen %s is reachable from other machines and needs --host, since each name would be cached as a site of its own; give the hosts to serve, like --host example.com", listen)
	case f.ProxyProtocol && len(f.TrustedProxy) == 0:
		return usagef("--proxy-protocol needs --trusted-proxy CIDR: otherwise any client could claim any address")
	case f.ClientTimeout < span(time.Second):
		return usagef("--client-timeout must be at least 1s (got %s)", time.Duration(f.ClientTimeout))
	case f.MaxOriginConnections < 4 || f.MaxOriginConnections > 1<<20:
		return usagef("--max-origin-connections must be between 4 and 1048576 (got %d)", f.MaxOriginConnections)
	}
	return nil
}

// resolveListen resolves the address to listen on.
func resolveListen(listen string) (*net.TCPAddr, error) {
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, usagef("--listen %q is not an address; expected host:port, like 127.0.0.1:8080", listen)
	}
	at, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return nil, usagef("--listen %q does not resolve: %v; expected host:port, like 127.0.0.1:8080", listen, err)
	}
	return at, nil
}

// gateway returns the configuration of the proxy to an origin.
func (f *edgeFlags) gateway(origin *url.URL, log *slog.Logger) gateway.Config {
	return gateway.Config{
		Origin: origin, PublicScheme: f.PublicScheme, MaxConnections: f.MaxOriginConnections,
		ClientTimeout: time.Duration(f.ClientTimeout), Logger: log,
	}
}

// hosts returns the hosts that a listener serves.
func (f *edgeFlags) hosts(at net.Addr) gateway.Hosts {
	hosts := gateway.LoopbackHosts()
	if len(f.Host) > 0 {
		hosts, _ = gateway.ParseHosts(f.Host) // validated
	}
	return hosts.WithListener(at)
}

// edge returns the handler that checks public requests of a listener before next.
func (f *edgeFlags) edge(at net.Addr, next http.Handler, healthPath string, h *health, log *slog.Logger) http.Handler {
	trust, _ := gateway.ParseTrust(f.TrustedProxy) // validated
	return gateway.Edge(gateway.EdgeConfig{
		Hosts: f.hosts(at), Trust: trust, Unnamed: unnamed,
		HealthPath: healthPath, Health: http.HandlerFunc(h.public), Logger: log,
	}, next)
}

// headerTime bounds reading the header of a request, and that of the PROXY protocol.
const headerTime = 10 * time.Second

// accept wraps a server's listener in the PROXY protocol if it is enabled. Trusted peers
// must use it; connections of other peers are taken as they are.
func (f *edgeFlags) accept(s *http.Server, l net.Listener) net.Listener {
	if !f.ProxyProtocol {
		return l
	}
	outer := s.ConnContext
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if outer != nil {
			ctx = outer(ctx, c)
		}
		return context.WithValue(ctx, proxiedKey{}, c)
	}
	trust, _ := gateway.ParseTrust(f.TrustedProxy) // validated
	return &proxyproto.Listener{
		Listener:          l,
		ReadHeaderTimeout: headerTime,
		ConnPolicy: func(o proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
			peer, err := netip.ParseAddrPort(o.Upstream.String())
			if err == nil && trust.Trusts(peer.Addr()) {
				return proxyproto.REQUIRE, nil
			}
			return proxyproto.SKIP, nil
		},
	}
}

// proxiedKey is the key of a request's connection in its context.
type proxiedKey struct{}

// unnamed reports whether the PROXY protocol header of a request's connection names no
// client: a health check of the proxy (LOCAL), or an unknown client (UNKNOWN).
func unnamed(r *http.Request) bool {
	c, _ := r.Context().Value(proxiedKey{}).(*proxyproto.Conn)
	if c == nil {
		return false
	}
	header := c.ProxyHeader() // which was read before the request
	return header != nil && (header.Command.IsLocal() || header.TransportProtocol.IsUnspec())
}
