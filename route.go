package isr

import (
	"errors"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/canonical"
)

// DefaultStale is how long a page may be served after its freshness window
// where a route does not say.
const DefaultStale = 24 * time.Hour

// DefaultJitter is the largest part by which freshness windows are shortened
// where a route does not say.
const DefaultJitter = 1.0 / 20

// A Route says which requests to a renderer share a cached page, and for how
// long. The zero Route caches what the renderer's own response explicitly allows,
// under a key of host and path.
type Route struct {
	// Name binds stored pages to their renderer, for [Cache.Regenerate]. It is
	// unique among the routes of a cache. An unnamed route can be served only.
	Name string

	// Revalidate is the freshness window of pages whose response says nothing of
	// caching. Zero: such pages are not cached. A response with s-maxage,
	// CDN-Cache-Control, or public with max-age, decides for itself.
	Revalidate time.Duration

	// Stale is how long a page may be served after its freshness window, while
	// (or because) it is regenerated: an upper bound to the response's own
	// stale-while-revalidate. Zero means [DefaultStale], a negative value none.
	Stale time.Duration

	// Policy says what visitors get while a page is not fresh. The zero value is
	// [ServeStale].
	Policy Policy

	// Budget bounds what the pages of this route, and of all others that are given
	// the same one, ask of their origin. Nil: there is no bound.
	Budget *budget.Budget

	// Client names the client that a request comes from, such as the network of its
	// address, so that one client cannot keep others from their turn at the origin (see
	// [budget.Config]). It is called for requests that wait for a page, and is safe for
	// concurrent use. The zero prefix is no client. Nil: clients are not told apart,
	// which is right where RemoteAddr is the address of a proxy.
	Client func(*http.Request) netip.Prefix

	// EarlyRefresh has pages that are asked for often regenerated a little before
	// they expire, at a random moment (XFetch), so that hardly anybody sees them
	// stale. It is the factor beta of the method, which scales how early: with 1,
	// which is a good value, that is a few times the duration of the last render.
	// At most 10; zero means never.
	EarlyRefresh float64

	// Jitter is the largest part of a freshness window by which it is shortened,
	// at random and by whole seconds, when a page is published: pages published
	// together do not expire together. At most 0.5; zero means [DefaultJitter],
	// which leaves windows below 20 seconds as they are, a negative value none.
	Jitter float64

	// History is how many generations of a page are kept, the current one counted,
	// to be looked at, compared and rolled back to: those from before it are
	// forgotten one by one as new ones come, and after Config.Retention. They are
	// as many different contents: a page that is regenerated and has not changed
	// takes the place of its version. Zero: none is kept, and there is nothing to
	// roll back to. At most 100; each costs a row, and its body.
	History int

	// StoreNegative has answers such as 404 and 410 of pages that are not stored
	// yet published to all processes, with a row and a body each, until a day after
	// their stale window. By default each process renders and keeps its own, in
	// memory alone, for the freshness window and at most five minutes: strangers
	// can ask for any number of URLs. Set it where missing pages are popular, slow
	// to render, and asked for at many servers. A page that is stored is replaced
	// by such an answer in either case.
	StoreNegative bool

	// Query names the query parameters that are part of the key. A request with
	// any other goes to the renderer unchanged and is not cached; only well-known
	// tracking parameters (utm_source, gclid, …) are dropped.
	Query []string

	// Vary names the request headers that are part of the key; no others reach
	// the renderer of a cacheable page. Accept-Encoding is always understood and
	// need not be named.
	Vary []string

	// IgnoreCookies names cookies that do not matter to the page, beside those of
	// well-known analytics: they neither make a request uncacheable nor reach the
	// renderer of a cacheable page. A name may end in '*'; "*" is every cookie.
	IgnoreCookies []string

	// TenantHeader names the request header that carries the tenant. With it, a
	// request without a valid tenant is refused. Empty: the site has no tenants.
	TenantHeader string
}

// Validate returns a *[ConfigError] for each invalid field, joined; nil if there is none.
func (rt Route) Validate() error {
	var errs []error
	if rt.Revalidate < 0 {
		errs = append(errs, configErrorf("Revalidate", "must not be negative (got %s)", rt.Revalidate))
	}
	if !rt.Policy.valid() {
		errs = append(errs, configErrorf("Policy", "must be ServeStale, Wait or Fail (got %d)", int(rt.Policy)))
	}
	if !(rt.EarlyRefresh >= 0 && rt.EarlyRefresh <= maxEarlyRefresh) { // as NaN is neither
		errs = append(errs, configErrorf("EarlyRefresh", "must be between 0 and %d (got %v)", maxEarlyRefresh, rt.EarlyRefresh))
	}
	if !(rt.Jitter <= maxJitter) {
		errs = append(errs, configErrorf("Jitter", "must be at most %v of the freshness window (got %v)", maxJitter, rt.Jitter))
	}
	if rt.History < 0 || rt.History > maxHistory {
		errs = append(errs, configErrorf("History", "must be between 0 and %d (got %d)", maxHistory, rt.History))
	}
	for _, name := range rt.Query {
		if name == "" {
			errs = append(errs, configErrorf("Query", "must not contain an empty name"))
		}
	}
	for _, name := range rt.Vary {
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Cookie", "Authorization":
			errs = append(errs, configErrorf("Vary", "must not contain %q: it identifies a visitor, whose pages are never shared", name))
		default:
			if !validHeaderName(name) {
				errs = append(errs, configErrorf("Vary", "must contain names of request headers (got %q)", name))
			}
		}
	}
	for _, name := range rt.IgnoreCookies {
		if name == "" {
			errs = append(errs, configErrorf("IgnoreCookies", "must not contain an empty name"))
		}
	}
	if rt.TenantHeader != "" && !validHeaderName(rt.TenantHeader) {
		errs = append(errs, configErrorf("TenantHeader", "must be the name of a request header (got %q)", rt.TenantHeader))
	}
	return errors.Join(errs...)
}

// maxHistory bounds [Route.History]: all versions of a page are read at once.
const maxHistory = 100

// maxJitter bounds [Route.Jitter].
const maxJitter = 0.5

// A projector is a Route made ready for use.
type projector struct {
	Route
	query   map[string]bool
	vary    []string // canonical header names, sorted, without Accept-Encoding and Host
	cookies []string // patterns of cookies that do not matter
	stale   time.Duration
	jitter  float64
}

func newProjector(rt Route) *projector {
	p := &projector{
		Route:   rt,
		query:   make(map[string]bool, len(rt.Query)),
		cookies: append(slices.Clone(analyticsCookies()), rt.IgnoreCookies...),
		stale:   rt.Stale,
		jitter:  max(rt.Jitter, 0),
	}
	if rt.Jitter == 0 {
		p.jitter = DefaultJitter
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
	switch {
	case rt.Stale == 0:
		p.stale = DefaultStale
	case rt.Stale < 0:
		p.stale = 0
	}
	return p
}

// ignoresAllCookies says that the operator declared every cookie irrelevant.
func (p *projector) ignoresAllCookies() bool {
	return slices.Contains(p.IgnoreCookies, "*")
}

func validHeaderName(name string) bool {
	if name == "" {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !canonical.IsAlphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return true
}

// analyticsCookies are set by scripts in the browser and read by no renderer.
func analyticsCookies() []string {
	return []string{
		"_ga", "_ga_*", "_gid", "_gat", "_gat_*", "_gcl_*", "_gac_*", "__utm*", "_dc_gtm_*", "FPID", "FPLC",
		"_fbp", "_fbc", "_pk_*", "_hj*", "_clck", "_clsk", "_uetsid", "_uetvid", "_scid", "_scid_r", "_ttp", "_tt_*",
		"_pin_unauth", "_rdt_uuid", "_li_ss", "_mkto_trk", "__hstc", "__hssc", "__hssrc", "hubspotutk", "ajs_*",
		"amplitude_*", "amp_*", "mp_*", "optimizely*", "_vwo_*", "__gads", "__gpi", "_cb", "_chartbeat2", "_parsely_*",
		"__qca", "_sp_id.*", "_sp_ses.*", "plausible_ignore", "_matomo_*",
	}
}

// isTracking says whether a query parameter only tells where a visitor came
// from, and is dropped from key and forwarded request alike.
func isTracking(name string) bool {
	if strings.HasPrefix(name, "utm_") || strings.HasPrefix(name, "mtm_") || strings.HasPrefix(name, "pk_") {
		return true
	}
	switch name {
	case "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "_gl", "_ga", "fbclid", "msclkid", "twclid", "ttclid",
		"li_fat_id", "igshid", "igsh", "yclid", "mc_cid", "mc_eid", "_hsenc", "_hsmi", "mkt_tok", "epik", "ScCid", "rdt_cid",
		"srsltid", "_openstat", "vero_id", "wickedid", "oly_anon_id", "oly_enc_id":
		return true
	}
	return false
}

// tenantHeaders are those that sites commonly read a tenant from. Where no
// tenant source is declared, a request with one of them is not cached: it might
// be answered for one tenant and served to another.
func tenantHeaders() []string {
	return []string{"X-Tenant", "X-Tenant-Id", "Tenant-Id", "X-Org-Id", "X-Organization-Id", "X-Account-Id"}
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
