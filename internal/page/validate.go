package page

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/httpcache"
)

// Validate calls report for each field of isr.Route that is invalid, with its name and what is wrong.
func (v *ViewRules) Validate(report func(field, format string, args ...any)) {
	v.validateFields(report)
	v.validateLifetimes(report)
	v.validateCodings(report)
}

func (v *ViewRules) validateCodings(report func(field, format string, args ...any)) {
	for i, token := range v.Codings {
		switch c, ok := httpcache.ParseCoding(token); {
		case !ok, c == httpcache.Identity && len(v.Codings) > 1:
			report("Codings", "must be some of br, zstd and gzip, or identity alone (got %q)", token)
			return
		case slices.Contains(v.Codings[:i], token):
			report("Codings", "must not contain %q twice", token)
			return
		}
	}
}

// Bounds of the response headers of a route.
const (
	maxResponseRules = 64
	maxResponseBytes = 8 << 10
)

func (v *ViewRules) validateFields(report func(field, format string, args ...any)) {
	if n := len(v.Set); n > maxResponseRules {
		report("SetHeader", "must have at most %d fields (got %d)", maxResponseRules, n)
	}
	if n := len(v.Remove); n > maxResponseRules {
		report("RemoveHeader", "must have at most %d names (got %d)", maxResponseRules, n)
	}
	bytes := 0
	for name, values := range v.Set {
		validateRule("SetHeader", name, report)
		if len(values) == 0 {
			report("SetHeader", "must have a value for %q; use RemoveHeader to remove it", name)
		}
		for _, value := range values {
			bytes += len(name) + len(value)
			if !validFieldValue(value) {
				report("SetHeader", "must not have control characters or outer spaces in values (got %.100q for %q)", value, name)
			}
		}
	}
	for _, name := range v.Remove {
		bytes += len(name)
		validateRule("RemoveHeader", name, report)
		if contains(v.Set, name) {
			report("RemoveHeader", "must not contain %q, which SetHeader sets", name)
		}
	}
	if bytes > maxResponseBytes {
		report("SetHeader", "must have at most %d bytes in all, with RemoveHeader (got %d)", maxResponseBytes, bytes)
	}
}

func validateRule(field, name string, report func(field, format string, args ...any)) {
	switch {
	case !httpcache.IsToken(name):
		report(field, "must contain names of header fields (got %q)", name)
	case ownedHeader(textproto.CanonicalMIMEHeaderKey(name)):
		report(field, "must not contain %q, which the cache or the connection decides", name)
	}
}

// ownedHeader reports whether a field describes the message, its body, its freshness or a
// cookie, so that no route may change it.
func ownedHeader(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", "Content-Encoding", "Content-Range", "Accept-Ranges", "Etag", "Last-Modified", "Date", "Location",
		"Cache-Control", "Cdn-Cache-Control", "Surrogate-Control", "Pragma", "Expires", "Age", "Vary", "Cache-Status", "Retry-After",
		"Set-Cookie", "Set-Cookie2", "Www-Authenticate":
		return true
	}
	return strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, http.TrailerPrefix) || strings.HasPrefix(name, "Isr-")
}

// validFieldValue reports whether a text may be sent as the value of a header field (RFC
// 9110, section 5.5).
func validFieldValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return strings.Trim(v, " \t") == v
}

// maxControlBytes bounds each field of [DownstreamControl].
const maxControlBytes = 256

func (v *ViewRules) validateLifetimes(report func(field, format string, args ...any)) {
	if v.CDN+v.Surrogate != "" && v.CacheControl == "" {
		report("Downstream", "must have CacheControl if it has CDN or Surrogate")
		return
	}
	for _, value := range []string{v.CacheControl, v.CDN, v.Surrogate} {
		if value == "" {
			continue
		}
		if !validFieldValue(value) || len(value) > maxControlBytes || httpcache.ParseDirectives([]string{value}).Malformed() {
			report("Downstream", "must have valid fields of at most %d bytes (got %.100q)", maxControlBytes, value)
		} else if !validRemaining(value) {
			report("Downstream", "must have %q once, as the argument of max-age or s-maxage (got %.100q)", Remaining, value)
		}
	}
}

// validRemaining reports whether a field has "remaining" at most once, and where a number of
// seconds belongs.
func validRemaining(field string) bool {
	switch strings.Count(field, Remaining) {
	case 0:
		return true
	case 1:
		d := httpcache.ParseDirectives([]string{field})
		return d["max-age"] == Remaining || d["s-maxage"] == Remaining
	}
	return false
}

// contains reports whether a header has a field, by whatever spelling of its name.
func contains(h http.Header, name string) bool {
	for other := range h {
		if textproto.CanonicalMIMEHeaderKey(other) == textproto.CanonicalMIMEHeaderKey(name) {
			return true
		}
	}
	return false
}
