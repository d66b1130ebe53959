// Package wellknown has the names of query parameters, cookies and request headers to which
// common software gives a meaning that matters to a cache. The lists of cookies and parameters
// are generated from spec/requests.json, which the clients in TypeScript and Python share.
package wellknown

import (
	"slices"
	"strings"
)

// TenantHeaders are the canonical names of headers from which sites commonly read a tenant. If the route has no
// TenantHeader, a request with one of them bypasses the cache: a page of one tenant might
// otherwise be served to another.
func TenantHeaders() []string {
	return []string{"X-Tenant", "X-Tenant-Id", "Tenant-Id", "X-Org-Id", "X-Organization-Id", "X-Account-Id"}
}

// Forwardable reports whether renders may carry a header, given in canonical form, that is in
// no key. Those that identify a visitor, select or change content on common servers, or belong
// to one message or connection, never may. It is no proof for any other header.
func Forwardable(header string) bool {
	if slices.Contains(TenantHeaders(), header) {
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
		"Transfer-Encoding", "Upgrade", "Upgrade-Insecure-Requests", "X-Requested-With", "Rsc", "Early-Data", "Max-Forwards":
		return false
	}
	return true
}

// Ordinary reports whether a request header, given in canonical form, is one that clients and
// the proxies in front send of their own accord, and by which an origin selects content only if
// its Vary names it. No others are: an origin may read a credential, or a command of a script,
// from a header that is not known here.
func Ordinary(header string) bool {
	switch header {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "User-Agent", "Referer", "From", "Dnt", "Priority", "Purpose", "Save-Data",
		"Upgrade-Insecure-Requests", "Device-Memory", "Dpr", "Width", "Viewport-Width", "Downlink", "Ect", "Rtt",
		"Cache-Control", "Pragma", "If-None-Match", "If-Modified-Since", "Range", "If-Range", "Connection", "Keep-Alive", "Te", "Max-Forwards",
		"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Forwarded-Protocol", "X-Forwarded-Scheme", "X-Forwarded-Server", "X-Forwarded-Ssl",
		"X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "Client-Ip", "True-Client-Ip", "Cdn-Loop", "X-Amz-Cf-Id", "X-Amzn-Trace-Id", "Via", "Forwarded",
		"Traceparent", "Tracestate", "X-Request-Id", "X-Correlation-Id", "X-Cloud-Trace-Context", "B3",
		"Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Cf-Ray", "Cf-Visitor", "Cf-Ipcountry", "Cf-Ew-Via", "Cf-Worker":
		return true
	}
	// Not X-Forwarded- in general: X-Forwarded-User and X-Forwarded-Client-Cert name the visitor.
	for _, prefix := range []string{"Sec-Ch-", "Sec-Fetch-", "Sec-Gpc", "Sec-Purpose", "Cloudfront-", "X-B3-"} {
		if strings.HasPrefix(header, prefix) {
			return true
		}
	}
	return false
}

// SetByProxies reports whether a request header, given in canonical form, may be set or changed
// on the way to the origin, so that its value in a request does not tell what the origin gets.
func SetByProxies(header string) bool {
	return strings.HasPrefix(header, "X-Forwarded-") || header == "Forwarded" || header == "Via" || header == "X-Real-Ip"
}

// Learnable reports whether a header, given in canonical form, that the Vary of a response names
// may become part of cache keys without being declared. Those that identify a visitor or a
// request, have a value of their own for nearly every visitor, or are set by proxies never may.
func Learnable(header string) bool {
	switch header {
	case "*", "User-Agent", "Referer", "Traceparent", "Tracestate", "Baggage", "X-Request-Id", "X-Correlation-Id":
		return false
	case "Accept", "Accept-Language", "Accept-Charset", "Accept-Datetime", "Origin", "Prefer", "Save-Data", "Dnt", "Dpr", "Width", "Viewport-Width",
		"Device-Memory", "Downlink", "Ect", "Rtt", "Rsc", "X-Requested-With", "Upgrade-Insecure-Requests",
		"Access-Control-Request-Method", "Access-Control-Request-Headers":
		return true
	}
	for _, prefix := range []string{"Sec-Ch-", "Sec-Fetch-", "Sec-Gpc", "Next-"} {
		if strings.HasPrefix(header, prefix) {
			return true
		}
	}
	return Forwardable(header) && !strings.HasPrefix(header, "Isr-") && !strings.HasPrefix(header, "X-Isr-")
}
