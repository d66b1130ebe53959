package cachekey

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/wellknown"
	"github.com/facetheory/isr/store"
)

// A Part is a part of a request, as the rules see it.
type Part struct {
	Kind  string // "method", "host", "path", "query", "header", "cookie" or "body"
	Name  string // of a parameter, header or cookie; empty for the others
	Use   Use
	Value string // what the key has of it; empty unless Use is InKey
	Why   string // a sentence without a full stop
}

// A Use is what becomes of a part of a request.
type Use string

// The uses. isr.PartUse documents them.
const (
	InKey     Use = "key"
	Ignored   Use = "ignored"
	Forwarded Use = "forwarded"
	Obeyed    Use = "obeyed"
	Bypass    Use = "bypass"
	Refused   Use = "refused"
)

// maxParts bounds the parameters, and the headers and cookies, that are explained.
const maxParts = 100

// Parts explains the parts of a request, by the predicates that Key uses.
func (m *Mapper) Parts(r *http.Request) []Part {
	method := Part{Kind: "method", Name: r.Method, Use: Ignored, Why: "GET and HEAD requests share a page"}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		method.Use, method.Why = Bypass, "only GET and HEAD requests are answered from the cache"
	}
	host := Part{Kind: "host", Use: InKey, Why: "each host has its own pages"}
	var ok bool
	switch host.Value, ok = canonical.Host(r.Host); {
	case r.Host == "":
		host.Use, host.Why = Bypass, "the request has no host"
	case !ok:
		host.Use, host.Why = Refused, "it is not a host name"
	}
	path := Part{Kind: "path", Use: InKey, Why: "in canonical form"}
	if path.Value, ok = canonical.Path(r.URL.EscapedPath()); !ok {
		path.Use, path.Value, path.Why = Refused, "", "it does not begin with '/' or is badly encoded"
	}
	parts := append([]Part{method, host, path}, m.queryParts(r.URL.RawQuery)...)
	parts = append(parts, m.headerParts(r)...)
	if r.ContentLength != 0 {
		parts = append(parts, Part{Kind: "body", Use: Bypass, Why: "the response may depend on the body of the request"})
	}
	return parts
}

// queryParts explains the parameters of a request.
func (m *Mapper) queryParts(query string) (parts []Part) {
	values, err := url.ParseQuery(query)
	if err != nil {
		parts = append(parts, Part{Kind: "query", Use: Bypass, Why: "the query is badly encoded"})
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		part := Part{Kind: "query", Name: shown(name)}
		switch m.use(name) {
		case canonical.InKey:
			part.Use, part.Value, part.Why = InKey, shown(strings.Join(values[name], ", ")), "query of the route names it"
		case canonical.Dropped:
			part.Use, part.Why = Ignored, "ignore_query of the route names it"
			if why := wellknown.Parameter(name); why != "" {
				part.Why = why
			}
		default:
			part.Use, part.Why = Bypass, "neither query nor ignore_query of the route names it, so that the page may depend on it"
		}
		if parts = append(parts, part); len(parts) == maxParts {
			break
		}
	}
	return parts
}

// headerParts explains the headers and cookies of a request.
func (m *Mapper) headerParts(r *http.Request) (parts []Part) {
	names := slices.Collect(maps.Keys(r.Header))
	for i := range m.classes { // a header that the request lacks has its default in the key
		if c := &m.classes[i]; c.header != "" && c.values[0] != "" && r.Header[c.header] == nil {
			names = append(names, c.header)
		}
	}
	if m.rules.TenantHeader != "" && r.Header[m.rules.TenantHeader] == nil {
		names = append(names, m.rules.TenantHeader)
	}
	slices.Sort(names)
	dropped := m.droppedByConnection(r.Header)
	for _, name := range names {
		if name == "Cookie" {
			continue
		}
		part := m.headerPart(name, r.Header)
		if name == "Connection" && dropped != "" {
			part.Use, part.Why = Refused, "it names "+dropped+", which must not be removed"
		}
		if parts = append(parts, part); len(parts) == maxParts {
			break
		}
	}
	return append(parts, m.cookieParts(r.Header["Cookie"])...)
}

// headerPart explains a header other than Cookie.
func (m *Mapper) headerPart(name string, h http.Header) Part {
	part := Part{Kind: "header", Name: shown(name), Use: Ignored, Why: "no key has it, and no render carries it"}
	set := func(use Use, value, why string) { part.Use, part.Value, part.Why = use, shown(value), why }
	switch class := m.classOf(name); {
	case name == m.rules.TenantHeader:
		if len(h[name]) != 1 || store.ValidTenant(h[name][0]) != nil {
			set(Refused, "", "tenant_header of the route: it must name the tenant, once")
		} else {
			set(InKey, h[name][0], "tenant_header of the route: each tenant has its own pages")
		}
	case m.rules.TenantHeader == "" && slices.Contains(wellknown.TenantHeaders(), name):
		set(Bypass, "", "it names a tenant on common sites, and the route has no tenant_header")
	case name == "Authorization":
		set(Bypass, "", "the response may be for one visitor alone (RFC 9111, section 3.5)")
	case name == "Upgrade" && isWebSocket(h):
		set(Bypass, "", "a WebSocket is a connection, not a page")
	case class != nil && class.excludes(h):
		set(Bypass, "", "headers of the route names other values of it, so that the page may depend on this one")
	case class != nil && class.pair(h) == "":
		set(Ignored, "", "headers of the route makes it the same as no such header")
	case class != nil:
		set(InKey, class.values[class.class(h)], "headers of the route reduces it to one of "+strings.TrimPrefix(strings.Join(class.values, ", "), ", "))
	case slices.Contains(m.vary, name):
		set(InKey, httpcache.Normalize(name, h[name]), "headers of the route names it")
	case slices.Contains(m.forward, name):
		set(Forwarded, "", "forward of the route names it")
	case name == m.rules.ReceiptHeader:
		set(Obeyed, "", "no page older than this receipt of a purge is served")
	case (name == "Cache-Control" || name == "Pragma") && m.rules.ObeyRequests:
		set(Obeyed, "", "the route obeys the directives of requests (RFC 9111, section 5.2.1)")
	case name == "Cache-Control" && mayAskOnlyIfCached(h[name]):
		set(Obeyed, "", "only-if-cached is obeyed (RFC 9111, section 5.2.1.7)")
	case name == "Cache-Control" || name == "Pragma":
		set(Ignored, "", "the route ignores the directives of requests, which would let any visitor make the origin work")
	case name == "Accept-Encoding":
		set(Obeyed, "", "isr makes the content codings of a page itself")
	case name == "Range" || strings.HasPrefix(name, "If-"):
		set(Obeyed, "", "it is answered from the stored page")
	case m.learns(name):
		set(Ignored, "", "with vary: auto it becomes part of the key of pages whose Vary names it")
	}
	return part
}

// cookieParts explains the cookies of a request.
func (m *Mapper) cookieParts(lines []string) (parts []Part) {
	seen := make(map[string]bool)
	for i := range m.classes {
		if c := &m.classes[i]; c.cookie != "" {
			seen[c.cookie] = true
			class := c.values[max(slices.Index(c.values, cookieValue(lines, c.cookie)), 0)]
			parts = append(parts, Part{Kind: "cookie", Name: c.cookie, Use: InKey, Value: class, Why: "cookies of the route reduces it to one of " + strings.Join(c.values, ", ")})
		}
	}
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if name = strings.TrimSpace(name); name == "" || seen[name] {
				continue
			}
			seen[name] = true
			part := Part{Kind: "cookie", Name: shown(name), Use: Bypass, Why: "neither cookies nor ignore_cookies of the route names it, so that the page may depend on it"}
			switch {
			case matchesAny(m.counted, name):
				part.Why = "ignore_cookies of the route names it after '!', so that the page may depend on it"
			case matchesAny(m.ignored, name):
				part.Use, part.Why = Ignored, "ignore_cookies of the route names it"
			case m.ignoresCookie(name):
				part.Use, part.Why = Ignored, wellknown.Cookie(name)
			}
			if parts = append(parts, part); len(parts) == maxParts {
				return parts
			}
		}
	}
	return parts
}

// shown bounds a text of a request.
func shown(text string) string { return strings.ToValidUTF8(fmt.Sprintf("%.200s", text), "�") }
