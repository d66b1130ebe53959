package isr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/changelog"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/local"
	"github.com/facetheory/isr/internal/nodecache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// A request is a loop of steps. Its state is a decision. Each step sets the next state, and none
// calls another step:
//
//	             request
//	                │ decide: its key, and the page in memory
//	                ├──────────────────────────────────────────────► pass, refuse
//	    ┌────────► consult ◄──────────────┐
//	    │           ├─► awaitReceipt ─────┤  until the log is applied up to ISR-Min-Seq
//	    │           ├─► awaitPoll ────────┤  the log was not read for too long
//	    │           ├─► load ─────────────┘  the body is on the local disk
//	    │           ├──────────────────────────────────────────────► hit
//	    │           └─► find, findSince, findStored                     ▲
//	    │                 ├─ the negative cache, unpublished pages ─────┤
//	    │                 ├─ join the flight of the key ─► its reply ───┼─► serve, stream, own
//	    │                 │                                             ├─► pass
//	    │                 ▼   ▲  the store was slow, and answers again  └─► fail
//	    │               unpublished: the flight that calls no store
//	    │
//	    └─ select ◄─ hit, serve: the page is for requests with other headers, which Vary names
//
// decide and consult wait for nothing, call no store and change nothing. What the steps wait for and
// change is behind [effects]: a visit has the real ones, and an explainer has ones that give reasons
// instead, so that [Explainer] executes the very steps that serve. A hit is served without a step: it
// calls no interface, and allocates nothing. How a visitor waits for a flight is in answer.go.
//
// The body of a page may turn out to be missing once the page is to be sent. Then finish, which executes
// the final states, returns to find.

// A handler serves one route.
type handler struct {
	c     *Cache
	route *boundRoute
}

// ServeHTTP handles a request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r = canonical.Target(r)
	var d decision
	h.decide(r, &d)
	if d.act != actHit || h.finish(w, r, &d) {
		h.run(w, r, d)
	}
}

// run executes a request that is no hit in memory. d is a copy: what the steps get is on the heap.
func (h *handler) run(w http.ResponseWriter, r *http.Request, d decision) {
	v := &visit{h: h, w: w, r: r}
	h.identify(w, d.key)
	forwardRequestID(w, r)
	for again := true; again; {
		for !d.act.ends() {
			h.step(v, v.r, &d)
		}
		h.holdBack(&d)
		h.identify(w, d.key)
		again = h.finish(w, v.r, &d)
	}
}

// A Hit is the response to a request of HTTP/1.1 with a page in memory, as a [HitHandler] finds
// it: what net/http would send if the handler served the request. A Hit may be used for several
// requests, one after the other.
type Hit struct {
	// Report describes the answer.
	Report Report
	// Request is the request as the cache got it, which handlers in front may have changed. Lookup
	// sets it.
	Request *http.Request
	// Status is the status of the response, and Header its status line and fields, up to and
	// including the empty line. Body is empty for HEAD, and for 304. Both are shared: they must not
	// be changed. They are valid until the next Lookup with this Hit.
	Status int
	Header []byte
	Body   []byte

	own  []byte // of AddField
	key  []byte // the text of the key that is being looked up
	body []byte // for a body that is read for this response
	page page.Memory
	raw  page.Raw
}

// Release must be called once Body was sent, or will not be: the memory of a large body counts against
// Config.Buffers until then. It may be called again.
func (hit *Hit) Release() { hit.raw.Release() }

// AddField adds a field to Header, which is then a copy. The name and the value must be valid (RFC
// 9110, section 5), and Header must not have the field yet.
func (hit *Hit) AddField(name, value string) {
	hit.own = append(hit.own[:0], hit.Header[:len(hit.Header)-len("\r\n")]...)
	hit.own = append(append(append(hit.own, name...), ": "...), value...)
	hit.own = append(hit.own, "\r\n\r\n"...)
	hit.Header = hit.own
}

// A HitHandler is an [http.Handler] that can say what it would answer to a request if that is a page
// in memory, for servers that send such responses without net/http. The handlers of [Cache.Handler]
// and [Cache.Bind] are HitHandlers. One that passes requests to another handler is one if that is.
type HitHandler interface {
	http.Handler
	// Lookup prepares the response to a GET or HEAD request without a body. If it returns
	// false, then ServeHTTP must be called, and Lookup has changed nothing, but may have
	// started the regeneration of the page. It waits for nothing, and keeps nothing of the request:
	// its texts may be parts of a buffer that is used again. Only its Header may be changed. After it has
	// returned true, the caller must call Release of the Hit.
	Lookup(*http.Request, *Hit) bool
}

// LookupIn calls the Lookup of a handler; it returns false if that is no [HitHandler].
func LookupIn(h http.Handler, r *http.Request, hit *Hit) bool {
	hh, ok := h.(HitHandler)
	return ok && hh.Lookup(r, hit)
}

var _ HitHandler = (*handler)(nil)

// Lookup implements [HitHandler]. It decides as ServeHTTP does.
func (h *handler) Lookup(r *http.Request, hit *Hit) bool {
	d := decision{text: &hit.key, memory: &hit.page}
	h.decide(r, &d)
	if d.act == actLoad {
		q := h.stubRequest(r, &d)
		if d.page = h.c.local.AtHand(&q, &hit.body); d.page == nil {
			return false
		}
		d.act, d.state, d.behind = actHit, store.Fresh, mayRefreshEarly
	}
	switch {
	case d.act != actHit,
		d.behind == refreshStale && d.page.NextTry.IsDue(d.page),
		d.behind == mayRefreshEarly && h.route.EarlyRefresh > 0 && h.route.keys.Forwards(requestIDHeader):
		return false // it is no hit, or a render is due that gets the id of its request
	}
	// A page that has a stub is made for this request alone.
	if !d.page.Raw(&hit.raw, r, h.route.present, d.now, d.state, d.cutOff, d.stub != nil) {
		return false
	}
	hit.Report = Report{}
	hit.Report.ofPage(h.route.Label, d.page, hit.raw.Shown, hit.raw.Age)
	hit.Request, hit.Status, hit.Header, hit.Body = r, hit.raw.Status, hit.raw.Head, hit.raw.Body
	h.refresh(nil, r, &d)
	return true
}

// An action is what a handler does next with a request.
type action int

const (
	actAwaitReceipt action = iota // wait until the log is applied up to ISR-Min-Seq, and consult again
	actAwaitPoll                  // wait for a poll of the log, and consult again
	actLoad                       // memory has the page without its body: read that, and consult again
	actFind                       // find the page, or render it
	actFindSince                  // find a page that is as new as the receipt demands
	actFindStored                 // look for a stored page, and render nothing
	actUnpublished                // render the page for all requests that wait, without a store
	actSelect                     // the request does not match the page: decide for the variant that it matches

	// The final states.
	actHit    // serve the page in memory
	actServe  // serve a page, with a status
	actStream // serve a page while it is rendered
	actOwn    // serve a response that is for this visitor alone
	actPass   // to the renderer
	actFail   // an error response
	actRefuse // 400
	actGone   // nothing: the visitor went away
	actOpen   // of explanations alone: what comes is not known
)

// ends reports whether an action is a final state.
func (a action) ends() bool { return a >= actHit }

// A decision is the state of a request: what the handler does next, and by what it decided.
type decision struct {
	act action

	key    store.Key
	text   *[]byte      // that the text of the key is a part of; nil if it has its own
	memory *page.Memory // of the page of a stub; nil if it has its own
	asked  cachekey.Directives
	minSeq int64 // of ISR-Min-Seq; 0 if there is none
	// reached: the log is applied up to minSeq. polled: it was polled for this request. cutOff:
	// that failed.
	reached, polled, cutOff bool

	now    time.Time
	page   *page.Page // to serve; or, before that, an older one, which may be nil
	state  store.State
	behind background

	stub   *nodecache.Stub // of actLoad, with page
	sought bool            // the body was sought; loaded is the page, nil if it was not found
	loaded *page.Page

	status   httpcache.Status         // of all final states but actHit and actRefuse, as far as it is decided
	reply    *reply                   // of actStream and actOwn, and of actPass if lesson is learnSection
	lesson   lesson                   // of actPass
	known    *nodecache.NegativeEntry // of actPass if lesson is learnRefusal
	response *render.Response         // of actFail
	retry    time.Time                // of actFail: for Retry-After; zero if there is none
	err      error                    // of actRefuse and actFail, and of a page that is served instead of a failure; may be nil
}

// A background is what a request starts behind its response.
type background int

const (
	nothingBehind   background = iota
	mayRefreshEarly            // a fresh page may be regenerated before it expires (see refreshEarly)
	refreshStale               // a stale page is regenerated
	lookForStored              // the store is asked for the page, which could not be stored
)

// A lesson is what the response to a request that passes through is looked at for.
type lesson int

const (
	learnNothing lesson = iota // an unsafe request may purge pages
	learnSection               // is the section of the page cacheable? (see [nodecache.Sections])
	learnHead                  // may the page of a HEAD request be rendered?
	learnRefusal               // is the page, whose last render was not cacheable, cacheable now?
)

// effects are what the steps of a request wait for and change.
type effects interface {
	// reach waits until this node has applied the log up to the sequence of a receipt.
	reach(r *http.Request, seq int64) error
	// poll waits for a poll of the log, and reports whether that failed.
	poll(r *http.Request) (cutOff bool)
	// load reads the body of the page of a decision from the local disk. It returns nil if the page
	// is to be searched for, and an error if the disk does not answer in time.
	load(r *http.Request, d *decision) (*page.Page, error)
	// count counts a request for a page, and returns how often it was requested lately.
	count(k store.Key) int
	// refresh starts what the page of a decision calls for behind the response.
	refresh(r *http.Request, d *decision)
	// withoutStore counts a request that a store which is down cannot answer.
	withoutStore()
	// join joins the flight that d.act asks for, or starts it, and waits for what the visitor gets
	// of it.
	join(r *http.Request, d *decision) joined
}

// decide decides by a request, and by memory.
func (h *handler) decide(r *http.Request, d *decision) {
	k, bypass, err := h.route.keys.KeyInto(d.text, r)
	switch {
	case err != nil:
		d.act, d.err = actRefuse, err
	case bypass == cachekey.BypassMethod:
		d.act, d.status.Forward = actPass, httpcache.ForwardMethod
	case bypass != "" && bypass != cachekey.BypassOff && h.route.keys.Directives(r).OnlyIfCached:
		d.failUncached()
	case bypass != "":
		d.pass(httpcache.ForwardBypass, bypass)
	default:
		d.key, d.asked = k, h.route.keys.Directives(r)
		h.consult(r, d)
	}
}

// consult decides by the page of a key in memory. It is called again after each wait.
func (h *handler) consult(r *http.Request, d *decision) {
	if d.asked.Pass {
		d.passAsked()
		return
	}
	if _, present := r.Header[minSeqHeader]; present && !d.reached {
		d.act = actAwaitReceipt
		return
	}
	d.now = h.c.now()
	d.page = h.c.node.Get(d.key)
	if d.page == nil && d.loaded != nil && !h.c.node.IsDropped(d.loaded) {
		d.page = d.loaded // and is evicted again already
	}
	switch {
	case d.polled:
		if d.cutOff && h.c.blind(d.now) {
			h.refuseBlind(d)
			return
		}
	case h.c.late(d.page, d.now) || h.c.blind(d.now):
		d.act = actAwaitPoll
		if _, polled := h.c.follower.Age(d.now); !polled {
			d.miss()
		}
		return
	}
	if d.page == nil && h.stubbed(d) {
		d.act = actLoad
		return
	}
	if d.page == nil || d.minSeq > 0 && !h.mayServeSince(d.page, d.now, d.minSeq) {
		d.page = nil
		d.miss()
		return
	}
	switch d.state, _ = h.judge(nil, d.page, d.now); {
	case d.state >= store.Stale && !d.asked.Accepts(&d.page.Entry, d.now):
		d.passAsked()
		return
	case d.state == store.Fresh:
		if d.act, d.behind = actHit, mayRefreshEarly; d.asked.OnlyIfCached {
			d.behind = nothingBehind
		}
	case d.asked.AcceptsStale(h.route.judge.Responses, &d.page.Entry, d.state, d.now), d.state == store.Stale && d.asked.OnlyIfCached:
		d.act, d.behind = actHit, nothingBehind
	case d.state == store.Stale:
		h.judgeStale(d)
	default:
		d.miss()
	}
	h.match(r, d)
}

// stubbed reports whether the page of a decision is to be read from the local disk (see package local): its
// stub is in memory, and fresh.
func (h *handler) stubbed(d *decision) bool {
	if !h.c.reader.HasLocal() || d.sought || d.minSeq > 0 || h.c.stores.BodiesDown() {
		return false
	}
	o := h.c.node.Stub(d.key)
	if o == nil {
		return false
	}
	m := d.memory
	if m == nil {
		m = new(page.Memory)
	}
	p := o.Page(m, d.key)
	if state, _ := h.judge(nil, p, d.now); state != store.Fresh {
		return false
	}
	d.stub, d.page = o, p
	return true
}

// judge is the only place where a handler judges a page: its freshness, and whether it may
// be served when rendering fails. It considers all purges that this process knows (see
// [nodecache.Cache.Purges]); f may be nil.
func (h *handler) judge(f *fill.Flight, p *page.Page, now time.Time) (state store.State, onError bool) {
	purges := h.c.node.Purges(f.Learned(), p, now)
	state = store.Freshness(&p.Entry, purges, now)
	if state == store.Fresh {
		return state, true // a hit asks for nothing more
	}
	return state, h.route.judge.ServableOnError(&p.Entry, state, purges, now)
}

// mayServeSince reports whether a page may be served to a visitor with a receipt.
func (h *handler) mayServeSince(p *page.Page, now time.Time, seq int64) bool {
	state, _ := h.judge(nil, p, now)
	return state >= store.Stale && h.c.node.Acceptable(p, seq)
}

// judgeStale decides by a stale page in memory, as the policy of the route says.
func (h *handler) judgeStale(d *decision) {
	known := h.c.node.Negative.Get(d.key, time.Now())
	switch {
	case known != nil && known.Refused != "":
		// The page has become uncacheable: the stored copy is outdated.
		d.passRefused(known)
	case h.route.Policy != Wait:
		d.act, d.behind = actHit, refreshStale
	case !d.page.NextTry.IsDue(d.page):
		d.act, d.behind, d.status = actServe, nothingBehind, httpcache.Status{Hit: true, Detail: fill.DetailBackOff}
	default:
		d.act = actFind
	}
}

var errBlind = errors.New("this server has not read the log of changes for longer than it may serve pages")

// blind reports whether the node has not read the log for so long that [Config.Blind]
// applies. It is on the hit path.
func (c *Cache) blind(now time.Time) bool { return c.cfg.Blind != BlindServe && c.follower.Blind(now) }

// refuseBlind refuses a request of a node that is blind (see [BlindRefuse]). d.page is the page in
// memory; it may be nil.
func (h *handler) refuseBlind(d *decision) {
	if d.asked.OnlyIfCached {
		d.failUncached()
		return
	}
	status := httpcache.Status{Forward: forwardFor(d.page), Detail: page.DetailCutOff}
	d.fail(render.Plain(http.StatusServiceUnavailable), status, d.now.Add(budget.BusyRetry), errBlind)
}

// forwardFor is why a request goes to the renderer whose older page, which may be nil, does not do.
func forwardFor(old *page.Page) string {
	if old != nil {
		return httpcache.ForwardStale
	}
	return httpcache.ForwardMiss
}

// match decides that a page which is to be served is for other requests, if it is.
func (h *handler) match(r *http.Request, d *decision) {
	if (d.act == actHit || d.act == actServe) && d.page.Varies != nil && !h.route.keys.Matches(d.page.Varies, r.Header) {
		d.act = actSelect
	}
}

// pass sends the request to the renderer.
func (d *decision) pass(forward, detail string) {
	d.act, d.lesson, d.status = actPass, learnNothing, httpcache.Status{Forward: forward, Detail: detail}
}

// passAsked passes the request to the renderer because of its directives (RFC 9211, section
// 2.2), or refuses it if it has only-if-cached too.
func (d *decision) passAsked() {
	if d.asked.OnlyIfCached {
		d.failUncached()
		return
	}
	d.pass(httpcache.ForwardRequest, "")
}

// passRefused passes the request to the renderer because the page was not cacheable when it was
// rendered last.
func (d *decision) passRefused(known *nodecache.NegativeEntry) {
	d.pass(httpcache.ForwardBypass, known.Refused)
	d.lesson, d.known = learnRefusal, known
}

// fail answers the request with an error response. err is why; nil if the status says it.
func (d *decision) fail(res *render.Response, status httpcache.Status, retry time.Time, err error) {
	d.act, d.response, d.status, d.retry, d.err = actFail, res, status, retry, err
}

// failUncached refuses a request with only-if-cached for which there is no stored page (RFC 9111,
// section 5.2.1.7).
func (d *decision) failUncached() {
	d.fail(render.Plain(http.StatusGatewayTimeout), httpcache.Status{Detail: fill.DetailOnlyIfCached}, time.Time{}, fill.ErrOnlyIfCached)
}

// failReceipt refuses a request for which there is no page as new as its receipt demands.
func (h *handler) failReceipt(d *decision) {
	d.fail(render.Plain(http.StatusServiceUnavailable), httpcache.Status{Forward: httpcache.ForwardMiss, Detail: detailMinSeq}, h.c.now().Add(budget.BusyRetry), nil)
}

// miss: the page is not in memory, too old to be served, or older than the receipt.
func (d *decision) miss() {
	switch {
	case d.asked.OnlyIfCached:
		d.act = actFindStored
	case d.minSeq > 0:
		d.act = actFindSince
	default:
		d.act = actFind
	}
}

// hit serves a page of the store, or of the negative cache, as a hit.
func (h *handler) hit(r *http.Request, d *decision, p *page.Page, state store.State) {
	d.act, d.page, d.state, d.cutOff, d.behind = actHit, p, state, false, nothingBehind
	h.match(r, d)
}

// serve serves a page with a status.
func (h *handler) serve(r *http.Request, d *decision, p *page.Page, state store.State, status httpcache.Status) {
	d.act, d.page, d.state, d.status, d.behind = actServe, p, state, status, nothingBehind
	h.match(r, d)
}

// step executes one step of a request.
func (h *handler) step(fx effects, r *http.Request, d *decision) {
	switch d.act {
	case actAwaitReceipt:
		h.awaitReceipt(fx, r, d)
	case actAwaitPoll:
		d.cutOff, d.polled = fx.poll(r), true
		h.consult(r, d)
	case actLoad:
		h.load(fx, r, d)
	case actFind:
		h.find(fx, r, d)
	case actFindSince:
		h.findSince(fx, r, d)
	case actFindStored:
		h.findStored(fx, r, d)
	case actUnpublished:
		h.findUnpublished(fx, r, d)
	case actSelect:
		h.selectVariant(fx, r, d)
	}
}

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

// awaitReceipt waits until this node has applied the log up to the receipt of a request.
func (h *handler) awaitReceipt(fx effects, r *http.Request, d *decision) {
	seq, err := cachekey.ParseReceipt(r.Header[minSeqHeader])
	if err == nil {
		err = fx.reach(r, seq)
		switch {
		case err == nil:
			d.minSeq, d.reached = seq, true
			h.consult(r, d)
			return
		case errors.Is(err, errOpen):
			d.act, d.status = actOpen, httpcache.Status{Forward: httpcache.ForwardMiss}
			return
		case errors.Is(err, changelog.ErrAhead):
			err = fmt.Errorf("the receipt %d in ISR-Min-Seq is higher than the sequence of the log: it is of another table, or mistyped", seq)
		default:
			h.failReceipt(d)
			return
		}
	}
	d.act, d.err = actRefuse, err
}

// load reads the page of a decision from the local disk.
func (h *handler) load(fx effects, r *http.Request, d *decision) {
	p, err := fx.load(r, d)
	if err != nil {
		d.page = nil
		h.withoutStore(r, d)
		return
	}
	d.loaded, d.sought = p, true
	h.consult(r, d)
}

// stubRequest returns the request for the page of a stub, for which a decision is actLoad.
func (h *handler) stubRequest(r *http.Request, d *decision) local.Request {
	return local.Request{HTTP: r, Key: d.key, Stub: d.stub, Page: d.page, View: h.route.present, EarlyRefresh: h.route.EarlyRefresh, Now: d.now}
}

// find finds a page that is not in memory, or too old to be served without looking for a newer one:
// d.page, which may be nil.
func (h *handler) find(fx effects, r *http.Request, d *decision) {
	old := d.page
	d.now, d.status = h.c.now(), httpcache.Status{Forward: forwardFor(old)}
	if h.recall(r, d) || h.recallUnpublished(fx, r, d) {
		return
	}
	if h.c.stores.Down() != nil {
		fx.withoutStore()
		h.withoutStore(r, d)
		return
	}
	got := fx.join(r, d)
	if o, failed := got.outcome.(fill.Failure); failed && got.end == joinReply && o.Fallback == nil && o.Detail == fill.DetailStoreError {
		h.withoutStore(r, d)
		return
	}
	h.answer(r, d, got)
}

// recall decides by the negative cache. d.page is an older page that may be served if a render
// fails; it may be nil. It returns false, and decides nothing, if the negative cache has no answer.
func (h *handler) recall(r *http.Request, d *decision) bool {
	known := h.c.node.Negative.Get(d.key, time.Now())
	if known == nil {
		return false
	}
	if known.Page != nil {
		if state, _ := h.judge(nil, known.Page, d.now); state == store.Fresh {
			h.hit(r, d, known.Page, state)
			return true
		}
	}
	switch {
	case known.Refused != "":
		d.passRefused(known)
	case known.Failed != nil && d.page == nil:
		status := httpcache.Status{Forward: d.status.Forward, Detail: fill.DetailBackOff}
		d.fail(known.Failed, status, d.now.Add(time.Until(known.Until)), nil)
	default:
		return false
	}
	return true
}

// recallUnpublished decides by the pages that could not be stored. A page that was requested often
// enough is stored. It returns false, and decides nothing, if there is no such page.
func (h *handler) recallUnpublished(fx effects, r *http.Request, d *decision) bool {
	due := false
	if h.c.uses != nil {
		due = fx.count(d.key) >= h.c.cfg.MinUses && !h.c.full()
	}
	p := h.c.node.Unpublished.Get(d.key)
	if p == nil || due {
		return false
	}
	d.now = h.c.now()
	d.page, d.behind = p, lookForStored
	fx.refresh(r, d)
	h.serve(r, d, p, store.Fresh, httpcache.Status{Hit: true, Detail: fill.DetailUnpublished})
	return true
}

// findSince finds a page that is as new as the receipt of the request demands. It waits as for a
// missing page, for at most Config.Wait, and never serves an older page.
func (h *handler) findSince(fx effects, r *http.Request, d *decision) {
	d.page, d.now, d.status = nil, h.c.now(), httpcache.Status{Forward: httpcache.ForwardMiss}
	if h.recall(r, d) || h.recallUnpublished(fx, r, d) {
		return
	}
	if h.c.stores.Down() != nil {
		h.failReceipt(d)
		return
	}
	got := fx.join(r, d)
	if got.end == joinNothing {
		h.failReceipt(d)
		return
	}
	h.answer(r, d, got)
}

// findStored finds a page for a request with only-if-cached whose page is not in memory: what is
// stored, fresh or stale. The fill that it starts renders nothing.
func (h *handler) findStored(fx effects, r *http.Request, d *decision) {
	d.now, d.status = h.c.now(), httpcache.Status{}
	if negative := h.c.node.Negative.Get(d.key, time.Now()); negative != nil && negative.Page != nil && d.minSeq == 0 {
		if state, _ := h.judge(nil, negative.Page, d.now); state == store.Fresh && d.asked.Accepts(&negative.Page.Entry, d.now) {
			h.hit(r, d, negative.Page, state)
			return
		}
	}
	if h.c.stores.Down() != nil {
		d.failUncached()
		return
	}
	got := fx.join(r, d)
	o, found := got.outcome.(fill.StoredPage)
	switch now := h.c.now(); {
	case got.end == joinGone:
		h.answer(r, d, got)
	case found && got.state >= store.Stale && d.asked.Accepts(&o.Page.Entry, now) && (d.minSeq == 0 || h.mayServeSince(o.Page, now, d.minSeq)):
		d.now = now
		h.hit(r, d, o.Page, got.state)
	default:
		d.failUncached()
	}
}

// During an outage of a store a visitor waits for at most Config.StoreTimeout, and the
// origin renders a page once per flight:
//
//	request -> memory -> unpublished pages -> breaker closed: flight -> the store
//	                           ^                                |
//	                           |              it fails, or takes too long
//	                           |                                v
//	                           +--- render, not stored <- unpublished flight
//
// A flight whose store calls have failed, or have taken longer than Config.StoreTimeout
// in all, sends its waiting requests to the unpublished flight of the key, which renders
// once, within the origin's budget, and never calls a store. The first flight goes on in
// the background, and publishes what was rendered if the page is not stored yet: a store
// that is slow, but not down, gets its page by the same render. After several failures
// in a row the store's circuit breaker opens (see internal/breaker), and no flight calls the
// store until a probe succeeds.

// withoutStore decides for a request while a store does not answer, or not in time: for the page in
// memory, even if stale, or for one that is rendered once for all waiting requests.
func (h *handler) withoutStore(r *http.Request, d *decision) {
	d.status = httpcache.Status{Forward: forwardFor(d.page)}
	got := h.orStale(nil, fill.Failure{Cause: guard.ErrSlow, Detail: fill.DetailStoreError}, d.page)
	if got.outcome.(fill.Failure).Fallback == nil {
		d.act = actUnpublished
		return
	}
	h.answer(r, d, joined{reply: got})
}

// findUnpublished finds a page that is rendered once for all waiting requests, and is not stored. If
// there is none, d.page, an older one, is served if it may be instead of a failure.
func (h *handler) findUnpublished(fx effects, r *http.Request, d *decision) {
	got := fx.join(r, d)
	if got.end == joinAgain {
		d.act = actFind
		return
	}
	if o, failed := got.outcome.(fill.Failure); failed {
		got.reply = h.orStaleIfError(o, d.page)
	}
	h.answer(r, d, got)
}

// answer decides by what a visitor gets of a flight: for a page as a hit or as a new page, for the
// renderer if the response is refused, for the fallback of a failure or an error response.
func (h *handler) answer(r *http.Request, d *decision, got joined) {
	d.now, d.status.Collapsed, d.err = h.c.now(), got.collapsed, nil
	switch {
	case got.end == joinGone:
		d.act, d.status.Detail = actGone, detailCanceled
		return
	case got.end == joinOpen:
		d.act, d.status.Stored = actOpen, got.stored
		return
	case got.stream != nil:
		d.act, d.reply = actStream, &got.reply
		return
	case got.own != nil:
		d.act, d.reply = actOwn, &got.reply
		return
	}
	status := d.status
	switch o := got.outcome.(type) {
	case fill.StoredPage:
		switch {
		case !d.asked.Accepts(&o.Page.Entry, d.now):
			d.passAsked()
		case !o.Waited:
			h.hit(r, d, o.Page, got.state)
		default:
			status.Stored, status.Collapsed, status.ForwardStatus = true, true, o.Page.Status()
			h.serve(r, d, o.Page, got.state, status)
		}
	case fill.RenderedPage:
		status.Stored, status.ForwardStatus = true, cmp.Or(o.ForwardStatus, o.Page.Status())
		h.serve(r, d, o.Page, got.state, status)
	case fill.UnpublishedPage:
		status.Detail, status.ForwardStatus = cmp.Or(status.Detail, o.Detail), o.Page.Status()
		h.serve(r, d, o.Page, got.state, status)
	case fill.Refusal:
		// The response must not be shared, and is not for this visitor: their own request is
		// passed on.
		d.act, d.lesson, d.status.Detail = actPass, learnNothing, o.Reason
		switch o.Reason {
		case fill.DetailLearned:
			d.lesson, d.reply = learnSection, &got.reply
		case fill.DetailHead:
			d.lesson = learnHead
		}
	case fill.Failure:
		h.answerFailure(r, d, o, got.state)
	}
}

// answerFailure decides by a failure: for its fallback, if there is one. While the cache closes,
// requests pass through.
func (h *handler) answerFailure(r *http.Request, d *decision, o fill.Failure, state store.State) {
	status := d.status
	d.err = o.Cause
	switch {
	case o.Fallback != nil:
		status.Hit, status.Collapsed, status.Detail = true, false, fallbackDetail(o, state)
		h.serve(r, d, o.Fallback, state, status)
	case o.Detail == fill.DetailClosing:
		d.pass(status.Forward, o.Detail)
	default:
		status.Detail = o.Detail
		res := o.Shown()
		if o.Own != nil && !status.Collapsed {
			res = o.Own
		}
		d.fail(res, status, retryAt(o.Cause, d.now), o.Cause)
	}
}

// fallbackDetail is the reason in Cache-Status of a page that is served because rendering
// failed.
func fallbackDetail(o fill.Failure, state store.State) string {
	switch {
	case state == store.Fresh && o.Detail == fill.DetailStoreError:
		return page.DetailCutOff
	case state == store.Fresh:
		return ""
	case state == store.Stale:
		return o.Detail
	}
	return detailStaleIfError
}

// retryAt is the time for Retry-After: the end of a back-off, or soon if another
// process holds the lease, since it may release it at any time.
func retryAt(err error, now time.Time) time.Time {
	var held *store.HeldError
	var overBudget *budget.Error
	switch {
	case errors.As(err, &held) && held.Lock.IsBackOff():
		return held.Lock.ExpiresAt
	case errors.As(err, &overBudget):
		return now.Add(overBudget.RetryAfter)
	}
	return now.Add(budget.BusyRetry)
}

// selectVariant decides by a page that a request does not match: for the variant that does, or
// for passing it through. Each variant has more headers in its key, so that this ends.
func (h *handler) selectVariant(fx effects, r *http.Request, d *decision) {
	fx.refresh(r, d)
	k, ok := h.route.keys.VariantKey(d.page.Key, d.page.Varies, r.Header)
	*d = decision{}
	if !ok {
		d.pass(httpcache.ForwardBypass, httpcache.RefusedVary)
		return
	}
	if h.c.node.Get(k) == nil && h.c.variants.Refuses(k) {
		d.pass(httpcache.ForwardBypass, fill.DetailVariants)
		return
	}
	d.key, d.asked = k, h.route.keys.Directives(r)
	h.consult(r, d)
}

// holdBack refuses a request that would reach the renderer while the budget of the route is paused: in maintenance
// mode only drafts do.
func (h *handler) holdBack(d *decision) {
	if d.act != actPass {
		return
	}
	var paused *budget.Error
	if b := h.route.fills.Budget; b.IsPaused() && errors.As(b.Refusal(), &paused) {
		d.fail(render.Plain(http.StatusServiceUnavailable), httpcache.Status{Forward: d.status.Forward, Detail: fill.DetailMaintenance}, h.c.now().Add(paused.RetryAfter), paused)
	}
}

// finish executes a final state. It returns true if the request goes on, because the page that it
// served has a body that cannot be sent.
func (h *handler) finish(w http.ResponseWriter, r *http.Request, d *decision) (again bool) {
	var err error
	switch d.act {
	case actHit:
		h.refresh(w, r, d)
		err = d.page.ServeHit(w, r, h.route.present, d.now, d.state, d.cutOff)
	case actServe:
		err = d.page.Serve(w, r, h.route.present, d.now, d.state, d.status)
	case actStream:
		got := *d.reply
		d.reply = nil // its flight has the body, which must not stay while the visitor reads
		d.page, err = h.serveStream(w, r, got, d.status)
	case actOwn:
		h.serveOwn(w, r, *d.reply, d.status)
	case actPass:
		h.passWith(w, r, d)
	case actFail:
		if errors.Is(d.err, errBlind) {
			h.c.follower.TellBlind()
		}
		h.serveFailure(w, r, d.response, d.status, d.retry)
	case actRefuse:
		h.badRequest(w, d.err)
	case actGone:
		ReportOf(w).answer(d.status)
	}
	return err != nil && h.bodyLost(w, r, d, err)
}

// refresh starts what the page of a decision calls for behind the response. w may be nil: the request
// has no id.
func (h *handler) refresh(w http.ResponseWriter, r *http.Request, d *decision) {
	switch d.behind {
	case refreshStale:
		h.refreshStale(w, r, d.page)
	case mayRefreshEarly:
		if h.route.EarlyRefresh > 0 {
			h.refreshEarly(w, r, d.page, d.now)
		}
	case lookForStored:
		h.lookForStored(r, d.page)
	}
}

// refreshStale starts a regeneration in the background, for one of the requests that
// find a page stale. w may be nil if the request has no id.
func (h *handler) refreshStale(w http.ResponseWriter, r *http.Request, p *page.Page) {
	if p.NextTry.Claim(p) && h.c.stores.Down() == nil {
		forwardRequestID(w, r)
		h.c.engine.Start(h.fill(r, p.Key))
	}
}

// maxEarlyRefresh bounds [Route.EarlyRefresh].
const maxEarlyRefresh = 10

// refreshEarly starts the regeneration of a fresh page, if this request draws it.
func (h *handler) refreshEarly(w http.ResponseWriter, r *http.Request, p *page.Page, now time.Time) {
	if !p.DueEarly(now, h.route.EarlyRefresh, h.c.cfg.Random) || !p.NextEarly.Claim(p) {
		return
	}
	if h.c.node.Negative.Get(p.Key, time.Now()) != nil {
		return // the last attempt failed, or the page became uncacheable
	}
	if h.c.stores.Down() != nil {
		return // the new page could not be stored
	}
	forwardRequestID(w, r)
	s := h.fill(r, p.Key)
	s.Early = p
	h.c.engine.Start(s)
}

// lookForStored looks for the stored page behind a request that gets an unpublished one, of an outage that may be over: the
// store may have had a page all along, which takes precedence, such as one that an operator has rolled back to.
func (h *handler) lookForStored(r *http.Request, p *page.Page) {
	if p.Outage && p.NextTry.Claim(p) && h.c.stores.Down() == nil {
		s := h.fill(r, p.Key)
		s.OnlyStored = true
		h.c.engine.Start(s)
	}
}

// serveStream answers with a page while it is rendered, and detaches the visitor. If the render has
// ended already, it serves the page p; an error is then as of [page.serveHit].
func (h *handler) serveStream(w http.ResponseWriter, r *http.Request, got reply, status httpcache.Status) (p *page.Page, err error) {
	rd, st, f, began := got.stream, got.offer, got.flight, time.Now()
	got.flight = nil // it has the body, and is not needed once that is copied
	defer rd.Leave()
	defer reportWaits(w, f.WaitTimes, began, got) // once the render has ended
	status.Stored, status.Detail = st.Status.Stored, st.Status.Detail
	ending := &render.EndWriter{ResponseWriter: w, Await: func() { rd.AwaitStored(r.Context()) }}
	if rendered := f.Rendered.Load(); rendered != nil {
		p := (*rendered)()
		state, _ := h.judge(f, p, h.c.now())
		if state != store.Purged && h.route.keys.Matches(p.Varies, r.Header) && p.Hold(&h.c.responses) {
			defer p.Release(&h.c.responses)
			return p, p.ServeNew(ending, httpconn.WithoutCoalescing(r), h.route.present, h.c.now(), state, status)
		}
	}
	if st.Page.Begin(ending, r, h.route.present, h.c.now(), got.state, status, st.Length) {
		rd.CopyTo(r.Context(), ending)
	}
	return nil, nil
}

// passWith passes a request through, and learns from the response what the decision says.
func (h *handler) passWith(w http.ResponseWriter, r *http.Request, d *decision) {
	switch d.lesson {
	case learnSection:
		h.passLearned(w, r, d.key, d.reply.flight, d.status)
	case learnHead:
		h.passHead(w, r, d.key, d.status)
	case learnRefusal:
		h.passRefused(w, r, d.key, d.known)
	default:
		var observe func(int, http.Header)
		if !isSafe(r.Method) {
			observe = h.unsafeRequest(r).answered // purges what it changes (see unsafe.go)
		}
		h.passThrough(w, r, d.status, observe)
	}
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

// passHead passes through a HEAD request for a page that is not stored. If the response says that the page may
// be stored, and so is no one-time link, the page is rendered in the background: the next request finds it.
func (h *handler) passHead(w http.ResponseWriter, r *http.Request, k store.Key, status httpcache.Status) {
	storable := false
	h.passJudged(w, r, k, status, func(v httpcache.Verdict) { storable = v.Refused == "" && !v.Failed })
	if storable && h.c.stores.Down() == nil {
		h.c.engine.Join(h.fill(r, k))
	}
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

// serveFailure writes an error response that no cache may store.
func (h *handler) serveFailure(w http.ResponseWriter, r *http.Request, res *render.Response, status httpcache.Status, retry time.Time) {
	if status.Forward != "" {
		status.ForwardStatus = res.Status
	}
	ReportOf(w).answer(status)
	header := w.Header()
	own := errorPageOf(w, res.Status, res.Plain)
	if own == nil {
		for name, values := range res.Header {
			if httpcache.Replayed(name) {
				header[name] = values
			}
		}
	}
	h.route.present.SetFields(header)
	header["Cache-Status"] = []string{status.String()}
	header["Cache-Control"] = []string{"no-store"}
	if own != nil {
		setRetryAfter(header, retry.Sub(h.c.now()))
		own.send(w, res.Status, r.Method == http.MethodHead)
		return
	}
	body := res.Body
	if res.Plain {
		body = append(body[:len(body):len(body)], RequestIDLine(w)...)
	}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	setRetryAfter(header, retry.Sub(h.c.now()))
	w.WriteHeader(res.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}

// setRetryAfter states how long to wait, in whole seconds, if the header does not state it yet.
func setRetryAfter(header http.Header, wait time.Duration) {
	if wait > 0 && header["Retry-After"] == nil {
		header["Retry-After"] = []string{strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10)}
	}
}

func (h *handler) badRequest(w http.ResponseWriter, err error) {
	status := httpcache.Status{Detail: detailBadRequest}
	ReportOf(w).answer(status)
	w.Header()["Cache-Status"] = []string{status.String()}
	WriteErrorPage(w, http.StatusBadRequest, "Bad request: "+err.Error()+".")
}

// bodyLost decides for a request whose page has a body that cannot be sent. Nothing was sent before.
// It returns false if the visitor went away.
func (h *handler) bodyLost(w http.ResponseWriter, r *http.Request, d *decision, err error) (again bool) {
	p := d.page
	delete(w.Header(), "Age")
	delete(w.Header(), "Cache-Status")
	d.key, d.page = p.Key, nil
	switch {
	case r.Context().Err() != nil:
		return false
	case errors.Is(err, page.ErrNoRoom):
		status := httpcache.Status{Forward: httpcache.ForwardMiss, Detail: fill.DetailNoMemory}
		d.fail(render.Plain(http.StatusServiceUnavailable), status, h.c.now().Add(time.Second), err)
	case errors.Is(err, guard.ErrSlow):
		h.c.reader.LocalTooSlow(&p.Entry)
		h.withoutStore(r, d)
	default:
		h.c.engine.Suspect(p, err)
		d.miss()
	}
	return true
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

// A visit has the effects of a request that is served.
type visit struct {
	h *handler
	w http.ResponseWriter
	r *http.Request // to go on with
}

var _ effects = (*visit)(nil)

func (v *visit) reach(r *http.Request, seq int64) (err error) {
	ctx, cancel := context.WithTimeout(r.Context(), v.h.c.cfg.StoreTimeout)
	defer cancel()
	err = v.h.c.follower.Reach(ctx, seq)
	return err
}

func (v *visit) poll(r *http.Request) bool { return v.h.c.follower.Await(r.Context()) }

func (v *visit) load(r *http.Request, d *decision) (*page.Page, error) {
	q := v.h.stubRequest(r, d)
	return v.h.c.local.Load(&q)
}

func (v *visit) count(k store.Key) int { return v.h.c.uses.Add(k) }

func (v *visit) refresh(r *http.Request, d *decision) {
	v.h.refresh(v.w, r, d)
}

func (v *visit) withoutStore() {
	if b := v.h.c.stores.Down(); b != nil {
		b.CountAffected()
	}
}

func (v *visit) join(r *http.Request, d *decision) joined {
	switch d.act {
	case actFindSince:
		return v.joinSince(r, d)
	case actFindStored:
		return v.joinStored(r, d)
	case actUnpublished:
		return v.joinUnpublished(r, d)
	}
	return v.joinAny(r, d)
}
