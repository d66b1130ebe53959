package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr"
)

// A Protection says which requests a site, or a route of it, accepts. It is checked before the cache: a request
// that is refused gets no page, and reaches no origin. Requests for drafts are checked, too. The zero value accepts all.
type Protection struct {
	// Allow are the networks whose clients are accepted; nil means all.
	Allow *Networks
	// Deny are the networks whose clients are refused, also if Allow has them. A client whose address is
	// not known is refused if there is one of the two.
	Deny Networks
	// Limits bound how often clients may make requests, at most 16. A bucket of an IPv6 /64 has buckets of wider networks beside it, so
	// that a client with many networks gains little: its /48 has 16 times as many tokens, and its /32 has 256 times as many. A bucket of a
	// header's value has the client's buckets beside it, 16 times as large, for values that a client invents.
	Limits []RateLimit
}

// A gate checks the requests of a site, or of a route.
type gate struct {
	Protection
	whose  string // "the site", or the route, for explanations
	limits []limiter
}

// newGate returns the gate of a protection; nil if it accepts all. b are the buckets of its limits.
func newGate(p Protection, whose string, b *buckets) *gate {
	if !p.hasNetworks() && len(p.Limits) == 0 {
		return nil
	}
	g := &gate{Protection: p, whose: whose}
	for _, l := range p.Limits {
		g.limits = append(g.limits, limiter{l, whose + " " + l.String(), b})
	}
	return g
}

func (p *Protection) hasNetworks() bool { return p.Allow != nil || len(p.Deny.prefixes) > 0 }

// unprotectedKey is the context key of requests that every gate accepts.
type unprotectedKey struct{}

// WithoutProtection returns the context of a request that the server makes itself, such as one that reads a sitemap, and
// that no [Protection] refuses.
func WithoutProtection(ctx context.Context) context.Context {
	return context.WithValue(ctx, unprotectedKey{}, true)
}

// A rejection is the response to a request that is not accepted.
type rejection struct {
	status int
	detail string // of Cache-Status
	text   string // for the client
	reason string // for the operator
	retry  time.Duration
	origin bool // by a limit of requests that reach the origin: hits are accepted
}

// enter returns the rejection of a request; nil if it is accepted, and has taken its tokens. A hit takes none of the limits that
// count requests to the origin. A nil gate accepts all.
func (g *gate) enter(r *http.Request, hit bool) *rejection {
	if no := g.refuses(r); no != nil || g == nil || r.Context().Value(unprotectedKey{}) != nil {
		return no
	}
	for i := range g.limits {
		l := &g.limits[i]
		if hit && l.OriginOnly {
			continue
		}
		if wait := l.take(r); wait > 0 {
			g.leave(r, g.limits[:i], func(l *limiter) bool { return !hit || !l.OriginOnly })
			return &rejection{
				status: http.StatusTooManyRequests, detail: "rate-limited", text: "Too many requests. Try again later.",
				reason: "more requests than rate_limits of " + g.whose + " allow: " + l.String(), retry: wait, origin: l.OriginOnly,
			}
		}
	}
	return nil
}

// leave gives the tokens of some limits back that enter has taken.
func (g *gate) leave(r *http.Request, limits []limiter, which func(*limiter) bool) {
	if g == nil || r.Context().Value(unprotectedKey{}) != nil {
		return
	}
	for i := range limits {
		if l := &limits[i]; which(l) {
			l.giveBack(r)
		}
	}
}

// refuses returns the rejection of a request by its client; nil if it is accepted. A nil gate accepts all.
func (g *gate) refuses(r *http.Request) *rejection {
	if g == nil || !g.hasNetworks() || r.Context().Value(unprotectedKey{}) != nil {
		return nil
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return g.denied("the address of the client is not known")
	}
	client := at.Addr().Unmap().WithZone("")
	if network, ok := g.Deny.Find(client); ok {
		return g.denied(fmt.Sprintf("%s is in %s, which deny of %s has", client, network, g.whose))
	}
	if g.Allow == nil {
		return nil
	}
	if _, ok := g.Allow.Find(client); !ok {
		return g.denied(fmt.Sprintf("%s is in no network that allow of %s has", client, g.whose))
	}
	return nil
}

func (g *gate) denied(reason string) *rejection {
	return &rejection{status: http.StatusForbidden, detail: "denied", text: "Requests from this address are not accepted here.", reason: reason}
}

// serve responds. Its route is label.
func (no *rejection) serve(w http.ResponseWriter, label string) {
	if report := isr.ReportOf(w); report != nil {
		report.Route, report.Detail, report.Refused = label, no.detail, true
	}
	w.Header().Set("Cache-Status", no.cacheStatus())
	if no.retry > 0 {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((no.retry+time.Second-1)/time.Second), 10))
	}
	isr.WriteErrorPage(w, no.status, no.text)
}

func (no *rejection) cacheStatus() string { return "isr; detail=" + no.detail }

// enter is the one of the gates of the site and of the route with an index, which is negative for none. A request that is not
// accepted has taken no token.
func (t *tree) enter(r *http.Request, index int, hit bool) *rejection {
	no := t.gate.enter(r, hit)
	if no != nil || index < 0 || t.gates[index] == nil {
		return no
	}
	if no = t.gates[index].enter(r, hit); no != nil && t.gate != nil {
		t.gate.leave(r, t.gate.limits, func(l *limiter) bool { return !hit || !l.OriginOnly })
	}
	return no
}

// leave gives tokens back that a request has taken from the gates of the site and of a route.
func (t *tree) leave(r *http.Request, index int, which func(*limiter) bool) {
	for _, g := range t.gatesOf(index) {
		if g != nil {
			g.leave(r, g.limits, which)
		}
	}
}

// gatesOf returns the gates of the site and of the route with an index, which is negative for none.
func (t *tree) gatesOf(index int) [2]*gate {
	if index < 0 {
		return [2]*gate{t.gate}
	}
	return [2]*gate{t.gate, t.gates[index]}
}

func ofOrigin(l *limiter) bool { return l.OriginOnly }

func ofAll(l *limiter) bool { return !l.OriginOnly }

// lookup finds the hit of a request that is accepted.
func (t *tree) lookup(r *http.Request, index int, hit *isr.Hit) bool {
	if t.enter(r, index, true) != nil {
		return false
	}
	if isr.LookupIn(t.handlers[index], r, hit) {
		return true
	}
	t.leave(r, index, ofAll) // ServeHTTP takes them
	return false
}

// countsOrigin reports whether a limit counts the requests of a route that reach the origin.
func (t *tree) countsOrigin(index int) bool {
	for _, g := range t.gatesOf(index) {
		if g != nil && slices.ContainsFunc(g.limits, func(l limiter) bool { return l.OriginOnly }) {
			return true
		}
	}
	return false
}

// admit serves a request that is accepted by a handler, or the rejection. draft: the handler asks the origin in any case.
func (t *tree) admit(w http.ResponseWriter, r *http.Request, index int, draft bool, next http.Handler) {
	no := t.enter(r, index, false)
	counted := no == nil && t.countsOrigin(index)
	if no != nil && no.origin && index >= 0 && !draft && t.isHit(r, index) {
		no = t.enter(r, index, true)
	}
	switch {
	case no != nil:
		no.serve(w, t.label(index))
		return
	case !counted:
		next.ServeHTTP(w, r)
		return
	}
	report := isr.ReportOf(w)
	if report == nil {
		own := &reportWriter{ResponseWriter: w}
		w, report = own, &own.report
	}
	next.ServeHTTP(w, r)
	if report.Hit || report.Collapsed || report.Forward == "" {
		t.leave(r, index, ofOrigin)
	}
}

// isHit reports whether a request is answered from memory.
func (t *tree) isHit(r *http.Request, index int) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	var hit isr.Hit
	defer hit.Release()
	return isr.LookupIn(t.handlers[index], r, &hit)
}

// A reportWriter has the report of a request, for a server that observes none.
type reportWriter struct {
	http.ResponseWriter
	report isr.Report
}

var _ isr.Reporter = (*reportWriter)(nil)

// Report implements [isr.Reporter].
func (w *reportWriter) Report() *isr.Report { return &w.report }

// Unwrap is for [http.ResponseController].
func (w *reportWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// label returns the label of a route; empty for none.
func (t *tree) label(index int) string {
	if index < 0 {
		return ""
	}
	return t.labels[index]
}

// explain describes what the gates of a route do with a request. refused: it is not accepted. It takes no tokens.
func (t *tree) explain(r *http.Request, index int) (d isr.Decision, refused bool) {
	for _, g := range t.gatesOf(index) {
		if g == nil {
			continue
		}
		if r.RemoteAddr == "" {
			d.Reasons = append(d.Reasons, isr.Reason{Text: g.whose + " accepts clients by their addresses (" + g.rules() + "), and the address of this one is not known", Advice: "give it with --from"})
			continue
		}
		no := g.enter(r, false)
		if no == nil {
			g.leave(r, g.limits, func(*limiter) bool { return true })
			continue
		}
		if no.origin && t.isHit(r, index) {
			continue
		}
		d.Verdict, d.Status, d.CacheStatus = isr.VerdictRefused, no.status, no.cacheStatus()
		d.Reasons = append(d.Reasons, isr.Reason{Text: "the request is refused: " + no.reason})
		return d, true
	}
	return d, false
}

// rules names the rules of a gate.
func (g *gate) rules() string {
	var names []string
	if g.Allow != nil {
		names = append(names, "allow")
	}
	if len(g.Deny.prefixes) > 0 {
		names = append(names, "deny")
	}
	for _, l := range g.limits {
		names = append(names, "rate limit "+l.String())
	}
	return strings.Join(names, ", ")
}
