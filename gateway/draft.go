package gateway

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/draft"
)

// draftHeader asks the origin for unpublished content, which the visitor may see. It is removed
// from what visitors send.
const draftHeader = "X-Isr-Draft"

// maxDraftCookies bounds the cookies with tokens that are verified for one request: a browser
// sends one for each scope.
const maxDraftCookies = 4

// Drafts returns a handler that lets editors see unpublished pages of a site (see
// docs/drafts.md), and passes all other requests to next. secrets are those that tokens are
// signed with: one or two, each of at least 16 bytes, which [draft.CheckSecrets] checks.
//
//	?isr-draft=TOKEN ──► valid: set the cookie, redirect to the URL without it
//	?isr-draft=off   ──► remove the cookie, redirect to the URL without it
//	cookie isr-draft ──► valid: site.serveDraft, with "X-Isr-Draft: 1" for the origin
//	otherwise        ──► next, without parameter and cookie
//
// So a token that is not valid changes nothing, and cannot make the origin work. A token never
// reaches the site. Requests must have passed an [Edge]. It is safe for concurrent use.
func Drafts(secrets []string, site *Site, next http.Handler) http.Handler {
	return &drafts{secrets: secrets, site: site, next: next, now: time.Now}
}

type drafts struct {
	secrets []string
	site    *Site
	next    http.Handler
	now     func() time.Time
}

// Lookup implements [isr.HitHandler].
func (d *drafts) Lookup(r *http.Request, hit *isr.Hit) bool {
	inQuery, inCookie := mayHaveTokens(r)
	return !inQuery && !inCookie && isr.LookupIn(d.next, r, hit)
}

// mayHaveTokens reports where a request may have tokens.
func mayHaveTokens(r *http.Request) (inQuery, inCookie bool) {
	return strings.Contains(r.URL.RawQuery, draft.Name), hasCookie(r.Header["Cookie"], draft.Name)
}

func (d *drafts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	inQuery, inCookie := mayHaveTokens(r)
	if !inQuery && !inCookie {
		d.next.ServeHTTP(w, r)
		return
	}
	switch v := d.read(r, inQuery, inCookie); v.act {
	case draftEnd:
		d.end(w, v.Request, v.cookies)
	case draftBegin:
		d.begin(w, v.Request, v.token, v.grant)
	case draftServe:
		d.site.serveDraft(w, v.Request)
	default:
		d.next.ServeHTTP(w, v.Request)
	}
}

// A draftAct is what the tokens of a request lead to.
type draftAct int

const (
	draftNone  draftAct = iota // no token is valid: as without them
	draftBegin                 // the cookie is set
	draftEnd                   // the cookies are removed
	draftServe                 // the site, with unpublished content
)

// A draftRequest is a request without its tokens, and what they lead to.
type draftRequest struct {
	*http.Request
	act     draftAct
	token   string // of draftBegin
	grant   draft.Grant
	cookies []string // the tokens of the cookies
}

// read removes the tokens of a request, which may be in its query and its cookies.
func (d *drafts) read(r *http.Request, inQuery, inCookie bool) draftRequest {
	v := draftRequest{Request: shallowCopy(r)}
	var tokens []string
	if inQuery {
		v.URL.RawQuery, tokens = cutParameter(r.URL.RawQuery)
		v.RequestURI = v.URL.RequestURI()
	}
	if inCookie {
		v.cookies = cutCookies(v.Header, draft.Name)
	}
	if len(tokens) > 0 && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		if tokens[0] == draft.Off {
			v.act = draftEnd
			return v
		}
		if g, err := d.verify(v.Request, tokens[0]); err == nil {
			v.act, v.token, v.grant = draftBegin, tokens[0], g
			return v
		}
	}
	for _, token := range v.cookies[:min(len(v.cookies), maxDraftCookies)] {
		if _, err := d.verify(v.Request, token); err == nil && !isPurge(r.Method) {
			v.act = draftServe
			return v
		}
	}
	return v
}

func (d *drafts) verify(r *http.Request, token string) (draft.Grant, error) {
	host, ok := canonical.Host(r.Host)
	if !ok {
		return draft.Grant{}, draft.ErrInvalid
	}
	return draft.Verify(d.secrets, token, host, r.URL.EscapedPath(), d.now())
}

// begin sets the cookie for as long as the token is valid.
func (d *drafts) begin(w http.ResponseWriter, r *http.Request, token string, g draft.Grant) {
	d.redirect(w, r, draftCookie(r, token, g.Scope, int(g.Expires.Sub(d.now())/time.Second)))
}

// end removes the cookies of a request. A cookie is removed by one with the same path.
func (d *drafts) end(w http.ResponseWriter, r *http.Request, cookies []string) {
	expired := []string{draftCookie(r, "", "/", 0)}
	for _, token := range cookies[:min(len(cookies), maxDraftCookies)] {
		if scope := draft.ScopeOf(token); scope != "" && scope != "/" {
			expired = append(expired, draftCookie(r, "", scope, 0))
		}
	}
	d.redirect(w, r, expired...)
}

// draftCookie returns a Set-Cookie field, with a lifetime in seconds. SameSite=Lax: a link in
// a CMS leads to the draft, a form on another site does not act with it.
func draftCookie(r *http.Request, token, path string, seconds int) string {
	text := draft.Name + "=" + token + "; Path=" + path + "; Max-Age=" + strconv.Itoa(seconds) + "; HttpOnly; SameSite=Lax"
	if visitorScheme(r, "http") == "https" {
		text += "; Secure"
	}
	return text
}

// redirect sets cookies, and redirects to the URL of a request without the token, which then
// is in no history and in no Referer.
func (d *drafts) redirect(w http.ResponseWriter, r *http.Request, cookies ...string) {
	h := w.Header()
	h["Set-Cookie"] = cookies
	h.Set("Location", pathReference(r.URL))
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "private, no-store")
	h.Set("Cache-Status", draftStatus)
	if report := isr.ReportOf(w); report != nil {
		report.Detail = "draft"
	}
	w.WriteHeader(http.StatusSeeOther)
}

// draftStatus is the Cache-Status of a redirect.
const draftStatus = "isr; detail=draft"

// pathReference returns the path and query of a URL as a reference to the same host. "//" would
// start a host name: clients remove the dot when they resolve the reference (RFC 3986, sections
// 4.2 and 5.2.4).
func pathReference(u *url.URL) string {
	path := cmp.Or(u.EscapedPath(), "/")
	if strings.HasPrefix(path, "//") {
		path = "/." + path
	}
	if u.ForceQuery || u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	return path
}

// shallowCopy copies what is changed of a request.
func shallowCopy(r *http.Request) *http.Request {
	c, u := *r, *r.URL
	c.URL, c.Header = &u, r.Header.Clone()
	return &c
}

// cutParameter returns a query without the parameters of tokens, however their name is encoded,
// and their values. Other parameters stay as they are.
func cutParameter(query string) (rest string, tokens []string) {
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		rawName, rawValue, _ := strings.Cut(part, "=")
		if name, err := url.QueryUnescape(rawName); err != nil || name != draft.Name {
			kept = append(kept, part)
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			value = ""
		}
		tokens = append(tokens, value)
	}
	return strings.Join(kept, "&"), tokens
}

// draftKey is the context key of requests for drafts.
type draftKey struct{}

func isDraft(ctx context.Context) bool { return ctx.Value(draftKey{}) != nil }

// serveDraft serves a request with a valid token.
func (s *Site) serveDraft(w http.ResponseWriter, r *http.Request) {
	s.draft.ServeHTTP(w, asDraft(r))
}

// asDraft returns a request for the unpublished content of the origin.
func asDraft(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), draftKey{}, true))
}

// draftHandler returns the handler of a route for drafts. All handlers of a cache have one.
func draftHandler(h http.Handler) http.Handler {
	return http.HandlerFunc(h.(isr.DraftHandler).ServeDraft)
}
