package page

import (
	"net/http"
	"net/textproto"
	"slices"
	"time"

	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
)

// VaryByCoding reports whether a body of n bytes may have codings, and if so adds
// Accept-Encoding to the Vary of its header.
func (as *View) VaryByCoding(h http.Header, n int64) bool {
	if as.Codings == (coding.Has{}) || !coding.Useful(h.Get("Content-Type"), n) {
		return false
	}
	if !httpcache.HasMember(h["Vary"], "Accept-Encoding") {
		h.Add("Vary", "Accept-Encoding")
	}
	return true
}

// controls reports whether the route states the lifetimes of its pages.
func (a *View) controls() bool { return a.browsers.fixed != nil || a.browsers.before != "" }

// A View is how a route presents responses to visitors. It is applied when they are
// served, so that it does not depend on what is stored. The lists are shared by all
// responses: nothing may append to them.
type View struct {
	// Keys decide which requests may get a page (RFC 9111, section 4.1).
	Keys *cachekey.Mapper

	set    []field
	remove []string // canonical names
	// browsers, cdn and surrogate are the fields of DownstreamControl.
	browsers, cdn, surrogate lifetimeField

	hints hinter
	// Report is called when a request is answered with a page of this age, before the header is written. It
	// is on the hit path. Nil: nobody is told.
	Report func(w http.ResponseWriter, p *Page, status httpcache.Status, age time.Duration)

	Codings coding.Has
	// Want is called when a visitor wants a coding that the page lacks, at most once per RetryPause and
	// page. It must not block. Nil: nothing makes codings.
	Want func(*Page, httpcache.Coding)
	// Responses bounds the memory of long bodies that are being sent. Nil: nothing does.
	Responses *ResponseMemory
	Bodies    *BodyStore // not nil if Responses is not
}

// ViewRules are what a route declares of its responses.
type ViewRules struct {
	Set    http.Header // fields that are set
	Remove []string    // names of fields that are removed
	// CacheControl, CDN and Surrogate are the fields that tell downstream caches how long they may keep a
	// page. They may have "remaining" instead of a number of seconds. Empty: the page has its own fields.
	CacheControl, CDN, Surrogate string
	EarlyHints                   bool // the links of pages are sent ahead of them
	// Codings are the codings that pages may have, by their names. Empty means all; "identity" alone means none.
	Codings []string
}

// NewView returns a view by valid rules.
func NewView(rules ViewRules) *View {
	a := &View{Codings: rules.codings()}
	for name, values := range rules.Set {
		a.set = append(a.set, field{textproto.CanonicalMIMEHeaderKey(name), slices.Clip(slices.Clone(values))})
	}
	for _, name := range rules.Remove {
		a.remove = append(a.remove, textproto.CanonicalMIMEHeaderKey(name))
	}
	a.browsers, a.cdn, a.surrogate = newLifetimeField(rules.CacheControl), newLifetimeField(rules.CDN), newLifetimeField(rules.Surrogate)
	a.hints = newHinter(rules.EarlyHints, a)
	return a
}

func (v *ViewRules) codings() (has coding.Has) {
	if len(v.Codings) == 0 {
		return coding.All()
	}
	for _, token := range v.Codings {
		if c, ok := httpcache.ParseCoding(token); ok && c < httpcache.Identity {
			has[c] = true
		}
	}
	return has
}

// SetFields sets and removes the fields of the route.
func (a *View) SetFields(h http.Header) {
	for _, name := range a.remove {
		delete(h, name)
	}
	for _, f := range a.set {
		h[f.name] = f.values
	}
}
