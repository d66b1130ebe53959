package isr

import (
	"net/http"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// hintOld sends the links of the page of which a visitor waits for a newer generation, and
// returns the request to go on with, so that the response has no hints again. old may be nil.
// Nothing is sent of a page that a hard purge covers, or may.
func (h *handler) hintOld(w http.ResponseWriter, r *http.Request, old *page.Page) *http.Request {
	as, now := h.route.present, h.c.now()
	if !h.route.EarlyHints || old == nil || old.Dropped.Load() || h.c.late(old, now) || !h.route.keys.Matches(old.Varies, r.Header) {
		return r
	}
	state, onError := h.judge(nil, old, now)
	purgesKnown := state == store.Expired && !old.Entry.OutlivesMarks(h.c.node.Current(old.Purges).MarkLifetime, now)
	if (onError || purgesKnown) && as.Hint(w, r, old) {
		return page.Hinted(r)
	}
	return r
}
