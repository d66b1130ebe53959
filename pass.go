package isr

import (
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/nodecache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// OriginUnreachable is for renderers that call an origin over the network: it reports
// that the origin could not be reached, and why. The renderer's response is then treated
// like a 5xx, but the failure counts against the origin instead of the page alone (see
// [budget.Config]). w is the renderer's ResponseWriter, or one that unwraps to it (see
// [http.ResponseController]). If w is not a render's, nothing happens.
func OriginUnreachable(w http.ResponseWriter, err error) {
	if r := render.Of(w); r != nil {
		r.Unreachable(err)
	}
}

// pass passes a request through. What an unsafe request changes is purged (see unsafe.go).
func (h *handler) pass(w http.ResponseWriter, r *http.Request, status httpcache.Status) {
	var observe func(int, http.Header)
	if !isSafe(r.Method) {
		observe = h.unsafeRequest(r).answered
	}
	h.passThrough(w, r, status, observe)
}

// passThrough sends a request to the renderer unchanged and streams the response to the
// visitor. Nothing is stored. observe, which may be nil, is called with the status and the
// header of the response before they are sent, and may change the header.
func (h *handler) passThrough(w http.ResponseWriter, r *http.Request, status httpcache.Status, observe func(int, http.Header)) {
	pw := &page.PassWriter{ResponseWriter: w, Request: r, View: h.route.present, Status: status, Observe: observe, Report: ReportOf(w).answer}
	pw.Report(status) // in case there is no response
	h.route.fills.Renderer.ServeHTTP(pw, withoutReceipt(r))
	pw.WriteHeader(http.StatusOK) // in case nothing was written
}

// passJudged is passThrough for a request for the page of k. judged is called with the verdict on the response, as if a
// render had made it, before it is sent. It is not called for a response to a range or to conditions, which renders
// do not have: it says nothing of the page.
func (h *handler) passJudged(w http.ResponseWriter, r *http.Request, k store.Key, status httpcache.Status, judged func(httpcache.Verdict)) {
	began := h.c.now()
	h.passThrough(w, r, status, func(code int, header http.Header) {
		switch code {
		case http.StatusPartialContent, http.StatusNotModified, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable:
		default:
			judged(h.route.judge.Verdict(k, code, header, nil, began))
		}
	})
}

// ServeDraft implements [DraftHandler].
func (h *handler) ServeDraft(w http.ResponseWriter, r *http.Request) {
	k, _, err := h.route.keys.Key(r)
	h.identify(w, k)
	forwardRequestID(w, r)
	if err != nil {
		h.badRequest(w, err)
		return
	}
	h.passThrough(w, r, httpcache.Status{Forward: httpcache.ForwardBypass, Detail: detailDraft}, func(_ int, header http.Header) {
		for _, name := range []string{"Cdn-Cache-Control", "Surrogate-Control", "Expires", "Pragma"} {
			delete(header, name)
		}
		header["Cache-Control"] = []string{"private, no-store"}
	})
}

// passRefused passes through a request for a page that was not cacheable when it was
// last rendered. If the response is not cacheable either, the refusal is remembered for
// longer, without a separate render.
func (h *handler) passRefused(w http.ResponseWriter, r *http.Request, k store.Key, known *nodecache.NegativeEntry) {
	reason := known.Refused
	h.passJudged(w, r, k, httpcache.Status{Forward: httpcache.ForwardBypass, Detail: reason}, func(v httpcache.Verdict) {
		switch {
		case v.Refused != "":
			h.c.node.Negative.Renew(k, known, &nodecache.NegativeEntry{ReadAt: known.ReadAt, Until: time.Now().Add(fill.Remembered), Refused: v.Refused})
		case !v.Failed && h.route.judge.DecidedByHeader(reason):
			h.c.node.Negative.Renew(k, known, &nodecache.NegativeEntry{ReadAt: known.ReadAt}) // expires at once
		}
	})
}

// passLearned passes through a request for a page of a section that is learned, and looks at
// the response. f is the flight that has not found the page.
func (h *handler) passLearned(w http.ResponseWriter, r *http.Request, k store.Key, f *fill.Flight, status httpcache.Status) {
	if r.Method != http.MethodGet || !h.route.keys.Impersonal(r) {
		h.passThrough(w, r, status, nil)
		return
	}
	h.passJudged(w, r, k, status, func(v httpcache.Verdict) {
		switch {
		case v.Failed:
		case v.Refused == "":
			h.route.sections.Cacheable(k)
		case h.route.judge.DecidedByHeader(v.Refused):
			h.route.sections.Refused(k, v.Refused)
			readAt, seq := f.Fill.ReadAt()
			h.c.node.Negative.Put(k, &nodecache.NegativeEntry{ReadAt: readAt, Seq: seq, Until: time.Now().Add(fill.Remembered), Refused: v.Refused}, &f.State)
		}
	})
}
