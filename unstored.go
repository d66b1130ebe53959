package isr

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// During an outage of a store a visitor waits for at most Config.StoreTimeout, and the
// origin renders a page once per flight:
//
//	request -> memory -> unpublished pages -> breaker closed: flight -> the store
//	                           ^                                |
//	                           |              it fails, or takes too long
//	                           |                                v
//	                           +--- render, not stored <- unstored flight
//
// A flight whose store calls have failed, or have taken longer than Config.StoreTimeout
// in all, sends its waiting requests to the unstored flight of the key, which renders
// once, within the origin's budget, and never calls a store. The first flight goes on in
// the background, and publishes what was rendered if the page is not stored yet: a store
// that is slow, but not down, gets its page by the same render. After several failures
// in a row the store's circuit breaker opens (see internal/breaker), and no flight calls the
// store until a probe succeeds.

const (
	// keepUnpublished bounds how long a page that could not be published is served by
	// this process. It is short because no other process knows the page: if this one
	// cannot read the log, a purge, a rollback or a newer page of another process
	// takes effect only after that time.
	keepUnpublished = 5 * time.Second
	// unpublishedShare is the part of Config.Memory that such pages may take, in
	// addition to it.
	unpublishedShare = 8
	// useWindow is how long the uses of a page count for Config.MinUses, at least; up
	// to twice that.
	useWindow = 30 * time.Minute
)

// unpublishedPages are pages that were rendered for visitors and could not be stored,
// kept for keepUnpublished each. They are not part of the memory tier: no other process
// knows them, and the store takes precedence. While one is served, the store is asked again about once a second.
type unpublishedPages struct {
	c     *Cache
	byKey *otter.Cache[store.Key, *page] // nil: nothing is kept
}

func newUnpublishedPages(bytes int64, c *Cache) (*unpublishedPages, error) {
	byKey, err := newPages(bytes, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("the memory of unpublished pages: %w", err)
	}
	return &unpublishedPages{c: c, byKey: byKey}, nil
}

// get returns a page that may still be served, or nil. A page that is purged is rendered
// again, even if the purge was soft: these pages are not regenerated behind.
func (u *unpublishedPages) get(k store.Key) *page {
	if u.byKey == nil {
		return nil
	}
	p, _ := u.byKey.GetIfPresent(k)
	if p == nil {
		return nil
	}
	if time.Since(p.read.ended) >= min(keepUnpublished, p.entry.Revalidate) || u.c.floor.above(p.read.began) ||
		p.entry.CoveredBy(u.c.purges(nil, p, u.c.now())) {
		u.forget(k)
		return nil
	}
	return p
}

// put keeps a page that a flight has rendered, unless the page was reloaded or purged since
// the render began.
func (u *unpublishedPages) put(p *page, f *flight) {
	if u.byKey == nil {
		return
	}
	u.byKey.Compute(p.key, func(old *page, _ bool) (*page, otter.ComputeOp) {
		// Checked under the key's lock, which forget takes after the reload was
		// recorded.
		if f.overtaken(p.read.began) || p.entry.CoveredBy(u.c.purges(f, p, u.c.now())) {
			return old, otter.CancelOp
		}
		return p, otter.WriteOp
	})
}

func (u *unpublishedPages) forget(k store.Key) {
	if u.byKey != nil {
		u.byKey.Invalidate(k)
	}
}

// newUnpublishedPage makes the page of an entry that is not in the store. It is as old
// as its render.
func newUnpublishedPage(k store.Key, e store.Entry, at timing, body []byte, as *presentation) *page {
	return newPage(k, e, store.PurgeState{}, reading{began: at.began, ended: at.began.Add(at.took)}, body, as)
}

// lookForStored looks for the stored page behind a request that gets an unpublished one, of an outage that may be over: the
// store may have had a page all along, which takes precedence, such as one that an operator has rolled back to.
func (h *handler) lookForStored(r *http.Request, p *page) {
	if p.outage && p.nextTry.claim(p) && h.c.stores.Down() == nil {
		s := h.search(r, p.key)
		s.onlyStored = true
		h.c.start(s)
	}
}

// answerUnstored answers a request with a page that is rendered once for all waiting
// requests, and is not stored; or, if there is none, with old, if that may be served in
// place of a failure.
func (h *handler) answerUnstored(w http.ResponseWriter, r *http.Request, k store.Key, old *page, status httpcache.Status) {
	var got reply
	own := h.handOver(r)
	defer own.close()
	came, known := time.Now(), h.c.follower.Committed()
	for attempt := 0; ; attempt++ {
		f, leader := h.joinFor(r, k, own, h.c.joinUnstored)
		status.Collapsed = f != nil && !leader
		switch {
		case f == nil:
			got = reply{outcome: failure{cause: ErrClosed, detail: detailClosing}}
		default:
			var here bool
			if got, here = h.awaitEnd(r, f, own, leader, known, old); !here {
				status.Detail = detailCanceled
				ReportOf(w).answer(status)
				return
			}
			f.report(w, came, got)
			if !leader && f.search.head && h.worthRetrying(r, f, got, attempt, came) {
				continue
			}
			if !h.takes(f, got, leader, known) && attempt < maxRejoins {
				if h.c.stores.Down() == nil && !h.c.blind(h.c.now()) {
					// The render may have taken long: the store is asked again.
					h.find(w, r, k, old)
					return
				}
				continue
			}
		}
		break
	}
	got = orPurged(got)
	if o, failed := got.outcome.(failure); failed {
		got = h.orStaleIfError(o, old)
	}
	own.waive(got)
	h.answer(w, r, k, got, status)
}

// runUnstored executes a search without the stores: it renders the page for the waiting
// requests, by the same projection and under the same rules as any render. detail is the
// reason in Cache-Status.
func (s *search) runUnstored(ctx context.Context, detail string) (o outcome) {
	defer s.releaseMemory()
	defer s.leave(budget.ErrNoVerdict)
	s.since = time.Now()
	if p := s.c.unpublished.get(s.key); p != nil {
		return unpublishedPage{page: p, detail: detail} // of the previous flight
	}
	if pass := s.passesUnknown(); pass != "" {
		return refusal{pass}
	}
	for come := false; !come; {
		var err error
		if come, err = s.awaitTurn(ctx, store.Record{}); err != nil {
			return failure{cause: err, detail: admissionDetail(err)}
		}
	}
	s.storeWait.stop()                // no store is called
	s.asOf = s.c.follower.Committed() // before the render: a later purge has a higher number
	_, known := s.c.follower.Applied()
	ctx = s.beginRender(ctx, triggerUnstored)
	defer func() { s.endRender(o) }()
	got, at := s.render(ctx, store.Record{}, s.asOf, detail, nil)
	s.learn(got)
	defer s.settleStreams()
	s.leave(s.verdict(ctx, 0, got))
	if got.response != nil {
		if why := s.route.rejects(got.response, nil); why != "" {
			got = rendering{failure: fmt.Errorf("%w: %s", ErrRejected, why)}
		}
	}
	switch {
	case ctx.Err() != nil:
		return failure{cause: context.Cause(ctx), detail: detailClosing}
	case got.failure != nil:
		return s.failedUnstored(got, at)
	case got.refused != "" && !got.verdict.Withdraws:
		return s.refused(at.began, got.refused)
	}
	if got.verdict.Withdraws { // the store may have a copy, and cannot be updated
		s.withdrawHere(at, got.refused)
	}
	if got.refused != "" {
		return refusal{got.refused}
	}
	p := newUnpublishedPage(s.key, s.entry(got, at, s.asOf, store.Record{}), at, got.response.body, s.route.present)
	p.outage = detail == detailStoreError
	s.c.unpublished.put(p, s.f)
	if known {
		s.c.flights.give(s.key, p)
	}
	return unpublishedPage{page: p, detail: detail}
}

// awaitUnstored waits for the unstored flight of the key, if there is one and the store
// has kept visitors waiting for too long: this search then does not render the page a
// second time. It waits only once, and reports whether it did.
func (s *search) awaitUnstored(ctx context.Context) bool {
	if s.force || s.gaveWay || !s.isOverdue() {
		return false
	}
	f := s.c.unstored.current(s.key)
	if f == nil {
		return false
	}
	s.gaveWay = true
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	return true
}

func (s *search) isOverdue() bool {
	select {
	case <-s.f.overdue:
		return true
	default:
		return false
	}
}

// unstored returns the page that was rendered without the store while this search was
// calling it, if the holder of the lease may publish that page: it is fresh, and would
// replace nothing. Otherwise nil. The page has the purge sequence that was known before
// the render, so that later purges cover it.
func (s *search) unstored(rec store.Record) *page {
	p := s.f.unstored.Load()
	if p == nil || s.force || rec.Entry != nil || rec.Malformed != nil ||
		s.c.floor.above(p.read.began) || s.f.overtaken(p.read.began) ||
		store.Freshness(&p.entry, s.c.purges(s.f, p, s.c.now()), s.c.now()) != store.Fresh || s.staysInMemory(rec, &p.entry) {
		return nil
	}
	return p
}

// failedUnstored remembers a failure in this process, since the back-off cannot be
// stored.
func (s *search) failedUnstored(got rendering, at timing) outcome {
	o, pause := failure{cause: got.failure, detail: failureDetail(got.failure), response: got.failed, own: got.own}, s.c.backOff(0)
	s.c.log.Warn("rendering failed", "key", s.key.String(), "error", got.failure, "took", at.took.Round(time.Millisecond), "next", pause.Round(time.Millisecond))
	s.c.negative.put(s.key, &negativeEntry{readAt: at.began, seq: s.asOf, until: time.Now().Add(pause), failed: o.shown()}, s.f)
	return o
}

// notWorthStoring returns the reason for which a page that is not stored is rendered
// without being stored: it was not requested often enough, or there is no room. Empty:
// it is stored.
func (s *search) notWorthStoring(rec store.Record) (detail string) {
	switch {
	case rec.Entry != nil || s.force:
		return ""
	case s.c.uses != nil && s.c.uses.Count(s.key)+s.uncounted < s.c.cfg.MinUses:
		return detailMinUses
	case s.c.full():
		return detailNoRoom
	}
	return ""
}

// full reports whether the stores have no room for another page.
func (c *Cache) full() bool { return c.cfg.Full != nil && c.cfg.Full() }
