package isr

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/page"
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

// meets reports whether a visitor with a receipt takes an outcome: a page that is new
// enough, a refusal, for which the request passes through, or the failure of a new render.
func (h *handler) meets(o fill.Outcome, seq int64) bool {
	switch o := o.(type) {
	case fill.StoredPage:
		return h.mayServeSince(o.Page, h.c.now(), seq)
	case fill.RenderedPage:
		return h.mayServeSince(o.Page, h.c.now(), seq)
	case fill.UnpublishedPage:
		return h.mayServeSince(o.Page, h.c.now(), seq)
	case fill.Failure:
		return o.Fallback == nil && (o.Detail == fill.DetailFailed || o.Detail == page.DetailRejected)
	}
	return true
}

// mayServeSince reports whether a page may be served to a visitor with a receipt.
func (h *handler) mayServeSince(p *page.Page, now time.Time, seq int64) bool {
	state, _ := h.judge(nil, p, now)
	return state >= store.Stale && h.c.node.Acceptable(p, seq)
}

// worthRejoining reports whether the next flight may succeed where one has failed: a flight of
// another visitor, which did not wait for a new generation.
func (h *handler) worthRejoining(f *fill.Flight, o fill.Failure, leader bool) bool {
	return !leader && (f.Fill.MinSeq == 0 || f.Forced) && o.Detail != fill.DetailStoreError
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
