package page

import (
	"context"
	"maps"
	"net/http"

	"github.com/facetheory/isr/internal/httpcache"
)

// A hinter sends the links of pages ahead of them, in an interim response (RFC 8297).
type hinter struct {
	enabled bool
	// own: the route sets or removes Link, so that links (nil if it removes them) replace the links
	// of pages.
	own   bool
	links []string
}

// newHinter makes the hinter of a route whose fields are set and removed by a.
func newHinter(enabled bool, a *View) hinter {
	n := hinter{enabled: enabled}
	for _, f := range a.set {
		if f.name == "Link" {
			n.own, n.links = true, httpcache.EarlyHints(f.values)
		}
	}
	for _, name := range a.remove {
		n.own = n.own || name == "Link"
	}
	return n
}

// Hint sends the links of a page that the request may get, if it takes hints, and reports
// whether it did. The header of the response is not changed.
func (a *View) Hint(w http.ResponseWriter, r *http.Request, p *Page) bool {
	if !a.hints.takes(r, p) {
		return false
	}
	SendHints(w, a.hints.of(p))
	return true
}

// SendHints sends links in an interim response. The header of the response is not changed.
func SendHints(w http.ResponseWriter, links []string) {
	h := w.Header()
	others := maps.Clone(h)
	clear(h) // else net/http would send all of it
	h["Link"] = links
	w.WriteHeader(http.StatusEarlyHints)
	delete(h, "Link")
	maps.Copy(h, others)
}

// takes reports whether a request takes the links of a page, and the page has any.
func (n *hinter) takes(r *http.Request, p *Page) bool {
	return n.enabled && len(n.of(p)) > 0 && p.Status() == http.StatusOK && TakesHints(r)
}

// of returns the links that are sent ahead of a page.
func (n *hinter) of(p *Page) []string {
	if n.own {
		return n.links
	}
	return p.hints
}

// TakesHints reports whether hints are of use to the client of a request, and were not sent.
// A client of HTTP/1.0 must not get any (RFC 9110, section 15.2); one that revalidates, or
// continues, has the page; and browsers use the hints of navigations alone.
func TakesHints(r *http.Request) bool {
	h := r.Header
	if r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) || len(h["Range"])+len(h["If-None-Match"])+len(h["If-Modified-Since"]) > 0 {
		return false
	}
	for _, mode := range h["Sec-Fetch-Mode"] {
		if mode != "navigate" {
			return false
		}
	}
	return r.Context().Value(hintedKey{}) == nil
}

type hintedKey struct{}

// Hinted returns the request to go on with after hints were sent, so that its response has none again.
func Hinted(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), hintedKey{}, true))
}
