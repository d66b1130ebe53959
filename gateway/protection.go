package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"

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
}

// A gate checks the requests of a site, or of a route.
type gate struct {
	Protection
	whose string // "the site", or the route, for explanations
}

// newGate returns the gate of a protection; nil if it accepts all.
func newGate(p Protection, whose string) *gate {
	if !p.hasNetworks() {
		return nil
	}
	return &gate{p, whose}
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
}

// refuses returns the rejection of a request; nil if it is accepted. A nil gate accepts all.
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
	return &rejection{http.StatusForbidden, "denied", "Requests from this address are not accepted here.", reason}
}

// serve responds. Its route is label.
func (no *rejection) serve(w http.ResponseWriter, label string) {
	if report := isr.ReportOf(w); report != nil {
		report.Route, report.Detail, report.Refused = label, no.detail, true
	}
	w.Header().Set("Cache-Status", no.cacheStatus())
	isr.WriteErrorPage(w, no.status, no.text)
}

func (no *rejection) cacheStatus() string { return "isr; detail=" + no.detail }

// refuses returns the rejection of a request, by the site and by the route with an index, which is negative for none;
// nil if it is accepted.
func (t *tree) refuses(r *http.Request, index int) *rejection {
	if no := t.gate.refuses(r); no != nil || index < 0 {
		return no
	}
	return t.gates[index].refuses(r)
}

// label returns the label of a route; empty for none.
func (t *tree) label(index int) string {
	if index < 0 {
		return ""
	}
	return t.labels[index]
}

// explain describes what the gates of a route do with a request. refused: it is not accepted.
func (t *tree) explain(r *http.Request, index int) (d isr.Decision, refused bool) {
	for _, g := range []*gate{t.gate, t.gates[index]} {
		if g == nil {
			continue
		}
		if g.hasNetworks() && r.RemoteAddr == "" {
			d.Reasons = append(d.Reasons, isr.Reason{Text: g.whose + " accepts clients by their addresses (allow, deny), and the address of this one is not known", Advice: "give it with --from"})
			continue
		}
		if no := g.refuses(r); no != nil {
			d.Verdict, d.Status, d.CacheStatus = isr.VerdictRefused, no.status, no.cacheStatus()
			d.Reasons = append(d.Reasons, isr.Reason{Text: "the request is refused: " + no.reason})
			return d, true
		}
	}
	return d, false
}
