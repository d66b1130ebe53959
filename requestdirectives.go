package isr

import (
	"errors"
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

var errOnlyIfCached = errors.New("no stored page can be served, and the request has only-if-cached")

// refuseUncached answers a request with only-if-cached for which there is no stored page (RFC
// 9111, section 5.2.1.7).
func (h *handler) refuseUncached(w http.ResponseWriter, r *http.Request) {
	h.serveFailure(w, r, plainResponse(http.StatusGatewayTimeout), httpcache.Status{Detail: detailOnlyIfCached}, time.Time{})
}

// answerStored answers a request with only-if-cached whose page is not in memory: with what
// is stored, fresh or stale. The search that it starts renders nothing.
func (h *handler) answerStored(w http.ResponseWriter, r *http.Request, k store.Key, minSeq int64, asked cachekey.Directives) {
	now, came := h.c.now(), time.Now()
	known := h.c.follower.Committed()
	if negative := h.c.negative.get(k, time.Now()); negative != nil && negative.page != nil && minSeq == 0 {
		if state, _ := h.judge(nil, negative.page, now); state == store.Fresh && asked.Accepts(&negative.page.entry, now) {
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
			if found && got.state >= store.Stale && h.takes(f, got, leader, known) && asked.Accepts(&o.page.entry, h.c.now()) && (minSeq == 0 || h.mayServeSince(o.page, h.c.now(), minSeq)) {
				o.waited = false
				h.answer(w, r, k, reply{outcome: o, state: got.state}, httpcache.Status{})
				return
			}
		}
	}
	h.refuseUncached(w, r)
}
