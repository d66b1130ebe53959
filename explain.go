package isr

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// An Explainer says what a cache would do with a request, by the code that serves it. The
// handlers of [Cache.Handler] and [Cache.Bind] are Explainers.
type Explainer interface {
	// Explain decides how a request, as a server receives it, would be answered now. It changes
	// nothing: no page is rendered, stored or removed from memory, no lease is acquired, and the
	// request does not count. It reads the store as the request would.
	//
	// With fetch it calls the renderer as a render of the page would, if the request depends on
	// what it answers, and stores nothing: neither the answer nor a failure. The call does not
	// wait for a turn at the origin.
	//
	// A request that bypasses the cache is sent to the renderer as it is, if that changes nothing
	// there; otherwise a reason says why not.
	Explain(r *http.Request, fetch bool) Decision
	// ExplainDraft does the same for a request that [DraftHandler.ServeDraft] answers.
	ExplainDraft(r *http.Request, fetch bool) Decision
}

var _ Explainer = (*handler)(nil)

// A Decision is what a cache would do with a request. It has no values of cookies, nor of
// headers and query parameters that are not in the key.
type Decision struct {
	// Explanation is what the route makes of the request.
	Explanation
	// Refused is why the request is refused; empty if it is not.
	Refused string
	// Variant is the key of the variant that the request gets, because of the Vary of the page
	// under Key; zero if it is that page.
	Variant store.Key
	// Verdict is what the request would be.
	Verdict Verdict
	// CacheStatus is this cache's member of the field Cache-Status that the request would get,
	// without ttl. Open: what the renderer answers decides the rest of it, or all of it if the
	// render fails.
	CacheStatus string
	Open        bool
	// Status is the status of the response, before conditions and ranges of the request are
	// applied; 0 if the renderer decides.
	Status int
	// Reasons are the steps of the decision, in order.
	Reasons []Reason
	// Memory is what this process knows of the page.
	Memory Memory
	// Fetched is what the renderer has answered; nil if it was not called.
	Fetched *Fetched
}

// A Reason is a step of a decision.
type Reason struct {
	Text   string // a sentence for people, without a full stop
	Advice string // what to change; empty if there is nothing to change
	RFC    string // the section that says so, such as "RFC 9111, section 4.2.4"; empty without
}

// A Verdict says in a word how a request is answered.
type Verdict string

// The verdicts.
const (
	VerdictHit     Verdict = "HIT"     // with a fresh page, without the renderer
	VerdictStale   Verdict = "STALE"   // with an older page, without waiting for the renderer
	VerdictMiss    Verdict = "MISS"    // with a page that is rendered, or that another request has rendered
	VerdictBypass  Verdict = "BYPASS"  // by the renderer, which gets the request as it is
	VerdictError   Verdict = "ERROR"   // with an error, because there is no page
	VerdictRefused Verdict = "REFUSED" // with 400
)

// Memory is what a process knows of a page without asking the store.
type Memory struct {
	// Page is the page in memory; nil without.
	Page *MemoryPage
	// Refused is why the last render was not cacheable, and FailedStatus the status of the last
	// failure, until Until; empty and 0 without.
	Refused      string
	FailedStatus int
	Until        time.Time
	// Rendering: a request or a render of the page is in progress in this process.
	Rendering bool
	// StoresDown are the stores whose circuit breaker is open, and OriginDown whether that of the
	// origin is.
	StoresDown []string
	OriginDown bool
	// LogAge is the time since the log of changes was read; negative if it never was.
	LogAge time.Duration
}

// A MemoryPage is a page in memory.
type MemoryPage struct {
	Generation  string
	State       string // as of [store.Freshness]: fresh, stale, expired or purged
	Age         time.Duration
	FreshFor    time.Duration // negative after the freshness window
	StaleFor    time.Duration // negative after the stale window
	PinnedUntil time.Time     // zero without
	Rejected    bool          // the last render was rejected
	Negative    bool          // a response such as 404, which is not stored
	Unpublished bool          // it could not be stored
}

// Explain implements [Explainer].
func (h *handler) Explain(r *http.Request, fetch bool) Decision {
	x := &explainer{h: h, r: r, fetch: fetch}
	x.out.Explanation.Parts = partsOf(h.route.keys, r)
	var d decision
	h.decide(r, &d)
	x.out.Key = d.key
	if d.act == actPass || d.act == actUncached {
		_, x.out.Bypass, _ = h.route.keys.Key(r)
	}
	x.out.Memory = h.remembered(d.key)
	if x.out.Render, _ = h.route.keys.Request(r.Context(), d.key); d.key == (store.Key{}) {
		x.out.Render = nil
	}
	x.follow(&d)
	if x.out.Variant != (store.Key{}) {
		x.out.Memory = h.remembered(x.out.Variant)
	}
	return x.out
}

// An explainer makes a [Decision]. Its methods describe what the handler's of like names do.
type explainer struct {
	h     *handler
	r     *http.Request
	fetch bool
	out   Decision
	// learned: a variant by learned headers was described as rendered.
	learned bool
}

func (x *explainer) ctx() context.Context { return x.r.Context() }

// because adds a reason.
func (x *explainer) because(text, rfc string) {
	x.out.Reasons = append(x.out.Reasons, Reason{Text: text, RFC: rfc})
}

// follow describes what execute does.
func (x *explainer) follow(d *decision) {
	h := x.h
	if !x.awaitNeeds(d) {
		return
	}
	switch d.act {
	case actHit, actHitStale:
		x.hit(d.page, d.now, d.state, d.cutOff)
	case actHitNegative:
		x.hit(d.page, d.now, d.state, false)
	case actHitBackOff:
		x.page(d.page, store.Stale, httpcache.Status{Hit: true, Detail: detailBackOff})
	case actHitUnpublished:
		x.page(d.page, store.Fresh, httpcache.Status{Hit: true, Detail: detailUnpublished})
	case actFind:
		x.find(d)
	case actFindSince:
		x.findSince(d)
	case actFindStored:
		x.findStored(d)
	case actBlind:
		x.blind(d)
	case actFail:
		x.failure(d.known.failed, httpcache.Status{Forward: d.forward, Detail: detailBackOff})
	case actPass:
		x.pass(httpcache.Status{Forward: d.forward, Detail: d.detail})
	case actPassRefused:
		x.because("its last render in this process was not cacheable, which is remembered for two minutes", "")
		if x.fetch {
			s := x.search(d.key)
			x.begin(s)
			x.ask(s, store.Record{}, func() (rendering, timing) {
				return s.render(x.ctx(), store.Record{}, h.c.follower.Committed(), d.known.refused, nil)
			})
		}
		x.pass(httpcache.Status{Forward: httpcache.ForwardBypass, Detail: d.known.refused})
	case actUncached:
		x.uncached()
	case actRefuse:
		x.refuse(d.err)
	}
	if d.act == actHitStale && h.c.stores.Down() == nil {
		x.regenerated()
	}
}

// regenerated says who regenerates a page that is served stale.
func (x *explainer) regenerated() {
	const section = "RFC 5861, section 3"
	c := x.h.c
	switch {
	case c.sender == nil:
		x.because("the page is regenerated in the background", section)
	case !c.QueueDown():
		x.because("the page is sent to the queue of regenerations, unless it was sent lately, and a worker regenerates it", section)
	case c.cfg.Freezes:
		x.because("the page stays stale: the queue of regenerations has failed lately, and the next request tries again", section)
	default:
		x.because("the page is regenerated in the background by this server: the queue of regenerations has failed lately", section)
	}
}

// load looks for the body of a page that is in memory but for that, and consults again.
func (x *explainer) load(d *decision) {
	e := &d.page.entry
	if info, err := x.h.c.bodies.Stat(x.ctx(), e.BodyKey); err == nil && info.Length == e.Length {
		d.loaded = newPage(d.key, *e, d.page.cover, d.page.read, nil, x.h.route.present)
		x.because("what this server knows of the page is in memory; its body is read from the local disk", "")
	}
	d.sought = true
	x.h.consult(x.r, d)
}

// awaitNeeds describes what the request would wait for. It takes the log for readable, unless this
// process knows that it is not. It returns false if the rest depends on the log.
func (x *explainer) awaitNeeds(d *decision) bool {
	for d.act == actAwaitReceipt || d.act == actAwaitPoll || d.act == actLoad {
		if d.act == actLoad {
			x.load(d)
			continue
		}
		if d.act == actAwaitPoll {
			d.polled, d.cutOff = true, x.h.c.follower.Silent(x.h.c.now())
			x.because("this server has not read the log of changes lately, and reads it first", "")
			x.h.consult(x.r, d)
			continue
		}
		seq, err := parseMinSeq(x.r.Header[minSeqHeader])
		if err != nil {
			d.act, d.err = actRefuse, err
			return true
		}
		if applied, _ := x.h.c.follower.Applied(); applied < seq {
			x.because(fmt.Sprintf("the request waits until this server has applied the log up to its ISR-Min-Seq (it is at %d): if the log does not reach that, it gets 400, and 503 if the log cannot be read in time", applied), "")
			x.out.Open = true
			x.settle(VerdictMiss, 0, httpcache.Status{Forward: httpcache.ForwardMiss}.String())
			return false
		}
		d.minSeq, d.reached = seq, true
		x.h.consult(x.r, d)
	}
	return true
}

// hit describes serveHit.
func (x *explainer) hit(p *page, now time.Time, state store.State, cutOff bool) {
	x.page(p, state, p.hitStatus(now, state, cutOff))
}

// page describes an answer with a page, or the choice of its variant.
func (x *explainer) page(p *page, state store.State, status httpcache.Status) {
	if p.varies != nil && !x.h.route.keys.Matches(p.varies, x.r.Header) {
		x.because("the Vary of the page names headers that the request has other values of", "RFC 9111, section 4.1")
		var d decision
		x.h.selectVariant(x.r, p, &d)
		if d.key != (store.Key{}) {
			x.out.Variant = d.key
		}
		x.follow(&d)
		return
	}
	x.judged(p, state)
	verdict := VerdictMiss
	switch {
	case status.Hit && state == store.Fresh:
		verdict = VerdictHit
	case status.Hit:
		verdict = VerdictStale
	}
	status.HasTTL = false
	x.decided(status)
	x.settle(verdict, p.status(), status.String())
}

// pass describes pass: the request reaches the renderer as it is.
func (x *explainer) pass(status httpcache.Status) {
	x.decided(status)
	if x.fetch && x.out.Fetched == nil {
		x.askPassing(status)
	}
	if x.out.Fetched != nil {
		status.ForwardStatus = x.out.Fetched.Status
	}
	verdict := VerdictBypass
	if status.Forward == httpcache.ForwardMiss || status.Forward == httpcache.ForwardStale {
		verdict = VerdictMiss
	}
	x.out.Open = x.out.Open || status.ForwardStatus == 0
	x.settle(verdict, status.ForwardStatus, status.String())
}

// failure describes serveFailure.
func (x *explainer) failure(res *response, status httpcache.Status) {
	if status.Forward != "" {
		status.ForwardStatus = res.status
	}
	x.decided(status)
	x.settle(VerdictError, res.status, status.String())
}

// refuse describes badRequest.
func (x *explainer) refuse(err error) {
	x.out.Refused = err.Error()
	x.because("the request is refused: "+err.Error(), "RFC 9110, section 15.5.1")
	x.settle(VerdictRefused, http.StatusBadRequest, httpcache.Status{Detail: detailBadRequest}.String())
}

// uncached describes refuseUncached.
func (x *explainer) uncached() {
	x.because("the request has only-if-cached, and no stored page satisfies it", "RFC 9111, section 5.2.1.7")
	x.failure(plainResponse(http.StatusGatewayTimeout), httpcache.Status{Detail: detailOnlyIfCached})
}

func (x *explainer) settle(v Verdict, status int, cacheStatus string) {
	x.out.Verdict, x.out.Status, x.out.CacheStatus = v, status, cacheStatus
}

// remembered returns what this process knows of a page.
func (h *handler) remembered(k store.Key) Memory {
	m := Memory{StoresDown: h.c.StoresDown(), OriginDown: h.route.budget.IsOpen(), LogAge: -1}
	now := h.c.now()
	if age, ok := h.c.follower.Age(now); ok {
		m.LogAge = age
	}
	if k == (store.Key{}) {
		return m
	}
	m.Rendering = h.c.flights.current(k) != nil || h.c.unstored.current(k) != nil
	p := h.c.memory.get(k)
	if known := h.c.negative.get(k, time.Now()); known != nil {
		m.Refused, m.Until = known.refused, now.Add(time.Until(known.until))
		if known.failed != nil {
			m.FailedStatus = known.failed.status
		}
		if known.page != nil {
			p = known.page
		}
	}
	unpublished := h.c.unpublished.get(k)
	if p == nil {
		p = unpublished
	}
	if p != nil {
		state, _ := h.judge(nil, p, now)
		m.Page = &MemoryPage{
			Generation: p.entry.GenerationID, State: state.String(), Age: p.entry.Age(now),
			FreshFor: p.entry.FreshUntil().Sub(now), StaleFor: p.entry.StaleUntil().Sub(now),
			PinnedUntil: p.entry.PinnedUntil, Rejected: p.rejected.Load(), Negative: p.negative, Unpublished: p == unpublished,
		}
	}
	return m
}
