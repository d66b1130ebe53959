package isr

import (
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// What a handler does with a request is decided first, as a value, and executed then:
//
//	request ──► decide ──► pass, refuse, …
//	              ├──► wait for the log ──► consult again
//	              ├──► a hit in memory: serve, and perhaps regenerate in the background
//	              └──► find: recall (negative cache, unpublished pages) ──► search
//
// Deciding waits for nothing, calls no store, and changes nothing, so that [Explainer] decides
// by the very code that serves.

// An action is what a handler does with a request.
type action int

const (
	actRefuse         action = iota // 400
	actPass                         // to the renderer
	actUncached                     // 504: only-if-cached, and there is no page
	actAwaitReceipt                 // wait until the log is applied up to ISR-Min-Seq, and consult again
	actAwaitPoll                    // wait for a poll of the log, and consult again
	actBlind                        // as Config.Blind says
	actLoad                         // the page is in memory, but for its body: read that, and consult again
	actHit                          // serve the page in memory
	actHitStale                     // the same, and regenerate it in the background
	actHitBackOff                   // serve it stale: waiting for a new page is of no use now
	actFindStored                   // look for a stored page, and render nothing
	actFindSince                    // find a page that is as new as the receipt demands
	actFind                         // find the page, or render it
	actPassRefused                  // to the renderer: the page was not cacheable when it was rendered last
	actHitNegative                  // serve the page of the negative cache
	actFail                         // repeat the failure of the last render
	actHitUnpublished               // serve a page that could not be stored
)

// A decision is what a handler does with a request, and by what it decided.
type decision struct {
	act     action
	forward string // fwd of Cache-Status, as far as it is decided
	detail  string // of actPass
	err     error  // of actRefuse

	key    store.Key
	text   *[]byte     // that the text of the key is a part of; nil: it has its own
	memory *pageMemory // of the page of an outline; nil: it has its own
	asked  cachekey.Directives
	minSeq int64 // of ISR-Min-Seq, 0 without
	// reached: the log is applied up to minSeq. polled: it was polled for this request. cutOff:
	// that failed.
	reached, polled, cutOff bool

	now   time.Time
	page  *page // to serve; or, of actFind and actBlind, an older one, nil without
	state store.State
	known *negativeEntry // of actPassRefused, actHitNegative and actFail

	outline *outline // of actLoad, with page
	sought  bool     // the body was sought; loaded is the page, nil if it was not found
	loaded  *page
}

// decide decides by a request, and by memory.
func (h *handler) decide(r *http.Request, d *decision) {
	k, bypass, err := h.route.keys.KeyInto(d.text, r)
	switch {
	case err != nil:
		d.act, d.err = actRefuse, err
	case bypass == cachekey.BypassMethod:
		d.act, d.forward = actPass, httpcache.ForwardMethod
	case bypass != "" && bypass != cachekey.BypassOff && h.route.keys.Directives(r).OnlyIfCached:
		d.act = actUncached
	case bypass != "":
		d.act, d.forward, d.detail = actPass, httpcache.ForwardBypass, bypass
	default:
		d.key, d.asked = k, h.route.keys.Directives(r)
		h.consult(r, d)
	}
}

// consult decides by the page of a key in memory. It is called again after each wait.
func (h *handler) consult(r *http.Request, d *decision) {
	if d.asked.Pass {
		d.passAsked()
		return
	}
	if _, present := r.Header[minSeqHeader]; present && !d.reached {
		d.act = actAwaitReceipt
		return
	}
	d.now = h.c.now()
	d.page = h.c.memory.get(d.key)
	if d.page == nil && d.loaded != nil && !h.c.memory.isDropped(d.loaded) {
		d.page = d.loaded // and is evicted again already
	}
	switch {
	case d.polled:
		if d.cutOff && h.c.blind(d.now) {
			if d.act = actBlind; d.asked.OnlyIfCached {
				d.act = actUncached
			}
			return
		}
	case h.c.late(d.page, d.now) || h.c.blind(d.now):
		d.act = actAwaitPoll
		if _, polled := h.c.follower.Age(d.now); !polled {
			d.miss()
		}
		return
	}
	if d.page == nil && h.outlined(d) {
		d.act = actLoad
		return
	}
	if d.page == nil || d.minSeq > 0 && !h.mayServeSince(d.page, d.now, d.minSeq) {
		d.page = nil
		d.miss()
		return
	}
	switch d.state, _ = h.judge(nil, d.page, d.now); {
	case d.state >= store.Stale && !d.asked.Accepts(&d.page.entry, d.now):
		d.passAsked()
	case d.state == store.Fresh,
		d.asked.AcceptsStale(h.route.rules, &d.page.entry, d.state, d.now), d.state == store.Stale && d.asked.OnlyIfCached:
		d.act = actHit
	case d.state == store.Stale:
		h.judgeStale(d)
	default:
		d.miss()
	}
}

// judgeStale decides by a stale page in memory, as the policy of the route says.
func (h *handler) judgeStale(d *decision) {
	known := h.c.negative.get(d.key, time.Now())
	switch {
	case known != nil && known.refused != "":
		// The page has become uncacheable: the stored copy is outdated.
		d.act, d.known = actPassRefused, known
	case h.route.Policy != Wait:
		d.act = actHitStale
	case !d.page.nextTry.isDue(d.page):
		d.act = actHitBackOff
	default:
		d.act = actFind
	}
}

// passAsked passes the request to the renderer because of its directives (RFC 9211, section
// 2.2), or refuses it if it has only-if-cached too.
func (d *decision) passAsked() {
	if d.act = actUncached; !d.asked.OnlyIfCached {
		d.act, d.forward = actPass, httpcache.ForwardRequest
	}
}

// miss: the page is not in memory, too old to be served, or older than the receipt.
func (d *decision) miss() {
	switch {
	case d.asked.OnlyIfCached:
		d.act = actFindStored
	case d.minSeq > 0:
		d.act = actFindSince
	default:
		d.act = actFind
	}
}

// recall decides by the negative cache. d.page is an older page that may be served if a render
// fails, nil without. It returns false, and decides nothing, if the negative cache has no answer.
func (h *handler) recall(d *decision) bool {
	known := h.c.negative.get(d.key, time.Now())
	if known == nil {
		return false
	}
	if known.page != nil {
		if state, _ := h.judge(nil, known.page, d.now); state == store.Fresh {
			d.act, d.known, d.page, d.state = actHitNegative, known, known.page, state
			return true
		}
	}
	switch {
	case known.refused != "":
		d.act, d.known = actPassRefused, known
	case known.failed != nil && d.page == nil:
		d.act, d.known = actFail, known
	default:
		return false
	}
	return true
}

// recallUnpublished decides by the pages that could not be stored. requested is how often the
// page was requested lately: one that was requested often enough is stored. It returns false,
// and decides nothing, if there is no such page.
func (h *handler) recallUnpublished(d *decision, requested int) bool {
	due := h.c.uses != nil && requested >= h.c.cfg.MinUses && !h.c.full()
	p := h.c.unpublished.get(d.key)
	if p == nil || due {
		return false
	}
	d.act, d.page, d.state = actHitUnpublished, p, store.Fresh
	return true
}

// awaitNeeds waits for what the decision needs of the log, and for a body of the local disk. It returns
// false if that fails, and the request is answered already.
func (h *handler) awaitNeeds(w http.ResponseWriter, r *http.Request, d *decision) bool {
	for {
		switch d.act {
		case actAwaitReceipt:
			if d.minSeq, d.reached = h.reachReceipt(w, r, r.Header[minSeqHeader]); !d.reached {
				return false
			}
			h.consult(r, d)
		case actAwaitPoll:
			d.cutOff, d.polled = h.c.follower.Await(r.Context()), true
			h.consult(r, d)
		case actLoad:
			if !h.load(w, r, d) {
				return false
			}
		default:
			return true
		}
	}
}

// execute answers a request as it was decided.
func (h *handler) execute(w http.ResponseWriter, r *http.Request, d *decision) {
	if d.act != actHit { // serveHit identifies it
		h.identify(w, d.key)
		forwardRequestID(w, r)
	}
	if !h.awaitNeeds(w, r, d) {
		return
	}
	switch d.act {
	case actHit, actHitStale:
		h.refresh(w, r, d)
		d.page.serveHit(w, r, h.route.present, d.now, d.state, d.cutOff)
	case actHitBackOff:
		d.page.serve(w, r, h.route.present, d.now, store.Stale, httpcache.Status{Hit: true, Detail: detailBackOff})
	case actHitNegative:
		d.page.serveHit(w, r, h.route.present, d.now, d.state, false)
	case actHitUnpublished:
		h.lookForStored(r, d.page)
		d.page.serve(w, r, h.route.present, h.c.now(), store.Fresh, httpcache.Status{Hit: true, Detail: detailUnpublished})
	case actFind:
		h.find(w, r, d.key, d.page)
	case actFindSince:
		h.findSince(w, r, d.key, d.minSeq)
	case actFindStored:
		h.answerStored(w, r, d.key, d.minSeq, d.asked)
	case actBlind:
		h.answerBlind(w, r, d.page)
	case actFail:
		h.serveFailure(w, r, d.known.failed, httpcache.Status{Forward: d.forward, Detail: detailBackOff}, d.now.Add(time.Until(d.known.until)))
	case actPass:
		h.pass(w, r, httpcache.Status{Forward: d.forward, Detail: d.detail})
	case actPassRefused:
		h.passRefused(w, r, d.key, d.known)
	case actUncached:
		h.refuseUncached(w, r)
	case actRefuse:
		h.badRequest(w, d.err)
	}
}
