package isr

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// Directives in the Cache-Control of a request are advisory (RFC 9111, section 5.2.1). They
// are ignored unless the route obeys them (see [Route.ObeyRequests]), except for
// only-if-cached, which spares the origin work:
//
//	only-if-cached                  ──► the stored page, or 504
//	no-store, no-cache              ──► the renderer, by the visitor's own request (fwd=request)
//	max-age, min-fresh not met      ──► the same
//	max-stale                       ──► the page in memory, if it is not staler than that and
//	                                    its response does not forbid it

var errOnlyIfCached = errors.New("no stored page can be served, and the request has only-if-cached")

// asked is what the directives of a request ask for. The zero value asks for nothing.
type asked struct {
	onlyIfCached bool
	pass         bool          // no-store or no-cache
	maxAge       time.Duration // with hasMaxAge
	minFresh     time.Duration // 0 without
	maxStale     time.Duration // 0 without; the longest interval without an argument
	hasMaxAge    bool
}

// askedBy returns what a request asks for, as far as the route obeys it. It is on the hit path:
// it looks up one header, and parses it only if it can matter.
func (p *projector) askedBy(r *http.Request) (a asked) {
	lines := r.Header["Cache-Control"]
	if p.ObeyRequests {
		if len(lines) == 0 { // section 5.4
			lines = r.Header["Pragma"]
		}
	} else if !mayAskOnlyIfCached(lines) {
		return asked{}
	}
	if len(lines) == 0 {
		return asked{}
	}
	d := httpcache.ParseDirectives(lines)
	a.onlyIfCached = d.Has("only-if-cached")
	if !p.ObeyRequests {
		return a
	}
	a.pass = d.Has("no-store") || d.Has("no-cache")
	a.maxAge, a.hasMaxAge = d.Seconds("max-age")
	a.minFresh, _ = d.Seconds("min-fresh")
	if a.maxStale = 0; d.Has("max-stale") {
		a.maxStale = store.MaxInterval
		if d["max-stale"] != "" {
			a.maxStale, _ = d.Seconds("max-stale")
		}
	}
	return a
}

// mayAskOnlyIfCached reports whether a field may have only-if-cached.
func mayAskOnlyIfCached(lines []string) bool {
	for _, line := range lines {
		if len(line) >= len("only-if-cached") && strings.Contains(strings.ToLower(line), "only-if-cached") {
			return true
		}
	}
	return false
}

// accepts reports whether the request takes a stored page.
func (a asked) accepts(p *page, now time.Time) bool {
	if a.pass || a.hasMaxAge && p.entry.Age(now) > a.maxAge {
		return false
	}
	return a.minFresh == 0 || p.entry.FreshUntil().Sub(now) >= a.minFresh
}

// acceptsStale reports whether the request takes a page although it is stale or expired.
func (a asked) acceptsStale(rules httpcache.Rules, p *page, state store.State, now time.Time) bool {
	return a.maxStale > 0 && (state == store.Stale || state == store.Expired) && a.accepts(p, now) &&
		now.Sub(p.entry.FreshUntil()) <= a.maxStale && rules.AllowsStale(p.entry.Header)
}

// refuseUncached answers a request with only-if-cached for which there is no stored page (RFC
// 9111, section 5.2.1.7).
func (h *handler) refuseUncached(w http.ResponseWriter, r *http.Request) {
	h.serveFailure(w, r, plainResponse(http.StatusGatewayTimeout), httpcache.Status{Detail: detailOnlyIfCached}, time.Time{})
}

// answerStored answers a request with only-if-cached whose page is not in memory: with what
// is stored, fresh or stale. The search that it starts renders nothing.
func (h *handler) answerStored(w http.ResponseWriter, r *http.Request, k store.Key, minSeq int64, a asked) {
	now, came := h.c.now(), time.Now()
	known := h.c.follower.Committed()
	if negative := h.c.negative.get(k, time.Now()); negative != nil && negative.page != nil && minSeq == 0 {
		if state, _ := h.judge(nil, negative.page, now); state == store.Fresh && a.accepts(negative.page, now) {
			negative.page.serveHit(w, r, h.route.present, now, state, false)
			return
		}
	}
	if h.c.stores.Down() == nil {
		s := h.search(r, k)
		s.onlyStored = true
		if f, leader := h.c.join(s); f != nil {
			select {
			case <-f.done:
			case <-r.Context().Done():
				ReportOf(w).answer(httpcache.Status{Detail: detailCanceled})
				return
			}
			got := h.reply(f, leader, nil)
			f.report(w, came, got)
			o, found := got.outcome.(storedPage)
			if found && got.state >= store.Stale && h.takes(f, got, leader, known) && a.accepts(o.page, h.c.now()) && (minSeq == 0 || h.mayServeSince(o.page, h.c.now(), minSeq)) {
				o.waited = false
				h.answer(w, r, k, reply{outcome: o, state: got.state}, httpcache.Status{})
				return
			}
		}
	}
	h.refuseUncached(w, r)
}
