package isr

import (
	"cmp"
	"errors"
	"net/textproto"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/httpcache"
)

// A KeyClass reduces a request header or a cookie to one of a few values, its class, which
// is part of the key. The renderer sees the class in place of what the visitor sent: a
// header or cookie with exactly one of Values. So a page has at most one variant for each
// value, whatever visitors send.
//
// Accept-Language is negotiated (RFC 9110, section 12.5.4): Values are language tags, and a
// request has the class with the highest weight. A range matches a tag that it is a prefix
// of (RFC 4647, section 3.3.1), and, as in a lookup (section 3.4), "de-AT" matches the tag
// "de" if there is none more specific. Of equal weights the range that the visitor names
// first counts, and then the closer tag. The first 32 ranges are considered.
//
// Another header, or a cookie, has the class that it is equal to. If a request has several
// cookies of the name, the first one counts. Everything else has the default class: no value,
// another value, and a header that is repeated.
//
// Two values of a header other than Accept-Language have a meaning. "" as the first one is the
// class of requests without the header: renders of this class do not carry it. "*" as the last one
// is no class: a request whose header has none of the values before it bypasses the cache, instead
// of having the default class. So with "", "true" and "*" a page has two variants, and the origin
// answers requests with any other value itself.
type KeyClass struct {
	// Header or Cookie is the name: exactly one of them is set. A header must not be Host,
	// Accept-Encoding, one that identifies a visitor (Cookie, Authorization), TenantHeader,
	// or one of Vary.
	Header string
	Cookie string
	// Values are the classes, of which the first is the default: 1 to 32, each of 1 to 64
	// bytes, unless it is the first one of a header. Those of a cookie consist of characters that RFC 6265 allows in one, those
	// of a header of printable ASCII without '"'.
	Values []string
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
