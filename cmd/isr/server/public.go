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
	"reflect"
	"slices"
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
	"github.com/facetheory/isr/internal/http3"
	"github.com/facetheory/isr/internal/httpconn"
)

// A public is the public side of a server: its listeners, and the hosts that they serve. A reload replaces both.
type public struct {
	present atomic.Pointer[listening]
	hosts   atomic.Pointer[gateway.Hosts] // with the ports of all listeners
	failed  chan error                    // receives the error of a listener that fails
	peers   gateway.Peers                 // of all listeners
	limits  *httpconn.Connections         // of all listeners, once they serve
	limits3 *http3.Limits                 // the same for HTTP/3
	visits3 atomic.Int64                  // requests by HTTP/3
	// observe is [gateway.EdgeConfig.Observe]; nil if requests are not observed.
	observe func(http.ResponseWriter, *http.Request, http.Handler)
	// hits are the instruments of hits that net/http does not answer; nil if it answers all.
	hits    *instruments
	sockets *handover.Sockets
	log     *slog.Logger
}

// listening are the listeners of a configuration. It is immutable.
type listening struct {
	listeners []*publicListener
	acme      *acme.Certificates // nil unless a listener uses it
	acmeOf    acmeUse            // what acme was made of
}

// A publicListener is one address of the site.
type publicListener struct {
	listenerUse
	inner net.Listener
	udp   *http3.Socket // nil if there is no HTTP/3
	http3 *http3.Server // once it serves; nil if there is no HTTP/3
	tls   *tls.Config   // without the policy; nil if there is no TLS
	// certificates are those in files; nil if there are none.
	certificates *httpconn.Certificates
	tickets      *httpconn.TicketKeys // nil if the server has keys of its own
	handler      atomic.Pointer[http.Handler]
	ending       atomic.Bool        // its connections are closed after their next response
	server       *Running           // once it serves
	fast         *httpconn.FastPath // nil if there is none
	fresh        sync.Map           // of net.Conn: the connections that have sent no request yet
}

// A listenerUse is what a listener is made of. A reload keeps the listeners that are made of the same.
type listenerUse struct {
	cfg    config.Listener
	common gateway.Listener
	hits   bool // without net/http
}

// use returns what a listener of a configuration is made of.
func (p *public) use(s *setup, cfg config.Listener) listenerUse {
	return listenerUse{
		cfg:    cfg,
		common: gateway.Listener{PublicScheme: s.file.PublicScheme, Scheme: s.file.SchemeOf(cfg), ClientTimeout: time.Duration(s.ClientTimeout), StreamWindow: streamWindow},
		hits:   p.hits != nil && s.FastPath && !cfg.Encrypted() && !cfg.H2C && !cfg.ProxyProtocol,
	}
}

// open opens the listeners of a configuration, which do not serve yet. Listeners that are present and made of the same are
// taken over; others at the same address share its socket, so that no connection is refused.
func (p *public) open(ctx context.Context, s *setup) (next *listening, err error) {
	next = new(listening)
	defer func() {
		if err != nil {
			p.discard(next)
		}
	}()
	before := slices.Clone(p.now().listeners)
	for _, cfg := range s.file.Listen {
		use := p.use(s, cfg)
		at := slices.IndexFunc(before, func(l *publicListener) bool { return l.cfg.Address == cfg.Address })
		l := new(publicListener)
		switch {
		case at >= 0 && reflect.DeepEqual(before[at].listenerUse, use):
			l = before[at]
		case at >= 0:
			l, err = p.openAgain(ctx, before[at], use)
		default:
			l, err = p.openAt(ctx, use)
		}
		if err != nil {
			return next, err
		}
		if at >= 0 {
			before = slices.Delete(before, at, at+1)
		}
		next.listeners = append(next.listeners, l)
	}
	return next, p.useACME(ctx, next, s)
}

// openAt opens a listener at an address that no listener is at.
func (p *public) openAt(ctx context.Context, use listenerUse) (*publicListener, error) {
	inner, given, err := p.sockets.Listen(ctx, use.cfg.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; give another address with --listen", use.cfg.Address, err)
	}
	if p.sockets.Managed() && !given {
		p.log.Warn("the service manager hands in sockets, but none for this listener: a restart refuses connections to it; add it to the socket unit, like ListenStream="+use.cfg.Address, "listener", use.cfg.Address)
	}
	l, err := p.newListener(use, inner)
	if err != nil {
		return nil, err
	}
	return l, p.openUDP(ctx, l, nil)
}

// openAgain opens another listener at the address of one.
func (p *public) openAgain(ctx context.Context, l *publicListener, use listenerUse) (*publicListener, error) {
	inner, err := p.sockets.Again(l.inner)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s again: %w", use.cfg.Address, err)
	}
	again, err := p.newListener(use, inner)
	if err != nil {
		return nil, err
	}
	return again, p.openUDP(ctx, again, l.udp)
}

// openUDP gives a listener its socket of UDP, if it serves HTTP/3: the one of the listener before it, unless that is nil, or else one
// at the same port. The listener is closed after an error.
func (p *public) openUDP(ctx context.Context, l *publicListener, before *http3.Socket) error {
	switch {
	case !l.cfg.HTTP3:
		return nil
	case before != nil:
		l.udp = before.Share()
		return nil
	}
	address := l.inner.Addr().String()
	conn, given, err := p.sockets.ListenUDP(ctx, address)
	if err != nil {
		l.discard()
		return fmt.Errorf("cannot listen on %s of UDP for http3: %w; stop the program that has the port, or remove http3", address, err)
	}
	if p.sockets.Managed() && !given {
		p.log.Warn("the service manager hands in sockets, but none of UDP for this listener: visitors of HTTP/3 use HTTP/2 while the server restarts; add it to the socket unit, like ListenDatagram="+l.cfg.Address, "listener", l.cfg.Address)
	}
	l.udp = http3.NewSocket(conn)
	return nil
}

// newListener returns a listener at an address that is open, which it closes after an error.
func (p *public) newListener(use listenerUse, inner net.Listener) (*publicListener, error) {
	l := &publicListener{listenerUse: use, inner: inner}
	var files []httpconn.CertificateFile
	for _, c := range use.cfg.TLS {
		files = append(files, httpconn.CertificateFile{Cert: c.Cert, Key: c.Key})
	}
	if len(files) > 0 {
		certs, err := httpconn.LoadCertificates(files, p.log)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("listener %s: %w", use.cfg.Address, err), inner.Close())
		}
		l.certificates = certs
		l.tls = &tls.Config{GetCertificate: certs.Get, NextProtos: []string{"h2", "http/1.1"}}
	}
	if policy := use.cfg.TLSPolicy; policy.TicketKeys != "" {
		var err error
		if l.tickets, err = httpconn.LoadTicketKeys(policy.TicketKeys, policy.ReadTicketKeys, p.log); err != nil {
			return nil, errors.Join(fmt.Errorf("listener %s: tls_policy.ticket_keys: %w", use.cfg.Address, err), inner.Close())
		}
	}
	return l, nil
}

// now returns the present listeners; none before the first are used.
func (p *public) now() *listening {
	if l := p.present.Load(); l != nil {
		return l
	}
	return new(listening)
}

// discard closes the listeners that are not in use.
func (p *public) discard(next *listening) {
	now := p.now()
	for _, l := range next.listeners {
		if !slices.Contains(now.listeners, l) {
			l.discard()
		}
	}
	if next.acme != now.acme {
		_ = next.closeACME(context.Background()) // it has not begun
	}
}

// discard closes a listener that has accepted nothing.
func (l *publicListener) discard() {
	_ = l.inner.Close()
	if l.udp != nil {
		l.udp.Release()
	}
}

// close closes listeners that do not serve.
func (p *public) close() {
	now := p.present.Swap(nil)
	if now != nil {
		p.discard(now)
	}
}

// setHosts sets the hosts that the server serves.
func (p *public) setHosts(f *config.File, at *listening) {
	hosts := hostsOf(f)
	for _, l := range at.listeners {
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

// edge sets what listeners do with requests: edges for the hosts of a configuration, before the
// handler that onPublic, if not nil, returns for the site. The redirect to https is between the two:
// webhooks are accepted at all listeners.
func (p *public) edge(at *listening, s *setup, site http.Handler, onPublic func(http.Handler) http.Handler, h *health) {
	f := s.file
	p.setHosts(f, at)
	keyScheme := ""
	if f.BothSchemes() {
		keyScheme = f.PublicScheme
	}
	for i, l := range at.listeners {
		trust, _ := trustOf(l.cfg) // validated
		next := at.redirected(f, i, site)
		if onPublic != nil {
			next = onPublic(next)
		}
		edge := gateway.Edge(gateway.EdgeConfig{
			Hosts: hostsOf(f).WithListener(l.inner.Addr()), Trust: trust, Unnamed: unnamed, Peers: &p.peers,
			Scheme: f.SchemeOf(l.cfg), KeyScheme: keyScheme, HSTS: f.HSTS, AltSvc: l.altSvc(),
			ErrorPages: s.errorPages,
			HealthPath: s.HealthPath, Health: http.HandlerFunc(h.public), Observe: p.observe, Logger: p.log,
		}, next)
		if at.acme != nil && f.AnswersChallenges(l.cfg) && !l.cfg.Encrypted() {
			edge = at.acme.Answer(edge)
		}
		l.handler.Store(&edge)
	}
	if at.acme != nil {
		at.acme.Serve(f.CertificateHosts())
	}
}

// redirected returns the handler of a listener: a redirect to https before the site, if visitors of
// the listener are redirected.
func (at *listening) redirected(f *config.File, i int, site http.Handler) http.Handler {
	to := f.RedirectTo(i)
	if to < 0 {
		return site
	}
	cfg := gateway.RedirectConfig{Port: portOf(at.listeners[i].inner.Addr()), TLSPort: portOf(at.listeners[to].inner.Addr()), Unnamed: unnamed}
	if at.listeners[to].cfg.ACME {
		cfg.Certified = at.acme.Has
	}
	return gateway.RedirectHTTPS(cfg, site)
}

func portOf(a net.Addr) int {
	tcp, _ := a.(*net.TCPAddr)
	return tcp.Port
}

// serve serves on listeners, which have an edge, unless they serve already. It returns those that it has replaced, which accept no
// more connections.
func (p *public) serve(ctx context.Context, next *listening) (before *listening) {
	for _, l := range next.listeners {
		if l.server == nil {
			l.server = l.start(p)
			l.startHTTP3(p)
		}
	}
	before = p.now()
	p.present.Store(next)
	for _, l := range before.listeners {
		if !slices.Contains(next.listeners, l) { // the next connection is for the new configuration
			l.end()
			l.server.stopAccepting(ctx, l.inner)
			if l.http3 != nil {
				l.http3.StopAccepting()
			}
		}
	}
	return before
}

// retire ends the listeners that are not in use any more, once the requests in flight of their connections are answered, or ctx is
// done. Other listeners accept the connections to those of their addresses that are still configured.
func (p *public) retire(ctx context.Context, before *listening) {
	now := p.now()
	if before.acme != now.acme {
		if err := before.closeACME(ctx); err != nil {
			p.log.Warn("certificate orders of the old configuration canceled", "error", err)
		}
	}
	var stopping sync.WaitGroup
	for _, l := range before.listeners {
		if slices.Contains(now.listeners, l) {
			continue
		}
		stopping.Go(func() {
			_ = backoff.Wait(ctx, lastResponses)
			l.stop(ctx, p.limits, p.log)
		})
	}
	stopping.Wait()
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

func (l *publicListener) start(p *public) *Running {
	common := l.common
	clientTimeout := common.ClientTimeout
	s := newServer(httpconn.LimitStreams(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.ending.Load() && r.Header.Get("Upgrade") == "" {
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
	if l.hits {
		l.fast = httpconn.NewFastPath(s, coalescing, fastpath.New(fastpath.Config{
			Handler:  func() http.Handler { return *l.handler.Load() },
			Recorder: p.hits.recorder,
			Counter:  p.hits.metrics.FastPath(),
		}))
	}
	inner := acceptProxy(l.cfg, s, coalescing)
	if l.tls != nil {
		// Clients such as curl --http1.0 offer nothing else; a handshake without a common protocol fails.
		s.TLSConfig = l.tlsConfig(append(l.tls.NextProtos, "http/1.0"))
		inner = httpconn.AcceptTLS(s, inner)
	}
	return startWith(s, httpconn.RefuseAmbiguous(s, inner), p.failed)
}

// tlsConfig returns the configuration of handshakes for protocols, by the policy of the listener.
func (l *publicListener) tlsConfig(protocols []string) *tls.Config {
	config := l.tls.Clone()
	config.NextProtos = protocols
	config.MinVersion, config.CurvePreferences = l.cfg.TLSPolicy.OldestVersion(), l.cfg.TLSPolicy.Groups()
	if l.tickets != nil {
		l.tickets.Use(config)
	}
	return config
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
	var stopping sync.WaitGroup
	defer stopping.Wait()
	stopping.Go(l.stopHTTP3(ctx))
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
	for _, l := range p.now().listeners {
		l.end()
	}
}

// end has the connections of a listener closed after their next response.
func (l *publicListener) end() {
	l.ending.Store(true)
	if l.fast != nil {
		l.fast.End()
	}
}

// stop accepts no more requests, and lets those in flight finish until ctx is done.
func (p *public) stop(ctx context.Context) {
	now := p.now()
	var stopping sync.WaitGroup
	for _, l := range now.listeners {
		stopping.Go(func() { l.stop(ctx, p.limits, p.log) })
	}
	stopping.Wait()
	if err := now.closeACME(ctx); err != nil {
		p.log.Warn("certificate orders canceled at shutdown", "error", err)
	}
}

// urls returns the addresses that a browser on this machine can open.
func (p *public) urls() (texts []string) {
	for _, l := range p.now().listeners {
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
	for _, l := range p.now().listeners {
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
