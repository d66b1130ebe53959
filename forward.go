package isr

import (
	"errors"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Bounds of [Route.Forward].
const (
	maxForward      = 16
	maxForwardValue = 1024
)

func (rt Route) validateForward() error {
	var errs []error
	if n := len(rt.Forward); n > maxForward {
		errs = append(errs, configErrorf("Forward", "must have at most %d names (got %d)", maxForward, n))
	}
	for _, name := range rt.Forward {
		header := textproto.CanonicalMIMEHeaderKey(name)
		inClass := slices.ContainsFunc(rt.KeyClasses, func(c KeyClass) bool { return textproto.CanonicalMIMEHeaderKey(c.Header) == header })
		switch {
		case !validHeaderName(name):
			errs = append(errs, configErrorf("Forward", "must contain names of request headers (got %q)", name))
		case containsHeader(rt.Vary, header), inClass, header == textproto.CanonicalMIMEHeaderKey(rt.TenantHeader):
			errs = append(errs, configErrorf("Forward", "must not contain %q, which is part of the key", name))
		case !forwardable(header):
			errs = append(errs, configErrorf("Forward", "must not contain %q: with it one visitor could decide what others are served; declare it in Vary or KeyClasses if pages depend on it", name))
		}
	}
	return errors.Join(errs...)
}

// forwardable reports whether renders may carry a header that is in no key. Those that
// identify a visitor, select or change content on common servers, or belong to one message
// or connection, never may. It is no proof for any other header: see [Route.Forward].
func forwardable(header string) bool {
	if slices.Contains(tenantHeaders(), header) {
		return false
	}
	for _, prefix := range []string{"Accept", "X-Forwarded", "If-", "Sec-", "Content-", "Proxy-", "Access-Control-", "X-Original-", "X-Rewrite-", "X-Http-", "X-Method", "X-Middleware-", "Next-", "X-Auth", "X-User", "X-Amzn-Oidc-", "X-Csrf"} {
		if strings.HasPrefix(header, prefix) {
			return false
		}
	}
	switch header {
	case "Cookie", "Cookie2", "Authorization", "Forwarded", "Via", "Host", "X-Host", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Client-Ip",
		"X-Remote-User", "Remote-User", "X-Api-Key", "User-Agent", "Referer", "Origin", "From", "Range", "Date", "Expect", "Prefer", "Save-Data", "Dnt", "Dpr", "Width",
		"Viewport-Width", "Device-Memory", "Downlink", "Ect", "Rtt", "Cache-Control", "Pragma", "Connection", "Keep-Alive", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade", "Upgrade-Insecure-Requests", "X-Requested-With", "Rsc", "Early-Data", "Max-Forwards", minSeqHeader:
		return false
	}
	return true
}

// forwarded returns what a render that this request starts carries in addition to its key;
// nil for nothing.
func (p *projector) forwarded(r *http.Request) http.Header {
	var h http.Header
	for _, name := range p.forward {
		if values := r.Header[name]; len(values) == 1 && len(values[0]) <= maxForwardValue {
			if h == nil {
				h = make(http.Header, len(p.forward))
			}
			h[name] = []string{values[0]}
		}
	}
	return h
}
