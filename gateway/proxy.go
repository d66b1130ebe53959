package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr"
)

// headerTimeout bounds the wait for the origin's answer to begin, for requests
// that pass through; renders have the cache's own, shorter bound.
const headerTimeout = 2 * time.Minute

// Renderer returns the reverse proxy to an origin. A request without a RemoteAddr
// is a render, which [isr.Cache] has made of a key.
func Renderer(cfg Config) http.Handler {
	cfg = cfg.withDefaults()
	p := &proxy{cfg: cfg, admission: newAdmission(cfg.MaxConnections)}
	p.reverse = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      transport(),
		ModifyResponse: p.receive,
		ErrorHandler:   p.unreachable,
		// What breaks off while it is copied is logged by receive, with its reason.
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return p
}

// A proxy carries requests to one origin.
type proxy struct {
	cfg       Config
	reverse   *httputil.ReverseProxy
	admission *admission
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = r.WithContext(boundInterim(r.Context()))
	if r.RemoteAddr == "" { // a render: the cache has its own bounds
		p.reverse.ServeHTTP(w, r)
		return
	}
	if answerHere(w, r) {
		return
	}
	body, err := bufferBody(w, r, p.cfg.ClientTimeout)
	if err != nil {
		refuseBody(w, r, err)
		return
	}
	// The body may be slow to come, and so the origin is asked only now.
	leave, err := p.admission.enter(r.Context(), clientOf(r.RemoteAddr))
	if err != nil {
		p.busy(w, r, err)
		return
	}
	defer leave()
	r.Body = body
	p.reverse.ServeHTTP(w, r)
}

// allowed are the methods that are forwarded.
const allowed = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// answerHere answers what is not to be forwarded: TRACE, which would show a page's
// scripts the headers that are added here, and OPTIONS that has gone as far as its
// sender wants (RFC 9110, section 7.6.2). Of other OPTIONS it counts a hop.
func answerHere(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodTrace {
		w.Header().Set("Allow", allowed)
		plain(w, http.StatusMethodNotAllowed, "TRACE is not allowed here.")
		return true
	}
	hops := r.Header["Max-Forwards"]
	if r.Method != http.MethodOptions || len(hops) == 0 {
		return false
	}
	left, err := strconv.ParseUint(hops[0], 10, 31)
	switch {
	case len(hops) > 1 || err != nil:
		plain(w, http.StatusBadRequest, "Bad request: Max-Forwards is not a number.")
		return true
	case left == 0:
		w.Header().Set("Allow", allowed)
		w.WriteHeader(http.StatusNoContent)
		return true
	}
	r.Header["Max-Forwards"] = []string{strconv.FormatUint(left-1, 10)}
	return false
}

func transport() *http.Transport {
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  headerTimeout,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           512,
		MaxIdleConnsPerHost:    256,
		MaxResponseHeaderBytes: 1 << 20,
		DisableCompression:     true, // a body passes as the origin made it
		ForceAttemptHTTP2:      true,
	}
}

// rewrite makes the request that the origin sees. The reverse proxy has removed the
// visitor's X-Forwarded fields, and hop-by-hop ones.
func (p *proxy) rewrite(r *httputil.ProxyRequest) {
	origin := p.cfg.Origin
	r.Out.URL.Scheme = origin.Scheme
	r.Out.URL.Host = origin.Host
	r.Out.URL.RawQuery = r.In.URL.RawQuery // unchanged, even where Go cannot read it
	if origin.Scheme == "https" {
		r.Out.Host = origin.Host
	}
	for name := range r.Out.Header {
		// Servers that speak CGI read X_Forwarded_For as X-Forwarded-For.
		if internalHeader(name) || strings.Contains(name, "_") {
			delete(r.Out.Header, name)
		}
	}
	if !strings.EqualFold(r.Out.Header.Get("Upgrade"), "websocket") {
		// Another protocol (h2c) would be a tunnel past all of this.
		delete(r.Out.Header, "Upgrade")
		delete(r.Out.Header, "Connection")
		delete(r.Out.Header, "Http2-Settings")
	}
	delete(r.Out.Header, "Expect") // what is expected has been received here
	p.forward(r)
}

// forward says where the request came from: of a render nothing but host and scheme.
func (p *proxy) forward(r *httputil.ProxyRequest) {
	out, scheme := r.Out.Header, p.cfg.PublicScheme
	h := hopOf(r.In.Context())
	switch {
	case r.In.RemoteAddr == "":
		if declared := r.In.Header["X-Forwarded-Proto"]; len(declared) > 0 {
			scheme = declared[0] // part of the key
		}
		delete(out, "X-Real-Ip")
	case h != nil:
		out["X-Forwarded-For"] = []string{h.chain}
		scheme = orElse(h.scheme, scheme)
		if h.port != "" {
			out["X-Forwarded-Port"] = []string{h.port}
		}
	default:
		delete(out, "X-Real-Ip")
		delete(out, "X-Forwarded-Port")
		if host, _, err := net.SplitHostPort(r.In.RemoteAddr); err == nil {
			out["X-Forwarded-For"] = []string{host}
		}
		if r.In.TLS != nil {
			scheme = "https"
		}
	}
	out["X-Forwarded-Proto"] = []string{scheme}
	out["X-Forwarded-Host"] = []string{r.In.Host}
}

// internalHeader says whether a framework would take a header for its own word:
// sent by a visitor, it skips the framework's checks (CVE-2025-29927 and kin).
func internalHeader(name string) bool {
	switch name {
	case "X-Original-Url", "X-Rewrite-Url", "X-Invoke-Path", "X-Invoke-Query", "X-Invoke-Output", "X-Matched-Path",
		"X-Now-Route-Matches", "X-Prerender-Revalidate", "X-Prerender-Revalidate-If-Generated", "X-Prerender-Bypass-Mode":
		return true
	}
	return strings.HasPrefix(name, "X-Middleware-") || strings.HasPrefix(name, "X-Isr-")
}

// errStatus: the origin was reached, and one of its pages is broken.
var errStatus = errors.New("the origin answered with the status")

// receive checks and adapts what the origin answers. An error is answered with 502.
func (p *proxy) receive(res *http.Response) error {
	if res.StatusCode < 100 || res.StatusCode > 599 { // RFC 9110, section 15
		return fmt.Errorf("%w %03d, expected one between 100 and 599", errStatus, res.StatusCode)
	}
	p.relocate(res)
	if res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = &watchedBody{ReadCloser: res.Body, request: res.Request, log: p.cfg.Logger}
	}
	return nil
}

// relocate makes a redirect to the origin's own address one to the visitor's.
func (p *proxy) relocate(res *http.Response) {
	location, err := url.Parse(res.Header.Get("Location"))
	if err != nil || location.Host != p.cfg.Origin.Host || res.Request.Header.Get("X-Forwarded-Host") == p.cfg.Origin.Host {
		return
	}
	path := location.EscapedPath()
	if path == "" {
		path = "/"
	}
	if strings.HasPrefix(path, "//") {
		// By itself it would name another host. The dot is removed when the
		// reference is resolved (RFC 3986, section 4.2 and 5.2.4).
		path = "/." + path
	}
	if location.ForceQuery || location.RawQuery != "" {
		path += "?" + location.RawQuery
	}
	if location.Fragment != "" {
		path += "#" + location.EscapedFragment()
	}
	res.Header.Set("Location", path)
}

// A watchedBody is an origin's response on its way. A visitor cannot be told that it
// broke off, but by a connection that is closed; the log can.
type watchedBody struct {
	io.ReadCloser
	request *http.Request
	log     *slog.Logger
}

func (b *watchedBody) Read(buf []byte) (int, error) {
	n, err := b.ReadCloser.Read(buf)
	if err != nil && err != io.EOF && b.request.Context().Err() == nil { //nolint:errorlint // Readers return io.EOF itself
		b.log.Warn("the origin's response broke off", "method", b.request.Method, "path", b.request.URL.Path, "error", err)
	}
	return n, err
}

// unreachable answers for an origin that did not: visitors learn that much,
// the log the rest.
func (p *proxy) unreachable(w http.ResponseWriter, r *http.Request, err error) {
	if clientStalled(err) {
		refuseBody(w, r, err)
		return
	}
	if r.Context().Err() != nil && errors.Is(context.Cause(r.Context()), context.Canceled) {
		// The client, or the cache, has given up: there is no reader.
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if !errors.Is(err, errStatus) {
		isr.OriginUnreachable(w, err)
	}
	p.cfg.Logger.Warn("the origin did not answer", "origin", p.cfg.Origin.String(), "method", r.Method, "path", r.URL.Path, "error", err)
	status := http.StatusBadGateway
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		status = http.StatusGatewayTimeout
	}
	plain(w, status, "The site behind this cache is not answering right now. Please try again in a moment.")
}

// busy answers a request for which there is no connection to the origin.
func (p *proxy) busy(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() == nil {
		p.cfg.Logger.Warn("a request found no free connection to the origin", "client", r.RemoteAddr, "path", r.URL.Path, "error", err)
	}
	w.Header().Set("Retry-After", "1")
	plain(w, http.StatusServiceUnavailable, "The site is very busy right now. Please try again in a moment.")
}

// plain answers in one line of text that no cache keeps.
func plain(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n")
}
