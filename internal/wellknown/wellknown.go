// Package wellknown has the names of query parameters, cookies and request headers to which
// common software gives a meaning that matters to a cache.
package wellknown

import (
	"slices"
	"strings"
)

// AnalyticsCookies are the names of cookies, or patterns that end in '*', which are set and read by scripts in the browser, not by renderers.
func AnalyticsCookies() []string {
	return []string{
		"_ga", "_ga_*", "_gid", "_gat", "_gat_*", "_gcl_*", "_gac_*", "__utm*", "_dc_gtm_*", "FPID", "FPLC",
		"_fbp", "_fbc", "_pk_*", "_hj*", "_clck", "_clsk", "_uetsid", "_uetvid", "_scid", "_scid_r", "_ttp", "_tt_*",
		"_pin_unauth", "_rdt_uuid", "_li_ss", "_mkto_trk", "__hstc", "__hssc", "__hssrc", "hubspotutk", "ajs_*",
		"amplitude_*", "amp_*", "mp_*", "optimizely*", "_vwo_*", "__gads", "__gpi", "_cb", "_chartbeat2", "_parsely_*",
		"__qca", "_sp_id.*", "_sp_ses.*", "plausible_ignore", "_matomo_*",
	}
}

// IsTracking reports whether a query parameter only records where a visitor came from. It
// is dropped from the key and from the renderer's request.
func IsTracking(name string) bool {
	if strings.HasPrefix(name, "utm_") || strings.HasPrefix(name, "mtm_") || strings.HasPrefix(name, "pk_") {
		return true
	}
	switch name {
	case "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "_gl", "_ga", "fbclid", "msclkid", "twclid", "ttclid",
		"li_fat_id", "igshid", "igsh", "yclid", "mc_cid", "mc_eid", "_hsenc", "_hsmi", "mkt_tok", "epik", "ScCid", "rdt_cid",
		"srsltid", "_openstat", "vero_id", "wickedid", "oly_anon_id", "oly_enc_id":
		return true
	}
	return false
}

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
