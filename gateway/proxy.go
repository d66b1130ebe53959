package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/httpconn"
)

// Renderer returns the reverse proxy to an origin. A request without a RemoteAddr is a
// render: a projection of a cache key made by [isr.Cache].
func Renderer(cfg Config) http.Handler { return renderer(cfg, newPseudonym()) }

func renderer(cfg Config, name pseudonym) http.Handler {
	log := logOf(cfg.Logger)
	origin := Origin{URLs: []*url.URL{cfg.Origin}, MaxConnections: cfg.MaxConnections}.withDefaults()
	return newProxy(newPool(origin, nil, log), origin.MaxConnections, cfg.Buffers, Listener{PublicScheme: cfg.PublicScheme, ClientTimeout: cfg.ClientTimeout}, name, log)
}

// newProxy returns the reverse proxy to the addresses of a pool. Requests of other listeners
// than l have theirs in their contexts.
func newProxy(to *pool, connections int, within *buffers.Budget, l Listener, name pseudonym, log *slog.Logger) *proxy {
	log = logOf(log)
	p := &proxy{name: name, pool: to, buffers: within, listener: l.withDefaults(), log: log, admission: newAdmission(connections)}
	p.reverse = httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      to,
		ModifyResponse: p.receive,
		ErrorHandler:   p.unreachable,
		// Errors while a body is copied are logged by watchedBody.
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	p.pooled = p.reverse
	p.pooled.BufferPool = newCopyBuffers()
	return p
}

// A proxy forwards requests to one origin.
type proxy struct {
	name      pseudonym
	pool      *pool
	buffers   *buffers.Budget // of the beginnings of request bodies
	listener  Listener        // of renders, and of requests whose contexts have none
	log       *slog.Logger
	reverse   httputil.ReverseProxy
	pooled    httputil.ReverseProxy // the same for HTTP/1, with buffers that are used again
	admission *admission
	streams   eventStreams
}

// serve forwards a request, and copies the response. The server of HTTP/2 may still send what was
// written when Write has returned, if the client has reset the stream: a buffer of its responses,
// used again, would show that client a part of the response to another.
func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 {
		p.pooled.ServeHTTP(w, r)
		return
	}
	p.reverse.ServeHTTP(w, r)
}

// copyBuffers are buffers that bodies of responses are copied by. They implement
// [httputil.BufferPool].
type copyBuffers struct{ pool sync.Pool } // of *[copyBuffer]byte

// copyBuffer is the size of a buffer, that which a reverse proxy has without a pool.
const copyBuffer = 32 << 10

func newCopyBuffers() *copyBuffers {
	return &copyBuffers{sync.Pool{New: func() any { return new([copyBuffer]byte) }}}
}

func (b *copyBuffers) Get() []byte { return b.pool.Get().(*[copyBuffer]byte)[:] }

func (b *copyBuffers) Put(p []byte) { b.pool.Put((*[copyBuffer]byte)(p)) }

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(boundInterim(r.Context()))
	if r.RemoteAddr == "" { // a render, which the cache bounds
		p.serve(w, r)
		return
	}
	if respondLocally(w, r) {
		return
	}
	client := canonical.Client(r.RemoteAddr)
	var held *buffers.Reservation // nil if there is no body
	if hasBody(r) {
		held = p.buffers.Reserve(client)
		defer held.End()
	}
	body, err := bufferBody(w, r, p.listenerOf(r), held)
	switch {
	case errors.Is(err, errBusy):
		p.busy(w, r, err)
		return
	case err != nil:
		refuseBody(w, r, err)
		return
	}
	// Wait for admission only now: the body may arrive slowly.
	leave, err := p.admission.enter(r.Context(), client)
	if err != nil {
		abandonBody(w, r, body)
		p.busy(w, r, err)
		return
	}
	defer leave()
	r = p.pool.assign(r)
	r.Body = body
	if !r.ProtoAtLeast(1, 1) {
		w = finalWriter{w}
	}
	p.serve(w, r)
}

var _ isr.Admitter = (*proxy)(nil)

// Admit implements [isr.Admitter].
func (p *proxy) Admit(r *http.Request) (leave func(), ok bool) {
	return p.admission.tryEnter(canonical.Client(r.RemoteAddr))
}

// allowed are the methods that are forwarded.
const allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// respondLocally responds to requests that are not forwarded: TRACE, which would reveal added
// headers to scripts, and OPTIONS with Max-Forwards: 0 (RFC 9110, section 7.6.2). For other
// OPTIONS requests it decrements Max-Forwards.
func respondLocally(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodTrace {
		w.Header().Set("Allow", allowed)
		isr.WriteErrorPage(w, http.StatusMethodNotAllowed, "TRACE is not allowed here.")
		return true
	}
	hops := r.Header["Max-Forwards"]
	if r.Method != http.MethodOptions || len(hops) == 0 {
		return false
	}
	left, err := strconv.ParseUint(hops[0], 10, 31)
	switch {
	case len(hops) > 1 || err != nil:
		isr.WriteErrorPage(w, http.StatusBadRequest, "Bad request: Max-Forwards is not a number.")
		return true
	case left == 0:
		w.Header().Set("Allow", allowed)
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	r.Header["Max-Forwards"] = []string{strconv.FormatUint(left-1, 10)}
	return false
}

// continueTimeout is how long an origin may take to answer "Expect: 100-continue" before the
// body is sent to it, as long as curl waits.
const continueTimeout = time.Second

// readBuffer is the size of the buffer that a connection to an origin is read into: most pages come
// by one read, with their headers.
const readBuffer = 16 << 10

func dialer(cfg Origin) httpconn.Dial {
	return (&net.Dialer{Timeout: cfg.ConnectTimeout, KeepAlive: 30 * time.Second}).DialContext
}

func transport(cfg Origin, secure *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:            httpconn.AwaitRefusals(dialer(cfg)),
		TLSClientConfig:        secure,
		TLSHandshakeTimeout:    2 * cfg.ConnectTimeout,
		ResponseHeaderTimeout:  cfg.ResponseTimeout,
		ExpectContinueTimeout:  continueTimeout,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           512,
		MaxIdleConnsPerHost:    256,
		MaxResponseHeaderBytes: 1 << 20,
		ReadBufferSize:         readBuffer,
		DisableCompression:     true, // forward bodies unchanged
		ForceAttemptHTTP2:      true,
	}
}

// rewrite builds the request to the origin. The reverse proxy has already removed the
// visitor's X-Forwarded fields and hop-by-hop fields.
func (p *proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.RawQuery = r.In.URL.RawQuery // unchanged, even if Go cannot parse it; the pool sets scheme and host
	for name := range r.Out.Header {
		// Servers that speak CGI read X_Forwarded_For as X-Forwarded-For.
		if internalHeader(name) || statesAuthority(name) || forgesPath(name, r.In) || strings.Contains(name, "_") {
			delete(r.Out.Header, name)
		}
	}
	if !r.In.ProtoAtLeast(1, 1) || !strings.EqualFold(r.Out.Header.Get("Upgrade"), "websocket") {
		// HTTP/1.0 has no upgrades (RFC 9110, section 7.8). Another protocol (h2c) would tunnel
		// past these checks.
		delete(r.Out.Header, "Upgrade")
		delete(r.Out.Header, "Connection")
		delete(r.Out.Header, "Http2-Settings")
	}
	if !awaitsContinue(r.In) {
		delete(r.Out.Header, "Expect") // the prefix of the body is here
	}
	if isDraft(r.In.Context()) {
		r.Out.Header[draftHeader] = []string{"1"}
	}
	// The server fills the map once the body is read; the map of r.Out is a copy.
	r.Out.Trailer = r.In.Trailer
	maps.DeleteFunc(r.Out.Trailer, func(name string, _ []string) bool { return !forwardTrailer(name) })
	p.name.sign(r.Out.Header, r.In.ProtoMajor, r.In.ProtoMinor)
	p.forward(r)
}

// forward sets the forwarding fields. Renders get only host and scheme.
func (p *proxy) forward(r *httputil.ProxyRequest) {
	out, scheme := r.Out.Header, visitorScheme(r.In, p.listener.Scheme)
	h := hopOf(r.In.Context())
	switch {
	case r.In.RemoteAddr == "":
		scheme = p.listener.PublicScheme
		if declared := r.In.Header["X-Forwarded-Proto"]; len(declared) > 0 {
			scheme = declared[0] // part of the key
		}
		delete(out, "X-Real-Ip")
	case h != nil:
		out["X-Forwarded-For"] = []string{h.chain}
		if h.port != "" {
			out["X-Forwarded-Port"] = []string{h.port}
		}
	default:
		delete(out, "X-Real-Ip")
		delete(out, "X-Forwarded-Port")
		if host, _, err := net.SplitHostPort(r.In.RemoteAddr); err == nil {
			out["X-Forwarded-For"] = []string{host}
		}
	}
	out["X-Forwarded-Proto"] = []string{scheme}
	out["X-Forwarded-Host"] = []string{r.In.Host}
}

// internalHeader reports whether a header is internal to a framework, which trusts it. Sent
// by a visitor, it could bypass checks of the framework (CVE-2025-29927 and others).
func internalHeader(name string) bool {
	switch name {
	case "X-Original-Url", "X-Rewrite-Url", "X-Invoke-Path", "X-Invoke-Query", "X-Invoke-Output", "X-Matched-Path",
		"X-Now-Route-Matches", "X-Prerender-Revalidate", "X-Prerender-Revalidate-If-Generated", "X-Prerender-Bypass-Mode":
		return true
	}
	return strings.HasPrefix(name, "X-Middleware-") || strings.HasPrefix(name, "X-Isr-")
}

// statesAuthority reports whether a header is another name by which servers and frameworks take
// the host or the scheme of a request, beside X-Forwarded-Host and X-Forwarded-Proto, which are
// set here. Such a header contradicts them, even from a trusted peer.
func statesAuthority(name string) bool {
	switch name {
	case "X-Host", "X-Original-Host", "X-Http-Host-Override", "X-Forwarded-Server", "X-Forwarded-Scheme", "X-Forwarded-Protocol", "X-Forwarded-Ssl",
		"X-Url-Scheme", "X-Scheme", "Front-End-Https":
		return true
	}
	return false
}

// forgesPath reports whether a header of a visitor's request states a part of the URL, and may be written
// by the visitor: from a trusted peer, too, unless forwarded hosts are trusted (see [Trust.WithHost]), since
// many proxies pass a visitor's field on. The links of a page would begin with it, and a cache in front would
// show that page to others. Renders have only what is in their keys.
func forgesPath(name string, in *http.Request) bool {
	if !statesPath(name) || in.RemoteAddr == "" {
		return false
	}
	h := hopOf(in.Context())
	return h == nil || !h.urls
}

// statesPath reports whether servers and frameworks take the path of a request, or what links begin
// with, from a header.
func statesPath(name string) bool {
	switch name {
	case "X-Forwarded-Prefix", "X-Forwarded-Path", "X-Forwarded-Uri", "X-Forwarded-Context", "X-Forwarded-Basepath", "X-Script-Name",
		"X-Original-Uri", "X-Original-Path", "X-Request-Uri", "X-Replaced-Path", "X-Envoy-Original-Path":
		return true
	}
	return false
}

// errStatus means that the origin was reached but its response is broken.
var errStatus = errors.New("invalid status of origin")

// receive checks and adapts a response of the origin. An error results in 502.
func (p *proxy) receive(res *http.Response) error {
	if res.StatusCode < 100 || res.StatusCode > 599 { // RFC 9110, section 15
		return fmt.Errorf("%w: %03d, expected 100 to 599", errStatus, res.StatusCode)
	}
	p.relocate(res)
	p.pool.keep(res)
	limitNextStale(res.Header)
	if len(res.Trailer) > 0 {
		res.Header.Del("Content-Length") // HTTP/1.1 sends trailers only after chunks
	}
	if httpcache.IsEndless(res.Header.Get("Content-Type")) {
		res.Body = p.streams.add(res.Body)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = &watchedBody{ReadCloser: res.Body, request: res.Request, log: p.log}
	}
	return nil
}

// relocate rewrites a redirect to the origin's address to a path of the public site.
func (p *proxy) relocate(res *http.Response) {
	text := res.Header.Get("Location")
	if text == "" {
		return
	}
	location, err := url.Parse(text)
	if err != nil {
		return
	}
	host, _ := canonical.Host(location.Host)
	public, _ := canonical.Host(res.Request.Header.Get("X-Forwarded-Host"))
	if !p.pool.has(host) || host == public {
		return
	}
	path := pathReference(location)
	if location.Fragment != "" {
		path += "#" + location.EscapedFragment()
	}
	res.Header.Set("Location", path)
}

// A watchedBody logs a response body of the origin that ends early. Visitors only notice
// that their connection is closed.
type watchedBody struct {
	io.ReadCloser
	request *http.Request
	log     *slog.Logger
}

func (b *watchedBody) Read(buf []byte) (int, error) {
	n, err := b.ReadCloser.Read(buf)
	if err != nil && err != io.EOF && b.request.Context().Err() == nil { //nolint:errorlint // Readers return io.EOF itself
		b.log.Warn("response of origin ended early", "method", b.request.Method, "path", b.request.URL.Path, requestID(b.request), "error", err)
	}
	return n, err
}

// unreachable responds with 502 or 504 if the origin did not respond. Only the log has the
// error.
func (p *proxy) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	if clientStalled(err) {
		refuseBody(w, r, err)
		return
	}
	if r.Context().Err() != nil && errors.Is(context.Cause(r.Context()), context.Canceled) {
		// Canceled by the client or the cache: the response is not read.
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if !errors.Is(err, errStatus) {
		isr.OriginUnreachable(w, err)
	}
	p.log.Warn("request to origin failed", "origin", p.pool.String(), "method", r.Method, "path", r.URL.Path, requestID(r), "error", err)
	status := http.StatusBadGateway
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		status = http.StatusGatewayTimeout
	}
	isr.WriteErrorPage(w, status, "The site behind this cache is not answering right now. Please try again in a moment.")
}

// requestID returns the id of a request for the log; nothing without one.
func requestID(r *http.Request) slog.Attr {
	if id := r.Header.Get(requestIDHeader); id != "" {
		return slog.String("request_id", id)
	}
	return slog.Attr{}
}

// busy responds with 503 to a request that was not admitted.
func (p *proxy) busy(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		p.log.Warn("request not admitted to origin", "client", r.RemoteAddr, "path", r.URL.Path, requestID(r), "error", err)
	}
	w.Header().Set("Retry-After", "1")
	isr.WriteErrorPage(w, http.StatusServiceUnavailable, "The site is very busy right now. Please try again in a moment.")
}
