package isr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// Why a request goes to the renderer unchanged, and its answer is not stored.
// They appear as the detail of Cache-Status.
const (
	bypassMethod        = "method"
	bypassHost          = "host"
	bypassAuthorization = "authorization"
	bypassUpgrade       = "upgrade"
	bypassBody          = "body"
	bypassCookie        = "cookie"
	bypassTenant        = "tenant"
	bypassQuery         = "query"
	bypassKeyLength     = "key-length"
)

// project finds the key of a request, or the reason for which it must bypass
// the cache; an error means that the request is to be refused.
//
// Key and forwarded request are one projection (see [Key] and render): what is
// not in the key never reaches the renderer of a cacheable page, and so cannot
// colour a page that others are served.
func (p *projector) project(r *http.Request) (k Key, bypass string, err error) {
	if r.Method == http.MethodConnect {
		return Key{}, "", errors.New("this is not a proxy to other hosts")
	}
	if name := p.droppedByConnection(r.Header); name != "" {
		return Key{}, "", fmt.Errorf("the field Connection names %s, which must reach the site", name)
	}
	if r.Host == "" {
		return Key{}, bypassHost, nil // HTTP/1.0 health checks
	}
	host, ok := CanonicalHost(r.Host)
	if !ok {
		return Key{}, "", fmt.Errorf("the Host %.100q is not a host name", r.Host)
	}
	tenant, bypass, err := p.tenant(r)
	if err != nil {
		return Key{}, "", err
	}
	if bypass == "" {
		bypass = p.mustBypass(r)
	}
	if bypass != "" {
		return Key{}, bypass, nil
	}
	path, ok := canonicalPath(r.URL.EscapedPath())
	if !ok {
		return Key{}, "", fmt.Errorf("the path %.100q does not begin with '/' or is badly encoded", r.URL.Path)
	}
	query, ok := canonicalQuery(r.URL.RawQuery, p.use)
	if !ok {
		return Key{}, bypassQuery, nil
	}
	text := joinKey(host, path, query, p.variant(r.Header))
	if len(text) > maxKeyLength {
		return Key{}, bypassKeyLength, nil
	}
	return Key{Tenant: tenant, Text: text}, "", nil
}

// droppedByConnection returns the name of a header that the route or the site
// depends on and that the field Connection names: a proxy would remove it (RFC
// 9110, section 7.6.1), and the site would see a request without its tenant, say.
func (p *projector) droppedByConnection(h http.Header) string {
	for _, line := range h["Connection"] {
		for member := range splitList(line) {
			if strings.EqualFold(member, "keep-alive") || strings.EqualFold(member, "close") || strings.EqualFold(member, "upgrade") {
				continue // nearly always; the rest allocates
			}
			name := textproto.CanonicalMIMEHeaderKey(member)
			switch {
			case name == "Authorization", name == "Cookie", name == "Host", name == "Content-Length",
				name == p.TenantHeader && name != "", slices.Contains(p.vary, name), slices.Contains(tenantHeaders(), name):
				return name
			}
		}
	}
	return ""
}

// isWebSocket says whether a request asks for the one upgrade that is passed on.
// Others are not answered with one: a server may ignore them (RFC 9110, section
// 7.8), and h2c, say, would be a tunnel past everything that is stripped here.
func isWebSocket(h http.Header) bool {
	upgrade := h["Upgrade"]
	return len(upgrade) == 1 && strings.EqualFold(upgrade[0], "websocket")
}

func (p *projector) tenant(r *http.Request) (tenant, bypass string, err error) {
	if p.TenantHeader == "" {
		for _, name := range tenantHeaders() {
			if _, present := r.Header[name]; present {
				return "", bypassTenant, nil
			}
		}
		return "", "", nil
	}
	values := r.Header[p.TenantHeader]
	if len(values) != 1 {
		return "", "", fmt.Errorf("the request must name its tenant once, in the header %s; it did so %d times", p.TenantHeader, len(values))
	}
	if err := ValidTenant(values[0]); err != nil {
		return "", "", fmt.Errorf("header %s: %w", p.TenantHeader, err)
	}
	return values[0], "", nil
}

func (p *projector) mustBypass(r *http.Request) string {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return bypassMethod
	case len(r.Header["Authorization"]) > 0:
		return bypassAuthorization
	case isWebSocket(r.Header):
		return bypassUpgrade
	case r.ContentLength != 0:
		return bypassBody
	case !p.cookiesMatterNot(r.Header["Cookie"]):
		return bypassCookie
	}
	return ""
}

func (p *projector) cookiesMatterNot(lines []string) bool {
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if name != "" && !matchesAny(p.cookies, name) {
				return false
			}
		}
	}
	return true
}

func (p *projector) use(parameter string) parameterUse {
	switch {
	case p.query[parameter]:
		return parameterInKey
	case isTracking(parameter):
		return parameterDropped
	}
	return parameterUnknown
}

// variant is the declared headers that the request carries, as name=value
// pairs in the encoding of a query.
func (p *projector) variant(h http.Header) string {
	var b strings.Builder
	for _, name := range p.vary {
		value := strings.Join(h[name], ", ")
		if value == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('&')
		}
		b.WriteString(escapeQuery(strings.ToLower(name)))
		b.WriteByte('=')
		b.WriteString(escapeQuery(value))
	}
	return b.String()
}

// request is the other half of the projection: the request that the renderer
// sees, made of the key alone. An error wraps ErrInvalidKey: the key was made
// for a route that declares other headers, or another tenant source.
func (p *projector) request(ctx context.Context, k Key) (*http.Request, error) {
	host, path, query, variant := k.split()
	target := path
	if query != "" {
		target += "?" + query
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalidKey, k, err)
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
		// No RemoteAddr: a render belongs to no visitor, and a handler that asks for
		// its address (an access list, a proxy's X-Forwarded-For) must not be told
		// one that it may trust, such as a loopback address.
		Header: http.Header{
			"Accept":          {"*/*"},
			"Accept-Encoding": {"identity"}, // codings are made here, from one body
			"User-Agent":      {"isr"},
		},
	}).WithContext(ctx)
	fields, err := url.ParseQuery(variant)
	if err != nil {
		return nil, fmt.Errorf("%w: the variant of %s: %w", ErrInvalidKey, k, err)
	}
	for name, values := range fields {
		name = textproto.CanonicalMIMEHeaderKey(name)
		if !slices.Contains(p.vary, name) {
			return nil, fmt.Errorf("%w: %s varies on the header %q, which the route does not declare", ErrInvalidKey, k, name)
		}
		r.Header[name] = values
	}
	if (k.Tenant != "") != (p.TenantHeader != "") {
		return nil, fmt.Errorf("%w: %s and the route disagree on whether the site has tenants", ErrInvalidKey, k)
	}
	if k.Tenant != "" {
		r.Header[p.TenantHeader] = []string{k.Tenant}
	}
	return r, nil
}
