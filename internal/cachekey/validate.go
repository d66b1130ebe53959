package cachekey

import (
	"cmp"
	"net/textproto"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/wellknown"
)

// Validate calls report for each field of isr.Route that is invalid, with its name and what is wrong.
func (r *Rules) Validate(report func(field, format string, args ...any)) {
	r.validateQuery(report)
	r.validateVary(report)
	r.validateClasses(report)
	r.validateForward(report)
	for _, name := range r.IgnoreCookies {
		if strings.TrimPrefix(name, "!") == "" {
			report("IgnoreCookies", "must not contain an empty name")
		}
	}
	if r.TenantHeader != "" && !httpcache.IsToken(r.TenantHeader) {
		report("TenantHeader", "must be the name of a request header (got %q)", r.TenantHeader)
	}
}

// maxIgnoredQuery bounds [Rules].IgnoreQuery, which every parameter is compared with.
const maxIgnoredQuery = 256

func (r *Rules) validateQuery(report func(field, format string, args ...any)) {
	for _, name := range r.Query {
		switch {
		case name == "":
			report("Query", "must not contain an empty name")
		case slices.Contains(r.IgnoreQuery, name):
			report("IgnoreQuery", "must not contain %q, which Query makes part of the key", name)
		}
	}
	if slices.Contains(r.IgnoreQuery, "") {
		report("IgnoreQuery", "must not contain an empty name")
	}
	if n := len(r.IgnoreQuery); n > maxIgnoredQuery {
		report("IgnoreQuery", "must have at most %d names (got %d)", maxIgnoredQuery, n)
	}
}

// maxForward bounds [Rules].Forward.
const maxForward = 16

func (r *Rules) validateForward(report func(field, format string, args ...any)) {
	if n := len(r.Forward); n > maxForward {
		report("Forward", "must have at most %d names (got %d)", maxForward, n)
	}
	for _, name := range r.Forward {
		header := textproto.CanonicalMIMEHeaderKey(name)
		inClass := slices.ContainsFunc(r.Classes, func(c Class) bool { return textproto.CanonicalMIMEHeaderKey(c.Header) == header })
		switch {
		case !httpcache.IsToken(name):
			report("Forward", "must contain names of request headers (got %q)", name)
		case containsHeader(r.Vary, header), inClass, header == textproto.CanonicalMIMEHeaderKey(r.TenantHeader):
			report("Forward", "must not contain %q, which is part of the key", name)
		case header == r.ReceiptHeader, !wellknown.Forwardable(header):
			report("Forward", "must not contain %q: with it one visitor could decide what others are served; declare it in Vary or KeyClasses if pages depend on it", name)
		}
	}
}

// Bounds of [Rules].Classes.
const (
	maxClasses       = 8
	maxClassValues   = 32
	maxClassValue    = 64
	maxClassVariants = 1024
)

func (r *Rules) validateClasses(report func(field, format string, args ...any)) {
	if n := len(r.Classes); n > maxClasses {
		report("KeyClasses", "must have at most %d elements (got %d)", maxClasses, n)
		return
	}
	variants, names := 1, make(map[string]bool)
	for _, c := range r.Classes {
		c.validate(r, report)
		variants *= max(len(c.Values), 1)
		if name := c.Name(); names[name] {
			report("KeyClasses", "must not contain %q twice", cmp.Or(c.Header, c.Cookie))
		} else {
			names[name] = true
		}
	}
	if variants > maxClassVariants {
		report("KeyClasses", "must have at most %d combinations of values (got %d)", maxClassVariants, variants)
	}
}

func (c Class) validate(r *Rules, report func(field, format string, args ...any)) {
	header := textproto.CanonicalMIMEHeaderKey(c.Header)
	switch {
	case (c.Header == "") == (c.Cookie == ""):
		report("KeyClasses", "must name either a header or a cookie in each element (got header %q, cookie %q)", c.Header, c.Cookie)
		return
	case c.Cookie != "" && (!httpcache.IsToken(c.Cookie) || len(c.Cookie) > maxClassValue):
		report("KeyClasses", "must have names of cookies that are tokens of at most %d bytes (got %.100q)", maxClassValue, c.Cookie)
	case c.Header != "" && !httpcache.IsToken(c.Header):
		report("KeyClasses", "must have names of request headers (got %.100q)", c.Header)
	case header == "Cookie", header == "Authorization", header == "Host", header == "Accept-Encoding":
		report("KeyClasses", "must not contain the header %q; name a cookie by Cookie", c.Header)
	case header != "" && (containsHeader(r.Vary, header) || header == textproto.CanonicalMIMEHeaderKey(r.TenantHeader)):
		report("KeyClasses", "must not contain the header %q, which Vary or TenantHeader names", c.Header)
	}
	if n := len(c.Values); n == 0 || n > maxClassValues {
		report("KeyClasses", "must have 1 to %d values for %q (got %d)", maxClassValues, cmp.Or(c.Header, c.Cookie), n)
	}
	for i, v := range c.Values {
		if absent := v == "" && i == 0 && header != "" && header != acceptLanguage; !absent && !c.validValue(v) {
			report("KeyClasses", "%q is not a possible value of %q", v, cmp.Or(c.Header, c.Cookie))
		}
		if slices.Contains(c.Values[:i], v) {
			report("KeyClasses", "must not have the value %q of %q twice", v, cmp.Or(c.Header, c.Cookie))
		}
	}
}

func (c Class) validValue(v string) bool {
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

func (r *Rules) validateVary(report func(field, format string, args ...any)) {
	for _, name := range r.Vary {
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Cookie", "Authorization":
			report("Vary", "must not contain %q: it identifies a visitor, whose pages are never shared", name)
		default:
			if !httpcache.IsToken(name) {
				report("Vary", "must contain names of request headers (got %q)", name)
			}
		}
	}
}
