package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pires/go-proxyproto"

	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/acme"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/fastpath"
	"github.com/facetheory/isr/internal/handover"
	"github.com/facetheory/isr/internal/httpconn"
)

// A public is the public side of a server: its listeners, and the hosts that they serve.
type public struct {
	listeners []*publicListener
	hosts     atomic.Pointer[gateway.Hosts] // with the ports of all listeners
	failed    chan error                    // receives the error of a listener that fails
	acme      *acme.Certificates            // nil unless a listener uses it
	peers     gateway.Peers                 // of all listeners
	limits    *httpconn.Connections         // of all listeners, once they serve
	ending    atomic.Bool                   // connections are closed after their next response
	// observe is [gateway.EdgeConfig.Observe]; nil if requests are not observed.
	observe func(http.ResponseWriter, *http.Request, http.Handler)
	// fast are the instruments of hits that net/http does not answer; nil if it answers all.
	fast *instruments
	log  *slog.Logger
}

// A publicListener is one address of the site.
type publicListener struct {
	cfg     config.Listener
	inner   net.Listener
	tls     *tls.Config // nil if there is no TLS
	handler atomic.Pointer[http.Handler]
	server  *Running           // once it serves
	fast    *httpconn.FastPath // nil if there is none
	fresh   sync.Map           // of net.Conn: the connections that have sent no request yet
}

// listen listens on all addresses of a file. data is the data folder.
func listen(ctx context.Context, sockets *handover.Sockets, f *config.File, data string, log *slog.Logger) (p *public, err error) {
	p = &public{failed: make(chan error, len(f.Listen)), log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for _, cfg := range f.Listen {
		l := &publicListener{cfg: cfg}
		var files []httpconn.CertificateFile
		for _, c := range cfg.TLS {
			files = append(files, httpconn.CertificateFile{Cert: c.Cert, Key: c.Key})
		}
		if len(files) > 0 {
			certs, err := httpconn.LoadCertificates(files, log)
			if err != nil {
				return p, fmt.Errorf("listener %s: %w", cfg.Address, err)
			}
			l.tls = &tls.Config{GetCertificate: certs.Get, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
		}
		var given bool
		if l.inner, given, err = sockets.Listen(ctx, cfg.Address); err != nil {
			return p, fmt.Errorf("cannot listen on %s: %w; give another address with --listen", cfg.Address, err)
		}
		if sockets.Managed() && !given {
			log.Warn("the service manager hands in sockets, but none for this listener: a restart refuses connections to it; add it to the socket unit, like ListenStream="+cfg.Address, "listener", cfg.Address)
		}
		p.listeners = append(p.listeners, l)
	}
	p.setHosts(f)
	return p, p.useACME(f, data)
}

// close closes listeners that do not serve yet.
func (p *public) close() error {
	var errs []error
	for _, l := range p.listeners {
		errs = append(errs, l.inner.Close())
	}
	errs = append(errs, p.closeACME(context.Background()))
	return errors.Join(errs...)
}

// setHosts sets the hosts that the server serves.
func (p *public) setHosts(f *config.File) {
	hosts := hostsOf(f)
	for _, l := range p.listeners {
		hosts = hosts.WithListener(l.inner.Addr())
	}
	p.hosts.Store(&hosts)
}

// hostsOf returns the hosts of a file, which name it unless they are the hosts of --host.
func hostsOf(f *config.File) gateway.Hosts {
	hosts := gateway.LoopbackHosts()
	if len(f.Hosts) > 0 {
		hosts, _ = gateway.ParseHosts(f.Hosts) // validated
	}
	if f.Name() != "" && (len(f.Hosts) == 0 || fileSets(f, "hosts")) {
		hosts = hosts.InFile(filepath.Base(f.Name()))
	}
	return hosts
}

// trustOf returns the peers that a listener trusts, and for what.
func trustOf(l config.Listener) (gateway.Trust, error) {
	trust, err := gateway.ParseTrust(l.TrustedProxies)
	if l.ForwardedHost {
		trust = trust.WithHost()
	}
	return trust, err
}

// served returns the hosts that the listeners serve.
func (p *public) served() admin.Hosts { return p.hosts.Load() }

// edge replaces what the listeners do with requests: edges for the hosts of a file, before the
// handler that onPublic, if not nil, returns for the site. The redirect to https is between the two:
// webhooks are accepted at all listeners.
func (p *public) edge(f *config.File, site http.Handler, onPublic func(http.Handler) http.Handler, healthPath string, h *health) {
	p.setHosts(f)
	keyScheme := ""
	if f.BothSchemes() {
		keyScheme = f.PublicScheme
	}
	for i, l := range p.listeners {
		trust, _ := trustOf(l.cfg) // validated
		next := p.redirected(f, i, site)
		if onPublic != nil {
			next = onPublic(next)
		}
		edge := gateway.Edge(gateway.EdgeConfig{
			Hosts: hostsOf(f).WithListener(l.inner.Addr()), Trust: trust, Unnamed: unnamed, Peers: &p.peers,
			Scheme: f.SchemeOf(l.cfg), KeyScheme: keyScheme, HSTS: f.HSTS,
			HealthPath: healthPath, Health: http.HandlerFunc(h.public), Observe: p.observe, Logger: p.log,
		}, next)
		if p.acme != nil && f.AnswersChallenges(l.cfg) && !l.cfg.Encrypted() {
			edge = p.acme.Answer(edge)
		}
		l.handler.Store(&edge)
	}
	if p.acme != nil {
		p.acme.Serve(f.CertificateHosts())
	}
}

// redirected returns the handler of a listener: a redirect to https before the site, if visitors of
// the listener are redirected.
func (p *public) redirected(f *config.File, i int, site http.Handler) http.Handler {
	to := f.RedirectTo(i)
	if to < 0 {
		return site
	}
	cfg := gateway.RedirectConfig{Port: portOf(p.listeners[i].inner.Addr()), TLSPort: portOf(p.listeners[to].inner.Addr()), Unnamed: unnamed}
	if p.listeners[to].cfg.ACME {
		cfg.Certified = p.acme.Has
	}
	return gateway.RedirectHTTPS(cfg, site)
}

func portOf(a net.Addr) int {
	tcp, _ := a.(*net.TCPAddr)
	return tcp.Port
}

// start serves on all listeners, which have an edge.
func (p *public) start(f *config.File, clientTimeout time.Duration) {
	for _, l := range p.listeners {
		l.server = l.start(gateway.Listener{PublicScheme: f.PublicScheme, Scheme: f.SchemeOf(l.cfg), ClientTimeout: clientTimeout}, p)
	}
}

// Limits of HTTP/2 connections.
const (
	// maxStreams is how many requests a client may have open on a connection.
	maxStreams = 100
	// streamWindow is how many bytes of a body the server buffers before they are read: an upload is as fast as that
	// many in each round trip. The budget of buffers has them.
	streamWindow = 128 << 10
	// connectionWindow bounds the same for all streams of a connection.
	connectionWindow = 512 << 10
	// readFrame is the longest frame that is read, the least that the protocol allows (RFC 9113, section 4.2): each connection
	// keeps a buffer for it.
	readFrame = 16 << 10
)

func (l *publicListener) start(common gateway.Listener, p *public) *Running {
	clientTimeout := common.ClientTimeout
	common.StreamWindow = streamWindow
	s := newServer(httpconn.LimitStreams(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.ending.Load() && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close") // HTTP/2 then ends the connection, too
		}
		(*l.handler.Load()).ServeHTTP(w, r)
	}), clientTimeout), p.log)
	s.ConnState = l.note
	s.BaseContext = func(net.Listener) context.Context { return common.Context(context.Background()) }
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, MaxReadFrameSize: readFrame,
		MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
		SendPingTimeout: clientTimeout, WriteByteTimeout: clientTimeout,
	}
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(l.tls != nil)
	s.Protocols.SetUnencryptedHTTP2(l.cfg.H2C)
	coalescing := httpconn.CoalesceWrites(s, l.inner, clientTimeout)
	p.limits.Limit(s, coalescing, peerOf(l.cfg))
	if p.fast != nil && l.tls == nil && !l.cfg.H2C && !l.cfg.ProxyProtocol {
		l.fast = httpconn.NewFastPath(s, coalescing, fastpath.New(fastpath.Config{
			Handler:  func() http.Handler { return *l.handler.Load() },
			Recorder: p.fast.recorder,
			Counter:  p.fast.metrics.FastPath(),
		}))
	}
	inner := acceptProxy(l.cfg, s, coalescing)
	if l.tls != nil {
		s.TLSConfig = l.tls
		// Clients such as curl --http1.0 offer nothing else; a handshake without a common protocol fails.
		s.TLSConfig.NextProtos = append(s.TLSConfig.NextProtos, "http/1.0")
		inner = httpconn.AcceptTLS(s, inner)
	}
	return startWith(s, httpconn.RefuseAmbiguous(s, inner), p.failed)
}

// note notes which connections have sent no request yet.
func (l *publicListener) note(c net.Conn, state http.ConnState) {
	if state == http.StateNew {
		l.fresh.Store(c, nil)
	} else {
		l.fresh.Delete(c)
	}
}

// freshTime is how long a connection that was accepted last may take to send its request.
const freshTime = time.Second

// stop accepts no more connections, and lets requests in flight finish until ctx is done. It waits for the requests of
// connections that have sent none yet, and for those that have come and are not read yet: net/http would close these connections.
func (l *publicListener) stop(ctx context.Context, limits *httpconn.Connections, log *slog.Logger) {
	l.server.stopAccepting(ctx, l.inner)
	limited, cancel := context.WithTimeout(ctx, freshTime)
	defer cancel()
	for l.hasFresh() && backoff.Wait(limited, 2*time.Millisecond) == nil {
	}
	awaitArrivals(ctx, limits)
	l.fresh.Range(func(c, _ any) bool {
		_ = c.(net.Conn).Close() // the client may be gone
		return true
	})
	l.server.Stop(ctx, log)
	if l.fast == nil {
		return
	}
	if err := l.fast.Wait(ctx); err != nil {
		log.Warn("requests canceled at shutdown", "error", err)
	}
}

// awaitArrivals waits for the requests that are on their way to their handlers. It looks twice, for one that has just been read.
func awaitArrivals(ctx context.Context, limits *httpconn.Connections) {
	ctx, cancel := context.WithTimeout(ctx, headerTime)
	defer cancel()
	for quiet := 0; limits != nil && quiet < 2 && backoff.Wait(ctx, 2*time.Millisecond) == nil; quiet++ {
		if limits.Arriving() {
			quiet = -1
		}
	}
}

func (l *publicListener) hasFresh() (found bool) {
	l.fresh.Range(func(any, any) bool {
		found = true
		return false
	})
	return found
}

// end has connections closed after their next response, so that no client sends a request on one that is being closed. New
// connections are still accepted.
func (p *public) end() {
	p.ending.Store(true)
	for _, l := range p.listeners {
		if l.fast != nil {
			l.fast.End()
		}
	}
}

// stop accepts no more requests, and lets those in flight finish until ctx is done.
func (p *public) stop(ctx context.Context) {
	done := make(chan struct{}, len(p.listeners))
	for _, l := range p.listeners {
		go func() {
			l.stop(ctx, p.limits, p.log)
			done <- struct{}{}
		}()
	}
	for range p.listeners {
		<-done
	}
	if err := p.closeACME(ctx); err != nil {
		p.log.Warn("certificate orders canceled at shutdown", "error", err)
	}
}

// urls returns the addresses that a browser on this machine can open.
func (p *public) urls() (texts []string) {
	for _, l := range p.listeners {
		scheme := "http://"
		if l.tls != nil {
			scheme = "https://"
		}
		texts = append(texts, scheme+displayAddress(l.inner.Addr()))
	}
	return texts
}

// addresses returns the addresses of the listeners.
func (p *public) addresses() (all []net.Addr) {
	for _, l := range p.listeners {
		all = append(all, l.inner.Addr())
	}
	return all
}

// headerTime bounds reading the header of a request, and the header of the PROXY protocol.
const headerTime = 10 * time.Second

// acceptProxy wraps a server's listener in the PROXY protocol if it is enabled. Trusted peers
// must use it; connections of other peers are taken as they are.
func acceptProxy(cfg config.Listener, s *http.Server, l net.Listener) net.Listener {
	if !cfg.ProxyProtocol {
		return l
	}
	outer := s.ConnContext
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if outer != nil {
			ctx = outer(ctx, c)
		}
		for {
			within, ok := c.(interface{ NetConn() net.Conn })
			if !ok {
				break
			}
			c = within.NetConn()
		}
		return context.WithValue(ctx, proxiedKey{}, c)
	}
	trust, _ := gateway.ParseTrust(cfg.TrustedProxies) // validated
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
