package isr

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/wellknown"
	"github.com/facetheory/isr/store"
)

// maxStatuses bounds [Route.Statuses].
const maxStatuses = 32

// Validate returns a *[ConfigError] for each invalid field, joined; nil if there is none.
func (rt Route) Validate() error {
	var errs []error
	if rt.Revalidate < 0 {
		errs = append(errs, configErrorf("Revalidate", "must not be negative (got %s)", rt.Revalidate))
	}
	if rt.Auto.enabled() && rt.Revalidate != 0 {
		errs = append(errs, configErrorf("Revalidate", "must be zero, because Auto is set (got %s)", rt.Revalidate))
	}
	if err := rt.Auto.validate(); err != nil {
		errs = append(errs, err)
	}
	if rt.OptIn < OptInExplicit || rt.OptIn > OptInStrict {
		errs = append(errs, configErrorf("OptIn", "must be OptInExplicit or OptInStrict (got %d)", int(rt.OptIn)))
	}
	if n := len(rt.Statuses); n > maxStatuses {
		errs = append(errs, configErrorf("Statuses", "must have at most %d statuses (got %d)", maxStatuses, n))
	}
	for _, status := range rt.Statuses {
		if !httpcache.MayBeStored(status) {
			errs = append(errs, configErrorf("Statuses", "must contain only statuses from 200 to 599, and none of 206, 304, 401, 407, 412, 416 and 511, which are for one request (got %d)", status))
		}
	}
	if !rt.Policy.valid() {
		errs = append(errs, configErrorf("Policy", "must be ServeStale or Wait (got %d)", int(rt.Policy)))
	}
	if !rt.UnsafeRequests.valid() {
		errs = append(errs, configErrorf("UnsafeRequests", "must be UnsafeHard, UnsafeSoft or UnsafeIgnore (got %d)", int(rt.UnsafeRequests)))
	}
	if !(rt.EarlyRefresh >= 0 && rt.EarlyRefresh <= maxEarlyRefresh) { // as NaN is neither
		errs = append(errs, configErrorf("EarlyRefresh", "must be between 0 and %d (got %v)", maxEarlyRefresh, rt.EarlyRefresh))
	}
	if !(rt.Jitter <= maxJitter) {
		errs = append(errs, configErrorf("Jitter", "must be between 0 and %v (got %v)", maxJitter, rt.Jitter))
	}
	if rt.History < 0 || rt.History > maxHistory {
		errs = append(errs, configErrorf("History", "must be between 0 and %d (got %d)", maxHistory, rt.History))
	}
	errs = append(errs, rt.validateWindows(), rt.validateQuery(), rt.validateVary(), rt.validateKeyClasses(), rt.validateForward(), rt.validateResponse(), rt.validateReject(), rt.validateCodings())
	for _, name := range rt.IgnoreCookies {
		if strings.TrimPrefix(name, "!") == "" {
			errs = append(errs, configErrorf("IgnoreCookies", "must not contain an empty name"))
		}
	}
	if rt.TenantHeader != "" && !httpcache.IsToken(rt.TenantHeader) {
		errs = append(errs, configErrorf("TenantHeader", "must be the name of a request header (got %q)", rt.TenantHeader))
	}
	return errors.Join(errs...)
}

// validateWindows checks the fields that bound times and sizes.
func (rt Route) validateWindows() error {
	var errs []error
	for status, window := range rt.Negative {
		switch {
		case !httpcache.HasOwnWindow(status):
			errs = append(errs, configErrorf("Negative", "must contain only the statuses 301, 302, 303, 307, 308, 404 and 410 (got %d)", status))
		case window < 0 || window > store.MaxInterval:
			errs = append(errs, configErrorf("Negative", "must have windows between 0 and ten years (got %s for %d)", window, status))
		}
	}
	if rt.RenderTimeout < 0 || rt.RenderTimeout > 24*time.Hour {
		errs = append(errs, configErrorf("RenderTimeout", "must be between 0 and 24h (got %s)", rt.RenderTimeout))
	}
	if rt.Wait < 0 || rt.Wait > 24*time.Hour {
		errs = append(errs, configErrorf("Wait", "must be between 0 and 24h (got %s)", rt.Wait))
	}
	if rt.MaxBody < 0 {
		errs = append(errs, configErrorf("MaxBody", "must not be negative (got %d bytes)", rt.MaxBody))
	}
	return errors.Join(errs...)
}

// maxIgnoredQuery bounds [Route.IgnoreQuery], which every parameter is compared with.
const maxIgnoredQuery = 256

func (rt Route) validateQuery() error {
	var errs []error
	for _, name := range rt.Query {
		switch {
		case name == "":
			errs = append(errs, configErrorf("Query", "must not contain an empty name"))
		case slices.Contains(rt.IgnoreQuery, name):
			errs = append(errs, configErrorf("IgnoreQuery", "must not contain %q, which Query makes part of the key", name))
		}
	}
	if slices.Contains(rt.IgnoreQuery, "") {
		errs = append(errs, configErrorf("IgnoreQuery", "must not contain an empty name"))
	}
	if n := len(rt.IgnoreQuery); n > maxIgnoredQuery {
		errs = append(errs, configErrorf("IgnoreQuery", "must have at most %d names (got %d)", maxIgnoredQuery, n))
	}
	return errors.Join(errs...)
}

// maxHistory bounds [Route.History]: all versions of a page are read in one query.
const maxHistory = 100

// maxJitter bounds [Route.Jitter].
const maxJitter = 0.5

// maxForward bounds [Route.Forward].
const maxForward = 16

func (rt Route) validateForward() error {
	var errs []error
	if n := len(rt.Forward); n > maxForward {
		errs = append(errs, configErrorf("Forward", "must have at most %d names (got %d)", maxForward, n))
	}
	for _, name := range rt.Forward {
		header := textproto.CanonicalMIMEHeaderKey(name)
		inClass := slices.ContainsFunc(rt.KeyClasses, func(c KeyClass) bool { return textproto.CanonicalMIMEHeaderKey(c.Header) == header })
		switch {
		case !httpcache.IsToken(name):
			errs = append(errs, configErrorf("Forward", "must contain names of request headers (got %q)", name))
		case containsHeader(rt.Vary, header), inClass, header == textproto.CanonicalMIMEHeaderKey(rt.TenantHeader):
			errs = append(errs, configErrorf("Forward", "must not contain %q, which is part of the key", name))
		case header == minSeqHeader, !wellknown.Forwardable(header):
			errs = append(errs, configErrorf("Forward", "must not contain %q: with it one visitor could decide what others are served; declare it in Vary or KeyClasses if pages depend on it", name))
		}
	}
	return errors.Join(errs...)
}

// Bounds of [Route.KeyClasses].
const (
	maxKeyClasses    = 8
	maxClassValues   = 32
	maxClassValue    = 64
	maxClassVariants = 1024
)

const acceptLanguage = "Accept-Language"

func (rt Route) validateKeyClasses() error {
	var errs []error
	if n := len(rt.KeyClasses); n > maxKeyClasses {
		return configErrorf("KeyClasses", "must have at most %d elements (got %d)", maxKeyClasses, n)
	}
	variants, names := 1, make(map[string]bool)
	for _, c := range rt.KeyClasses {
		errs = append(errs, c.validate(rt))
		variants *= max(len(c.Values), 1)
		if name := cachekey.Class(c).Name(); names[name] {
			errs = append(errs, configErrorf("KeyClasses", "must not contain %q twice", cmp.Or(c.Header, c.Cookie)))
		} else {
			names[name] = true
		}
	}
	if variants > maxClassVariants {
		errs = append(errs, configErrorf("KeyClasses", "must have at most %d combinations of values (got %d)", maxClassVariants, variants))
	}
	return errors.Join(errs...)
}

func (c KeyClass) validate(rt Route) error {
	var errs []error
	header := textproto.CanonicalMIMEHeaderKey(c.Header)
	switch {
	case (c.Header == "") == (c.Cookie == ""):
		return configErrorf("KeyClasses", "must name either a header or a cookie in each element (got header %q, cookie %q)", c.Header, c.Cookie)
	case c.Cookie != "" && (!httpcache.IsToken(c.Cookie) || len(c.Cookie) > maxClassValue):
		errs = append(errs, configErrorf("KeyClasses", "must have names of cookies that are tokens of at most %d bytes (got %.100q)", maxClassValue, c.Cookie))
	case c.Header != "" && !httpcache.IsToken(c.Header):
		errs = append(errs, configErrorf("KeyClasses", "must have names of request headers (got %.100q)", c.Header))
	case header == "Cookie", header == "Authorization", header == "Host", header == "Accept-Encoding":
		errs = append(errs, configErrorf("KeyClasses", "must not contain the header %q; name a cookie by Cookie", c.Header))
	case header != "" && (containsHeader(rt.Vary, header) || header == textproto.CanonicalMIMEHeaderKey(rt.TenantHeader)):
		errs = append(errs, configErrorf("KeyClasses", "must not contain the header %q, which Vary or TenantHeader names", c.Header))
	}
	if n := len(c.Values); n == 0 || n > maxClassValues {
		errs = append(errs, configErrorf("KeyClasses", "must have 1 to %d values for %q (got %d)", maxClassValues, cmp.Or(c.Header, c.Cookie), n))
	}
	for i, v := range c.Values {
		if absent := v == "" && i == 0 && header != "" && header != acceptLanguage; !absent && !c.validValue(v) {
			errs = append(errs, configErrorf("KeyClasses", "%q is not a possible value of %q", v, cmp.Or(c.Header, c.Cookie)))
		}
		if slices.Contains(c.Values[:i], v) {
			errs = append(errs, configErrorf("KeyClasses", "must not have the value %q of %q twice", v, cmp.Or(c.Header, c.Cookie)))
		}
	}
	return errors.Join(errs...)
}

func (c KeyClass) validValue(v string) bool {
	if v == "" || len(v) > maxClassValue || strings.TrimSpace(v) != v {
		return false
	}
	if textproto.CanonicalMIMEHeaderKey(c.Header) == acceptLanguage {
		return validLanguageTag(v)
	}
	for i := range len(v) {
		ch := v[i]
		if ch < ' ' || ch >= 0x7f || ch == '"' || c.Cookie != "" && strings.IndexByte(" ,;\\", ch) >= 0 {
			return false
		}
	}
	return true
}

// validLanguageTag reports whether s has the form of a language tag (RFC 4647, section 2.1,
// without wildcards).
func validLanguageTag(s string) bool {
	for subtag := range strings.SplitSeq(s, "-") {
		if subtag == "" || len(subtag) > 8 {
			return false
		}
		for i := range len(subtag) {
			if !canonical.IsAlphanumeric(subtag[i]) {
				return false
			}
		}
	}
	return true
}

// containsHeader reports whether names contain a header, given in canonical form.
func containsHeader(names []string, header string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return textproto.CanonicalMIMEHeaderKey(name) == header })
}

func (rt Route) validateVary() error {
	var errs []error
	for _, name := range rt.Vary {
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Cookie", "Authorization":
			errs = append(errs, configErrorf("Vary", "must not contain %q: it identifies a visitor, whose pages are never shared", name))
		default:
			if !httpcache.IsToken(name) {
				errs = append(errs, configErrorf("Vary", "must contain names of request headers (got %q)", name))
			}
		}
	}
	if rt.MaxVariants < 0 || rt.MaxVariants > maxMaxVariants {
		errs = append(errs, configErrorf("MaxVariants", "must be between 0 and %d (got %d)", maxMaxVariants, rt.MaxVariants))
	}
	return errors.Join(errs...)
}

// Bounds of [Reject].
const (
	maxRejectTexts = 32
	maxRejectText  = 1024
)

func (rt Route) validateReject() error {
	var errs []error
	if r := rt.Reject.SmallerThan; !(r >= 0 && r <= 1) { // as NaN is neither
		errs = append(errs, configErrorf("Reject", "must have a SmallerThan between 0 and 1 (got %v)", r))
	}
	for _, texts := range [][]string{rt.Reject.Without, rt.Reject.With} {
		if n := len(texts); n > maxRejectTexts {
			errs = append(errs, configErrorf("Reject", "must have at most %d texts of a kind (got %d)", maxRejectTexts, n))
		}
		for _, text := range texts {
			if text == "" || len(text) > maxRejectText || !utf8.ValidString(text) {
				errs = append(errs, configErrorf("Reject", "must have texts of 1 to %d bytes of UTF-8 (got %.100q)", maxRejectText, text))
			}
		}
	}
	for _, text := range rt.Reject.With {
		if slices.Contains(rt.Reject.Without, text) {
			errs = append(errs, configErrorf("Reject", "must not have the text %.100q in With and in Without", text))
		}
	}
	if n := len(rt.Reject.LostHeaders); n > maxRejectTexts {
		errs = append(errs, configErrorf("Reject", "must have at most %d LostHeaders (got %d)", maxRejectTexts, n))
	}
	for _, name := range rt.Reject.LostHeaders {
		if !httpcache.IsToken(name) {
			errs = append(errs, configErrorf("Reject", "must have LostHeaders that are names of header fields (got %.100q)", name))
		}
	}
	return errors.Join(errs...)
}

func (rt Route) validateCodings() error {
	for i, token := range rt.Codings {
		switch c, ok := httpcache.ParseCoding(token); {
		case !ok, c == httpcache.Identity && len(rt.Codings) > 1:
			return configErrorf("Codings", "must be some of br, zstd and gzip, or identity alone (got %q)", token)
		case slices.Contains(rt.Codings[:i], token):
			return configErrorf("Codings", "must not contain %q twice", token)
		}
	}
	return nil
}

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

// maxControlBytes bounds each field of [DownstreamControl].
const maxControlBytes = 256

func (d DownstreamControl) validate() error {
	if d.CDN+d.Surrogate != "" && d.CacheControl == "" {
		return configErrorf("Downstream", "must have CacheControl if it has CDN or Surrogate")
	}
	var errs []error
	for _, v := range []string{d.CacheControl, d.CDN, d.Surrogate} {
		if v == "" {
			continue
		}
		if !validFieldValue(v) || len(v) > maxControlBytes || httpcache.ParseDirectives([]string{v}).Malformed() {
			errs = append(errs, configErrorf("Downstream", "must have valid fields of at most %d bytes (got %.100q)", maxControlBytes, v))
		} else if !validRemaining(v) {
			errs = append(errs, configErrorf("Downstream", "must have %q once, as the argument of max-age or s-maxage (got %.100q)", page.Remaining, v))
		}
	}
	return errors.Join(errs...)
}

// validRemaining reports whether a field has "remaining" at most once, and where a number of
// seconds belongs.
func validRemaining(field string) bool {
	switch strings.Count(field, page.Remaining) {
	case 0:
		return true
	case 1:
		d := httpcache.ParseDirectives([]string{field})
		return d["max-age"] == page.Remaining || d["s-maxage"] == page.Remaining
	}
	return false
}

// maxMaxVariants bounds [Route.MaxVariants]: the variants are read to be counted.
const maxMaxVariants = 256
