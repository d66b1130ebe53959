package cachekey

import (
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"unsafe"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/wellknown"
	"github.com/facetheory/isr/store"
)

// Reasons for which a request bypasses the cache, as the detail of Cache-Status.
const (
	BypassOff           = "off"
	BypassMethod        = "method"
	BypassHost          = "host"
	BypassAuthorization = "authorization"
	BypassUpgrade       = "upgrade"
	BypassBody          = "body"
	BypassCookie        = "cookie"
	BypassTenant        = "tenant"
	BypassHeader        = "header"
	BypassQuery         = "query"
	BypassKeyLength     = "key-length"
)

// Key returns the key of a request, or the reason for which the request must bypass the cache. If the
// request is refused, Key returns an error.
func (m *Mapper) Key(r *http.Request) (k store.Key, bypass string, err error) {
	return m.KeyInto(nil, r)
}

// KeyInto is Key with a buffer for the text of the key; nil allocates the text. The key aliases the
// buffer, and is valid until the buffer is reused.
func (m *Mapper) KeyInto(text *[]byte, r *http.Request) (k store.Key, bypass string, err error) {
	if r.Method == http.MethodConnect {
		return store.Key{}, "", errors.New("this is not a proxy to other hosts")
	}
	if name := m.droppedByConnection(r.Header); name != "" {
		return store.Key{}, "", fmt.Errorf("the field Connection names %s, which must not be removed", name)
	}
	if r.Host == "" {
		return store.Key{}, BypassHost, nil // HTTP/1.0 health checks
	}
	host, ok := canonical.Host(r.Host)
	if !ok {
		return store.Key{}, "", fmt.Errorf("the Host %.100q is not a host name", r.Host)
	}
	tenant, bypass, err := m.Tenant(r.Header)
	if err != nil {
		return store.Key{}, "", err
	}
	if bypass == "" {
		bypass = m.mustBypass(r)
	}
	if bypass != "" {
		return store.Key{}, bypass, nil
	}
	return m.keyInto(text, tenant, host, r.URL, m.Variant(r.Header))
}

// KeyOf returns the key of a URI with a variant, or the reason for which a request for it bypasses the
// cache. host is canonical.
func (m *Mapper) KeyOf(tenant, host string, u *url.URL, variant string) (k store.Key, bypass string, err error) {
	return m.keyInto(nil, tenant, host, u, variant)
}

func (m *Mapper) keyInto(text *[]byte, tenant, host string, u *url.URL, variant string) (k store.Key, bypass string, err error) {
	path, ok := canonical.Path(u.EscapedPath())
	if !ok {
		return store.Key{}, "", fmt.Errorf("the path %.100q does not begin with '/' or is badly encoded", u.Path)
	}
	query, ok := canonical.Query(u.RawQuery, m.use)
	if !ok {
		return store.Key{}, BypassQuery, nil
	}
	if text == nil {
		k.Text = store.JoinKey(host, path, query, variant)
	} else {
		*text = store.AppendKey((*text)[:0], host, path, query, variant)
		k.Text = unsafe.String(unsafe.SliceData(*text), len(*text))
	}
	if len(k.Text) > store.MaxKeyLength {
		return store.Key{}, BypassKeyLength, nil
	}
	k.Tenant = tenant
	return k, "", nil
}

// Tenant returns the tenant of a request, empty if the site has no tenants, or the reason for which the
// request bypasses the cache. If the request does not name exactly one tenant of a site that has
// tenants, Tenant returns an error.
func (m *Mapper) Tenant(h http.Header) (tenant, bypass string, err error) {
	if m.rules.TenantHeader == "" {
		for _, name := range wellknown.TenantHeaders() {
			if _, present := h[name]; present {
				return "", BypassTenant, nil
			}
		}
		return "", "", nil
	}
	values := h[m.rules.TenantHeader]
	if len(values) != 1 {
		return "", "", fmt.Errorf("the header %s must name the tenant exactly once (found %d times)", m.rules.TenantHeader, len(values))
	}
	if err := store.ValidTenant(values[0]); err != nil {
		return "", "", fmt.Errorf("header %s: %w", m.rules.TenantHeader, err)
	}
	return values[0], "", nil
}

// droppedByConnection returns the name of a header that the route or the site depends on
// and that the field Connection names: a proxy would remove it (RFC 9110, section 7.6.1),
// and the site would get a request without its tenant, for example.
func (m *Mapper) droppedByConnection(h http.Header) string {
	for _, line := range h["Connection"] {
		for member := range httpcache.Members(line) {
			if strings.EqualFold(member, "keep-alive") || strings.EqualFold(member, "close") || strings.EqualFold(member, "upgrade") {
				continue // the common case; the rest allocates
			}
			name := textproto.CanonicalMIMEHeaderKey(member)
			switch {
			case name == "Authorization", name == "Cookie", name == "Host", name == "Content-Length",
				name == m.rules.TenantHeader && name != "", slices.Contains(m.vary, name), m.classOf(name) != nil, slices.Contains(wellknown.TenantHeaders(), name):
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

// mustBypass returns the reason for which a request bypasses the cache; empty if it does not.
func (m *Mapper) mustBypass(r *http.Request) string {
	switch {
	case m.rules.Off:
		return BypassOff
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return BypassMethod
	case len(r.Header["Authorization"]) > 0:
		return BypassAuthorization
	case isWebSocket(r.Header):
		return BypassUpgrade
	case r.ContentLength != 0:
		return BypassBody
	case !m.ignoresCookies(r.Header["Cookie"]):
		return BypassCookie
	case m.excludesClass(r.Header):
		return BypassHeader
	}
	return ""
}

// use returns what becomes of a query parameter.
func (m *Mapper) use(parameter string) canonical.ParameterUse {
	switch {
	case m.query[parameter]:
		return canonical.InKey
	case wellknown.Parameter(parameter) != "", matchesAny(m.rules.IgnoreQuery, parameter):
		return canonical.Dropped
	}
	return canonical.Unknown
}

// Variant returns the variant of a request: name=value pairs in the encoding of a query, of its declared
// and learned headers, normalized, and then of its classes.
func (m *Mapper) Variant(h http.Header, learned ...string) string {
	if len(m.vary) == 0 && len(m.classes) == 1 && len(learned) == 0 {
		return m.classes[0].pair(h) // the common case, without an allocation
	}
	var b strings.Builder
	names := m.vary
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
	for i := range m.classes {
		pair := m.classes[i].pair(h)
		if b.Len() > 0 && pair != "" {
			b.WriteByte('&')
		}
		b.WriteString(pair)
	}
	return b.String()
}
