package isr

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

// An Explanation is what a route makes of a request.
type Explanation struct {
	// Bypass is the reason for which the request bypasses the cache, as the detail of
	// Cache-Status: "method", "cookie", "query", … Empty: it does not.
	Bypass string
	// Key is the key of its page; zero for a request that bypasses the cache.
	Key store.Key
	// Render is the request that the renderer of the page gets, without the headers of
	// Forward; nil for a request that bypasses the cache.
	Render *http.Request
	// Parts are the parts of the request, and why each is in the key or not.
	Parts []Part
}

// A Part is a part of a request, as a route sees it.
type Part struct {
	// Kind is "method", "host", "path", "query", "header", "cookie" or "body".
	Kind string
	// Name is that of a parameter, header or cookie; empty for the others.
	Name string
	// Use is what the route does with it.
	Use PartUse
	// Value is what the key has of it; empty unless Use is [PartInKey].
	Value string
	// Why says why, in a sentence without a full stop.
	Why string
}

// A PartUse is what a route does with a part of a request.
type PartUse string

// The uses.
const (
	PartInKey     PartUse = "key"       // it is part of the key
	PartIgnored   PartUse = "ignored"   // pages do not depend on it
	PartForwarded PartUse = "forwarded" // it is not in the key, and the render that the request starts carries it
	PartObeyed    PartUse = "obeyed"    // it is not in the key, and decides how the request is answered
	PartBypass    PartUse = "bypass"    // because of it the request bypasses the cache
	PartRefused   PartUse = "refused"   // because of it the request is refused
)

// Explain returns what the route makes of a request as a server receives it. An error means
// that the route is not valid, or that such a request is refused.
func (rt Route) Explain(r *http.Request) (Explanation, error) {
	if err := rt.Validate(); err != nil {
		return Explanation{}, err
	}
	p := newProjector(rt)
	key, bypass, err := p.project(r)
	if err != nil {
		return Explanation{}, fmt.Errorf("the request is refused: %w", err)
	}
	parts := p.parts(r)
	if bypass != "" {
		return Explanation{Bypass: bypass, Parts: parts}, nil
	}
	render, err := p.request(r.Context(), key)
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{Key: key, Render: render, Parts: parts}, nil
}

// maxParts bounds the parameters, and the headers and cookies, that are explained.
const maxParts = 100

// parts explains the parts of a request, by the predicates that project uses.
func (p *projector) parts(r *http.Request) []Part {
	method := Part{Kind: "method", Name: r.Method, Use: PartIgnored, Why: "GET and HEAD requests share a page"}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		method.Use, method.Why = PartBypass, "only GET and HEAD requests are answered from the cache"
	}
	host := Part{Kind: "host", Use: PartInKey, Why: "each host has its own pages"}
	var ok bool
	switch host.Value, ok = canonical.Host(r.Host); {
	case r.Host == "":
		host.Use, host.Why = PartBypass, "the request has no host"
	case !ok:
		host.Use, host.Why = PartRefused, "it is not a host name"
	}
	path := Part{Kind: "path", Use: PartInKey, Why: "in canonical form"}
	if path.Value, ok = canonical.Path(r.URL.EscapedPath()); !ok {
		path.Use, path.Value, path.Why = PartRefused, "", "it does not begin with '/' or is badly encoded"
	}
	parts := append([]Part{method, host, path}, p.queryParts(r.URL.RawQuery)...)
	parts = append(parts, p.headerParts(r)...)
	if r.ContentLength != 0 {
		parts = append(parts, Part{Kind: "body", Use: PartBypass, Why: "the response may depend on the body of the request"})
	}
	return parts
}

func (p *projector) queryParts(query string) (parts []Part) {
	values, err := url.ParseQuery(query)
	if err != nil {
		parts = append(parts, Part{Kind: "query", Use: PartBypass, Why: "the query is badly encoded"})
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		part := Part{Kind: "query", Name: shown(name)}
		switch p.use(name) {
		case canonical.InKey:
			part.Use, part.Value, part.Why = PartInKey, shown(strings.Join(values[name], ", ")), "query of the route names it"
		case canonical.Dropped:
			part.Use, part.Why = PartIgnored, "ignore_query of the route names it"
			if why := wellknown.Parameter(name); why != "" {
				part.Why = why
			}
		default:
			part.Use, part.Why = PartBypass, "neither query nor ignore_query of the route names it, so that the page may depend on it"
		}
		if parts = append(parts, part); len(parts) == maxParts {
			break
		}
	}
	return parts
}

func (p *projector) headerParts(r *http.Request) (parts []Part) {
	names := slices.Collect(maps.Keys(r.Header))
	for i := range p.classes { // those that the request lacks have their default in the key
		if c := &p.classes[i]; c.header != "" && c.values[0] != "" && r.Header[c.header] == nil {
			names = append(names, c.header)
		}
	}
	if p.TenantHeader != "" && r.Header[p.TenantHeader] == nil {
		names = append(names, p.TenantHeader)
	}
	slices.Sort(names)
	dropped := p.droppedByConnection(r.Header)
	for _, name := range names {
		if name == "Cookie" {
			continue
		}
		part := p.headerPart(name, r.Header)
		if name == "Connection" && dropped != "" {
			part.Use, part.Why = PartRefused, "it names "+dropped+", which must not be removed"
		}
		if parts = append(parts, part); len(parts) == maxParts {
			break
		}
	}
	return append(parts, p.cookieParts(r.Header["Cookie"])...)
}

// headerPart explains a header other than Cookie.
func (p *projector) headerPart(name string, h http.Header) Part {
	part := Part{Kind: "header", Name: shown(name), Use: PartIgnored, Why: "no key has it, and no render carries it"}
	set := func(use PartUse, value, why string) { part.Use, part.Value, part.Why = use, shown(value), why }
	switch class := p.classOf(name); {
	case name == p.TenantHeader:
		if len(h[name]) != 1 || store.ValidTenant(h[name][0]) != nil {
			set(PartRefused, "", "tenant_header of the route: it must name the tenant, once")
		} else {
			set(PartInKey, h[name][0], "tenant_header of the route: each tenant has its own pages")
		}
	case p.TenantHeader == "" && slices.Contains(wellknown.TenantHeaders(), name):
		set(PartBypass, "", "it names a tenant on common sites, and the route has no tenant_header")
	case name == "Authorization":
		set(PartBypass, "", "the response may be for one visitor alone (RFC 9111, section 3.5)")
	case name == "Upgrade" && isWebSocket(h):
		set(PartBypass, "", "a WebSocket is a connection, not a page")
	case class != nil && class.excludes(h):
		set(PartBypass, "", "headers of the route names other values of it, so that the page may depend on this one")
	case class != nil && class.pair(h) == "":
		set(PartIgnored, "", "headers of the route makes it the same as no such header")
	case class != nil:
		set(PartInKey, class.values[class.class(h)], "headers of the route reduces it to one of "+strings.TrimPrefix(strings.Join(class.values, ", "), ", "))
	case slices.Contains(p.vary, name):
		set(PartInKey, httpcache.Normalize(name, h[name]), "headers of the route names it")
	case slices.Contains(p.forward, name):
		set(PartForwarded, "", "forward of the route names it")
	case name == minSeqHeader:
		set(PartObeyed, "", "no page older than this receipt of a purge is served")
	case (name == "Cache-Control" || name == "Pragma") && p.ObeyRequests:
		set(PartObeyed, "", "the route obeys the directives of requests (RFC 9111, section 5.2.1)")
	case name == "Cache-Control" && mayAskOnlyIfCached(h[name]):
		set(PartObeyed, "", "only-if-cached is obeyed (RFC 9111, section 5.2.1.7)")
	case name == "Cache-Control" || name == "Pragma":
		set(PartIgnored, "", "the route ignores the directives of requests, which would let any visitor make the origin work")
	case name == "Accept-Encoding":
		set(PartObeyed, "", "isr makes the content codings of a page itself")
	case name == "Range" || strings.HasPrefix(name, "If-"):
		set(PartObeyed, "", "it is answered from the stored page")
	case p.learns(name):
		set(PartIgnored, "", "with vary: auto it becomes part of the key of pages whose Vary names it")
	}
	return part
}

func (p *projector) cookieParts(lines []string) (parts []Part) {
	seen := make(map[string]bool)
	for i := range p.classes {
		if c := &p.classes[i]; c.cookie != "" {
			seen[c.cookie] = true
			class := c.values[max(slices.Index(c.values, cookieValue(lines, c.cookie)), 0)]
			parts = append(parts, Part{Kind: "cookie", Name: c.cookie, Use: PartInKey, Value: class, Why: "cookies of the route reduces it to one of " + strings.Join(c.values, ", ")})
		}
	}
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
			if name = strings.TrimSpace(name); name == "" || seen[name] {
				continue
			}
			seen[name] = true
			part := Part{Kind: "cookie", Name: shown(name), Use: PartBypass, Why: "neither cookies nor ignore_cookies of the route names it, so that the page may depend on it"}
			switch {
			case matchesAny(p.counted, name):
				part.Why = "ignore_cookies of the route names it after '!', so that the page may depend on it"
			case matchesAny(p.cookies, name):
				part.Use, part.Why = PartIgnored, "ignore_cookies of the route names it"
			case p.ignoresCookie(name):
				part.Use, part.Why = PartIgnored, wellknown.Cookie(name)
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
