package isr

import (
	"errors"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/httpcache"
)

// Bounds of the response headers of a route.
const (
	maxResponseRules = 64
	maxResponseBytes = 8 << 10
)

func (rt Route) validateResponse() error {
	var errs []error
	if n := len(rt.SetHeader); n > maxResponseRules {
		errs = append(errs, configErrorf("SetHeader", "must have at most %d fields (got %d)", maxResponseRules, n))
	}
	if n := len(rt.RemoveHeader); n > maxResponseRules {
		errs = append(errs, configErrorf("RemoveHeader", "must have at most %d names (got %d)", maxResponseRules, n))
	}
	bytes := 0
	for name, values := range rt.SetHeader {
		errs = append(errs, validateRule("SetHeader", name))
		if len(values) == 0 {
			errs = append(errs, configErrorf("SetHeader", "must have a value for %q; use RemoveHeader to remove it", name))
		}
		for _, v := range values {
			bytes += len(name) + len(v)
			if !validFieldValue(v) {
				errs = append(errs, configErrorf("SetHeader", "must not have control characters or outer spaces in values (got %.100q for %q)", v, name))
			}
		}
	}
	for _, name := range rt.RemoveHeader {
		bytes += len(name)
		errs = append(errs, validateRule("RemoveHeader", name))
		if containsHeader(slices.Collect(maps.Keys(rt.SetHeader)), textproto.CanonicalMIMEHeaderKey(name)) {
			errs = append(errs, configErrorf("RemoveHeader", "must not contain %q, which SetHeader sets", name))
		}
	}
	if bytes > maxResponseBytes {
		errs = append(errs, configErrorf("SetHeader", "must have at most %d bytes in all, with RemoveHeader (got %d)", maxResponseBytes, bytes))
	}
	return errors.Join(append(errs, rt.Downstream.validate())...)
}

func validateRule(field, name string) error {
	switch {
	case !httpcache.IsToken(name):
		return configErrorf(field, "must contain names of header fields (got %q)", name)
	case ownedHeader(textproto.CanonicalMIMEHeaderKey(name)):
		return configErrorf(field, "must not contain %q, which the cache or the connection decides", name)
	}
	return nil
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
