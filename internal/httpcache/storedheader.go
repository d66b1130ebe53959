package httpcache

import (
	"net/http"
	"net/textproto"
	"strings"
)

// Replayed reports whether a field of a response, named in canonical form, is sent to other visitors with
// the stored response. It is not if it describes one connection, one message, one coding, one client, one
// answer of the origin, or the origin's own port (RFC 9111, section 3.1, names some of these).
func Replayed(name string) bool {
	switch name {
	case // One connection: RFC 9110, section 7.6.1; RFC 9112; RFC 6455.
		"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
		"Proxy-Authenticate", "Proxy-Authentication-Info",
		// One message or coding, which this cache states itself.
		"Age", "Cache-Status", "Content-Length", "Content-Encoding", "Content-Range", "Etag",
		// Obsolete (RFC 9111, section 5.5), or for this cache alone.
		"Warning", "Surrogate-Control",
		// One client: its credentials, its storage, its account or its share of a limit.
		"Authentication-Info", "Clear-Site-Data", "Set-Login", "Sec-Session-Registration", "Sec-Session-Challenge",
		"Ratelimit", "Ratelimit-Policy",
		// Another port or protocol of the origin, which visitors do not reach (RFC 7838).
		"Alt-Svc",
		// How long one answer took.
		"Server-Timing", "X-Runtime", "X-Response-Time", "X-Processing-Time", "X-Envoy-Upstream-Service-Time", "X-Timer",
		// The identity of one answer, in logs and traces.
		"X-Request-Id", "Request-Id", "X-Correlation-Id", "X-Trace-Id", "X-Amzn-Requestid", "X-Amz-Request-Id", "X-Amz-Id-2",
		"X-Amzn-Trace-Id", "X-Amz-Cf-Id", "X-Cloud-Trace-Context", "Cf-Ray", "Fly-Request-Id", "X-Vercel-Id", "X-Github-Request-Id",
		"Traceparent", "Tracestate", "Traceresponse", "Uber-Trace-Id", "X-Debug-Token", "X-Debug-Token-Link",
		// Whether a cache behind this one had the answer.
		"X-Cache", "X-Cache-Hits", "X-Cache-Status", "X-Served-By", "X-Varnish", "X-Proxy-Cache", "X-Fastcgi-Cache",
		"Cf-Cache-Status", "X-Nextjs-Cache", "X-Vercel-Cache", "X-Drupal-Cache", "X-Drupal-Dynamic-Cache", "X-Litespeed-Cache":
		return false
	}
	for _, prefix := range []string{http.TrailerPrefix, "Sec-Websocket-", "Ratelimit-", "X-Ratelimit-", "X-Rate-Limit-", "X-B3-", "X-Datadog-"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return true
}

// StoredHeader returns a copy of the header fields that are stored: those that are replayed (see
// [Replayed]), and Surrogate-Control, by which the stored response is judged again. Fields that Connection
// names are dropped, and so are a Date that is no date, a Cache-Status that is no valid list or too long,
// and the digests of a content that this cache decodes.
func StoredHeader(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		if Replayed(name) || name == "Surrogate-Control" {
			out[name] = append([]string(nil), values...)
		}
	}
	for _, line := range h["Connection"] {
		for name := range Members(line) {
			delete(out, textproto.CanonicalMIMEHeaderKey(name))
		}
	}
	if _, ok := dateOf(h); !ok {
		delete(out, "Date")
	}
	if upstream := UpstreamStatus(h["Cache-Status"]); upstream != "" {
		out["Cache-Status"] = []string{upstream}
	}
	if len(h["Content-Encoding"]) > 0 {
		DropDigests(out)
	}
	return out
}

// HasDigests reports whether a header has a digest of its content or representation.
func HasDigests(h http.Header) bool {
	return len(h["Repr-Digest"])+len(h["Content-Digest"])+len(h["Digest"])+len(h["Content-Md5"]) > 0
}

// DropDigests deletes the digests of the representation (RFC 9530, section 3; Digest of RFC 3230), which
// another coding of it does not have, and those of the content.
func DropDigests(h http.Header) {
	delete(h, "Repr-Digest")
	delete(h, "Digest")
	DropContentDigests(h)
}

// DropContentDigests deletes the digests of the content of one message (RFC 9530, section 2; Content-MD5 of
// RFC 1864), which a range of it does not have.
func DropContentDigests(h http.Header) {
	delete(h, "Content-Digest")
	delete(h, "Content-Md5")
}
