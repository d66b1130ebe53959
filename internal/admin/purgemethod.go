package admin

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A PurgeMethodConfig configures the method PURGE on a public listener.
type PurgeMethodConfig struct {
	// Token admits requests that carry it as a bearer token. Nil: no token does.
	Token *Token
	// Admit reports whether a request is admitted without a token, by its client's
	// network. Nil: none is.
	Admit func(*http.Request) bool
	// TenantHeader returns the request header that names the tenant of the page at the URL
	// of a request (see isr.Route); empty for one without tenants. An error means that no
	// page can have the URL. Nil: there are no tenants.
	TenantHeader func(*http.Request) (string, error)
}

// Headers of PURGE requests that name tags instead of the page of the URL, as configurations
// of Varnish with vmod_xkey have them; the first is hard, the second soft.
const (
	xkeyPurge     = "Xkey-Purge"
	xkeySoftPurge = "Xkey-Softpurge"
)

// purgeKeys is the method by which FOSHttpCache purges tags (ProxyClient\Varnish with tag_mode purgekeys).
const purgeKeys = "PURGEKEYS"

// PurgeMethod returns a handler that executes requests with the method PURGE, and passes all
// others to next. It expects r.Host and r.RemoteAddr as gateway.Edge leaves them.
//
//	PURGE /news                              the page and its variants, never served again
//	PURGE /news   Fastly-Soft-Purge: 1       they are stale
//	PURGE /       Surrogate-Key: a b         all pages with one of the tags, by either rule
//	PURGE /       Xkey-Purge: a b            the same, hard; Xkey-Softpurge: soft
//	PURGEKEYS /   Xkey-Softpurge: a b        the same: the method of FOSHttpCache, which never names a page
//
// The tenant is the URL's, also for tags.
// Like Varnish's and Fastly's, a purge is hard unless a header asks for a soft one. The response is
// the answer of POST /-/purge; a request without the token gets 401. Bodies are not read.
func (a *API) PurgeMethod(cfg PurgeMethodConfig, next http.Handler) http.Handler {
	return &purgeMethod{a: a, cfg: cfg, next: next}
}

type purgeMethod struct {
	a    *API
	cfg  PurgeMethodConfig
	next http.Handler
	// refusedAt is when a wrong token was logged last, in Unix seconds.
	refusedAt atomic.Int64
}

func (m *purgeMethod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != "PURGE" && r.Method != purgeKeys {
		m.next.ServeHTTP(w, r)
		return
	}
	if err := m.serve(w, r); err != nil {
		m.a.refuse(w, err)
	}
}

// Lookup implements [isr.HitHandler].
func (m *purgeMethod) Lookup(r *http.Request, hit *isr.Hit) bool { return isr.LookupIn(m.next, r, hit) }

func (m *purgeMethod) serve(w http.ResponseWriter, r *http.Request) error {
	if err := foreign(r); err != nil {
		return err
	}
	v := m.identify(r)
	if !v.admitted {
		return v.refusal
	}
	op := operation{method: "PURGE", name: "purgeMethod", limit: lookTime}
	op.serve = func(x *exchange) error {
		in, err := m.input(x.r)
		if err != nil {
			return err
		}
		x.target = in.target()
		out, err := m.a.purge(x.r.Context(), in)
		if err != nil {
			return err
		}
		return reply(x.w, http.StatusOK, out)
	}
	return m.a.perform(w, r, op, v)
}

// identify decides whether a request may purge. Strangers can send wrong tokens at any rate:
// one a minute is logged.
func (m *purgeMethod) identify(r *http.Request) visitor {
	if m.cfg.Admit != nil && m.cfg.Admit(r) {
		return visitor{remote: r.RemoteAddr, role: RoleAdmin, via: "network", admitted: true}
	}
	v := visitor{remote: r.RemoteAddr, role: RoleAdmin, via: "token"}
	if m.cfg.Token == nil {
		v.refusal = &Error{
			Status: http.StatusForbidden, Code: "wrong_network", Message: "clients of this network may not purge",
			Hint: "admit the network: isr serve --purge-from CIDR",
		}
		return v
	}
	if r.Header.Get("Authorization") == "" {
		v.refusal = errNoToken()
		return v
	}
	if secret, ok := bearer(r); ok && m.cfg.Token.admits(secret) {
		v.admitted, v.token = true, m.cfg.Token.String()
		return v
	}
	v.refusal = errWrongToken()
	now := time.Now().Unix()
	if last := m.refusedAt.Load(); now-last >= 60 && m.refusedAt.CompareAndSwap(last, now) {
		m.a.log.Warn("PURGE request with wrong token; others are not logged for a minute", "remote", v.remote)
	}
	return v
}

// input returns the purge that a request describes.
func (m *purgeMethod) input(r *http.Request) (in Purge, err error) {
	tags := 0
	for header, mode := range map[string]PurgeMode{xkeyPurge: PurgeHard, xkeySoftPurge: PurgeSoft} {
		if lines := r.Header.Values(header); len(lines) > 0 {
			tags++
			in = Purge{Mode: mode, Targets: tagTargets(lines)}
		}
	}
	mode, err := headerMode(r.Header)
	if err != nil {
		return in, err
	}
	if lines := r.Header.Values(surrogateKey); len(lines) > 0 {
		tags++
		in = Purge{Mode: mode, Targets: tagTargets(lines)}
	}
	switch {
	case tags > 1:
		return in, invalid("the headers %s, %s and %s exclude each other", surrogateKey, xkeyPurge, xkeySoftPurge)
	case tags == 0 && r.Method == purgeKeys:
		return in, invalid("%s needs tags in the header %s, %s or %s", purgeKeys, xkeySoftPurge, xkeyPurge, surrogateKey)
	case tags == 0:
		in = Purge{Mode: mode, Targets: []PurgeTarget{{URL: r.Host + r.URL.RequestURI()}}}
	}
	in.Tenant, err = m.tenant(r)
	return in, err
}

// tenant returns the tenant that a request names.
func (m *purgeMethod) tenant(r *http.Request) (string, error) {
	if m.cfg.TenantHeader == nil {
		return "", nil
	}
	header, err := m.cfg.TenantHeader(r)
	switch {
	case err != nil:
		return "", invalid("%v", err)
	case header == "":
		return "", nil
	}
	values := r.Header.Values(header)
	if len(values) != 1 {
		return "", invalid("the header %s must name the tenant exactly once (found %d times)", header, len(values))
	}
	return values[0], store.ValidTenant(values[0])
}

// tagTargets returns the tags of header fields, which spaces separate.
func tagTargets(lines []string) []PurgeTarget {
	var targets []PurgeTarget
	for _, tag := range strings.Fields(strings.Join(lines, " ")) {
		targets = append(targets, PurgeTarget{Tag: tag})
	}
	return targets
}
