package isr

import (
	"maps"
	"net/http"
	"net/textproto"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/internal/wellknown"
)

// A response that must not be shared is for one visitor: the one whose request has started the
// render. So the origin sees one request, and a one-time link is not used up by isr:
//
//	renderer ──► recorder ──► refused ──► handover ──► that visitor, as it comes
//	                             └──► the flight ends, and gives up its lease;
//	                                  each visitor who has waited sends their own request
//
// It is refused by its header, once its body exceeds MaxBody or finds no memory, or at its end
// if the body is empty.
//
// That visitor gets it only if the origin would most likely have answered their own request in
// the same way, because the render lacked nothing that an origin decides by: see
// [cachekey.Mapper.Impersonal] for the parts of the request, and handover.fits for those that the
// response tells of. In all other cases their own request is sent as well.
//
// From then on the render is theirs: it ends when they leave, has no time limit, and its
// renderer waits for them once they are 64 KiB behind.

// A handover is a visitor's claim to the response of the render that they cause. A nil handover
// claims nothing. Its methods are safe for concurrent use.
type handover struct {
	keys  *cachekey.Mapper
	head  bool        // the method of the request is HEAD
	asked http.Header // a copy of the request's
	ready chan struct{}
	// settled is closed once the flight has remembered that the response must not be shared.
	settled chan struct{}
	settle  func() // closes settled, once

	admit func() (leave func(), ok bool) // of an Admitter; nil if the renderer is none

	mu     sync.Mutex
	closed bool   // guarded by mu: the visitor is answered, or has left
	leave  func() // guarded by mu: ends the admission; nil if there is none

	// Set before ready is closed, and not changed then.
	reader *render.Reader
	times  *fill.WaitTimes // of the flight
	from   render.Head
	reason string // why the response must not be shared
}

// An Admitter is a renderer that bounds the requests of visitors that pass through. A visitor who gets the
// response of a render, which must not be shared, counts as one of them while they read it.
type Admitter interface {
	http.Handler
	// Admit counts a request until leave is called, once. ok is false, and leave nil, if the renderer would not
	// serve the request at once: then the visitor's own request is sent. It does not wait, and must be
	// safe for concurrent use.
	Admit(r *http.Request) (leave func(), ok bool)
}

// handOver returns the claim of a visitor; nil if their own request must be sent in any case. The
// caller must close it.
func (h *handler) handOver(r *http.Request) *handover {
	if h.route.OwnRequest || !h.route.keys.Impersonal(r) {
		return nil
	}
	settled := make(chan struct{})
	o := &handover{
		keys: h.route.keys, head: r.Method == http.MethodHead, asked: r.Header.Clone(), ready: make(chan struct{}),
		settled: settled, settle: sync.OnceFunc(func() { close(settled) }),
	}
	if a, ok := h.route.fills.Renderer.(Admitter); ok {
		o.admit = func() (func(), bool) { return a.Admit(r) }
	}
	return o
}

// waits returns a channel that is closed once the response is here; nil if there is no claim.
func (o *handover) waits() <-chan struct{} {
	if o == nil {
		return nil
	}
	return o.ready
}

// reply returns the reply with the response; ok is false if there is none.
func (o *handover) reply() (got reply, ok bool) {
	if o == nil {
		return reply{}, false
	}
	select {
	case <-o.ready:
		return reply{own: o}, true
	default:
		return reply{}, false
	}
}

// Offer gives a response to the visitor, if it is for them, and reports whether it is. The response must not be
// shared, and its flight is f.
func (o *handover) Offer(r render.Head, f *fill.Flight) bool {
	if o == nil || !o.fits(r) {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.reader != nil {
		return false
	}
	var leave func()
	if o.admit != nil {
		var admitted bool
		if leave, admitted = o.admit(); !admitted {
			return false
		}
	}
	if o.reader = r.Stream.Attach(f.Overdue); o.reader == nil {
		if leave != nil {
			leave()
		}
		return false
	}
	o.leave = leave
	r.Stream.SettlesWith(o.settled) // unless visitors read it as a page
	o.from, o.reason, o.times = r, r.Verdict.Refused, f.WaitTimes
	close(o.ready)
	return true
}

// Settle tells the visitor that the flight has remembered that the response must not be shared.
func (o *handover) Settle() { o.settle() }

// fits reports whether the visitor's own request would most likely be answered in the same way:
// each header that Vary names has the value that the render had, and the response does not say
// that the request lacks something.
func (o *handover) fits(r render.Head) bool {
	if !handsOver(r.Verdict.Refused) {
		return false
	}
	accepted := httpcache.AcceptEncoding(o.asked["Accept-Encoding"])
	for _, line := range r.Header["Content-Encoding"] {
		for coding := range httpcache.Members(line) {
			if !accepted.Accepts(coding) {
				return false
			}
		}
	}
	if r.Verdict.Refused == httpcache.RefusedTooLarge && len(o.asked["Range"]) > 0 {
		return false // the origin may send the range alone
	}
	for _, line := range r.Header["Vary"] {
		for name := range httpcache.Members(line) {
			name = textproto.CanonicalMIMEHeaderKey(name)
			switch {
			case name == "Accept-Encoding", name == "Host", o.keys.Covers(name):
			case name == "*", wellknown.SetByProxies(name),
				httpcache.Normalize(name, o.asked[name]) != httpcache.Normalize(name, r.Asked[name]):
				return false
			}
		}
	}
	return true
}

// handsOver reports whether a response that is refused for a reason may be the answer to the
// visitor's own request.
func handsOver(reason string) bool {
	switch reason {
	case httpcache.RefusedStatus: // 401 or 403, for example: the render lacks what the visitor may have
		return false
	case httpcache.RefusedSelfRedirect: // the visitor's own spelling may be the one that is preferred
		return false
	}
	return true
}

// waive ends the claim before its visitor is answered, unless they get its response: a response that is offered to
// them later would wait for them.
func (o *handover) waive(got reply) {
	if got.own == nil {
		o.close()
	}
}

// close ends the claim. A render whose response no visitor claims any more ends.
func (o *handover) close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.reader != nil {
		o.reader.Leave()
	}
	if o.leave != nil {
		o.leave()
		o.leave = nil
	}
}

// serveOwn answers with the response of the render that the request has caused, as if it had
// passed through.
func (h *handler) serveOwn(w http.ResponseWriter, r *http.Request, got reply, status httpcache.Status) {
	o, ctx, began := got.own, r.Context(), time.Now()
	sent := o.from.Header
	defer o.close()
	defer reportWaits(w, o.times, began, got) // once the render has ended
	ending := &render.EndWriter{ResponseWriter: w, Await: func() { o.reader.AwaitStored(ctx) }}
	status.Detail = o.reason
	pw := &page.PassWriter{ResponseWriter: ending, Request: r, View: h.route.present, Status: status, Report: ReportOf(w).answer}
	if hints := o.from.Hints; len(hints) > 0 && page.TakesHints(r) {
		page.SendHints(w, hints)
	}
	maps.Copy(pw.Header(), sent)
	switch code := o.from.Status; {
	case code == http.StatusOK && httpcache.Revalidates(r.Header, sent):
		delete(pw.Header(), "Content-Length")
		pw.WriteHeader(http.StatusNotModified)
	default:
		pw.WriteHeader(code)
		if !o.head {
			o.reader.CopyTo(ctx, pw)
			o.from.Trailers(pw.Header())
			return
		}
	}
	o.close() // the body is not needed
	o.reader.AwaitStored(ctx)
}
