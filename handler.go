package isr

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A handler serves one route.
type handler struct {
	c     *Cache
	route *boundRoute
}

// ServeHTTP is the life of a request:
//
//	key -> memory -> the log was not read for too long: poll first
//	              -> fresh: write
//	              -> stale: write, and look for a newer one behind
//	              -> none:  find or render the page, together with all who want it
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k, bypass, err := h.route.project(r)
	switch {
	case err != nil:
		w.Header()["Cache-Status"] = []string{httpcache.Status{Detail: detailBadRequest}.String()}
		http.Error(w, "Bad request: "+err.Error()+".", http.StatusBadRequest)
		return
	case bypass == bypassMethod:
		h.pass(w, r, httpcache.Status{Forward: httpcache.ForwardMethod})
		return
	case bypass != "":
		h.pass(w, r, httpcache.Status{Forward: httpcache.ForwardBypass, Detail: bypass})
		return
	}
	now := h.c.now()
	p := h.c.memory.get(k)
	cutOff := false
	if f := h.c.follower; f.late(p, now) {
		if f.polled.Load() == nil {
			h.find(w, r, k, p)
			return
		}
		cutOff = f.await(r.Context())
		now, p = h.c.now(), h.c.memory.get(k)
	}
	if p == nil {
		h.find(w, r, k, nil)
		return
	}
	switch state := store.Freshness(&p.entry, h.c.marks.lasting(p.cover), now); state {
	case store.Fresh:
		if h.route.EarlyRefresh > 0 {
			h.refreshEarly(r, p, now)
		}
		p.serveHit(w, r, now, state, cutOff)
	case store.Stale:
		if known := h.c.negative.get(k, time.Now()); known != nil && known.refused != "" {
			// The page became uncacheable: what is stored is not it any more.
			h.passRefused(w, r, k, known)
			return
		}
		if h.route.Policy == Wait {
			h.awaitFresh(w, r, p, now)
			return
		}
		h.refreshBehind(r, p)
		p.serveHit(w, r, now, state, cutOff)
	default:
		h.find(w, r, k, p)
	}
}

// refreshBehind begins the search for a newer page, for one of all the requests
// that find it stale.
func (h *handler) refreshBehind(r *http.Request, p *page) {
	if p.nextTry.claim(p) && h.c.storeDown() == nil {
		h.c.join(&search{route: h.route, key: p.key, clients: h.clients(r)})
	}
}

// clients is the client that a request comes from, if clients are told apart.
func (h *handler) clients(r *http.Request) []netip.Prefix {
	if h.route.Client == nil {
		return nil
	}
	if client := h.route.Client(r); client.IsValid() {
		return []netip.Prefix{client}
	}
	return nil
}

// joinFor begins the flight of a visitor, or joins it by one of the two.
func (h *handler) joinFor(r *http.Request, k store.Key, join func(*search) (*flight, bool)) (f *flight, began bool) {
	s := &search{route: h.route, key: k, clients: h.clients(r)}
	if f, began = join(s); f != nil && !began && len(s.clients) > 0 {
		f.search.join(s.clients[0])
	}
	return f, began
}

// awaitFresh answers a request for a stale page where visitors wait for the new
// one, unless that is known to be in vain.
func (h *handler) awaitFresh(w http.ResponseWriter, r *http.Request, p *page, now time.Time) {
	if !p.nextTry.isDue(p) {
		p.serve(w, r, now, httpcache.Status{Hit: true, Detail: detailBackOff})
		return
	}
	h.find(w, r, p.key, p)
}

// find answers a request whose page is not in memory, or old: too old to serve,
// or such that a new one is to be waited for.
func (h *handler) find(w http.ResponseWriter, r *http.Request, k store.Key, old *page) {
	fwd := httpcache.ForwardMiss
	if old != nil {
		fwd = httpcache.ForwardStale
	}
	if h.answerKnown(w, r, k, old, fwd) {
		return
	}
	// Once a page is asked for often enough, it is to be stored.
	due := h.c.uses != nil && h.c.uses.add(k) >= h.c.cfg.MinUses && !h.c.full()
	if p := h.c.unpublished.get(k); p != nil && !due {
		p.serve(w, r, h.c.now(), httpcache.Status{Hit: true, Detail: detailUnpublished})
		return
	}
	if b := h.c.storeDown(); b != nil {
		b.affected.Add(1)
		h.withoutStore(w, r, k, old, httpcache.Status{Forward: fwd})
		return
	}
	came := time.Now()
	for again := 0; ; again++ {
		f, began := h.joinFor(r, k, h.c.join)
		if f == nil {
			o := h.orStale(new(flight), outcome{err: ErrClosed, detail: detailClosing}, old)
			h.answer(w, r, k, o, httpcache.Status{Forward: fwd})
			return
		}
		o, ok := h.await(r.Context(), f, began, old)
		if !ok {
			return // the visitor went away; the flight goes on
		}
		if !began && o.page != nil && o.how == fromStore {
			// Found for whoever began, when it could still be served.
			switch {
			case o.err == nil && f.state(o.page, h.c.now()) < store.Stale:
				continue
			case o.err != nil && !servable(&o.page.entry, f.known(o.page.cover), h.c.now()):
				o.page = nil
			}
		}
		if o.detail == detailStoreError && o.page == nil {
			h.withoutStore(w, r, k, old, httpcache.Status{Forward: fwd})
			return
		}
		if f.forced && !began && o.page == nil && o.detail != detailHeld {
			continue // that it had to be made now was not this visitor's wish
		}
		if !began && o.page == nil && o.detail == detailOriginBusy && h.route.Client != nil &&
			again < maxPayers && time.Since(came) < h.c.cfg.Wait {
			continue // there may be room for this client where there is none for another
		}
		h.answer(w, r, k, o, httpcache.Status{Forward: fwd, Collapsed: !began})
		return
	}
}

// answerKnown answers a request from the negative cache, if that has an answer.
func (h *handler) answerKnown(w http.ResponseWriter, r *http.Request, k store.Key, old *page, fwd string) bool {
	now := h.c.now()
	known := h.c.negative.get(k, time.Now())
	switch {
	case known == nil:
		return false
	case known.refused != "":
		h.passRefused(w, r, k, known)
	case known.page != nil && h.state(known.page) == store.Fresh:
		known.page.serveHit(w, r, now, store.Fresh, false)
	case known.failed != nil && old == nil:
		h.serveFailure(w, r, known.failed, httpcache.Status{Forward: fwd, Detail: detailBackOff}, now.Add(time.Until(known.until)))
	default:
		return false
	}
	return true
}

// withoutStore answers a request for which the stores cannot be asked, or not in
// time: with the page at hand, be it stale, or with one that is rendered once for
// all who want it now.
func (h *handler) withoutStore(w http.ResponseWriter, r *http.Request, k store.Key, old *page, status httpcache.Status) {
	o := h.orStale(new(flight), outcome{err: errStoreSlow, detail: detailStoreError}, old)
	if o.page == nil {
		f, began := h.joinFor(r, k, h.c.joinUnstored)
		switch {
		case f == nil:
			o = outcome{err: ErrClosed, detail: detailClosing}
		case !began && h.route.Policy == Fail:
			o = outcome{err: errMaking, detail: detailHeld}
		default:
			select {
			case <-f.done:
			case <-r.Context().Done():
				return
			}
			o = f.outcome
		}
		status.Collapsed = f != nil && !began
	}
	if o.page == nil && o.refused == "" && old != nil && !old.dropped.Load() && h.servable(old) {
		o.page, o.how = old, fromStore
	}
	h.answer(w, r, k, o, status)
}

// servable says whether a page may be served in place of a failure.
func (h *handler) servable(p *page) bool {
	return servable(&p.entry, h.c.marks.lasting(p.cover), h.c.now())
}

// await is what the route's policy has a visitor wait for of a flight: its end, or
// a page that can be served meanwhile, or the word that he would have to wait. It
// is not ok if the visitor went away.
func (h *handler) await(ctx context.Context, f *flight, began bool, old *page) (o outcome, ok bool) {
	usable, making := f.usable, f.making
	if began || h.route.Policy != Fail {
		making = nil
	}
	var late <-chan time.Time
	if h.route.Policy == Wait {
		timer := time.NewTimer(h.c.cfg.Wait)
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-usable:
			// The flight may have been long under way when this visitor came.
			usable = nil
			p := f.stale.Load()
			if p == nil {
				continue
			}
			if state := f.state(p, h.c.now()); state == store.Fresh || state == store.Stale && h.route.Policy != Wait {
				return outcome{page: p, how: fromStore}, true
			}
			old = p
		case <-making:
			return outcome{err: errMaking, detail: detailHeld}, true
		case <-f.overdue:
			if rendered := f.rendered.Load(); rendered != nil {
				return outcome{page: (*rendered)(), how: unpublished, detail: detailUnpublished}, true
			}
			return h.orStale(f, outcome{err: errStoreSlow, detail: detailStoreError}, old), true
		case <-late:
			if o := h.orStale(f, outcome{err: errLate, detail: detailTimeout}, old); o.page != nil {
				return o, true
			}
			late = nil // there is nothing else to be had
		case <-f.done:
			if f.forced && !began {
				return f.outcome, true
			}
			return h.orStale(f, f.outcome, old), true
		case <-ctx.Done():
			return outcome{}, false
		}
	}
}

var (
	errMaking = errors.New("the page is being made")
	errLate   = errors.New("the new page did not come in time")
)

// orStale is an outcome, with an older page for a visitor who would get none and
// may be served that. One that was dropped meanwhile may be withdrawn.
func (h *handler) orStale(f *flight, o outcome, old *page) outcome {
	if o.page == nil && o.refused == "" && old != nil && !old.dropped.Load() && f.state(old, h.c.now()) >= store.Stale {
		o.page, o.how = old, fromStore
	}
	return o
}

// state is what a page is worth now.
func (h *handler) state(p *page) store.State {
	return store.Freshness(&p.entry, h.c.marks.lasting(p.cover), h.c.now())
}

// answer serves the outcome of a flight to one who waited for it.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, k store.Key, o outcome, status httpcache.Status) {
	now := h.c.now()
	switch {
	case o.page != nil && o.err != nil && o.how != unpublished:
		switch h.state(o.page) {
		case store.Fresh:
			if o.detail == detailStoreError {
				status.Detail = detailCutOff
			}
		case store.Stale:
			status.Detail = o.detail
		default:
			status.Detail = detailStaleIfError
		}
		status.Hit, status.Collapsed = true, false
		o.page.serve(w, r, now, status)
	case o.page != nil && o.how == fromStore:
		o.page.serveHit(w, r, now, h.state(o.page), false)
	case o.page != nil:
		status.ForwardStatus = o.page.status()
		status.Stored = o.how != unpublished
		status.Collapsed = status.Collapsed || o.how == fromWait
		status.Detail = o.detail
		o.page.serve(w, r, now, status)
	case o.refused != "":
		// What was rendered is nobody's: each asks with the request it sent.
		status.Detail = o.refused
		h.pass(w, r, status)
	case o.detail == detailClosing:
		status.Collapsed = false
		status.Detail = o.detail
		h.pass(w, r, status)
	default:
		status.Collapsed = status.Collapsed && o.detail != detailHeld
		status.Detail = o.detail
		h.serveFailure(w, r, orPlain(o.failed, o.err), status, retryAt(o.err, now))
	}
}

// serveFailure shows a failure that is not to be cached by anybody.
func (h *handler) serveFailure(w http.ResponseWriter, r *http.Request, res *response, status httpcache.Status, retry time.Time) {
	status.ForwardStatus = res.status
	header := w.Header()
	for name, values := range res.header {
		header[name] = values
	}
	header["Cache-Status"] = []string{status.String()}
	header["Cache-Control"] = []string{"no-store"}
	header["Content-Length"] = []string{strconv.Itoa(len(res.body))}
	if wait := retry.Sub(h.c.now()); wait > 0 {
		header["Retry-After"] = []string{strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)}
	}
	w.WriteHeader(res.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(res.body)
	}
}

// orPlain is what visitors are shown of a failure: the renderer's answer, if there is one.
func orPlain(failed *response, err error) *response {
	if failed != nil {
		return failed
	}
	return plainFailure(err)
}

// plainFailure is what a visitor sees where the renderer had nothing to show.
// It says nothing of the inside.
func plainFailure(err error) *response {
	status := http.StatusBadGateway
	var held *store.HeldError
	var spared *BudgetError
	switch {
	case errors.As(err, &held), errors.As(err, &spared), errors.Is(err, errMaking):
		status = http.StatusServiceUnavailable
	case errors.Is(err, errRenderTime), errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	}
	return &response{
		status: status,
		header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		body:   []byte("This page is not available right now. Please try again in a moment.\n"),
	}
}

// retryAt is when it is worth to come back: the holder of a lease may be done at
// any time, a back-off has an end.
func retryAt(err error, now time.Time) time.Time {
	var held *store.HeldError
	var spared *BudgetError
	switch {
	case errors.As(err, &held) && held.Lock.IsBackOff():
		return held.Lock.ExpiresAt
	case errors.As(err, &spared):
		return now.Add(spared.RetryAfter)
	}
	return now.Add(busyRetry)
}
