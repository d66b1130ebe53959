package gateway

import (
	"net/http"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/draft"
)

// A Prepared request is one as an [Edge] and [Drafts] pass it on to a site, for explanations.
type Prepared struct {
	// Request has the host that the visitor has requested, and neither forwarding fields of
	// untrusted peers nor draft tokens.
	Request *http.Request
	// Parts are what was removed of the request, and why.
	Parts []isr.Part
	act   draftAct
}

// Prepare does to a request what an [Edge] does that trusts these peers, and [Drafts] with these
// secrets, if there are any. The peer is r.RemoteAddr; empty: a visitor, which no edge trusts.
// The request may change. An error means that the edge refuses it with 400.
func Prepare(r *http.Request, trust Trust, secrets []string) (Prepared, error) {
	sent := r.Header.Clone()
	resolved, err := trust.resolve(r)
	if err != nil {
		return Prepared{}, err
	}
	p := Prepared{Request: resolved}
	use, why := isr.PartIgnored, "removed, because the sender is no trusted proxy"
	if FromTrustedPeer(resolved) {
		use, why = isr.PartObeyed, "the sender is a trusted proxy, which names the visitor"
	}
	for _, name := range append(forwardingFields(), requestIDHeader) {
		if sent[name] == nil || resolved.Header[name] != nil {
			continue
		}
		part := isr.Part{Kind: "header", Name: name, Use: use, Why: why}
		if (name == "X-Forwarded-Host" || name == "X-Forwarded-Port") && use == isr.PartObeyed && !trust.host {
			part.Use, part.Why = isr.PartIgnored, "removed, because forwarded hosts are not trusted (trust_forwarded_host): many proxies pass visitors' own fields on"
		}
		p.Parts = append(p.Parts, part)
	}
	if len(secrets) > 0 {
		p.prepareDraft(secrets)
	}
	return p, nil
}

// KeyScheme does what an [Edge] with this EdgeConfig.Scheme and KeyScheme does.
func (p Prepared) KeyScheme(listener, public string) {
	keyScheme(p.Request, visitorScheme(p.Request, listener), public)
}

// RedirectsToHTTPS reports whether [RedirectHTTPS] redirects the request, which a listener without TLS
// has received.
func (p Prepared) RedirectsToHTTPS() bool { return (&redirectHTTPS{}).applies(p.Request) }

// prepareDraft removes draft tokens.
func (p *Prepared) prepareDraft(secrets []string) {
	inQuery, inCookie := strings.Contains(p.Request.URL.RawQuery, draft.Name), hasCookie(p.Request.Header["Cookie"], draft.Name)
	if !inQuery && !inCookie {
		return
	}
	v := (&drafts{secrets: secrets, now: time.Now}).read(p.Request, inQuery, inCookie)
	changed := v.URL.RawQuery != p.Request.URL.RawQuery
	p.Request, p.act = v.Request, v.act
	part := isr.Part{Use: isr.PartIgnored, Name: draft.Name, Why: "a draft token that is not valid here, which is removed"}
	if v.act != draftNone {
		part.Use, part.Why = isr.PartObeyed, "a draft token, which is removed"
	}
	if changed {
		part.Kind = "query"
		p.Parts = append(p.Parts, part)
	}
	if len(v.cookies) > 0 {
		part.Kind = "cookie"
		p.Parts = append(p.Parts, part)
	}
}

// Explain returns what the site and its cache would do with a request (see [isr.Explainer]). The
// error is of a request which ServeHTTP refuses, or for which there is no route.
func (s *Site) Explain(p Prepared, fetch bool) (isr.Decision, error) {
	t := s.tree.Load()
	if to, ok := t.redirects.Find(p.Request); ok && (p.act == draftNone || p.act == draftServe) {
		d := redirectDecision(to)
		d.Parts = p.Parts
		return d, nil
	}
	index, err := t.table.FindRequest(p.Request)
	if err != nil {
		return isr.Decision{}, err
	}
	d, refused := t.explain(p.Request, index)
	if refused && p.act != draftBegin && p.act != draftEnd {
		d.Parts = append(d.Parts, p.Parts...)
		return d, nil
	}
	t.derived[index].set(p.Request)
	h, before := t.handlers[index].(isr.Explainer), d.Reasons
	switch p.act {
	case draftNone:
		d = h.Explain(p.Request, fetch)
	case draftServe:
		d = h.ExplainDraft(asDraft(p.Request), fetch)
	default:
		d = redirected(p.act)
	}
	t.derived[index].explain(d.Parts, p.Request)
	d.Parts = append(d.Parts, p.Parts...)
	d.Reasons = append(before, d.Reasons...)
	return d, nil
}

// redirected describes redirect.
func redirected(act draftAct) isr.Decision {
	why := "the URL has a valid draft token: the visitor gets a cookie, and is redirected to the URL without the token"
	if act == draftEnd {
		why = "the URL ends draft mode: the cookie is removed, and the visitor is redirected to the URL without the parameter"
	}
	return isr.Decision{
		Verdict: isr.VerdictBypass, Status: http.StatusSeeOther, CacheStatus: draftStatus, Reasons: []isr.Reason{{Text: why}},
		Explanation: isr.Explanation{Bypass: "draft"},
	}
}
