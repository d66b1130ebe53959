package isr

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// A handler serves one route.
type handler struct {
	c     *Cache
	route *boundRoute
}

// ServeHTTP is the life of a request:
//
//	key -> memory -> fresh: write
//	              -> stale: write, and look for a newer one behind
//	              -> none:  find or render the page, together with all who want it
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k, bypass, err := h.route.project(r)
	switch {
	case err != nil:
		w.Header()["Cache-Status"] = []string{cacheStatus{detail: detailBadRequest}.String()}
		http.Error(w, "Bad request: "+err.Error()+".", http.StatusBadRequest)
		return
	case bypass == bypassMethod:
		h.pass(w, r, cacheStatus{fwd: fwdMethod})
		return
	case bypass != "":
		h.pass(w, r, cacheStatus{fwd: fwdBypass, detail: bypass})
		return
	}
	now := h.c.now()
	p := h.c.memory.get(k)
	if p == nil {
		h.find(w, r, k, nil)
		return
	}
	switch state := Freshness(&p.entry, p.cover, now); state {
	case Fresh:
		p.serveHit(w, r, now, state)
	case Stale:
		if s := h.c.shortcuts.get(k, now); s != nil && s.refused != "" {
			// The page became uncacheable: what is stored is not it any more.
			h.passRefused(w, r, k, s.refused)
			return
		}
		h.refreshBehind(p, now)
		p.serveHit(w, r, now, state)
	default:
		h.find(w, r, k, p)
	}
}

// refreshBehind begins the search for a newer page, for one of all the requests
// that find it stale.
func (h *handler) refreshBehind(p *page, now time.Time) {
	next := p.nextTry.Load()
	if now.UnixNano() < next || !p.nextTry.CompareAndSwap(next, now.Add(maxPoll).UnixNano()) {
		return
	}
	h.c.join(h.route, p.key, false)
}

// find answers a request whose page is not in memory, or is too old to serve.
func (h *handler) find(w http.ResponseWriter, r *http.Request, k Key, expired *page) {
	fwd := fwdMiss
	if expired != nil {
		fwd = fwdStale
	}
	if s := h.c.shortcuts.get(k, h.c.now()); s != nil {
		if s.refused != "" {
			h.passRefused(w, r, k, s.refused)
			return
		}
		if expired == nil {
			h.serveFailure(w, r, s.failed, cacheStatus{fwd: fwd, detail: detailBackOff}, s.until)
			return
		}
	}
	for {
		f, began := h.c.join(h.route, k, false)
		if f == nil {
			h.pass(w, r, cacheStatus{fwd: fwd, detail: detailClosing})
			return
		}
		select {
		case <-f.usable:
			now := h.c.now()
			f.stale.serveHit(w, r, now, Stale)
			return
		case <-f.done:
		case <-r.Context().Done():
			return // the visitor went away; the flight goes on
		}
		if f.forced && !began && f.outcome.page == nil {
			continue
		}
		h.answer(w, r, k, f.outcome, cacheStatus{fwd: fwd, collapsed: !began})
		return
	}
}

// answer serves the outcome of a flight to one who waited for it.
func (h *handler) answer(w http.ResponseWriter, r *http.Request, k Key, o outcome, status cacheStatus) {
	now := h.c.now()
	switch {
	case o.page != nil && o.err != nil && o.how != unpublished:
		status.detail = detailStaleIfError
		status.hit, status.collapsed = true, false
		o.page.serve(w, r, now, status)
	case o.page != nil && o.how == fromStore:
		o.page.serveHit(w, r, now, Freshness(&o.page.entry, o.page.cover, now))
	case o.page != nil:
		status.fwdStatus = o.page.status()
		status.stored = o.how != unpublished
		status.collapsed = status.collapsed || o.how == fromWait
		status.detail = o.detail
		o.page.serve(w, r, now, status)
	case o.refused != "":
		// What was rendered is nobody's: each asks with the request it sent.
		status.detail = o.refused
		h.pass(w, r, status)
	case o.detail == detailStoreError, o.detail == detailClosing:
		status.collapsed = false
		status.detail = o.detail
		h.pass(w, r, status)
	default:
		status.detail = o.detail
		res := o.failed
		if res == nil {
			res = plainFailure(o.err)
		}
		h.serveFailure(w, r, res, status, retryAt(o.err, now))
	}
}

// serveFailure shows a failure that is not to be cached by anybody.
func (h *handler) serveFailure(w http.ResponseWriter, r *http.Request, res *response, status cacheStatus, retry time.Time) {
	status.fwdStatus = res.status
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

// plainFailure is what a visitor sees where the renderer had nothing to show.
// It says nothing of the inside.
func plainFailure(err error) *response {
	status := http.StatusBadGateway
	var held *HeldError
	switch {
	case errors.As(err, &held):
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

func retryAt(err error, now time.Time) time.Time {
	var held *HeldError
	if errors.As(err, &held) {
		return held.Lock.ExpiresAt
	}
	return now.Add(time.Second)
}
