// Package gateway puts an isr.Cache in front of a site that speaks HTTP: a
// reverse-proxy cache.
//
//	visitor -> [ isr.Cache -> reverse proxy ] -> origin
//
// The cache decides everything; the gateway only carries requests to the origin
// and keeps out what an origin must be able to trust: forwarding headers and the
// internal headers of frameworks come from here, never from a visitor.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr"
)

// headerTimeout bounds the wait for the origin's answer to begin, for requests
// that pass through; renders have the cache's own, shorter bound.
const headerTimeout = 2 * time.Minute

// RouteName is the name of the gateway's one route.
const RouteName = "origin"

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
// rules of the route, whose name is set to [RouteName].
//
// An origin behind plain http sees the Host that the visitor asked for; one
// behind https sees its own, because its certificate and virtual host are chosen
// by it. In both cases X-Forwarded-Host is the visitor's.
func New(cache *isr.Cache, origin *url.URL, route isr.Route, log *slog.Logger) http.Handler {
	route.Name = RouteName
	return cache.Handler(route, Renderer(origin, route.Vary, log))
}

// Renderer returns the reverse proxy to an origin. It passes on the client's
// X-Forwarded-Proto only if trusted names it: by being declared part of the key,
// it is known to be set by what stands in front.
func Renderer(origin *url.URL, trusted []string, log *slog.Logger) http.Handler {
	trustProto := slices.ContainsFunc(trusted, func(name string) bool { return strings.EqualFold(name, "X-Forwarded-Proto") })
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			rewrite(r, origin, trustProto)
		},
		Transport:      transport(),
		ModifyResponse: func(res *http.Response) error { relocate(res, origin); return nil },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			unreachable(w, r, origin, log, err)
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
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

func rewrite(r *httputil.ProxyRequest, origin *url.URL, trustProto bool) {
	r.Out.URL.Scheme = origin.Scheme
	r.Out.URL.Host = origin.Host
	r.Out.URL.RawQuery = r.In.URL.RawQuery // unchanged, even where Go cannot read it
	if origin.Scheme == "https" {
		r.Out.Host = origin.Host
	}
	for name := range r.Out.Header {
		if internalHeader(name) {
			delete(r.Out.Header, name)
		}
	}
	r.SetXForwarded()
	if proto := r.In.Header["X-Forwarded-Proto"]; trustProto && len(proto) > 0 {
		r.Out.Header["X-Forwarded-Proto"] = proto
	}
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

// relocate makes a redirect to the origin's own address one to the visitor's.
func relocate(res *http.Response, origin *url.URL) {
	location, err := url.Parse(res.Header.Get("Location"))
	if err != nil || location.Host != origin.Host || res.Request.Header.Get("X-Forwarded-Host") == origin.Host {
		return
	}
	location.Scheme, location.Host = "", ""
	if location.Path == "" {
		location.Path = "/"
	}
	res.Header.Set("Location", location.String())
}

// unreachable answers for an origin that did not: visitors learn that much,
// the log the rest.
func unreachable(w http.ResponseWriter, r *http.Request, origin *url.URL, log *slog.Logger, err error) {
	if r.Context().Err() != nil && errors.Is(context.Cause(r.Context()), context.Canceled) {
		// The visitor, or the cache, has given up; nobody reads this.
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	log.Warn("the origin did not answer", "origin", origin.String(), "path", r.URL.Path, "error", err)
	status := http.StatusBadGateway
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		status = http.StatusGatewayTimeout
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte("The site behind this cache is not answering right now. Please try again in a moment.\n"))
}

// Next is the preset for sites built with Next.js (App Router): what its pages
// vary on beside the URL. It adds to a route what is missing.
func Next(route isr.Route) isr.Route {
	route.Vary = append(slices.Clone(route.Vary),
		"RSC", "Next-Router-State-Tree", "Next-Router-Prefetch", "Next-Router-Segment-Prefetch", "Next-Url")
	route.Query = append(slices.Clone(route.Query), "_rsc")
	return route
}
