package cachekey

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/wellknown"
	"github.com/facetheory/isr/store"
)

// maxForwardValue bounds the values of forwarded headers, in bytes.
const maxForwardValue = 1024

// ErrUnreachable: no request maps to the key.
var ErrUnreachable = errors.New("no visitor can reach this page")

// Request builds the renderer's request from a key. An error wraps [store.ErrInvalidKey]: the key was
// made for a route that declares other headers, other classes or another tenant header.
func (m *Mapper) Request(ctx context.Context, k store.Key) (*http.Request, error) {
	host, path, query, variant := k.Split()
	target := path
	if query != "" {
		target += "?" + query
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", store.ErrInvalidKey, k, err)
	}
	r := (&http.Request{
		Method:     http.MethodGet,
		URL:        u,
		Host:       host,
		RequestURI: target,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Body:       http.NoBody,
		// No RemoteAddr: a render belongs to no visitor, and a handler that uses the
		// address (an access list, a proxy's X-Forwarded-For) must not get one that it
		// trusts, such as a loopback address.
		Header: http.Header{
			"Accept":          {"*/*"},
			"Accept-Encoding": {"identity"}, // the cache compresses bodies itself
			"User-Agent":      {"isr"},
		},
	}).WithContext(ctx)
	fields, err := url.ParseQuery(variant)
	if err != nil {
		return nil, fmt.Errorf("%w: the variant of %s: %w", store.ErrInvalidKey, k, err)
	}
	if err := m.putClasses(r.Header, fields); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", store.ErrInvalidKey, k, err)
	}
	for name, values := range fields {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if !slices.Contains(m.vary, name) && !m.learns(name) {
			return nil, fmt.Errorf("%w: %s varies on the header %q, which the route does not declare", store.ErrInvalidKey, k, name)
		}
		r.Header[name] = values
	}
	if (k.Tenant != "") != (m.rules.TenantHeader != "") {
		return nil, fmt.Errorf("%w: %s and the route disagree on whether the site has tenants", store.ErrInvalidKey, k)
	}
	if k.Tenant != "" {
		r.Header[m.rules.TenantHeader] = []string{k.Tenant}
	}
	return r, nil
}

// Forwarded returns the headers that a render carries in addition to its key if this request starts
// it; nil if there are none. It aliases nothing of the request.
func (m *Mapper) Forwarded(r *http.Request) http.Header {
	var h http.Header
	for _, name := range m.forward {
		if values := r.Header[name]; len(values) == 1 && len(values[0]) <= maxForwardValue {
			if h == nil {
				h = make(http.Header, len(m.forward))
			}
			h[name] = []string{strings.Clone(values[0])}
		}
	}
	return h
}

// Declared returns a key without the query parameters that the route does not declare.
func (m *Mapper) Declared(k store.Key) store.Key {
	host, path, query, variant := k.Split()
	query, _ = canonical.Query(query, func(name string) canonical.ParameterUse {
		if m.query[name] {
			return canonical.InKey
		}
		return canonical.Dropped
	})
	k.Text = store.JoinKey(host, path, query, variant)
	return k
}

// Reachable returns an error wrapping [ErrUnreachable] if the request built from a key maps to another
// key: no visitor would ever get the rendered page.
func (m *Mapper) Reachable(ctx context.Context, k store.Key) error {
	r, err := m.Request(ctx, k)
	if err != nil {
		return err
	}
	got, bypass, err := m.Key(r)
	if learned := m.Learned(k); len(learned) > 0 && bypass == "" && err == nil {
		host, path, query, _ := got.Split()
		got.Text = store.JoinKey(host, path, query, m.Variant(r.Header, learned...))
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case bypass == BypassQuery && len(m.rules.Query) == 0:
		return fmt.Errorf("%w: the key has a query parameter, and the route declares none", ErrUnreachable)
	case bypass == BypassQuery:
		return fmt.Errorf("%w: the key has a query parameter that the route does not declare; expected only %s", ErrUnreachable, strings.Join(m.rules.Query, ", "))
	case bypass != "":
		return fmt.Errorf("%w: requests for it bypass the cache (%s)", ErrUnreachable, bypass)
	case got != k:
		return fmt.Errorf("%w: requests for it map to %s", ErrUnreachable, got)
	}
	return nil
}

// An origin that prefers another spelling of a URL, or another scheme, redirects to it. The
// renderer always gets the canonical spelling and the public scheme, and visitors who follow such
// a redirect have the key that they came from. If it were stored, they would get it again, until
// it expires:
//
//	visitor  /a%2fb -> key /a%2Fb -> render /a%2Fb -> 301 Location: /a%2fb -> key /a%2Fb -> …
//
// So it is never stored and never shared: the visitor's own request goes to the origin, which does
// not redirect the spelling that it prefers.
//
// Such a redirect does not withdraw the stored page, whatever else its header says: it is about the
// spelling or the scheme of the request. It says that the page is at this key, unlike a redirect to a
// login. If a proxy loses X-Forwarded-Proto for an hour, every render of a site that demands https
// has such a redirect; its stored pages must outlast that. A page that is stale is not served while
// the refusal is remembered.

// SelfRedirect reports whether a response to the request of a key redirects to a URL that has the same
// key, and returns the Location.
func (m *Mapper) SelfRedirect(k store.Key, status int, h http.Header) (location string, ok bool) {
	if status < http.StatusMultipleChoices || status >= http.StatusBadRequest || status == http.StatusNotModified || len(h["Location"]) == 0 {
		return "", false
	}
	r, err := m.Request(context.Background(), k)
	if err != nil {
		return "", false // the key has been rendered, so that this does not happen
	}
	base := *r.URL
	base.Scheme, base.Host = "http", r.Host
	declared := r.Header.Get(forwardedProto)
	if declared == "https" {
		base.Scheme = declared
	}
	for _, location := range h["Location"] {
		if u, ok := canonical.Location(&base, location); ok && m.leadsTo(k, r.Header, u) {
			return location, true
		}
	}
	return "", false
}

// forwardedProto has the scheme of a visitor's request. A route may have it in its keys.
const forwardedProto = "X-Forwarded-Proto"

// leadsTo reports whether a visitor who follows a redirect to u gets the page of a key. header is the
// header of the renderer's request for the page. The visitor's next request states the scheme of u, or none
// if no proxy that is trusted states one.
func (m *Mapper) leadsTo(k store.Key, header http.Header, u *url.URL) bool {
	host, ok := canonical.Host(u.Host)
	if !ok {
		return false
	}
	header = header.Clone()
	for _, stated := range [][]string{{u.Scheme}, nil} {
		header[forwardedProto] = stated
		to, bypass, err := m.KeyOf(k.Tenant, host, u, m.Variant(header, m.Learned(k)...))
		if err == nil && bypass == "" && to == k {
			return true
		}
	}
	return false
}

// Impersonal reports whether a request has no part that its render lacks and by which an origin
// may decide without saying so. These are: a cookie, except cookies that origins do not read, and
// cookies in the key; a query parameter that the route ignores, except parameters that only record
// where a visitor came from; a header that is not known to be harmless (see
// [wellknown.Ordinary]), such as a key of an API; and a preference for another type than a
// page's.
func (m *Mapper) Impersonal(r *http.Request) bool {
	if !acceptsPages(r.Header["Accept"]) && !m.Covers("Accept") {
		return false
	}
	for name, values := range r.Header {
		switch {
		case name == "Cookie":
			if !m.hasOnlyKnownCookies(values) {
				return false
			}
		case m.Covers(name), wellknown.Ordinary(name), name == m.rules.ReceiptHeader:
		case !m.Forwards(name) || m.Forwarded(r)[name] == nil:
			return false
		}
	}
	ignored := false
	_, parsed := canonical.Query(r.URL.RawQuery, func(parameter string) canonical.ParameterUse {
		use := m.use(parameter)
		ignored = ignored || use == canonical.Dropped && wellknown.Parameter(parameter) == ""
		return use
	})
	return parsed && !ignored
}

// hasOnlyKnownCookies reports whether origins read no cookie of a request, except cookies in the key.
// IgnoreCookies does not count: it declares what a page does not depend on, and the response may be no
// page.
func (m *Mapper) hasOnlyKnownCookies(lines []string) bool {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if name != "" && wellknown.Cookie(name) == "" && !m.isCookieClass(name) {
				return false
			}
		}
	}
	return true
}

// acceptsPages reports whether a request is content with what a render gets, which accepts any
// type: it prefers none that only programs ask for, such as JSON.
func acceptsPages(lines []string) bool {
	any := len(lines) == 0
	for _, line := range lines {
		for member := range httpcache.Members(line) {
			media, _, _ := strings.Cut(member, ";")
			media = strings.ToLower(strings.TrimSpace(media))
			kind, _, _ := strings.Cut(media, "/")
			switch media {
			case "*/*", "text/html":
				any = true
			case "text/plain", "text/css", "text/*", "application/xhtml+xml", "application/xml", "application/signed-exchange":
			default:
				if kind != "image" && kind != "video" && kind != "audio" && kind != "font" {
					return false
				}
			}
		}
	}
	return any
}
