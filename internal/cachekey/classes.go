package cachekey

import (
	"cmp"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/httpcache"
)

const acceptLanguage = "Accept-Language"

// A Class reduces a request header or a cookie to one of a few values, which is in the key. It has the fields
// of isr.KeyClass.
type Class struct {
	// Header or Cookie is the name: exactly one of them is set.
	Header string
	Cookie string
	// Values are the classes, of which the first is the default.
	Values []string
}

// Name is the name of the class in keys. The name of a header has no colon.
func (c Class) Name() string {
	if c.Cookie != "" {
		return "cookie:" + c.Cookie
	}
	return strings.ToLower(c.Header)
}

// A keyClass is a [Class] in the form by which requests are matched.
type keyClass struct {
	name   string // in keys
	header string // canonical; empty for a cookie
	cookie string
	values []string
	pairs  []string // name=value of each value, in the encoding of a query; empty for the header's absence
	closed bool     // requests with another value bypass the cache
}

// newKeyClasses returns the classes in the order of their names.
func newKeyClasses(declared []Class) []keyClass {
	classes := make([]keyClass, 0, len(declared))
	for _, d := range declared {
		c := keyClass{name: d.Name(), header: textproto.CanonicalMIMEHeaderKey(d.Header), cookie: d.Cookie, values: d.Values}
		if last := len(d.Values) - 1; last > 0 && d.Values[last] == "*" && d.Header != "" {
			c.values, c.closed = d.Values[:last], true
		}
		for _, v := range c.values {
			if v == "" {
				c.pairs = append(c.pairs, "")
				continue
			}
			c.pairs = append(c.pairs, canonical.EscapeQuery(c.name)+"="+canonical.EscapeQuery(v))
		}
		classes = append(classes, c)
	}
	slices.SortFunc(classes, func(a, b keyClass) int { return cmp.Compare(a.name, b.name) })
	return classes
}

// pair returns name=value of the class of a request. It does not allocate.
func (c *keyClass) pair(h http.Header) string { return c.pairs[c.class(h)] }

// class returns the index of the class of a request.
func (c *keyClass) class(h http.Header) int {
	switch {
	case c.cookie != "":
		return max(slices.Index(c.values, cookieValue(h["Cookie"], c.cookie)), 0)
	case c.header == acceptLanguage:
		return httpcache.NegotiateLanguage(h[acceptLanguage], c.values)
	case len(h[c.header]) == 1:
		return max(slices.Index(c.values, strings.TrimSpace(h[c.header][0])), 0)
	}
	return 0
}

// excludes reports whether a request bypasses the cache because of the class. It does not allocate.
func (c *keyClass) excludes(h http.Header) bool {
	values := h[c.header]
	return c.closed && len(values) > 0 && (len(values) > 1 || !slices.Contains(c.values, strings.TrimSpace(values[0])))
}

// cookieValue returns the value of the first cookie of a name, empty if there is none.
func cookieValue(lines []string, name string) string {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			if n, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && strings.TrimSpace(n) == name { // as net/http reads it
				return value
			}
		}
	}
	return ""
}

// classOf returns the class of a header, or nil if there is none.
func (m *Mapper) classOf(header string) *keyClass {
	for i := range m.classes {
		if m.classes[i].header == header && header != "" {
			return &m.classes[i]
		}
	}
	return nil
}

// hasCookieClass reports whether a class is a cookie's.
func (m *Mapper) hasCookieClass() bool {
	return slices.ContainsFunc(m.classes, func(c keyClass) bool { return c.cookie != "" })
}

// isCookieClass reports whether a class is the cookie's.
func (m *Mapper) isCookieClass(name string) bool {
	for i := range m.classes {
		if m.classes[i].cookie == name {
			return true
		}
	}
	return false
}

// excludesClass reports whether a request bypasses the cache because of one of the classes.
func (m *Mapper) excludesClass(h http.Header) bool {
	for i := range m.classes {
		if m.classes[i].excludes(h) {
			return true
		}
	}
	return false
}

// putClasses sets the headers and the cookies of the classes in a variant, and removes them
// from it. A variant without a class, which no request has, gets the default.
func (m *Mapper) putClasses(h http.Header, variant url.Values) error {
	var cookies []string
	for i := range m.classes {
		c := &m.classes[i]
		value := c.values[0]
		if values, ok := variant[c.name]; ok {
			if value = values[0]; len(values) > 1 || !slices.Contains(c.values, value) {
				return fmt.Errorf("%q is not a class of %q; expected one of %q", strings.Join(values, ", "), c.name, c.values)
			}
		}
		delete(variant, c.name)
		switch {
		case c.cookie != "":
			cookies = append(cookies, c.cookie+"="+value)
		case value != "":
			h[c.header] = []string{value}
		}
	}
	if len(cookies) > 0 {
		h["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	return nil
}
