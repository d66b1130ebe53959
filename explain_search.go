package isr

import (
	"time"

	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// What a search would find is told by the search itself, as far as that decides and reads. Of its
// effects, the queue of the origin, the lease, the render and the publish are left out.

// find describes find.
func (x *explainer) find(d *decision) {
	h, old := x.h, d.page
	d.forward, d.now = httpcache.ForwardMiss, h.c.now()
	if old != nil {
		d.forward = httpcache.ForwardStale
		x.because("the page in memory is "+x.state(old)+", and may not be served without looking for a newer one", "RFC 9111, section 4.2.4")
	} else {
		x.because("the page is not in the memory of this server", "RFC 9111, section 4")
	}
	if x.recall(d) {
		return
	}
	if h.c.stores.Down() != nil {
		x.withoutStore(d.key, old, httpcache.Status{Forward: d.forward})
		return
	}
	if f := h.c.flights.current(d.key); f != nil {
		x.join(f, d.forward)
		return
	}
	x.run(d, old)
}

// recall describes answerFromMemory, and reports whether that answers.
func (x *explainer) recall(d *decision) bool {
	h, requested := x.h, 0
	if h.c.uses != nil {
		requested = h.c.uses.Count(d.key) + 1
	}
	if !h.recall(d) && !h.recallUnpublished(d, requested) {
		return false
	}
	x.follow(d)
	return true
}

// join describes a request that joins a flight.
func (x *explainer) join(f *flight, fwd string) {
	h := x.h
	if p := f.stale.Load(); p != nil {
		if state, _ := h.judge(f, p, h.c.now()); state == store.Fresh || state == store.Stale && h.route.Policy != Wait {
			x.hit(p, h.c.now(), state, false)
			return
		}
	}
	x.because("another request in this process has started to find or render the page, and this one waits for it", "RFC 9211, section 2.6")
	x.out.Open = true
	x.settle(VerdictMiss, 0, httpcache.Status{Forward: fwd, Collapsed: true}.String())
}

// search returns a search that is not run.
func (x *explainer) search(k store.Key) *search {
	s := x.h.waiting(x.r, k, nil)
	s.skip = x.h.c.sections.peek(x.h.route, k)
	return s
}

// run describes the flight that a request starts.
func (x *explainer) run(d *decision, old *page) {
	s := x.search(d.key)
	s.minSeq, s.uncounted = d.minSeq, 1
	status := httpcache.Status{Forward: d.forward}
	o, open := x.dryRun(s)
	if open {
		x.leaveOpen(o, status)
		return
	}
	offered := s.f.stale.Load()
	if offered != nil {
		old = offered
	}
	switch o := o.(type) {
	case storedPage:
		x.reply(d, o.page)
		if o.page == offered {
			x.regenerated()
		}
	case renderedPage:
		status.Stored, status.ForwardStatus = true, o.forwardStatus
		x.rendered(o.page, status, "")
	case unpublishedPage:
		x.rendered(o.page, status, o.detail)
	case refusal:
		status.Detail = o.reason
		x.pass(status)
	case failure:
		x.fail(s, o, old, status)
	}
}

// leaveOpen describes an answer that cannot be known.
func (x *explainer) leaveOpen(o outcome, status httpcache.Status) {
	if _, waits := o.(storedPage); waits {
		status.Stored, status.Collapsed = true, true
	}
	x.out.Open = true
	x.settle(VerdictMiss, 0, status.String())
}

// reply describes an answer with a page that the store has.
func (x *explainer) reply(d *decision, p *page) {
	now := x.h.c.now()
	if d.minSeq > 0 && !x.h.mayServeSince(p, now, d.minSeq) {
		x.refuseReceipt()
		return
	}
	if !d.asked.Accepts(&p.entry, now) {
		next := decision{asked: d.asked}
		next.passAsked()
		x.follow(&next)
		return
	}
	state, _ := x.h.judge(nil, p, now)
	x.hit(p, now, state, false)
}

// fail describes an answer with a failure, or with an older page in its place.
func (x *explainer) fail(s *search, o failure, old *page, status httpcache.Status) {
	switch {
	case s.minSeq > 0 && !x.h.meets(o, s.minSeq):
		x.refuseReceipt()
		return
	case o.detail == detailStoreError:
		x.withoutStore(s.key, old, status)
		return
	}
	s.f.outcome = o
	got := x.h.reply(s.f, true, old)
	x.answerFailure(got.outcome.(failure), got.state, status)
}

// answerFailure describes answerFailure.
func (x *explainer) answerFailure(o failure, state store.State, status httpcache.Status) {
	if o.cause != nil {
		x.because(o.cause.Error(), "")
	}
	switch {
	case o.fallback != nil:
		x.because("an older page is served in place of the failure", "RFC 5861, section 4")
		x.page(o.fallback, state, httpcache.Status{Hit: true, Detail: fallbackDetail(o, state)})
	case o.detail == detailClosing:
		status.Detail = o.detail
		x.pass(status)
	default:
		res := o.shown()
		if o.own != nil {
			res = o.own
		}
		status.Detail = o.detail
		x.failure(res, status)
	}
}

// withoutStore describes withoutStore.
func (x *explainer) withoutStore(k store.Key, old *page, status httpcache.Status) {
	got := x.h.orStale(nil, failure{cause: guard.ErrSlow, detail: detailStoreError}, old)
	if o := got.outcome.(failure); o.fallback != nil {
		x.answerFailure(o, got.state, status)
		return
	}
	x.answerUnstored(k, old, status)
}

// answerUnstored describes answerUnstored.
func (x *explainer) answerUnstored(k store.Key, old *page, status httpcache.Status) {
	x.because("the stores are not used: the page is rendered once for all requests that wait for it, and not stored", "")
	if f := x.h.c.unstored.current(k); f != nil {
		x.out.Open = true
		status.Collapsed = true
		x.settle(VerdictMiss, 0, status.String())
		return
	}
	switch o, open := x.dryRunUnstored(x.search(k)); o := o.(type) {
	case unpublishedPage:
		x.rendered(o.page, status, o.detail)
	case refusal:
		status.Detail = o.reason
		x.pass(status)
	case failure:
		got := x.h.orStaleIfError(o, old)
		x.answerFailure(got.outcome.(failure), got.state, status)
	default:
		if open {
			x.leaveOpen(o, status)
		}
	}
}

// blind describes answerBlind.
func (x *explainer) blind(d *decision) {
	status := httpcache.Status{Forward: httpcache.ForwardMiss, Detail: detailCutOff}
	if d.page != nil {
		status.Forward = httpcache.ForwardStale
	}
	x.because("this server has not read the log of changes for longer than it may serve pages", "")
	x.failure(plainFailure(errBlind), status)
}

// findSince describes findSince.
func (x *explainer) findSince(d *decision) {
	d.forward, d.now = httpcache.ForwardMiss, x.h.c.now()
	x.because("no page in memory is as new as the ISR-Min-Seq of the request demands", "")
	switch {
	case x.recall(d):
	case x.h.c.stores.Down() != nil:
		x.refuseReceipt()
	case x.h.c.flights.current(d.key) != nil:
		x.join(x.h.c.flights.current(d.key), d.forward)
	default:
		x.run(d, nil)
	}
}

// refuseReceipt describes refuseReceipt.
func (x *explainer) refuseReceipt() {
	x.failure(plainFailure(errMinSeq), httpcache.Status{Forward: httpcache.ForwardMiss, Detail: detailMinSeq})
}

// findStored describes answerStored.
func (x *explainer) findStored(d *decision) {
	h := x.h
	d.now = h.c.now()
	if known := h.c.negative.get(d.key, time.Now()); known != nil && known.page != nil && d.minSeq == 0 {
		if state, _ := h.judge(nil, known.page, d.now); state == store.Fresh && d.asked.Accepts(&known.page.entry, d.now) {
			x.hit(known.page, d.now, state, false)
			return
		}
	}
	s := x.search(d.key)
	s.onlyStored = true
	if h.c.stores.Down() == nil {
		o, _ := x.dryRun(s)
		if o, found := o.(storedPage); found && d.asked.Accepts(&o.page.entry, d.now) && (d.minSeq == 0 || h.mayServeSince(o.page, d.now, d.minSeq)) {
			state, _ := h.judge(nil, o.page, d.now)
			x.hit(o.page, d.now, state, false)
			return
		}
	}
	x.uncached()
}

// rendered describes an answer with a new page.
func (x *explainer) rendered(p *page, status httpcache.Status, detail string) {
	if status.ForwardStatus == 0 {
		status.ForwardStatus = p.status()
	}
	if status.Detail == "" {
		status.Detail = detail
	}
	x.page(p, store.Fresh, status)
}
