package isr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/wellknown"
	"github.com/facetheory/isr/store"
)

// Reasons for which a request bypasses the cache, as the detail of Cache-Status.
const (
	bypassOff           = "off"
	bypassMethod        = "method"
	bypassHost          = "host"
	bypassAuthorization = "authorization"
	bypassUpgrade       = "upgrade"
	bypassBody          = "body"
	bypassCookie        = "cookie"
	bypassTenant        = "tenant"
	bypassHeader        = "header"
	bypassQuery         = "query"
	bypassKeyLength     = "key-length"
)

// A projector maps requests to keys, and keys to requests, by the rules of a Route.
type projector struct {
	Route
	query   map[string]bool
	vary    []string   // canonical header names, sorted, without Accept-Encoding and Host
	classes []keyClass // sorted by the names that they have in keys
	forward []string   // canonical header names
	cookies []string   // patterns of cookies that are ignored, beside those of package wellknown
	counted []string   // patterns of cookies that are not ignored, whatever else says so
	rules   httpcache.Rules
	maxTags int
	jitter  float64
	present *presentation
}

func newProjector(rt Route) *projector {
	p := &projector{
		Route:   rt,
		query:   make(map[string]bool, len(rt.Query)),
		jitter:  max(rt.Jitter, 0),
		classes: newKeyClasses(rt.KeyClasses),
		present: newPresentation(rt),
		maxTags: DefaultMaxTags,
	}
	p.present.selects = p.selects
	for _, name := range rt.IgnoreCookies {
		if counted, ok := strings.CutPrefix(name, "!"); ok {
			p.counted = append(p.counted, counted)
		} else {
			p.cookies = append(p.cookies, name)
		}
	}
	for _, name := range rt.Forward {
		p.forward = append(p.forward, textproto.CanonicalMIMEHeaderKey(name))
	}
	if rt.Jitter == 0 {
		p.jitter = DefaultJitter
	}
	if rt.Auto.enabled() {
		p.Revalidate = rt.Auto.Min
	}
	p.TenantHeader = textproto.CanonicalMIMEHeaderKey(rt.TenantHeader)
	for _, name := range rt.Query {
		p.query[name] = true
	}
	for _, name := range rt.Vary {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if name != "Accept-Encoding" && name != "Host" && name != p.TenantHeader {
			p.vary = append(p.vary, name)
		}
	}
	slices.Sort(p.vary)
	p.vary = slices.Compact(p.vary)
	p.rules = httpcache.Rules{
		Revalidate: p.Revalidate, Strict: rt.OptIn == OptInStrict, Statuses: rt.Statuses, Negative: rt.Negative,
		Stale: rt.Stale, StaleIfError: cmp.Or(rt.StaleIfError, min(rt.Stale, 0)), MaxHeader: DefaultMaxHeader,
	}
	return p
}

// project returns the key of a request, or the reason for which it must bypass the cache.
// An error means that the request is refused.
//
// The renderer's request is built from the key alone (see request): no other part of a
// visitor's request can affect a page that others are served.
func (p *projector) project(r *http.Request) (k store.Key, bypass string, err error) {
	return p.projectInto(nil, r)
}

// projectInto is project with a buffer that the text of the key is made in, unless it is nil. The
// key is valid until the buffer is used again.
func (p *projector) projectInto(text *[]byte, r *http.Request) (k store.Key, bypass string, err error) {
	if r.Method == http.MethodConnect {
		return store.Key{}, "", errors.New("this is not a proxy to other hosts")
	}
	if name := p.droppedByConnection(r.Header); name != "" {
		return store.Key{}, "", fmt.Errorf("the field Connection names %s, which must not be removed", name)
	}
	if r.Host == "" {
		return store.Key{}, bypassHost, nil // HTTP/1.0 health checks
	}
	host, ok := canonical.Host(r.Host)
	if !ok {
		return store.Key{}, "", fmt.Errorf("the Host %.100q is not a host name", r.Host)
	}
	tenant, bypass, err := p.tenant(r.Header)
	if err != nil {
		return store.Key{}, "", err
	}
	if bypass == "" {
		bypass = p.mustBypass(r)
	}
	if bypass != "" {
		return store.Key{}, bypass, nil
	}
	return p.keyInto(text, tenant, host, r.URL, p.variant(r.Header))
}

// keyOf returns the key of a URI, as project does for a request. host is canonical.
func (p *projector) keyOf(tenant, host string, u *url.URL, variant string) (k store.Key, bypass string, err error) {
	return p.keyInto(nil, tenant, host, u, variant)
}

func (p *projector) keyInto(text *[]byte, tenant, host string, u *url.URL, variant string) (k store.Key, bypass string, err error) {
	path, ok := canonical.Path(u.EscapedPath())
	if !ok {
		return store.Key{}, "", fmt.Errorf("the path %.100q does not begin with '/' or is badly encoded", u.Path)
	}
	query, ok := canonical.Query(u.RawQuery, p.use)
	if !ok {
		return store.Key{}, bypassQuery, nil
	}
	if text == nil {
		k.Text = store.JoinKey(host, path, query, variant)
	} else {
		*text = store.AppendKey((*text)[:0], host, path, query, variant)
		k.Text = unsafe.String(unsafe.SliceData(*text), len(*text))
	}
	if len(k.Text) > store.MaxKeyLength {
		return store.Key{}, bypassKeyLength, nil
	}
	k.Tenant = tenant
	return k, "", nil
}

// droppedByConnection returns the name of a header that the route or the site depends on
// and that the field Connection names: a proxy would remove it (RFC 9110, section 7.6.1),
// and the site would get a request without its tenant, for example.
func (p *projector) droppedByConnection(h http.Header) string {
	for _, line := range h["Connection"] {
		for member := range httpcache.Members(line) {
			if strings.EqualFold(member, "keep-alive") || strings.EqualFold(member, "close") || strings.EqualFold(member, "upgrade") {
				continue // the common case; the rest allocates
			}
			name := textproto.CanonicalMIMEHeaderKey(member)
			switch {
			case name == "Authorization", name == "Cookie", name == "Host", name == "Content-Length",
				name == p.TenantHeader && name != "", slices.Contains(p.vary, name), p.classOf(name) != nil, slices.Contains(wellknown.TenantHeaders(), name):
				return name
			}
		}
	}
	return ""
}

// isWebSocket reports whether a request asks for an upgrade to WebSocket, the only one
// that is passed on. A server may ignore others (RFC 9110, section 7.8), and h2c would be
// a tunnel around everything that is removed here.
func isWebSocket(h http.Header) bool {
	upgrade := h["Upgrade"]
	return len(upgrade) == 1 && strings.EqualFold(upgrade[0], "websocket")
}

func (p *projector) tenant(h http.Header) (tenant, bypass string, err error) {
	if p.TenantHeader == "" {
		for _, name := range wellknown.TenantHeaders() {
			if _, present := h[name]; present {
				return "", bypassTenant, nil
			}
		}
		return "", "", nil
	}
	values := h[p.TenantHeader]
	if len(values) != 1 {
		return "", "", fmt.Errorf("the header %s must name the tenant exactly once (found %d times)", p.TenantHeader, len(values))
	}
	if err := store.ValidTenant(values[0]); err != nil {
		return "", "", fmt.Errorf("header %s: %w", p.TenantHeader, err)
	}
	return values[0], "", nil
}

// judge decides by the header whether a response of the page k may be stored and shared. tags are
// those of the route, and requested is when the response was requested.
func (p *projector) judge(k store.Key, status int, h http.Header, maxBody int64, tags []string, requested time.Time) httpcache.Verdict {
	if location, ok := p.redirectsToItself(k, status, h); ok {
		return httpcache.Verdict{Refused: httpcache.RefusedSelfRedirect, Cause: fmt.Errorf("%w: Location: %.200s", errSelfRedirect, location)}
	}
	rules := p.rules
	rules.MaxBody, rules.InKey, rules.Requested = maxBody, p.covered(h), requested
	return p.withTags(rules.Judge(status, h), h, tags)
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

// errSelfRedirect: a redirect leads to the page that it answers for.
var errSelfRedirect = errors.New("the origin redirects to another spelling of the URL that has the same cache key, or to another scheme (see public_scheme)")

// redirectsToItself reports whether a response to the request of a key redirects to a URL that has
// this key, and returns that Location.
func (p *projector) redirectsToItself(k store.Key, status int, h http.Header) (location string, ok bool) {
	if status < http.StatusMultipleChoices || status >= http.StatusBadRequest || status == http.StatusNotModified || len(h["Location"]) == 0 {
		return "", false
	}
	r, err := p.request(context.Background(), k)
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
		if u, ok := canonical.Location(&base, location); ok && p.leadsTo(k, r.Header, u) {
			return location, true
		}
	}
	return "", false
}

// forwardedProto has the scheme of a visitor's request. A route may have it in its keys.
const forwardedProto = "X-Forwarded-Proto"

// leadsTo reports whether a visitor who follows a redirect to u gets the page of a key. header is
// that of the renderer's request for it. The visitor's next request states the scheme of u, or none
// if no proxy that is trusted states one.
func (p *projector) leadsTo(k store.Key, header http.Header, u *url.URL) bool {
	host, ok := canonical.Host(u.Host)
	if !ok {
		return false
	}
	header = header.Clone()
	for _, stated := range [][]string{{u.Scheme}, nil} {
		header[forwardedProto] = stated
		to, bypass, err := p.keyOf(k.Tenant, host, u, p.variant(header, p.learnedIn(k)...))
		if err == nil && bypass == "" && to == k {
			return true
		}
	}
	return false
}

// errManyTags: a page has more tags than it may have.
var errManyTags = errors.New("too many tags")

// withTags adds the tags of the route and of the response to the verdict on a response
// that may be stored. A response with invalid or too many tags is refused: without one of
// its tags, a purge would miss the page.
func (p *projector) withTags(v httpcache.Verdict, h http.Header, ofRoute []string) httpcache.Verdict {
	if (v.Refused == httpcache.RefusedTooLarge || v.Refused == httpcache.RefusedHeader) && p.validTagsOf(h) != nil {
		v = httpcache.Verdict{Withdraws: v.Withdraws} // the tags are the reason, and are named
	}
	if v.Refused != "" || v.Failed {
		return v
	}
	tags, err := httpcache.Tags(h)
	if err == nil && len(ofRoute) > 0 {
		tags = append(tags, ofRoute...)
		slices.Sort(tags)
		tags = slices.Compact(tags)
	}
	if err == nil {
		err = p.validTags(tags)
	}
	if err != nil {
		return httpcache.Verdict{Refused: httpcache.RefusedTags, Cause: err, Withdraws: v.Withdraws}
	}
	v.Tags = tags
	return v
}

// validTagsOf checks the tags of a response alone.
func (p *projector) validTagsOf(h http.Header) error {
	tags, err := httpcache.Tags(h)
	if err == nil {
		err = p.validTags(tags)
	}
	return err
}

// validTags checks the tags of a page. They are part of its rows, and each is looked up among the
// purge marks.
func (p *projector) validTags(tags []string) error {
	if len(tags) > p.maxTags {
		return fmt.Errorf("%w: the page has %d, at most %d are allowed (max_tags)", errManyTags, len(tags), p.maxTags)
	}
	var bytes int64
	for _, tag := range tags {
		if err := store.ValidTag(tag); err != nil {
			return err
		}
		bytes += int64(len(tag))
	}
	if bytes > p.rules.MaxHeader {
		return fmt.Errorf("%w: they have %d bytes in all, at most %d are allowed (max_header)", errManyTags, bytes, p.rules.MaxHeader)
	}
	return nil
}

// decidedByHeader reports whether the header of a response shows that a reason for a
// refusal no longer applies: no body and no tags of the route are needed for that.
func (p *projector) decidedByHeader(reason string) bool {
	switch reason {
	case httpcache.RefusedTooLarge, httpcache.RefusedEmpty:
		return false
	case httpcache.RefusedSelfRedirect: // the visitor's spelling is not that of a render
		return false
	case httpcache.RefusedTags:
		return p.Tags == nil
	}
	return true
}

// inKey reports whether the key covers a request header. If all cookies are ignored the
// renderer never sees one, so that a page that varies on Cookie does not vary; with classes
// of cookies, it sees only those, which are in the key.
func (p *projector) inKey(name string) bool {
	return name == p.TenantHeader || name == "Cookie" && (p.ignoresAllCookies() || p.hasCookieClass()) ||
		slices.Contains(p.vary, name) || p.classOf(name) != nil
}

func (p *projector) mustBypass(r *http.Request) string {
	switch {
	case p.Off:
		return bypassOff
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return bypassMethod
	case len(r.Header["Authorization"]) > 0:
		return bypassAuthorization
	case isWebSocket(r.Header):
		return bypassUpgrade
	case r.ContentLength != 0:
		return bypassBody
	case !p.ignoresCookies(r.Header["Cookie"]):
		return bypassCookie
	case p.excludesClass(r.Header):
		return bypassHeader
	}
	return ""
}

// ignoresAllCookies reports whether the route ignores every cookie.
func (p *projector) ignoresAllCookies() bool {
	return slices.Contains(p.IgnoreCookies, "*")
}

// ignoresCookies reports whether the route ignores all cookies of a request.
func (p *projector) ignoresCookies(lines []string) bool {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if name != "" && !p.ignoresCookie(name) && !p.isCookieClass(name) {
				return false
			}
		}
	}
	return true
}

// ignoresCookie reports whether pages do not depend on a cookie.
func (p *projector) ignoresCookie(name string) bool {
	return (wellknown.Cookie(name) != "" || matchesAny(p.cookies, name)) && !matchesAny(p.counted, name)
}

func (p *projector) use(parameter string) canonical.ParameterUse {
	switch {
	case p.query[parameter]:
		return canonical.InKey
	case wellknown.Parameter(parameter) != "", matchesAny(p.IgnoreQuery, parameter):
		return canonical.Dropped
	}
	return canonical.Unknown
}

// variant returns the declared headers of a request and those that were learned, normalised,
// and then its classes, as name=value pairs in the encoding of a query.
func (p *projector) variant(h http.Header, learned ...string) string {
	if len(p.vary) == 0 && len(p.classes) == 1 && len(learned) == 0 {
		return p.classes[0].pair(h) // the common case, without an allocation
	}
	var b strings.Builder
	names := p.vary
	if len(learned) > 0 {
		names = slices.Sorted(slices.Values(append(learned, names...)))
	}
	for _, name := range names {
		value := httpcache.Normalize(name, h[name])
		if value == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(canonical.EscapeQuery(strings.ToLower(name)))
		b.WriteByte('=')
		b.WriteString(canonical.EscapeQuery(value))
	}
	for i := range p.classes {
		pair := p.classes[i].pair(h)
		if b.Len() > 0 && pair != "" {
			b.WriteByte('&')
		}
		b.WriteString(pair)
	}
	return b.String()
}

// request builds the renderer's request from a key. An error wraps ErrInvalidKey: the key
// was made for a route that declares other headers, other classes or another tenant header.
func (p *projector) request(ctx context.Context, k store.Key) (*http.Request, error) {
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
	if err := p.putClasses(r.Header, fields); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", store.ErrInvalidKey, k, err)
	}
	for name, values := range fields {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if !slices.Contains(p.vary, name) && !p.learns(name) {
			return nil, fmt.Errorf("%w: %s varies on the header %q, which the route does not declare", store.ErrInvalidKey, k, name)
		}
		r.Header[name] = values
	}
	if (k.Tenant != "") != (p.TenantHeader != "") {
		return nil, fmt.Errorf("%w: %s and the route disagree on whether the site has tenants", store.ErrInvalidKey, k)
	}
	if k.Tenant != "" {
		r.Header[p.TenantHeader] = []string{k.Tenant}
	}
	return r, nil
}

// forwarded returns what a render that this request starts carries in addition to its key;
// nil for nothing.
func (p *projector) forwarded(r *http.Request) http.Header {
	var h http.Header
	for _, name := range p.forward {
		if values := r.Header[name]; len(values) == 1 && len(values[0]) <= maxForwardValue {
			if h == nil {
				h = make(http.Header, len(p.forward))
			}
			h[name] = []string{strings.Clone(values[0])} // see HitHandler
		}
	}
	return h
}

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
