package isr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/internal/storable"
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
	RFC    string // the section that requires it, such as "RFC 9111, section 4.2.4"; empty if there is none
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
	VerdictRefused Verdict = "REFUSED" // with 400, 403, 429 or another status that says why
)

// Memory is what a process knows of a page without asking the store.
type Memory struct {
	// Page is the page in memory; nil if there is none.
	Page *MemoryPage
	// Refused is why the last render was not cacheable, and FailedStatus the status of the last
	// failure, until Until; empty and 0 if there is none.
	Refused      string
	FailedStatus int
	Until        time.Time
	// Rendering: a request or a render of the page is in progress in this process.
	Rendering bool
	// StoresDown are the stores whose circuit breaker is open, and OriginDown whether the
	// origin's is.
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
	PinnedUntil time.Time     // zero if it is not pinned
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
	_, x.out.Bypass, _ = h.route.keys.Key(r)
	x.out.Memory = h.remembered(d.key)
	if x.out.Render, _ = h.route.keys.Request(r.Context(), d.key); d.key == (store.Key{}) {
		x.out.Render = nil
	}
	x.run(d)
	if x.out.Variant != (store.Key{}) {
		x.out.Memory = h.remembered(x.out.Variant)
	}
	return x.named()
}

// named returns the decision with the settings in its advice named as the context of the request asks for. Until then they
// are in angle brackets.
func (x *explainer) named() Decision {
	name := details.NamingOf(x.ctx())
	for i := range x.out.Reasons {
		x.out.Reasons[i].Advice = name.Advice(x.out.Reasons[i].Advice)
	}
	if f := x.out.Fetched; f != nil {
		for i := range f.Obstacles {
			f.Obstacles[i].Advice = name.Advice(f.Obstacles[i].Advice)
		}
	}
	return x.out
}

// An explainer makes a [Decision]. It runs the steps of a request, with effects that change nothing
// and add reasons.
type explainer struct {
	h     *handler
	r     *http.Request
	fetch bool
	out   Decision
	// learned: a variant by learned headers was described as rendered.
	learned bool
	answers chan render.Answer // of the renderer that is called
}

var _ effects = (*explainer)(nil)

func (x *explainer) ctx() context.Context { return x.r.Context() }

// Because adds a reason.
func (x *explainer) Because(text, rfc string) {
	x.out.Reasons = append(x.out.Reasons, Reason{Text: text, RFC: rfc})
}

// run executes the steps of a request, and describes them.
func (x *explainer) run(d decision) {
	for !d.act.ends() {
		x.step(&d)
		selects := d.act == actSelect
		if x.h.step(x, x.r, &d); selects && d.key != (store.Key{}) {
			x.out.Variant = d.key
		}
	}
	x.h.holdBack(&d)
	x.finish(&d)
}

// step says what the next step of a request is.
func (x *explainer) step(d *decision) {
	switch d.act {
	case actAwaitPoll:
		x.Because("this server has not read the log of changes lately, and reads it first", "")
	case actSelect:
		x.Because("the Vary of the page names headers that the request has other values of", "RFC 9111, section 4.1")
	case actFind:
		if d.page != nil {
			x.Because("the page in memory is "+x.state(d.page)+", and may not be served without looking for a newer one", "RFC 9111, section 4.2.4")
		} else {
			x.Because("the page is not in the memory of this server", "RFC 9111, section 4")
		}
	case actFindSince:
		x.Because("no page in memory is as new as the ISR-Min-Seq of the request demands", "")
	case actUnpublished:
		x.Because("the stores are not used: the page is rendered once for all requests that wait for it, and not stored", "")
	}
}

// errOpen: it cannot be known what the request would get.
var errOpen = errors.New("the rest depends on what comes")

// reach says that the request waits for the log, if it does.
func (x *explainer) reach(_ *http.Request, seq int64) error {
	applied, _ := x.h.c.follower.Applied()
	if applied >= seq {
		return nil
	}
	x.Because(fmt.Sprintf("the request waits until this server has applied the log up to its ISR-Min-Seq (it is at %d): if the log does not reach that, it gets 400, and 503 if the log cannot be read in time", applied), "")
	return errOpen
}

// poll takes the log for readable, unless this process knows that it is not.
func (x *explainer) poll(*http.Request) bool { return x.h.c.follower.Silent(x.h.c.now()) }

// load looks for the body of a page that is in memory without it.
func (x *explainer) load(_ *http.Request, d *decision) (*page.Page, error) {
	e := &d.page.Entry
	if info, err := x.h.c.bodies.Stat(x.ctx(), e.BodyKey); err != nil || info.Length != e.Length {
		return nil, nil // it is searched for
	}
	x.Because("what this server knows of the page is in memory; its body is read from the local disk", "")
	return page.New(d.key, *e, d.page.Purges, d.page.Read, nil, x.h.route.present), nil
}

// count returns what a request would have been counted as.
func (x *explainer) count(k store.Key) int { return x.h.c.uses.Count(k) + 1 }

func (x *explainer) withoutStore() {}

// refresh says who regenerates a page that is served stale.
func (x *explainer) refresh(_ *http.Request, d *decision) {
	if d.behind == refreshStale && x.h.c.stores.Down() == nil {
		x.regenerated()
	}
}

func (x *explainer) regenerated() {
	const section = "RFC 5861, section 3"
	c := x.h.c
	switch {
	case c.sender == nil:
		x.Because("the page is regenerated in the background", section)
	case !c.QueueDown():
		x.Because("the page is sent to the queue of regenerations, unless it was sent lately, and a worker regenerates it", section)
	case c.cfg.Freezes:
		x.Because("the page stays stale: the queue of regenerations has failed lately, and the next request tries again", section)
	default:
		x.Because("the page is regenerated in the background by this server: the queue of regenerations has failed lately", section)
	}
}

// join returns what a visitor would get of the flight in progress, as far as that is known, or else
// of a flight of its own, which it runs without effects.
func (x *explainer) join(_ *http.Request, d *decision) joined {
	h := x.h
	f := h.c.flights.Current(d.key)
	if d.act == actUnpublished {
		f = h.c.unpublished.Current(d.key)
	}
	if f != nil && d.act != actFindStored {
		return x.joinCurrent(d, f)
	}
	s := h.waiting(x.r, d.key, nil)
	s.Skip = h.route.sections.Peek(d.key)
	s.MinSeq, s.Uncounted, s.OnlyStored = d.minSeq, 1, d.act == actFindStored
	var open bool
	if d.act == actUnpublished {
		f, open = h.c.engine.DryRunUnpublished(x.ctx(), s, x)
	} else {
		f, open = h.c.engine.DryRun(x.ctx(), s, x)
	}
	if open {
		_, waits := f.Outcome.(fill.StoredPage)
		return joined{end: joinOpen, collapsed: waits, stored: waits}
	}
	old, offered := d.page, f.Stale.Load()
	if offered != nil {
		old = offered
	}
	if o, found := f.Outcome.(fill.StoredPage); found && o.Page == offered {
		x.regenerated()
	}
	got := joined{reply: h.reply(f, true, old)}
	if d.act == actFindSince && !h.meets(got.outcome, d.minSeq) {
		return joined{end: joinNothing}
	}
	return got
}

// joinCurrent returns what a visitor would get of a flight in progress.
func (x *explainer) joinCurrent(d *decision, f *fill.Flight) joined {
	h := x.h
	if p := f.Stale.Load(); p != nil && d.act == actFind {
		if state, _ := h.judge(f, p, h.c.now()); state == store.Fresh || state == store.Stale && h.route.Policy != Wait {
			return joined{reply: reply{outcome: fill.StoredPage{Page: p}, state: state}}
		}
	}
	if d.act != actUnpublished {
		x.Because("another request in this process has started to find or render the page, and this one waits for it", "RFC 9211, section 2.6")
	}
	return joined{end: joinOpen, collapsed: true}
}

// finish describes a final state.
func (x *explainer) finish(d *decision) {
	switch d.act {
	case actHit:
		x.page(d, d.page.HitStatus(d.now, d.state, d.cutOff))
		x.refresh(x.r, d)
	case actServe:
		if d.err != nil {
			x.Because(d.err.Error(), "")
			x.Because("an older page is served instead of the failure", "RFC 5861, section 4")
		}
		x.page(d, d.status)
	case actPass:
		x.pass(d)
	case actFail:
		x.failure(d)
	case actRefuse:
		x.refuse(d.err)
	case actOpen:
		x.out.Open = true
		x.settle(VerdictMiss, 0, d.status.String())
	}
}

// page describes an answer with a page.
func (x *explainer) page(d *decision, status httpcache.Status) {
	x.judged(d.page, d.state)
	verdict := VerdictMiss
	switch {
	case status.Hit && d.state == store.Fresh:
		verdict = VerdictHit
	case status.Hit:
		verdict = VerdictStale
	}
	status.HasTTL = false
	x.decided(status)
	x.settle(verdict, d.page.Status(), status.String())
}

// pass describes a request that reaches the renderer as it is.
func (x *explainer) pass(d *decision) {
	if d.err != nil {
		x.Because(d.err.Error(), "")
	}
	if d.lesson == learnRefusal {
		x.Because("its last render in this process was not cacheable, which is remembered for two minutes", "")
		if x.fetch {
			x.h.c.engine.DryRender(x.ctx(), x.h.waiting(x.r, d.key, nil), d.known.Refused, x)
		}
	}
	x.passes(d.status)
}

func (x *explainer) passes(status httpcache.Status) {
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

// failure describes an error response.
func (x *explainer) failure(d *decision) {
	switch {
	case errors.Is(d.err, fill.ErrOnlyIfCached):
		x.Because("the request has only-if-cached, and no stored page satisfies it", "RFC 9111, section 5.2.1.7")
	case d.err != nil:
		x.Because(d.err.Error(), "")
	}
	status := d.status
	if status.Forward != "" {
		status.ForwardStatus = d.response.Status
	}
	x.decided(status)
	x.settle(VerdictError, d.response.Status, status.String())
}

// refuse describes a request that is refused.
func (x *explainer) refuse(err error) {
	x.out.Refused = err.Error()
	x.Because("the request is refused: "+err.Error(), "RFC 9110, section 15.5.1")
	x.settle(VerdictRefused, http.StatusBadRequest, httpcache.Status{Detail: detailBadRequest}.String())
}

func (x *explainer) settle(v Verdict, status int, cacheStatus string) {
	x.out.Verdict, x.out.Status, x.out.CacheStatus = v, status, cacheStatus
}

// remembered returns what this process knows of a page.
func (h *handler) remembered(k store.Key) Memory {
	m := Memory{StoresDown: h.c.StoresDown(), OriginDown: h.route.fills.Budget.IsOpen(), LogAge: -1}
	now := h.c.now()
	if age, ok := h.c.follower.Age(now); ok {
		m.LogAge = age
	}
	if k == (store.Key{}) {
		return m
	}
	m.Rendering = h.c.flights.Current(k) != nil || h.c.unpublished.Current(k) != nil
	p := h.c.node.Get(k)
	if known := h.c.node.Negative.Get(k, time.Now()); known != nil {
		m.Refused, m.Until = known.Refused, now.Add(time.Until(known.Until))
		if known.Failed != nil {
			m.FailedStatus = known.Failed.Status
		}
		if known.Page != nil {
			p = known.Page
		}
	}
	unpublished := h.c.node.Unpublished.Get(k)
	if p == nil {
		p = unpublished
	}
	if p != nil {
		state, _ := h.judge(nil, p, now)
		m.Page = &MemoryPage{
			Generation: p.Entry.GenerationID, State: state.String(), Age: p.Entry.Age(now),
			FreshFor: p.Entry.FreshUntil().Sub(now), StaleFor: p.Entry.StaleUntil().Sub(now),
			PinnedUntil: p.Entry.PinnedUntil, Rejected: p.Rejected.Load(), Negative: p.Negative, Unpublished: p == unpublished,
		}
	}
	return m
}

// Fetched is what a renderer has answered to an [Explainer], and what the cache makes of it.
type Fetched struct {
	// Status is 0 if the renderer has sent none.
	Status int
	// Header has the fields that decide about caching. Of Set-Cookie it has the names of the
	// cookies alone.
	Header http.Header
	Bytes  int64 // of the body, after decoding; 0 unless it would be stored
	Took   time.Duration
	// Failure is why the render failed; empty if it did not.
	Failure string
	// Stored: the response would be stored, to be fresh for FreshFor, and served for StaleFor
	// after that. The first window may be shortened at random (see [Route.Jitter]).
	Stored             bool
	FreshFor, StaleFor time.Duration
	Tags               []string
	// Obstacles are all the reasons for which it would not be stored.
	Obstacles []Obstacle
}

// An Obstacle keeps a response from being stored.
type Obstacle struct {
	Detail string // of Cache-Status: "private", "vary", …
	What   string // what forbids it, such as `Cache-Control: private`
	Advice string // what to change
	RFC    string // the section; empty if there is none
}

var _ fill.Explainer = (*explainer)(nil)

// RendersVariant records that a variant by learned headers is described as rendered.
func (x *explainer) RendersVariant() {
	x.out.Open = x.out.Open || x.learned
	x.learned = true
}

// Fetches reports whether the renderer may be called.
func (x *explainer) Fetches() bool { return x.fetch }

// Watch returns a renderer that shows the header of what h answers.
func (x *explainer) Watch(h http.Handler) http.Handler {
	answers := make(chan render.Answer, 2) // a validation may be repeated without conditions
	x.answers = answers
	return render.Watch(h, func(a render.Answer) {
		select {
		case answers <- a:
		default:
		}
	})
}

// Fetched describes what the renderer has answered.
func (x *explainer) Fetched(k store.Key, got render.Rendering, requested time.Time, took time.Duration, rejected string) {
	f := &Fetched{Took: took}
	x.out.Fetched = f
	for len(x.answers) > 0 {
		a := <-x.answers
		f.Status, f.Header = a.Status, storable.Telling(a.Header)
		f.Obstacles = x.h.obstacles(k, a, requested)
	}
	switch {
	case got.Failure != nil:
		f.Failure = got.Failure.Error()
		if len(f.Obstacles) == 0 {
			f.Obstacles = []Obstacle{obstacleOf(fill.FailureDetail(got.Failure), f.Failure)}
		}
	case got.Response != nil:
		f.Bytes, f.Stored, f.FreshFor, f.StaleFor, f.Tags = int64(len(got.Response.Body)), true, got.Verdict.Revalidate, got.Verdict.Stale, got.Verdict.Tags
		f.Obstacles = nil
		if rejected != "" {
			f.Stored, f.Obstacles = false, []Obstacle{obstacleOf(page.DetailRejected, rejected)}
		}
	case len(f.Obstacles) == 0:
		f.Obstacles = []Obstacle{obstacleOf(got.Refused, cmp.Or(errorText(got.Verdict.Cause), got.Refused))}
	}
}

// obstacleOf describes what keeps a response from being stored, by its detail.
func obstacleOf(detail, what string) Obstacle { return Obstacle(storable.ObstacleOf(detail, what)) }

// obstacles returns all that keeps an answer of the renderer from being stored.
func (h *handler) obstacles(k store.Key, a render.Answer, requested time.Time) (all []Obstacle) {
	for _, o := range h.route.judge.Obstacles(k, a.Status, a.Header, requested, fill.DetailFailed) {
		all = append(all, Obstacle(o))
	}
	return all
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// ExplainDraft implements [Explainer].
func (h *handler) ExplainDraft(r *http.Request, fetch bool) Decision {
	x := &explainer{h: h, r: r, fetch: fetch}
	x.out.Explanation.Parts = partsOf(h.route.keys, r)
	if _, _, err := h.route.keys.Key(r); err != nil {
		x.refuse(err)
		return x.named()
	}
	x.out.Bypass, x.out.Memory = detailDraft, h.remembered(x.out.Key)
	x.passes(httpcache.Status{Forward: httpcache.ForwardBypass, Detail: detailDraft})
	return x.named()
}

// askPassing sends the request to the renderer as passThrough does, and describes the header of
// what it answers. The rest of the response is not read.
func (x *explainer) askPassing(s httpcache.Status) {
	if why := x.unaskable(); why != "" {
		x.Because("the origin was not asked: "+why, "")
		return
	}
	ctx, cancel := context.WithTimeout(x.ctx(), x.h.route.fills.RenderTimeout)
	defer cancel()
	began := x.h.c.now()
	f := &Fetched{}
	x.out.Fetched = f
	a, err := render.Ask(x.h.route.fills.Renderer, withoutReceipt(x.r.WithContext(ctx)))
	if f.Took = x.h.c.now().Sub(began); err != nil {
		f.Failure = err.Error()
		f.Obstacles = []Obstacle{obstacleOf(fill.FailureDetail(err), f.Failure)}
		return
	}
	f.Status, f.Header = a.Status, storable.Telling(a.Header)
	if why, ok := details.Marked(cmp.Or(s.Detail, s.Forward)); ok {
		f.Obstacles = []Obstacle{{Detail: cmp.Or(s.Detail, s.Forward), What: why.Meaning, Advice: why.Advice, RFC: why.RFC}}
	}
	for _, o := range x.h.obstacles(x.out.Key, a, began) {
		if o.Detail != s.Detail {
			f.Obstacles = append(f.Obstacles, o)
		}
	}
}

// unaskable says why an explanation must not send the request to the renderer; empty if it may.
func (x *explainer) unaskable() string {
	switch {
	case x.r.Method != http.MethodGet && x.r.Method != http.MethodHead:
		return "a " + x.r.Method + " request may change something there"
	case x.r.Header["Authorization"] != nil:
		return "explanations have no credentials, without which it answers otherwise"
	case x.r.Header["Upgrade"] != nil:
		return "it would change the protocol of the connection"
	}
	return ""
}

// An Explanation is what a route makes of a request.
type Explanation struct {
	// Bypass is the reason for which the request bypasses the cache, as the detail of
	// Cache-Status: "method", "cookie", "query", … Empty: it does not.
	Bypass string
	// Key is the key of its page; zero for a request that bypasses the cache.
	Key store.Key
	// Render is the request that the renderer of the page gets, without the headers of
	// Forward; nil for a request that bypasses the cache.
	Render *http.Request
	// Parts are the parts of the request, and why each is in the key or not.
	Parts []Part
}

// A Part is a part of a request, as a route sees it.
type Part struct {
	// Kind is "method", "host", "path", "query", "header", "cookie" or "body".
	Kind string
	// Name is the name of a parameter, header or cookie; empty for the others.
	Name string
	// Use is what the route does with it.
	Use PartUse
	// Value is what the key has of it; empty unless Use is [PartInKey].
	Value string
	// Why says why, in a sentence without a full stop.
	Why string
}

// A PartUse is what a route does with a part of a request.
type PartUse string

// The uses.
const (
	PartInKey     PartUse = "key"       // it is part of the key
	PartIgnored   PartUse = "ignored"   // pages do not depend on it
	PartForwarded PartUse = "forwarded" // it is not in the key, and the render that the request starts carries it
	PartObeyed    PartUse = "obeyed"    // it is not in the key, and decides how the request is answered
	PartBypass    PartUse = "bypass"    // because of it the request bypasses the cache
	PartRefused   PartUse = "refused"   // because of it the request is refused
)

// Explain returns what the route makes of a request as a server receives it. An error means
// that the route is not valid, or that such a request is refused.
func (rt Route) Explain(r *http.Request) (Explanation, error) {
	if err := rt.Validate(); err != nil {
		return Explanation{}, err
	}
	keys := cachekey.New(rt.keyRules())
	key, bypass, err := keys.Key(r)
	if err != nil {
		return Explanation{}, fmt.Errorf("the request is refused: %w", err)
	}
	parts := partsOf(keys, r)
	if bypass != "" {
		return Explanation{Bypass: bypass, Parts: parts}, nil
	}
	render, err := keys.Request(r.Context(), key)
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{Key: key, Render: render, Parts: parts}, nil
}

// partsOf explains the parts of a request.
func partsOf(keys *cachekey.Mapper, r *http.Request) (parts []Part) {
	for _, p := range keys.Parts(r) {
		parts = append(parts, Part{p.Kind, p.Name, PartUse(p.Use), p.Value, p.Why})
	}
	return parts
}

// decided adds what a Cache-Status means to the reasons.
func (x *explainer) decided(s httpcache.Status) {
	d := details.OfStatus(s)
	x.out.Reasons = append(x.out.Reasons, Reason{Text: d.Meaning, Advice: d.Advice, RFC: d.RFC})
}

// state says what a page in memory is worth, and why.
func (x *explainer) state(p *page.Page) string {
	now := x.h.c.now()
	state, _ := x.h.judge(nil, p, now)
	return fill.Worth(&p.Entry, x.h.c.node.Purges(nil, p, now), state, now)
}

// judged adds the reason for the state of a page that is served.
func (x *explainer) judged(p *page.Page, state store.State) {
	now := x.h.c.now()
	if text := fill.Worth(&p.Entry, x.h.c.node.Purges(nil, p, now), state, now); text != "fresh" {
		x.Because("the page is "+text, "RFC 9111, section 4.2")
	}
}
