package cachekey

import (
	"net/http"
	"net/textproto"
	"net/url"
	"slices"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/wellknown"
	"github.com/facetheory/isr/store"
)

// A stored page whose Vary names request headers that its key does not cover is served only to
// requests that lack them, as the render did (RFC 9111, section 4.1). With Rules.VaryAuto
// other requests get a variant of the page, whose key has those headers:
//
//	key -> page, "Vary: Accept-Language" -> the request has none: serve the page
//	                                     -> it has one: key#accept-language=de -> page, …
//
// So the entry of the page tells every process which headers make the keys of its variants,
// also after a restart. A variant may name more headers, up to maxLearned in a key.
//
// Visitors choose the values, so the variants of a page are bounded: isr.Route has the bound MaxVariants.

// maxLearned bounds the headers of a page that are learned. Some frameworks name three for CORS alone.
const maxLearned = 8

// Matches reports whether a request may be answered with a page whose Vary names these fields: whether
// the headers that no key covers have the values that the page was rendered with (RFC 9111, section
// 4.1). It is on the hit path of pages with Vary.
func (m *Mapper) Matches(varies []httpcache.Nominated, h http.Header) bool {
	for _, n := range varies {
		if m.Covers(n.Name) {
			continue
		}
		if n.Name == "*" || httpcache.Normalize(n.Name, h[n.Name]) != n.Value {
			return false
		}
	}
	return true
}

// VariantKey returns the key of the variant that a request gets of the page of a key, whose Vary names
// these fields; ok is false if there can be none.
func (m *Mapper) VariantKey(page store.Key, varies []httpcache.Nominated, h http.Header) (k store.Key, ok bool) {
	if !m.rules.VaryAuto {
		return store.Key{}, false
	}
	names := m.Learned(page)
	for _, n := range varies {
		switch {
		case m.Covers(n.Name), slices.Contains(names, n.Name):
		case !wellknown.Learnable(n.Name):
			return store.Key{}, false
		case len(h[n.Name]) > 0:
			names = append(names, n.Name)
		}
	}
	if len(names) > maxLearned {
		return store.Key{}, false
	}
	host, path, query, _ := page.Split()
	text := store.JoinKey(host, path, query, m.Variant(h, names...))
	if len(text) > store.MaxKeyLength || text == page.Text {
		return store.Key{}, false
	}
	return store.Key{Tenant: page.Tenant, Text: text}, true
}

// Learned returns the canonical names of the headers in a key that the route does not
// declare, if it may learn them.
func (m *Mapper) Learned(k store.Key) (names []string) {
	_, _, _, variant := k.Split()
	if !m.rules.VaryAuto || variant == "" {
		return nil
	}
	fields, err := url.ParseQuery(variant)
	if err != nil {
		return nil
	}
	for name := range fields {
		if slices.ContainsFunc(m.classes, func(c keyClass) bool { return c.name == name }) {
			continue // such as cookie:ab, which looks like a header that could be learned
		}
		if name = textproto.CanonicalMIMEHeaderKey(name); m.learns(name) {
			names = append(names, name)
		}
	}
	return names
}

// learns reports whether the route may make a header part of a key that it does not declare.
func (m *Mapper) learns(name string) bool {
	return m.rules.VaryAuto && !m.Covers(name) && wellknown.Learnable(name)
}

// Allowed returns a function that reports whether a response may name a request header in Vary and be
// stored: the header is in the key or can be learned, and the response does not name too many headers
// that can be learned. h is the header of the response.
func (m *Mapper) Allowed(h http.Header) func(name string) bool {
	if !m.rules.VaryAuto {
		return m.Covers
	}
	learned := 0
	for _, n := range httpcache.NominatedBy("", h["Vary"]) {
		if m.learns(n.Name) {
			learned++
		}
	}
	if learned > maxLearned {
		return m.Covers
	}
	return func(name string) bool { return m.Covers(name) || m.learns(name) }
}
