// Package cachekey maps requests to the keys of their pages, and keys to the requests that renderers
// get.
//
// The problem: what decides a response must be in the key of its page, or one visitor gets another
// visitor's page. What does not decide it must not be in the key, or each visitor has a page of their
// own. A cache cannot know which parts of a request a site reads, and any part may be hostile.
//
// The model: the rules of a route declare the parts that matter, and a render sees nothing else.
//
//	visitor's request ──► Key ──┬──► key ──► Request ──► renderer's request
//	                            ├──► bypass: the response may depend on other parts
//	                            └──► error: the request is refused
//
// A part of a request is in the key, or it is known to decide nothing and is dropped, or the request
// bypasses the cache. Headers that a site names in Vary, without a declaration, can be learned: then a
// page has variants, whose keys have these headers too ([Mapper.VariantKey]).
//
// Guarantees:
//   - The renderer's request is built from the key alone, except for the few headers of Rules.Forward.
//     Whatever a visitor sends, no other part of it affects a page that others get.
//   - The renderer's request has the key that it was built from.
//   - Equivalent spellings of a host, a path, a query or a header have one key.
//   - A key has at most eight learned headers.
//   - Mappers with equal rules give a request the same key, in every process.
package cachekey

import (
	"net/textproto"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/wellknown"
)

// Rules are what a route declares of its keys. The zero value has the host and the path in keys. Its
// fields mean what isr.Route's mean, and are valid.
type Rules struct {
	// Off: all requests bypass the cache.
	Off bool
	// Query names parameters that are in the key, IgnoreQuery patterns of those that are dropped.
	Query, IgnoreQuery []string
	// IgnoreCookies are patterns of cookies that pages do not depend on. A pattern after '!' takes a
	// cookie of package wellknown back.
	IgnoreCookies []string
	// Vary names headers that are in the key, Classes headers and cookies of which a class is.
	Vary    []string
	Classes []Class
	// VaryAuto: headers that the Vary of a page names may be learned.
	VaryAuto bool
	// Forward names headers that a render carries although they are not in the key.
	Forward []string
	// TenantHeader names the tenant; empty if the site has none.
	TenantHeader string
	// ReceiptHeader has the receipt of a purge. It is in no key, no render carries it, and it decides
	// how a request is answered.
	ReceiptHeader string
	// ObeyRequests: all directives of a request are obeyed.
	ObeyRequests bool
}

// A Mapper maps requests to keys and keys to requests by the rules of a route. It does not change,
// and is safe for concurrent use.
type Mapper struct {
	rules   Rules // with the canonical TenantHeader
	query   map[string]bool
	vary    []string   // canonical header names, sorted, without Accept-Encoding and Host
	classes []keyClass // sorted by the names that they have in keys
	forward []string   // canonical header names
	ignored []string   // patterns of cookies that are ignored, beside the cookies of package wellknown
	counted []string   // patterns of cookies that are not ignored, whatever else ignores them
}

// New returns a mapper by valid rules. It keeps their slices, which must not change.
func New(rules Rules) *Mapper {
	rules.TenantHeader = textproto.CanonicalMIMEHeaderKey(rules.TenantHeader)
	m := &Mapper{
		rules:   rules,
		query:   make(map[string]bool, len(rules.Query)),
		classes: newKeyClasses(rules.Classes),
	}
	for _, name := range rules.IgnoreCookies {
		if counted, ok := strings.CutPrefix(name, "!"); ok {
			m.counted = append(m.counted, counted)
		} else {
			m.ignored = append(m.ignored, name)
		}
	}
	for _, name := range rules.Forward {
		m.forward = append(m.forward, textproto.CanonicalMIMEHeaderKey(name))
	}
	for _, name := range rules.Query {
		m.query[name] = true
	}
	for _, name := range rules.Vary {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if name != "Accept-Encoding" && name != "Host" && name != rules.TenantHeader {
			m.vary = append(m.vary, name)
		}
	}
	slices.Sort(m.vary)
	m.vary = slices.Compact(m.vary)
	return m
}

// Covers reports whether each key has a request header. If all cookies are ignored, the renderer
// never sees a cookie, so that a page that varies on Cookie does not vary. With classes of cookies it
// sees only those, which are in the key.
func (m *Mapper) Covers(name string) bool {
	return name == m.rules.TenantHeader || name == "Cookie" && (m.ignoresAllCookies() || m.hasCookieClass()) ||
		slices.Contains(m.vary, name) || m.classOf(name) != nil
}

// Forwards reports whether renders carry a header, given in canonical form, that is not in the key.
func (m *Mapper) Forwards(name string) bool { return slices.Contains(m.forward, name) }

// ignoresAllCookies reports whether the route ignores every cookie.
func (m *Mapper) ignoresAllCookies() bool {
	return slices.Contains(m.rules.IgnoreCookies, "*")
}

// ignoresCookies reports whether the route ignores all cookies of a request.
func (m *Mapper) ignoresCookies(lines []string) bool {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if name != "" && !m.ignoresCookie(name) && !m.isCookieClass(name) {
				return false
			}
		}
	}
	return true
}

// ignoresCookie reports whether pages do not depend on a cookie.
func (m *Mapper) ignoresCookie(name string) bool {
	return (wellknown.Cookie(name) != "" || matchesAny(m.ignored, name)) && !matchesAny(m.counted, name)
}

// matchesAny reports whether a name matches one of the patterns. A pattern that ends with '*' matches
// all names that begin so.
func matchesAny(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		} else if pattern == name {
			return true
		}
	}
	return false
}
