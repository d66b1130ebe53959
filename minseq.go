package isr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/changelog"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A request with the receipt of a purge in ISR-Min-Seq is never answered with anything that
// the purge covers, by no node (read-your-writes, for editors):
//
//	ISR-Min-Seq: 17 ──► the log is applied up to 17 ──► the page in memory, if it is newer
//	                    │ else poll, for StoreTimeout    │ or not covered; else
//	                    └──► 400: SEQ is lower           └──► wait for a new generation,
//	                         503: the log is unreadable       or 503
//
// Anyone may send it. It costs a poll of the log at most, and these are shared and limited;
// what it waits for is what a cache miss waits for.

const minSeqHeader = "Isr-Min-Seq"

// Pauses before a visitor with a receipt joins a further flight, because the last one has
// found an older page.
const (
	firstRejoin = 20 * time.Millisecond
	maxRejoin   = time.Second
)

var errMinSeq = errors.New("no page is as new as the receipt demands")

// parseMinSeq parses ISR-Min-Seq.
func parseMinSeq(values []string) (int64, error) {
	if len(values) != 1 {
		return 0, fmt.Errorf("the header ISR-Min-Seq must be given once (found %d times)", len(values))
	}
	seq, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil {
		return 0, fmt.Errorf("the header ISR-Min-Seq must be the receipt of a purge, a decimal number (got %.40q)", values[0])
	}
	return int64(seq), nil
}

// reachReceipt waits until this node has applied the log up to the receipt of a request,
// for at most Config.StoreTimeout. If it cannot, it answers the request, and ok is false.
func (h *handler) reachReceipt(w http.ResponseWriter, r *http.Request, values []string) (seq int64, ok bool) {
	seq, err := parseMinSeq(values)
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), h.c.cfg.StoreTimeout)
		defer cancel()
		err = h.c.follower.Reach(ctx, seq)
		switch {
		case err == nil:
			return seq, true
		case errors.Is(err, changelog.ErrAhead):
			err = fmt.Errorf("the receipt %d in ISR-Min-Seq is higher than the sequence of the log: it is of another table, or mistyped", seq)
		default:
			h.refuseReceipt(w, r, httpcache.ForwardMiss)
			return 0, false
		}
	}
	h.badRequest(w, err)
	return 0, false
}

// refuseReceipt answers a request for which there is no page as new as its receipt demands.
func (h *handler) refuseReceipt(w http.ResponseWriter, r *http.Request, fwd string) {
	status := httpcache.Status{Forward: fwd, Detail: detailMinSeq}
	h.serveFailure(w, r, plainFailure(errMinSeq), status, h.c.now().Add(budget.BusyRetry))
}

// findSince answers a request whose page is not in memory, or older than its receipt. It
// waits as for a missing page, for at most Config.Wait, and never serves an older page.
func (h *handler) findSince(w http.ResponseWriter, r *http.Request, k store.Key, seq int64) {
	const fwd = httpcache.ForwardMiss
	if h.answerFromMemory(w, r, k, nil, fwd) {
		return
	}
	own := h.handOver(r)
	defer own.close()
	came := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), h.route.wait)
	defer cancel()
	// This process may know of later purges than that of the receipt.
	known := h.c.follower.Committed()
	for attempt := 0; h.c.stores.Down() == nil; attempt++ {
		s := h.waiting(r, k, own)
		s.minSeq, s.skip = seq, h.c.sections.ask(h.route, k)
		f, leader := h.c.join(s)
		if f == nil {
			break // closing
		}
		select {
		case <-own.waits():
		case <-f.done:
		case <-ctx.Done():
			h.refuseReceipt(w, r, fwd)
			return
		}
		got, handed := own.reply()
		if !handed {
			got = h.reply(f, leader, nil)
		}
		f.report(w, came, got)
		if !leader && f.search.head && h.worthRetrying(r, f, got, attempt, came) {
			continue
		}
		if h.meets(got.outcome, seq) && (attempt >= maxRejoins || h.takes(f, got, leader, known)) {
			own.waive(got)
			h.answer(w, r, k, got, httpcache.Status{Forward: fwd, Collapsed: !leader})
			return
		}
		if o, failed := got.outcome.(failure); failed && !h.worthRejoining(f, o, leader) {
			break
		}
		if backoff.Wait(ctx, h.c.jitter(backoff.Exponential(firstRejoin, maxRejoin, attempt))) != nil {
			break
		}
	}
	h.refuseReceipt(w, r, fwd)
}

// meets reports whether a visitor with a receipt takes an outcome: a page that is new
// enough, a refusal, for which the request passes through, or the failure of a new render.
func (h *handler) meets(o outcome, seq int64) bool {
	switch o := o.(type) {
	case storedPage:
		return h.mayServeSince(o.page, h.c.now(), seq)
	case renderedPage:
		return h.mayServeSince(o.page, h.c.now(), seq)
	case unpublishedPage:
		return h.mayServeSince(o.page, h.c.now(), seq)
	case failure:
		return o.fallback == nil && (o.detail == detailFailed || o.detail == detailRejected)
	}
	return true
}

// mayServeSince reports whether a page may be served to a visitor with a receipt.
func (h *handler) mayServeSince(p *page, now time.Time, seq int64) bool {
	state, _ := h.judge(nil, p, now)
	return state >= store.Stale && h.c.acceptable(p, seq)
}

// worthRejoining reports whether the next flight may succeed where one has failed: that of
// another visitor, which did not wait for a new generation.
func (h *handler) worthRejoining(f *flight, o failure, leader bool) bool {
	return !leader && (f.search.minSeq == 0 || f.forced) && o.detail != detailStoreError
}

// withoutReceipt returns a request as the renderer gets it if it passes through: a receipt
// is for this cache, and means nothing to another one behind it.
func withoutReceipt(r *http.Request) *http.Request {
	if _, present := r.Header[minSeqHeader]; !present {
		return r
	}
	passed := *r
	passed.Header = r.Header.Clone()
	delete(passed.Header, minSeqHeader)
	return &passed
}
