package isr

import (
	"cmp"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A handler serves one route.
type handler struct {
	c     *Cache
	route *boundRoute
}

// A DraftHandler serves unpublished content to visitors who may see it. The handlers of
// [Cache.Handler] and [Cache.Bind] are DraftHandlers.
type DraftHandler interface {
	// ServeDraft sends a request to the renderer as it is, streams the response, marks it as
	// private and not to be stored, and changes nothing: no page is stored, and an unsafe
	// request purges none. Cache-Status has detail=draft. The caller has verified that the
	// visitor may see drafts, and tells the renderer so, in a way that visitors cannot.
	ServeDraft(http.ResponseWriter, *http.Request)
}

var _ DraftHandler = (*handler)(nil)

func newHandler(c *Cache, b *boundRoute) *handler {
	h := &handler{c: c, route: b}
	b.present.reselect, b.present.lost = h.reselect, h.bodyLost
	return h
}

// ServeHTTP handles a request:
//
//	key -> a receipt: wait until the log is applied up to it
//	    -> memory -> the log was not read for too long: poll it first
//	              -> fresh: write
//	              -> stale: write, and regenerate in the background
//	              -> miss:  join the single flight of the key
//	    -> the log was not read for MaxBlind: as Config.Blind says
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = canonical.Target(r)
	var d decision
	h.decide(r, &d)
	h.execute(w, r, &d)
}

func (h *handler) badRequest(w http.ResponseWriter, err error) {
	status := httpcache.Status{Detail: detailBadRequest}
	ReportOf(w).answer(status)
	w.Header()["Cache-Status"] = []string{status.String()}
	WriteErrorPage(w, http.StatusBadRequest, "Bad request: "+err.Error()+".")
}

// refreshStale starts a regeneration in the background, for one of the requests that
// find a page stale.
func (h *handler) refreshStale(r *http.Request, p *page) {
	if p.nextTry.claim(p) && h.c.stores.Down() == nil {
		h.c.start(h.search(r, p.key))
	}
}

// maxEarlyRefresh bounds [Route.EarlyRefresh].
const maxEarlyRefresh = 10

// refreshEarly starts the regeneration of a fresh page, if this request draws it.
func (h *handler) refreshEarly(w http.ResponseWriter, r *http.Request, p *page, now time.Time) {
	if !p.dueEarly(now, h.route.EarlyRefresh, h.c.cfg.Random) || !p.nextEarly.claim(p) {
		return
	}
	if h.c.negative.get(p.key, time.Now()) != nil {
		return // the last attempt failed, or the page became uncacheable
	}
	if h.c.stores.Down() != nil {
		return // the new page could not be stored
	}
	forwardRequestID(w, r)
	s := h.search(r, p.key)
	s.early = p
	h.c.start(s)
}

// dueEarly decides at random whether a fresh page is regenerated before it expires
// (XFetch: Vattani, Chierichetti and Lowenstein, Optimal Probabilistic Cache
// Stampede Prevention, 2015): if now - delta*beta*ln(rand) >= expiry, where delta is
// the duration of the last render. Draws are independent: the more visitors a page
// has, the earlier one of them starts, and a page without visitors expires. It is on
// the hit path: it takes no lock and allocates nothing, and most hits are too far from
// expiry to draw.
func (p *page) dueEarly(now time.Time, beta float64, random func() uint64) bool {
	return p.mayBeDueEarly(now, beta) &&
		beta*float64(p.entry.RenderTime)*exponential(random()) >= float64(p.entry.FreshUntil().Sub(now))
}

// mayBeDueEarly reports whether a fresh page is close enough to its expiry to draw. A pinned page is
// fresh beyond its window, and is not replaced.
func (p *page) mayBeDueEarly(now time.Time, beta float64) bool {
	spread := beta * float64(p.entry.RenderTime)
	return spread > 0 && float64(p.entry.FreshUntil().Sub(now)) <= maxExponential*spread && !p.entry.PinnedUntil.After(now)
}

// maxExponential is the largest value of [exponential]: -ln(2^-53).
const maxExponential = 53 * math.Ln2

// exponential turns uniformly random bits into an exponentially distributed number with
// mean 1.
func exponential(bits uint64) float64 {
	const steps = 1 << 53 // the number of float64 values in (0, 1] that are equally spaced
	return -math.Log((float64(bits>>(64-53)) + 1) / steps)
}

// search returns a search for a visitor.
func (h *handler) search(r *http.Request, k store.Key) *search {
	return &search{fillRequest: fillRequest{
		route: h.route, key: k, cause: r.Context(), forwarded: h.route.keys.Forwarded(r),
		accept: httpcache.AcceptEncoding(r.Header["Accept-Encoding"]), light: lightRequest(r),
	}, turn: originTurn{clients: h.clients(r)}}
}

// clients returns the client that a request comes from, if the route distinguishes
// clients.
func (h *handler) clients(r *http.Request) []netip.Prefix {
	if h.route.Client == nil {
		return nil
	}
	if client := h.route.Client(r); client.IsValid() {
		return []netip.Prefix{client}
	}
	return nil
}

// client returns the client of a search that one visitor started; invalid if the route does
// not distinguish clients.
func (s *search) client() netip.Prefix {
	if len(s.turn.clients) == 0 {
		return netip.Prefix{}
	}
	return s.turn.clients[0]
}

// waiting returns a search for a visitor who waits for it, with their claim to its response;
// nil without one.
func (h *handler) waiting(r *http.Request, k store.Key, own *handover) *search {
	s := h.search(r, k)
	s.own, s.head = own, r.Method == http.MethodHead
	return s
}

// joinFor joins a flight for a visitor, by join, which is [Cache.join] or
// [Cache.joinUnstored]. leader: the visitor's request started it.
func (h *handler) joinFor(r *http.Request, k store.Key, own *handover, join func(*search) (*flight, bool)) (f *flight, leader bool) {
	s := h.waiting(r, k, own)
	s.skip = h.c.sections.ask(h.route, k)
	if f, leader = join(s); f != nil && !leader {
		f.search.join(s.client())
	}
	return f, leader
}

// find answers a request whose page is not in memory, or too old to be served without
// looking for a newer one: old, which may be nil.
func (h *handler) find(w http.ResponseWriter, r *http.Request, k store.Key, old *page) {
	fwd := httpcache.ForwardMiss
	if old != nil {
		fwd = httpcache.ForwardStale
	}
	if h.answerFromMemory(w, r, k, old, fwd) {
		return
	}
	if b := h.c.stores.Down(); b != nil {
		b.CountAffected()
		h.withoutStore(w, r, k, old, httpcache.Status{Forward: fwd})
		return
	}
	own := h.handOver(r)
	defer own.close()
	came, known := time.Now(), h.c.follower.Committed()
	for attempt := 0; ; attempt++ {
		f, leader := h.joinFor(r, k, own, h.c.join)
		if f == nil {
			got := h.orStale(nil, failure{cause: ErrClosed, detail: detailClosing}, old)
			h.answer(w, r, k, got, httpcache.Status{Forward: fwd})
			return
		}
		if attempt == 0 {
			r = h.hintOld(w, r, old)
		}
		got, ok := h.await(r, f, own, leader, known, old)
		if !ok {
			ReportOf(w).answer(httpcache.Status{Forward: fwd, Collapsed: !leader, Detail: detailCanceled})
			return // the visitor went away; the flight goes on
		}
		f.report(w, came, got)
		if !leader && h.worthRetrying(r, f, got, attempt, came) {
			continue
		}
		if !h.takes(f, got, leader, known) {
			if attempt < maxRejoins {
				continue
			}
			got = orPurged(got)
		}
		if o, failed := got.outcome.(failure); failed && o.fallback == nil && o.detail == detailStoreError {
			h.withoutStore(w, r, k, old, httpcache.Status{Forward: fwd})
			return
		}
		own.waive(got)
		h.answer(w, r, k, got, httpcache.Status{Forward: fwd, Collapsed: !leader})
		return
	}
}

// answerFromMemory answers a request from the negative cache, or with an unpublished page, if
// it can.
func (h *handler) answerFromMemory(w http.ResponseWriter, r *http.Request, k store.Key, old *page, fwd string) bool {
	if h.answerKnown(w, r, k, old, fwd) {
		return true
	}
	requested := 0
	if h.c.uses != nil {
		requested = h.c.uses.Add(k)
	}
	d := decision{key: k}
	if !h.recallUnpublished(&d, requested) {
		return false
	}
	h.execute(w, r, &d)
	return true
}

// answerKnown answers a request from the negative cache, if it can.
func (h *handler) answerKnown(w http.ResponseWriter, r *http.Request, k store.Key, old *page, fwd string) bool {
	d := decision{key: k, page: old, now: h.c.now(), forward: fwd}
	if !h.recall(&d) {
		return false
	}
	h.execute(w, r, &d)
	return true
}

// withoutStore answers a request while a store does not answer, or not in time: with
// the page in memory, even if stale, or with one that is rendered once for all waiting
// requests.
func (h *handler) withoutStore(w http.ResponseWriter, r *http.Request, k store.Key, old *page, status httpcache.Status) {
	got := h.orStale(nil, failure{cause: guard.ErrSlow, detail: detailStoreError}, old)
	if got.outcome.(failure).fallback != nil {
		h.answer(w, r, k, got, status)
		return
	}
	h.answerUnstored(w, r, k, old, status)
}

// awaitEnd waits for the end of the flight, for its stream, or for the response of own. old is the
// page that the caller serves if the render fails; it may be nil. ok is false if the visitor went
// away.
func (h *handler) awaitEnd(r *http.Request, f *flight, own *handover, leader bool, known int64, old *page) (got reply, ok bool) {
	streaming := f.streaming
	for {
		select {
		case <-own.waits():
			return own.reply()
		case <-streaming:
			streaming = nil
			if got, ok := h.attach(r, f, leader, known, old); ok {
				return got, true
			}
		case <-f.done:
			if got, ok := own.reply(); ok {
				return got, true
			}
			return h.reply(f, leader, nil), true
		case <-r.Context().Done():
			return reply{}, false
		}
	}
}

// await waits for what the route's policy lets a visitor wait for: the end of the
// flight, a page that can be served before that, the page that is being rendered, or the response of
// own. ok is false if the visitor went away.
func (h *handler) await(r *http.Request, f *flight, own *handover, leader bool, known int64, old *page) (got reply, ok bool) {
	usable, streaming := f.usable, f.streaming
	var late <-chan time.Time
	if h.route.Policy == Wait {
		timer := time.NewTimer(h.route.wait)
		defer timer.Stop()
		late = timer.C
	}
	for waited := false; ; {
		if waited {
			if got := h.orStale(f, failure{cause: errLate, detail: detailTimeout}, old); got.outcome.(failure).fallback != nil {
				return got, true
			}
		}
		select {
		case <-own.waits():
			return own.reply()
		case <-usable:
			// The flight may have offered the page long before this visitor joined.
			usable = nil
			p := f.stale.Load()
			if p == nil {
				continue
			}
			if h.c.late(p, h.c.now()) {
				// It was read, and judged, too long ago, as by a process that was frozen.
				old = p
				continue
			}
			if state, _ := h.judge(f, p, h.c.now()); state == store.Fresh || state == store.Stale && h.route.Policy != Wait {
				return reply{outcome: storedPage{page: p}, state: state}, true
			}
			old = p
		case <-streaming:
			streaming = nil
			if got, ok := h.attach(r, f, leader, known, old); ok {
				return got, true
			}
		case <-f.overdue:
			if got, ok := own.reply(); ok {
				return got, true
			}
			if rendered := f.rendered.Load(); rendered != nil {
				p := (*rendered)()
				state, _ := h.judge(f, p, h.c.now())
				return reply{outcome: unpublishedPage{page: p, detail: detailUnpublished}, state: state}, true
			}
			return h.orStale(f, failure{cause: guard.ErrSlow, detail: detailStoreError}, old), true
		case <-late:
			waited = true // if the store is slow, the page is read later
		case <-f.done:
			if got, ok := own.reply(); ok {
				return got, true
			}
			return h.reply(f, leader, old), true
		case <-r.Context().Done():
			return reply{}, false
		}
	}
}

// answer serves a reply: a page as a hit or as a new page, a refusal by passing the request
// to the renderer, a failure by its fallback or an error response.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, k store.Key, got reply, status httpcache.Status) {
	switch {
	case got.stream != nil:
		h.serveStream(w, r, got, status)
		return
	case got.own != nil:
		h.serveOwn(w, r, got, status)
		return
	}
	now := h.c.now()
	switch o := got.outcome.(type) {
	case storedPage:
		if d := (decision{asked: h.route.keys.Directives(r)}); !d.asked.Accepts(&o.page.entry, now) {
			d.passAsked()
			h.execute(w, r, &d)
			return
		}
		if !o.waited {
			o.page.serveHit(w, r, h.route.present, now, got.state, false)
			return
		}
		status.Stored, status.Collapsed = true, true
		o.page.serveNew(w, r, h.route.present, now, got.state, status)
	case renderedPage:
		status.Stored, status.ForwardStatus = true, o.forwardStatus
		o.page.serveNew(w, r, h.route.present, now, got.state, status)
	case unpublishedPage:
		status.Detail = cmp.Or(status.Detail, o.detail)
		o.page.serveNew(w, r, h.route.present, now, got.state, status)
	case refusal:
		// The response must not be shared, and is not for this visitor: their own request is
		// passed on.
		status.Detail = o.reason
		switch o.reason {
		case detailLearned:
			h.passLearned(w, r, k, got.flight, status)
		case detailHead:
			h.passHead(w, r, k, status)
		default:
			h.pass(w, r, status)
		}
	case failure:
		h.answerFailure(w, r, o, got.state, status)
	}
}

// passHead passes through a HEAD request for a page that is not stored. If the response says that the page may
// be stored, and so is no one-time link, the page is rendered in the background: the next request finds it.
func (h *handler) passHead(w http.ResponseWriter, r *http.Request, k store.Key, status httpcache.Status) {
	storable := false
	h.passJudged(w, r, k, status, func(v httpcache.Verdict) { storable = v.Refused == "" && !v.Failed })
	if storable && h.c.stores.Down() == nil {
		h.c.join(h.search(r, k))
	}
}

// answerFailure serves a failure: the fallback, if there is one. While the cache
// closes, requests pass through.
func (h *handler) answerFailure(w http.ResponseWriter, r *http.Request, o failure, state store.State, status httpcache.Status) {
	now := h.c.now()
	switch {
	case o.fallback != nil:
		status.Hit, status.Collapsed = true, false
		status.Detail = fallbackDetail(o, state)
		o.fallback.serve(w, r, h.route.present, now, state, status)
	case o.detail == detailClosing:
		status.Collapsed = false
		status.Detail = o.detail
		h.pass(w, r, status)
	default:
		status.Detail = o.detail
		res := o.shown()
		if o.own != nil && !status.Collapsed {
			res = o.own
		}
		h.serveFailure(w, r, res, status, retryAt(o.cause, now))
	}
}

// serveFailure writes an error response that no cache may store.
func (h *handler) serveFailure(w http.ResponseWriter, r *http.Request, res *response, status httpcache.Status, retry time.Time) {
	if status.Forward != "" {
		status.ForwardStatus = res.status
	}
	ReportOf(w).answer(status)
	header := w.Header()
	for name, values := range res.header {
		if httpcache.Replayed(name) {
			header[name] = values
		}
	}
	h.route.present.fields(header)
	header["Cache-Status"] = []string{status.String()}
	header["Cache-Control"] = []string{"no-store"}
	body := res.body
	if res.plain {
		body = append(body[:len(body):len(body)], RequestIDLine(w)...)
	}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	if wait := retry.Sub(h.c.now()); wait > 0 && header["Retry-After"] == nil {
		header["Retry-After"] = []string{strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)}
	}
	w.WriteHeader(res.status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}
