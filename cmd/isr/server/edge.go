package server

import (
	"net"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/config"
)

// EdgeFlags configure which public requests are accepted, and their limits.
type EdgeFlags struct {
	Host                 []string `sep:"," placeholder:"NAME" help:"Host to serve: example.com, *.example.com, or * for any; repeatable. Requests for other hosts get 421. Required if --listen is reachable from other machines (localhost)."`
	TrustedProxy         []string `sep:"," placeholder:"CIDR" help:"Network whose X-Forwarded-For, X-Forwarded-Proto and Forwarded headers are trusted: a CIDR like 10.0.0.0/8, loopback or private; repeatable (none)."`
	TrustForwardedHost   bool     `help:"Take the host from X-Forwarded-Host, or from host= of Forwarded, of --trusted-proxy, and pass X-Forwarded-Port and X-Forwarded-Prefix on. Dangerous unless each of these proxies sets or removes the field: nginx, CloudFront and others pass a visitor's own field on: the visitor then chooses the host of a page that a downstream cache stores under another host."`
	ProxyProtocol        bool     `help:"Require the PROXY protocol, v1 or v2, on connections from --trusted-proxy."`
	PublicScheme         string   `enum:"http,https" default:"http" placeholder:"SCHEME" help:"Scheme of the public URL of the site, sent to the origin as X-Forwarded-Proto: http or https (${default})."`
	HSTS                 string   `name:"hsts" placeholder:"VALUE" help:"Strict-Transport-Security of responses over https, which replaces the site's, like max-age=31536000; for this time browsers use only https for the hosts (none)."`
	ClientTimeout        cli.Span `default:"60s" placeholder:"TIME" help:"How long a client may neither read nor send a byte of a body before its connection is closed, at least 1s (${default})."`
	FastPath             bool     `default:"true" negatable:"" help:"Serve hits, and other ordinary requests, on plain HTTP/1.1 without net/http, Go's HTTP server, which is faster (yes)."`
	MaxClientConnections int      `placeholder:"N" help:"Connections that one client may have, 1 to 16777216; connections of trusted proxies are not limited (a quarter of the limit of open files, at most 1024)."`
	MaxOriginConnections int      `default:"256" placeholder:"N" help:"Concurrent pass-through requests at the origin, 4 to 1048576; a client may use a quarter of them (${default}). Renders are bounded by --max-renders."`
}

func (f *EdgeFlags) validate(listen string) error {
	at, err := resolveListen(listen)
	if err != nil {
		return err
	}
	if _, err := gateway.ParseHosts(f.Host); err != nil {
		return cli.Usagef("--host %v", err)
	}
	if _, err := gateway.ParseTrust(f.TrustedProxy); err != nil {
		return cli.Usagef("--trusted-proxy %v", err)
	}
	if err := checkHSTS(f.HSTS); err != nil {
		return err
	}
	switch {
	case len(f.Host) == 0 && !at.IP.IsLoopback():
		return cli.Usagef("--listen %s is reachable from other machines and needs --host, since each name would be cached as a site of its own; give the hosts to serve, like --host example.com", listen)
	case f.ProxyProtocol && len(f.TrustedProxy) == 0:
		return cli.Usagef("--proxy-protocol needs --trusted-proxy CIDR: otherwise any client could claim any address")
	case f.TrustForwardedHost && len(f.TrustedProxy) == 0:
		return cli.Usagef("--trust-forwarded-host needs --trusted-proxy CIDR: the field of other peers is never read")
	case f.ClientTimeout < cli.Span(time.Second):
		return cli.Usagef("--client-timeout must be at least 1s (got %s)", time.Duration(f.ClientTimeout))
	case f.MaxClientConnections < 0 || f.MaxClientConnections > 1<<24:
		return cli.Usagef("--max-client-connections must be between 1 and 16777216 (got %d)", f.MaxClientConnections)
	case f.MaxOriginConnections < 4 || f.MaxOriginConnections > 1<<20:
		return cli.Usagef("--max-origin-connections must be between 4 and 1048576 (got %d)", f.MaxOriginConnections)
	}
	return nil
}

func checkHSTS(value string) error {
	if value == "" {
		return nil
	}
	if err := config.CheckHSTS(value); err != nil {
		return cli.Usagef("--hsts %q %v", value, err)
	}
	return nil
}

// resolveListen resolves the address to listen on.
func resolveListen(listen string) (*net.TCPAddr, error) {
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return nil, cli.Usagef("--listen %q is not an address; expected host:port, like 127.0.0.1:8080", listen)
	}
	at, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return nil, cli.Usagef("--listen %q does not resolve: %v; expected host:port, like 127.0.0.1:8080", listen, err)
	}
	return at, nil
}
