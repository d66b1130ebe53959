package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr"
)

// A Sticky keeps the requests of a visitor that pass through at one address of an origin, by a cookie that the
// gateway sets. Renders have no visitor: they are shared by all addresses, and have no cookie.
//
// The cookie is removed from requests before the cache sees them, so that it is neither in keys nor sent to the
// origin, and it is set in responses that pass through only, which are never stored. Its value is a keyed hash of the
// address: it says neither which address, nor can a visitor make one up.
type Sticky struct {
	Cookie string // its name; empty: visitors are not kept
	Secret string // of at least MinStickySecret bytes, the same for all servers of a fleet
}

// MinStickySecret is the least length of [Sticky].Secret, in bytes.
const MinStickySecret = 16

// maxStickyCookies bounds the cookies of one name that are compared.
const maxStickyCookies = 4

// id returns the value of the cookie for an address.
func (s Sticky) id(url string) string {
	mac := hmac.New(sha256.New, []byte(s.Secret))
	mac.Write([]byte("isr sticky " + s.Cookie + " " + url))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

// stickyKey is the context key of the cookies that were removed from a request, by their names.
type stickyKey struct{}

// withoutSticky returns a request without the cookies of these names, which its context has.
func withoutSticky(r *http.Request, names []string) *http.Request {
	var removed map[string][]string
	for _, name := range names {
		if !hasCookie(r.Header["Cookie"], name) {
			continue
		}
		if removed == nil {
			r, removed = shallowCopy(r), make(map[string][]string)
		}
		removed[name] = cutCookies(r.Header, name)
	}
	if removed == nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), stickyKey{}, removed))
}

// An assignment is to which address a visitor's request goes.
type assignment struct {
	wanted *address // by the cookie; nil if there is none that is valid
	got    *address // that has answered
}

// assignmentKey is the context key of the *assignment of a request that passes through to a sticky origin.
type assignmentKey struct{}

// assign returns a visitor's request that keeps to the address of its cookie.
func (p *pool) assign(r *http.Request) *http.Request {
	if p.sticky.Cookie == "" {
		return r
	}
	as := new(assignment)
	cookies, _ := r.Context().Value(stickyKey{}).(map[string][]string)
	values := cookies[p.sticky.Cookie]
	for _, value := range values[:min(len(values), maxStickyCookies)] {
		for _, a := range p.addresses {
			if as.wanted == nil && hmac.Equal([]byte(value), []byte(a.id)) {
				as.wanted = a
			}
		}
	}
	return r.WithContext(context.WithValue(r.Context(), assignmentKey{}, as))
}

// chooseFor is [balancer.choose] for a request, which keeps to the address of its cookie while that is up.
func (p *pool) chooseFor(r *http.Request, left []*address) int {
	now := time.Now()
	as, _ := r.Context().Value(assignmentKey{}).(*assignment)
	if as == nil {
		return p.choose(left, now)
	}
	i := slices.Index(left, as.wanted)
	if i < 0 || !as.wanted.isUp(now) {
		i = p.choose(left, now)
	}
	as.got = left[i]
	return i
}

// keep sets the cookie in a response that has passed through, if its visitor is not kept at the address by one.
func (p *pool) keep(res *http.Response) {
	as, _ := res.Request.Context().Value(assignmentKey{}).(*assignment)
	if as == nil || as.got == as.wanted {
		return
	}
	text := p.sticky.Cookie + "=" + as.got.id + "; Path=/; HttpOnly; SameSite=Lax"
	if res.Request.Header.Get("X-Forwarded-Proto") == "https" {
		text += "; Secure"
	}
	res.Header.Add("Set-Cookie", text)
}

// WithoutSticky does what a [Site] does whose origins have cookies of these names.
func (p *Prepared) WithoutSticky(names []string) {
	for _, name := range names {
		if hasCookie(p.Request.Header["Cookie"], name) {
			p.Parts = append(p.Parts, isr.Part{Kind: "cookie", Name: name, Use: isr.PartObeyed, Why: "chooses the address of the origin if the request passes through; removed before the cache sees it"})
		}
	}
	p.Request = withoutSticky(p.Request, names)
}

// hasCookie reports whether a request may have a cookie with a name.
func hasCookie(lines []string, name string) bool {
	return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, name) })
}

// cutCookies removes the cookies with a name, and returns their values.
func cutCookies(h http.Header, name string) (values []string) {
	var lines []string
	for _, line := range h["Cookie"] {
		var kept []string
		for pair := range strings.SplitSeq(line, ";") {
			pair = strings.TrimSpace(pair)
			found, value, _ := strings.Cut(pair, "=")
			switch {
			case strings.TrimSpace(found) == name:
				values = append(values, strings.Trim(strings.TrimSpace(value), `"`))
			case pair != "":
				kept = append(kept, pair)
			}
		}
		if len(kept) > 0 {
			lines = append(lines, strings.Join(kept, "; "))
		}
	}
	delete(h, "Cookie")
	if len(lines) > 0 {
		h["Cookie"] = lines
	}
	return values
}
