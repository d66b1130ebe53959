package isr

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/details"
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
	s.c, s.pk = x.h.c, x.h.c.cfg.Partition(k)
	s.f = &flight{search: s, waitTimes: new(waitTimes), streaming: make(chan struct{})}
	s.since = time.Now()
	return s
}

// look reads the record of a search, without the effects of [search.read].
func (s *search) look(x *explainer) (rec store.Record, err error) {
	s.asOf = s.c.follower.Committed()
	if rec, s.latest, err = s.c.readRow(x.ctx(), s.key, s.pk); err == nil {
		err = s.c.addMarks(x.ctx(), s.key, &rec, &s.latest)
	}
	if err == nil {
		s.adapt(&rec)
	}
	return rec, err
}

// lookAt makes a page of a record, without its body, and without the effects of [search.load].
func (s *search) lookAt(x *explainer, rec store.Record) (*page, error) {
	e := *rec.Entry
	if last := s.c.memory.last(s.key); last != nil && sameBody(&last.entry, &e) {
		p := newPage(s.key, e, rec.Purges, s.latest, nil, s.route.present)
		p.rejected.Store(last.rejected.Load() && !last.dropped.Load() && sameEntry(&last.entry, &e))
		return p, nil
	}
	info, err := s.c.bodies.Stat(x.ctx(), e.BodyKey)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey), err == nil && !e.Foreign && info.Length != e.Length:
		return nil, fmt.Errorf("%w: %s", ErrNoBody, e.BodyKey)
	case err == nil && info.Length > s.c.cfg.MaxBody:
		return nil, bodies.ErrTooLarge
	case err == nil && e.Foreign:
		err = bodies.Present(&e, info.Presentation)
	}
	if err != nil {
		return nil, err
	}
	return newPage(s.key, e, rec.Purges, s.latest, nil, s.route.present), nil
}

// run describes the flight that a request starts.
func (x *explainer) run(d *decision, old *page) {
	s := x.search(d.key)
	s.minSeq, s.uncounted = d.minSeq, 1
	fwd := d.forward
	rec, err := s.look(x)
	if err != nil {
		x.storeFailed(s, err, old, httpcache.Status{Forward: fwd})
		return
	}
	switch known := s.knownNegative(rec).(type) {
	case refusal:
		x.pass(httpcache.Status{Forward: fwd, Detail: known.reason})
		return
	case storedPage:
		x.hit(known.page, x.h.c.now(), store.Fresh, false)
		return
	}
	now := s.c.now()
	state := store.Freshness(rec.Entry, rec.Purges, now)
	x.stored(rec, state, now)
	if state == store.Fresh || state == store.Stale {
		p, err := s.lookAt(x, rec)
		switch {
		case err == nil && s.suffices(rec, state):
			x.reply(d, p)
			return
		case err == nil && x.h.route.Policy != Wait && s.minSeq == 0:
			x.reply(d, p)
			x.regenerated()
			return
		case err == nil:
			old = p
		case errors.Is(err, ErrNoBody):
			x.because("the entry counts as missing: "+err.Error(), "")
			s.missBody(rec.Entry.BodyKey, err)
		case errors.Is(err, bodies.ErrTooLarge):
			if state == store.Fresh {
				x.pass(httpcache.Status{Forward: fwd, Detail: httpcache.RefusedTooLarge})
				return
			}
		default:
			x.storeFailed(s, err, old, httpcache.Status{Forward: fwd})
			return
		}
	}
	x.proceed(s, rec, old, fwd)
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

// proceed describes what a search does whose stored page does not end it. old is a page that may
// be served in place of a failure, nil without.
func (x *explainer) proceed(s *search, rec store.Record, old *page, fwd string) {
	status := httpcache.Status{Forward: fwd}
	next := s.next(rec, s.c.now())
	if o, refused := next.end.(refusal); refused {
		x.passUnrendered(o.reason, status)
		return
	}
	switch {
	case next.end != nil:
		x.fail(s, next.end.(failure), old, status)
	case next.unstored != "":
		x.unstored(s, old, status, next.unstored)
	case next.render && s.route.budget.IsOpen():
		x.fail(s, x.unavailable(s, rec, &budget.Error{Open: true}, detailOriginFailing), old, status)
	case next.render:
		switch _, tooMany, err := s.otherVariants(x.ctx(), rec); {
		case err != nil:
			x.storeFailed(s, err, old, status)
		case tooMany:
			x.pass(httpcache.Status{Forward: fwd, Detail: detailVariants})
		default:
			// Of the variants that the request would render before this one, the store knows nothing.
			x.out.Open = x.out.Open || x.learned
			x.learned = x.learned || len(s.route.keys.Learned(s.key)) > 0
			x.render(s, rec, old, status)
		}
	case rec.Lock.IsBackOff():
		x.fail(s, x.unavailable(s, rec, &store.HeldError{Lock: *rec.Lock}, detailBackOff), old, status)
	default:
		x.because((&store.HeldError{Lock: *rec.Lock}).Error()+"; the request waits for its page", "RFC 9211, section 2.6")
		x.out.Open = true
		x.settle(VerdictMiss, 0, httpcache.Status{Forward: fwd, Stored: true, Collapsed: true}.String())
	}
}

// passUnrendered describes a request that passes through because no page is rendered for it.
func (x *explainer) passUnrendered(reason string, status httpcache.Status) {
	if d, ok := details.Of(reason); ok {
		x.because(d.Meaning, d.RFC)
	}
	status.Detail = reason
	x.pass(status)
}

// unavailable is [search.unavailable] without the effects of a load.
func (x *explainer) unavailable(s *search, rec store.Record, cause error, detail string) failure {
	o := failure{cause: cause, detail: detail}
	if s.servableOnError(rec) {
		if p, err := s.lookAt(x, rec); err == nil {
			o.fallback = p
		}
	}
	return o
}

// fail describes an answer with a failure, or with an older page in its place.
func (x *explainer) fail(s *search, o failure, old *page, status httpcache.Status) {
	if s.minSeq > 0 && !x.h.meets(o, s.minSeq) {
		x.refuseReceipt()
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

// storeFailed describes the end of a search that the store does not answer.
func (x *explainer) storeFailed(s *search, err error, old *page, status httpcache.Status) {
	x.because("the store does not answer: "+err.Error(), "")
	if s.minSeq > 0 {
		x.refuseReceipt()
		return
	}
	x.withoutStore(s.key, old, status)
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
	s := x.search(k)
	if p := x.h.c.unpublished.get(k); p != nil {
		x.rendered(p, status, detailStoreError)
		return
	}
	if pass := s.passesUnknown(); pass != "" {
		x.passUnrendered(pass, status)
		return
	}
	if s.route.budget.IsOpen() {
		got := x.h.orStaleIfError(failure{cause: &budget.Error{Open: true}, detail: detailOriginFailing}, old)
		x.answerFailure(got.outcome.(failure), got.state, status)
		return
	}
	x.unstored(s, old, status, detailStoreError)
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
		if rec, err := s.look(x); err == nil && s.knownNegative(rec) == nil {
			state := store.Freshness(rec.Entry, rec.Purges, d.now)
			x.stored(rec, state, d.now)
			if state == store.Fresh || state == store.Stale {
				if p, err := s.lookAt(x, rec); err == nil && d.asked.Accepts(&p.entry, d.now) && (d.minSeq == 0 || h.mayServeSince(p, d.now, d.minSeq)) {
					x.hit(p, d.now, state, false)
					return
				}
			}
		}
	}
	x.uncached()
}

// render describes a render whose page is stored. Without fetch, what it makes is open.
func (x *explainer) render(s *search, rec store.Record, old *page, status httpcache.Status) {
	x.because("the page is rendered, and stored if the response allows it", "RFC 9111, section 3")
	if !x.fetch {
		x.out.Open = true
		x.settle(VerdictMiss, 0, status.String())
		return
	}
	seq, err := s.sequence(x.ctx(), rec)
	if err != nil {
		x.storeFailed(s, err, old, status)
		return
	}
	got, at := x.ask(s, rec, func() (rendering, timing) { return s.produce(x.ctx(), rec, seq) })
	switch {
	case got.failure != nil:
		o := x.unavailable(s, rec, got.failure, failureDetail(got.failure))
		o.response, o.own = got.failed, got.own
		x.fail(s, o, old, status)
		return
	case got.refused != "":
		x.pass(httpcache.Status{Forward: status.Forward, Detail: got.refused})
		return
	}
	next := s.entry(got, at, seq, rec)
	if why := s.suspicious(rec, got); why != "" {
		x.fail(s, x.unavailable(s, rec, fmt.Errorf("%w: %s", ErrRejected, why), detailRejected), old, status)
		return
	}
	detail := ""
	if s.staysInMemory(rec, &next) {
		detail = detailNegative
	} else {
		status.Stored = true
	}
	if got.renews {
		status.ForwardStatus = http.StatusNotModified
	}
	x.rendered(newUnpublishedPage(s.key, next, at, got.response.body, s.route.present), status, detail)
}

// unstored describes a render whose page is not stored, for a reason.
func (x *explainer) unstored(s *search, old *page, status httpcache.Status, why string) {
	if !x.fetch {
		x.because("the page is rendered, and not stored ("+why+")", "")
		x.out.Open = true
		x.settle(VerdictMiss, 0, status.String())
		return
	}
	got, at := x.ask(s, store.Record{}, func() (rendering, timing) { return s.render(x.ctx(), store.Record{}, s.asOf, why, nil) })
	if got.response != nil {
		if why := s.route.rejects(got.response, nil); why != "" {
			got = rendering{failure: fmt.Errorf("%w: %s", ErrRejected, why)}
		}
	}
	switch {
	case got.failure != nil:
		o := failure{cause: got.failure, detail: failureDetail(got.failure), response: got.failed, own: got.own}
		reply := x.h.orStaleIfError(o, old)
		x.answerFailure(reply.outcome.(failure), reply.state, status)
	case got.refused != "":
		status.Detail = got.refused
		x.pass(status)
	default:
		x.rendered(newUnpublishedPage(s.key, s.entry(got, at, s.asOf, store.Record{}), at, got.response.body, s.route.present), status, why)
	}
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
