package fill

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/generations"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/nodecache"
	"github.com/facetheory/isr/internal/offload"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// A Fill is the work of a flight: it finds the page of a key, or renders it. This file
// is the only place that orders its effects:
//
//	read META -> wait for a turn at the origin -> acquire LOCK
//	          -> read META again -> list a variant -> render, or validate, and give up the turn
//	          -> write the body -> list a variant -> publish META and delete LOCK
//
// The turn comes before the lease: a fill that waits for its turn does not hold a
// lease that another process, whose origin has capacity, could use. No page is rendered
// twice because of that: META is read again once the turn has come, and once more under
// the lease.
//
// At every step a crash leaves at most a lease, which expires, and a body that no row
// refers to.
//
// A fill is a loop of steps (see step). Each returns the next one, and none calls another:
//
//	recall
//	  │
//	  ▼
//	look ──► consult ──► load ──► offer ──► choose ─────┬──► wait ──► sleep ──► look
//	  ▲                    └─► found                    ├──► unpublished ──► enter… ──► render… ──► judge…
//	  │                                                 └──► delegate (to the queue)
//	  │      waits for a turn                           ┌───────┘
//	  ├─────────────────────────────────────── enter ◄──┘
//	  │      another process has the lease        │
//	  │         wait ◄──────────────────────── acquire
//	  │                                           │ the lease is held
//	  │                                        confirm ──► render ──► judge ──┬──► storeBody ──► publish
//	  │                                           │                           ├──► reject ──► fail
//	  │                                           │                           └──► withdraw, refuse, keep
//	  │      another writer was faster            ▼
//	  └───────────────────────────────────────── yield, which follows each step under the lease
//
// It ends at most of them, with an outcome. Steps that only decide (consult, choose, judge, wait) have no effects: a
// dry run takes them as they are, and replaces the others (see dryrun.go).
type Fill struct {
	e *Engine
	Request
	pk string
	f  *Flight

	// What the steps hand to the next ones.
	out         Outcome      // of the fill; nil under the lease: another writer was faster
	rec         store.Record // read last
	state       store.State  // of its entry
	page        *page.Page   // of it
	trouble     Failure      // why there is no new page
	unpublished string       // the reason for which the page is rendered without being stored
	followed    bool         // this process followed the log before that
	seq         int64        // a purge sequence from before the render
	got         render.Rendering
	at          timing
	made        made
	rejected    string // why got is suspicious
	rendered    bool   // the renderer was called, and endRender was not
	held        *tenure

	// memory is what the body of the last render has of the budget; nil if there is none.
	memory *render.Memory

	storeWait *countdown // how much longer waiting requests wait for the store; nil: unlimited
	turn      originTurn
	watch     watch
	lastRead

	ended   bool      // this process knows of a withdrawal of the entry, and the store does not
	waited  bool      // another process held the lease, or may have while this one queued
	gaveWay bool      // this fill has waited for an unpublished flight
	losses  int       // how often another process was faster
	since   time.Time // when the fill began
	listed  time.Time // until when this fill has listed a variant that is not stored; else zero

	rendering *observedRender // in progress; nil if there is none
	leaseWait func(Result)    // ends the wait for a lease in progress; nil if there is none
	lost      bool            // the lease that was acquired last was lost
}

// A Request is what is asked of a fill. It does not change while the fill runs.
type Request struct {
	Policy *Policy // of its route
	Key    store.Key
	Force  bool // render even if the page is fresh
	Unpin  bool // render even if the page is pinned
	// Unless: a fresh page is not rendered although the fill is forced, unless it has this
	// version; nil if it is rendered in any case.
	Unless *FreshVersion
	// Reload tells all nodes to drop their copies of the page when it is published.
	Reload bool
	Claim  *store.Claim // the request record that this fill completes; may be nil
	Early  *page.Page   // render even if this page, the current one, is fresh; may be nil
	// Cause is the context of the request that started the fill, whose end it outlives.
	Cause context.Context //nolint:containedctx // for the observer
	// Forwarded are the headers of the request that started the fill that a render carries
	// (see isr.Route.Forward).
	Forwarded http.Header
	// Accept are the codings that the visitor who started the fill accepts.
	Accept httpcache.Accept
	// Own is the claim of the visitor who started the fill to a response that must not be
	// shared; nil if there is none.
	Own Claimant
	// Head: the fill is for a HEAD request, for which no page is rendered that is not stored.
	Head bool
	// Light is the request that started the fill if its response may need no body; nil if it does.
	Light *http.Request
	// Skip is the reason for which a page that is not stored is not rendered; empty if it is (see
	// isr.Cache.Learned).
	Skip string
	// OnlyStored: nothing is rendered, for a request with only-if-cached.
	OnlyStored bool
	// MinSeq is the purge receipt that the page must satisfy, or 0. With a receipt, a stale page is
	// not an answer.
	MinSeq int64
	// Uncounted are the requests that Options.Uses has not counted: 1 if one is explained.
	Uncounted int
}

// A FreshVersion names a fresh page that is regenerated nevertheless.
type FreshVersion struct {
	Generation string
	Version    int64
}

// is reports whether an entry has the version.
func (v FreshVersion) is(e *store.Entry) bool {
	return v.Generation != "" && e.GenerationID == v.Generation && e.Version == v.Version
}

// A Claimant is the claim of a visitor to the response of a render that must not be shared. Its methods
// are safe for concurrent use.
type Claimant interface {
	// Offer gives a response to the visitor, if it is for them, and reports whether it is. The
	// response must not be shared, and its flight is f.
	Offer(r render.Head, f *Flight) bool
	// Settle is called once the flight has remembered that the response must not be shared.
	Settle()
}

// A lastRead is what a fill knows of its last read of the record.
type lastRead struct {
	latest page.Interval // of the record
	asOf   int64         // a sequence that was committed before that
	seqAt  time.Time     // when SEQ was read for the render; zero if it was not
	noBody string        // the key of a body that was missing or damaged
	unread bool          // that body exists and could not be read: no pin is lost for that
}

// missBody records that a body is missing, damaged or cannot be read.
func (r *lastRead) missBody(key string, err error) {
	r.unread = errors.Is(err, bodies.ErrUnreadable) || r.unread && key == r.noBody
	r.noBody = key
}

// NewFill returns a fill for a request, before it begins. clients are the clients that wait for its page.
func NewFill(r Request, clients []netip.Prefix) *Fill {
	return &Fill{Request: r, turn: originTurn{clients: clients}}
}

// ReadAt returns when the last read of the record began, and a sequence that was committed before that. The
// fill has ended.
func (s *Fill) ReadAt() (began time.Time, seq int64) { return s.latest.Began, s.asOf }

// A step is what a fill does next. Those marked with * only decide.
type step int

const (
	stepEnd step = iota // with s.out

	stepRecall   // look for the page in memory
	stepLook     // read META
	stepConsult  // * is there a page that may be served?
	stepLoad     // make the page of META
	stepFound    // end with it
	stepOffer    // show it to those who may have it, and go on
	stepTooLarge // end without it: its body exceeds the limit of this node
	stepChoose   // * render the page, or wait for another process?

	stepDelegate    // leave the render to the queue
	stepEnter       // wait for a turn at the origin
	stepAcquire     // acquire the lease
	stepConfirm     // read META again, under the lease
	stepRender      // call the renderer
	stepJudge       // * what is made of the response?
	stepFail        // write a back-off
	stepReject      // put the response into quarantine, and fail
	stepWithdraw    // end the stored copy
	stepRefuse      // remember that the response must not be stored
	stepKeep        // keep a negative answer in memory
	stepStoreBody   // write the body
	stepPublish     // publish META
	stepYield       // the lease has ended
	stepWait        // * another process has the lease, or the page is in back-off
	stepSleep       // until it is time to look again
	stepUnavailable // end with s.trouble, and with an older page if there is one

	// A page that is rendered and not stored, for the reason s.unpublished.
	stepUnpublished       // * must it be rendered?
	stepEnterUnpublished  // wait for a turn at the origin
	stepRenderUnpublished // call the renderer
	stepJudgeUnpublished  // * what is made of the response?
	stepFailUnpublished   // remember the failure
	stepWithdrawHere      // end the stored copy in this process
	stepServeUnpublished  // end with the page
)

// do executes a step, and returns the next one.
func (s *Fill) do(ctx context.Context, at step) step {
	switch at {
	case stepRecall:
		return s.recallPage(ctx)
	case stepLook:
		return s.look(ctx)
	case stepLoad:
		return s.loadPage(ctx)
	case stepFound:
		return s.found()
	case stepOffer:
		s.f.offer(s.page)
		return stepChoose
	case stepTooLarge:
		return s.end(s.tooLarge(s.trouble.Cause))
	case stepDelegate:
		return s.delegate(ctx)
	case stepEnter:
		return s.enter(ctx)
	case stepAcquire:
		return s.acquire(ctx)
	case stepConfirm:
		return s.confirm(ctx)
	case stepRender:
		return s.renderPage()
	case stepFail:
		return s.fail(ctx)
	case stepWithdraw:
		return s.withdraw(ctx)
	case stepRefuse:
		return s.refuse(ctx)
	case stepReject:
		return s.reject()
	case stepKeep:
		return s.keepNegative(ctx)
	case stepStoreBody:
		return s.storeBody(ctx)
	case stepPublish:
		return s.publish(ctx)
	case stepYield:
		return s.yield(ctx)
	case stepWait:
		s.turn.leave(budget.ErrNoVerdict) // other fills can use the turn
		s.noteBusy()
		return s.wait()
	case stepSleep:
		return s.sleepOnce(ctx)
	case stepUnavailable:
		return s.end(s.unavailable(ctx, s.rec, s.trouble.Cause, s.trouble.Detail))
	}
	return s.doUnpublished(ctx, at)
}

// doUnpublished is do for the steps of a page that is not stored.
func (s *Fill) doUnpublished(ctx context.Context, at step) step {
	switch at {
	case stepEnterUnpublished:
		return s.enterUnpublished(ctx)
	case stepRenderUnpublished:
		return s.renderUnpublished(ctx)
	case stepFailUnpublished:
		return s.end(s.failedUnpublished(s.got, s.at))
	case stepWithdrawHere:
		return s.withdrawUnpublished()
	case stepServeUnpublished:
		return s.serveUnpublished()
	}
	return s.decide(at)
}

// decide executes a step that has no effects.
func (s *Fill) decide(at step) step {
	switch at {
	case stepConsult:
		return s.consult()
	case stepChoose:
		return s.choose()
	case stepJudge:
		return s.judge()
	case stepWait:
		return s.wait()
	case stepUnpublished:
		return s.findUnpublished()
	case stepJudgeUnpublished:
		return s.judgeUnpublished()
	}
	panic(fmt.Sprintf("isr: no step %d", at))
}

// maxLosses bounds how often a fill renders a page that another process then replaces.
const maxLosses = 3

// run executes the fill. ctx ends when the cache is closed by force.
func (s *Fill) run(ctx context.Context) Outcome {
	defer s.releaseMemory()
	defer s.turn.leave(budget.ErrNoVerdict)
	s.since = time.Now()
	s.storeWait = &countdown{left: s.e.StoreTimeout, expired: s.overdue}
	defer s.storeWait.stop()
	defer s.watch.stop()
	s.storeWait.start()
	select {
	case <-s.e.Follower.Begun():
	case <-ctx.Done():
	}
	return s.steps(ctx, stepRecall, s.do)
}

// steps executes the steps from one on, by do, until the fill ends.
func (s *Fill) steps(ctx context.Context, next step, do func(context.Context, step) step) Outcome {
	for next != stepEnd {
		next = do(ctx, next)
	}
	return s.out
}

// end ends the fill with an outcome, once the lease is given up, if it has one.
func (s *Fill) end(o Outcome) step {
	s.out = o
	if s.held != nil || s.rendered {
		return stepYield
	}
	return stepEnd
}

// recallPage ends the fill with a page that this process has, if it may be served without a
// look at the table.
func (s *Fill) recallPage(ctx context.Context) step {
	if p := s.secondLook(); p != nil {
		return s.end(StoredPage{Page: p})
	}
	if p := s.recall(ctx); p != nil {
		return s.end(StoredPage{Page: p})
	}
	return stepLook
}

// secondLook returns a page that another flight has put into memory since this flight's
// leader looked there, if a visitor who came now would get it; nil if there is none.
func (s *Fill) secondLook() *page.Page {
	if s.Force || s.Early != nil || s.MinSeq > 0 || s.Claim != nil {
		return nil
	}
	p, now := s.e.Node.Get(s.Key), s.e.Now()
	if p == nil || s.e.Follower.LateFor(p.Read.AsOf, now) || s.e.Blind(now) || s.e.Node.State(&s.f.State, p, now) != store.Fresh {
		return nil
	}
	return p
}

// look reads the record of the page.
func (s *Fill) look(ctx context.Context) step {
	rec, err := s.lookUp(ctx)
	if err != nil {
		return s.end(s.storeFailed(ctx, err))
	}
	s.rec = rec
	return stepConsult
}

// consult decides whether the record has a page that may be served.
func (s *Fill) consult() step {
	if known := s.knownNegative(s.rec); known != nil {
		return s.end(known)
	}
	s.state = store.Freshness(s.rec.Entry, s.rec.Purges, s.e.Now())
	if s.state == store.Fresh || s.state == store.Stale {
		return stepLoad
	}
	return stepChoose
}

// loadPage makes the page of the record.
func (s *Fill) loadPage(ctx context.Context) step {
	p, err := s.load(ctx, s.rec)
	if errors.Is(err, store.ErrPurged) {
		return stepLook
	}
	if next, known := s.loaded(p, err); known {
		return next
	}
	return s.end(s.storeFailed(ctx, err))
}

// loaded decides by the result of loading the page. known is false if the error says nothing of the page:
// the store does not answer.
func (s *Fill) loaded(p *page.Page, err error) (next step, known bool) {
	s.page = p
	switch {
	case err == nil && s.suffices(s.rec, s.state):
		return stepFound, true
	case err == nil:
		return stepOffer, true
	case errors.Is(err, bodies.ErrMissing):
		s.missBody(s.rec.Entry.BodyKey, err)
		return stepChoose, true
	case errors.Is(err, bodies.ErrTooLarge):
		if s.state == store.Fresh && !s.Wanted(s.rec) {
			s.trouble.Cause = err
			return stepTooLarge, true
		}
		return stepChoose, true
	}
	return stepEnd, false
}

// suffices reports whether a stored page that can be served, in a state, ends the fill.
func (s *Fill) suffices(rec store.Record, state store.State) bool {
	return state == store.Fresh && !s.Wanted(rec) || s.OnlyStored
}

// Wanted reports whether a fresh page is rendered nevertheless: the fill is forced, or
// the page is the one that is refreshed early.
func (r *Request) Wanted(rec store.Record) bool {
	if r.Unless != nil {
		return r.Unless.is(rec.Entry)
	}
	return r.Force || r.Early != nil && page.SameEntry(&r.Early.Entry, rec.Entry)
}

// found ends the fill with the stored page.
func (s *Fill) found() step {
	s.Policy.noteRenderTime(s.rec.Entry)
	s.e.Node.Unpublished.Forget(s.Key)
	if !isNegative(s.rec.Entry.Status) {
		s.Policy.Cacheable(s.Key)
	}
	return s.end(StoredPage{Page: s.page, Waited: s.waited})
}

// choose decides by a record whose page does not end the fill.
func (s *Fill) choose() step {
	rec, now := s.rec, s.e.Now()
	switch {
	case s.OnlyStored:
		return s.end(Failure{Cause: ErrOnlyIfCached, Detail: DetailOnlyIfCached})
	case s.refusedByPin(rec):
		return s.end(Failure{Cause: generations.PinError(rec.Entry)})
	}
	// The row that was just read avoids a conditional write that would fail. Only Acquire
	// decides.
	held := rec.Lock != nil && rec.Lock.HeldAt(now)
	unknown := rec.Malformed == nil && (rec.Entry == nil || rec.Entry.Withdrawn) && !held
	if pass := s.passesUnknown(); unknown && pass != "" {
		return s.end(Refusal{pass})
	}
	s.unpublished = s.notWorthStoring(rec)
	switch {
	case s.unpublished != "":
		return stepUnpublished
	case held:
		return stepWait
	case s.delegates():
		return stepDelegate
	}
	return stepEnter
}

// notWorthStoring returns the reason for which a page that is not stored is rendered
// without being stored: it was not requested often enough, or there is no room. Empty:
// it is stored.
func (s *Fill) notWorthStoring(rec store.Record) (detail string) {
	switch {
	case rec.Entry != nil || s.Force:
		return ""
	case s.e.Uses != nil && s.e.Uses.Count(s.Key)+s.Uncounted < s.e.MinUses:
		return detailMinUses
	case s.e.Full():
		return detailNoRoom
	}
	return ""
}

// passesUnknown returns the reason for which a page that is not stored is not rendered, and the
// request passes through; empty if it is rendered.
func (s *Fill) passesUnknown() (detail string) {
	switch {
	case s.Head:
		return DetailHead
	case s.Skip != "":
		return DetailLearned
	}
	return ""
}

// delegates reports whether the fill leaves the render to the queue: no request waits for it.
// In maintenance mode no worker may render it either.
func (s *Fill) delegates() bool {
	return s.e.Sender != nil && s.background() && !s.Policy.Budget.IsPaused()
}

// delegate leaves the render to the queue. If that fails, the fill renders the page, unless
// the process freezes.
func (s *Fill) delegate(ctx context.Context) step {
	err := s.e.Sender.Send(ctx, s.stalePage(s.rec))
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return s.end(Failure{Cause: context.Cause(ctx), Detail: DetailClosing})
	default:
		s.e.Complaints.Log("failed to send a stale page to the queue", "key", s.Key.String(), "error", err)
		if !s.e.Freezes {
			return stepEnter
		}
	}
	return s.postponed(s.e.Jitter(page.RetryPause), nil, "")
}

// stalePage returns the request for the page of the fill.
func (s *Fill) stalePage(rec store.Record) offload.Page {
	p := offload.Page{Key: s.Key, Generation: rec.Entry.GenerationID, Fence: rec.Entry.Version, Reason: s.trigger(rec)}
	if purges := s.e.Node.RecordPurges(&s.f.State, s.Key, rec); rec.Entry.CoveredBy(purges) {
		p.PurgeSeq = max(purges.Seq, purges.HardSeq)
	}
	if rec.Lock != nil {
		p.Failures = rec.Lock.Failures
	}
	return p
}

// enter waits for the turn at the origin. A page that was rendered while the store was slow only
// remains to be stored, and needs none.
func (s *Fill) enter(ctx context.Context) step {
	s.endLeaseWait("ok")
	if s.awaitUnpublished(ctx) {
		return stepLook
	}
	if s.unpublishedPage(s.rec) != nil {
		return stepAcquire
	}
	switch come, err := s.awaitTurn(ctx, s.rec); {
	case err != nil:
		return s.notAdmitted(err)
	case !come:
		return stepLook // another process may have rendered the page
	}
	return stepAcquire
}

// awaitUnpublished waits for the unpublished flight of the key, if there is one and the store
// has kept visitors waiting for too long: this fill then does not render the page a
// second time. It waits only once, and reports whether it did.
func (s *Fill) awaitUnpublished(ctx context.Context) bool {
	if s.Force || s.gaveWay || !s.isOverdue() {
		return false
	}
	f := s.e.Unpublished.Current(s.Key)
	if f == nil {
		return false
	}
	s.gaveWay = true
	select {
	case <-f.Done():
	case <-ctx.Done():
	}
	return true
}

func (s *Fill) isOverdue() bool {
	select {
	case <-s.f.Overdue:
		return true
	default:
		return false
	}
}

// unpublishedPage returns the page that was rendered without the store while this fill was
// calling it, if the holder of the lease may publish that page: it is fresh, and would
// replace nothing. Otherwise nil. The page has the purge sequence that was known before
// the render, so that later purges cover it.
func (s *Fill) unpublishedPage(rec store.Record) *page.Page {
	p := s.f.unpublished.Load()
	if p == nil || s.Force || rec.Entry != nil || rec.Malformed != nil ||
		s.e.Node.Outdated(&s.f.State, p.Read.Began) ||
		store.Freshness(&p.Entry, s.e.Node.Purges(&s.f.State, p, s.e.Now()), s.e.Now()) != store.Fresh || s.staysInMemory(rec, &p.Entry) {
		return nil
	}
	return p
}

// A tenure is the time for which the fill has the lease.
type tenure struct {
	lease store.Lease
	since time.Time
	// ctx ends when the lease is lost.
	ctx    context.Context //nolint:containedctx // of the steps under the lease
	stop   func()          // ends the heartbeat
	cancel context.CancelFunc
	forget func(lost bool) // the lease is not in the gauge any more
}

// acquire acquires the lease.
func (s *Fill) acquire(ctx context.Context) step {
	acquiredAt := time.Now()
	lease, err := s.e.Meta.Acquire(ctx, s.pk, s.leaseTime(), s.Claim)
	var holder *store.HeldError
	var earlier *store.RequestError
	switch {
	case errors.As(err, &holder):
		s.rec.Lock = &holder.Lock
		return stepWait
	case errors.As(err, &earlier):
		return s.end(Failure{Cause: earlier})
	case err != nil:
		return s.end(s.storeFailed(ctx, err))
	}
	s.lost = false
	// If a store or the renderer hangs, even one that ignores its context, the lease
	// is not extended for longer than the work may take.
	work, cancel := context.WithTimeoutCause(ctx, s.renderTime()+storeTime, store.ErrLeaseLost)
	held, stop := store.KeepLease(work, lease, acquiredAt, s.e.Meta.Refresh, s.e.Log)
	s.held = &tenure{
		lease: lease, since: acquiredAt, ctx: held, stop: sync.OnceFunc(stop), cancel: cancel,
		forget: s.e.Hold(s.Key, s.Policy.Label, s.rec.Lock),
	}
	return stepConfirm
}

// left returns how long the request that started the fill may still take, in a process that
// may be gone then. ok is false if that is not limited.
func (s *Fill) left() (d time.Duration, ok bool) {
	if !s.e.Freezes || s.Cause == nil {
		return 0, false
	}
	end, ok := s.Cause.Deadline()
	return time.Until(end), ok
}

// leaseTime is how long the lease of the fill lasts at first, in whole seconds of at least 1:
// it does not outlive the process by much.
func (s *Fill) leaseTime() time.Duration {
	if left, ok := s.left(); ok {
		return min(s.e.Lease, max(left, time.Second))
	}
	return s.e.Lease
}

// renderTime bounds a render. A tenth of what is left is for storing the page and answering.
func (s *Fill) renderTime() time.Duration {
	if left, ok := s.left(); ok {
		return min(s.Policy.RenderTimeout, max(left-left/10, 0))
	}
	return s.Policy.RenderTimeout
}

// yield ends the work under the lease, which was given up or lost, or which the publish has ended. If
// there is no outcome, another writer was faster. A fill that calls no store has no lease.
func (s *Fill) yield(ctx context.Context) step {
	if s.rendered {
		s.settleStreams()
		s.rendered = false
	}
	h := s.held
	s.held = nil
	if h != nil {
		h.stop()
		h.cancel()
		h.forget(s.lost)
	}
	s.endRender(s.out)
	if h == nil {
		return stepEnd
	}
	s.conclude(ctx, h.lease, s.out)
	if s.out != nil {
		return stepEnd
	}
	if s.losses++; s.losses < maxLosses {
		return stepLook
	}
	s.trouble = Failure{Cause: store.ErrLeaseLost, Detail: DetailTimeout}
	return stepUnavailable
}

// conclude records the end of the request that this fill has claimed, unless the
// publish has completed it. If we crash before, the request is in progress until the
// lease would have ended. After a publish with an unknown outcome this is harmless:
// either the publish has completed the request, and nothing changes here, or it can no
// longer commit, since it requires the request to be in progress.
func (s *Fill) conclude(ctx context.Context, lease store.Lease, o Outcome) {
	if s.Claim == nil {
		return
	}
	end := store.RequestEnd{Failure: "another writer was faster"}
	if o != nil {
		e, err := o.Result()
		_, found := o.(StoredPage) // another writer's, under the lease (see isr.WithUnlessFresh)
		switch {
		case err != nil:
			end.Failure = err.Error()
		case found:
			end = store.RequestEnd{Result: &e}
		default:
			return
		}
	}
	settle, cancel := settling(ctx)
	defer cancel()
	if err := s.e.Meta.EndRequest(settle, lease, end); err != nil {
		s.e.Log.Warn("failed to record the end of a request; it stays in progress until its lease would have expired",
			"key", s.Key.String(), "request", s.Claim.Key, "error", err)
	}
}

// lostLease reports whether a context has ended because its lease was lost.
func lostLease(held context.Context) bool {
	return held.Err() != nil && errors.Is(context.Cause(held), store.ErrLeaseLost)
}

// lose ends the work under a lease that was lost.
func (s *Fill) lose(after time.Duration) step {
	s.lost, s.out = true, nil
	s.e.Log.Warn("lost the lease while rendering", "key", s.Key.String(), "after", after)
	return stepYield
}

// abandon gives up the lease, and ends the fill before anything is rendered.
func (s *Fill) abandon(ctx context.Context, o Outcome) step {
	s.turn.leave(budget.ErrNoVerdict) // the store may hang; other fills can use the turn
	s.release(ctx, s.held.lease)
	if _, failed := o.(Failure); failed && lostLease(s.held.ctx) {
		return s.lose(time.Since(s.held.since)) // the call was cancelled because of that
	}
	return s.end(o)
}

// confirm reads, under the lease, what the publish will replace, lists the page if it is a
// variant (see listVariant), and then finds the purge sequence: a purge that commits after
// this has a higher number, so that what is rendered is stale at once. The fill ends if another
// process has made the page fresh, or the store fails.
func (s *Fill) confirm(ctx context.Context) step {
	held := s.held.ctx
	rec, err := s.read(held)
	if err != nil {
		return s.abandon(ctx, s.storeFailed(held, err))
	}
	s.rec = rec
	if store.Freshness(rec.Entry, rec.Purges, s.e.Now()) == store.Fresh && !s.Wanted(rec) {
		switch p, err := s.load(held, rec); {
		case err == nil:
			return s.abandon(ctx, StoredPage{Page: p, Waited: s.waited})
		case errors.Is(err, bodies.ErrMissing):
			s.missBody(rec.Entry.BodyKey, err)
		case errors.Is(err, bodies.ErrTooLarge):
			return s.abandon(ctx, s.tooLarge(err))
		case errors.Is(err, store.ErrPurged): // since it was read, so that it is rendered
			s.rec.Purges = s.e.Node.RecordPurges(&s.f.State, s.Key, rec)
		default:
			return s.abandon(ctx, s.storeFailed(held, err))
		}
	}
	if s.refusedByPin(s.rec) {
		return s.abandon(ctx, Failure{Cause: generations.PinError(s.rec.Entry)})
	}
	if err := s.listVariant(held, s.rec); err != nil {
		return s.abandon(ctx, s.storeFailed(held, err))
	}
	switch refused, err := s.admitVariant(held, s.rec); {
	case err != nil:
		return s.abandon(ctx, s.storeFailed(held, err))
	case refused:
		return s.abandon(ctx, Refusal{DetailVariants})
	}
	if s.seq, err = s.sequence(held, s.rec); err != nil {
		return s.abandon(ctx, s.storeFailed(held, err))
	}
	if p := s.unpublishedPage(s.rec); p != nil {
		s.turn.leave(budget.ErrNoVerdict)
		s.made = made{entry: p.Entry, body: p.Body(), at: timing{began: p.Read.Began, took: p.Entry.RenderTime}}
		return stepStoreBody
	}
	s.storeWait.stop()
	if s.turn.current() == nil { // the store was slow, and overdue gave up the turn
		s.release(ctx, s.held.lease)
		s.out = nil
		return stepYield
	}
	return stepRender
}

// sequence returns a sequence that was committed before now, and is not lower than the sequence of
// a purge that covers rec: the one that the log was read up to, or else SEQ. Another process that had
// read more of the log may have rendered the page of rec: with a lower sequence than its own, the page
// would count as purged again.
func (s *Fill) sequence(ctx context.Context, rec store.Record) (int64, error) {
	known := rec.Purges.Seq
	if rec.Entry != nil {
		known = max(known, rec.Entry.PurgeSeq)
	}
	if seq, ok := s.e.Follower.Recent(s.e.Now()); ok && seq >= known {
		return seq, nil
	}
	s.seqAt = time.Now()
	sequence, err := s.e.Meta.Sequence(ctx)
	// A purge that is being committed may be in the page's rows before it is in SEQ.
	return max(sequence.Seq, rec.Purges.Seq), err
}

// renderPage renders the page, or has it validated, and gives up the turn.
func (s *Fill) renderPage() step {
	h := s.held
	h.ctx = s.beginRender(h.ctx, s.trigger(s.rec))
	s.got, s.at = s.produce(h.ctx, s.rec, s.seq)
	s.rendered = true
	s.learn(s.got)
	s.turn.leave(s.verdict(h.ctx, h.lease.Failures(), s.got))
	s.storeWait.start()
	switch got, took := s.got, s.at.took; {
	case lostLease(h.ctx):
		return s.lose(took)
	case h.ctx.Err() != nil: // closing
		s.release(h.ctx, h.lease)
		return s.end(Failure{Cause: context.Cause(h.ctx), Detail: DetailClosing})
	case got.Failure == nil && got.Refused == "" && took > got.Verdict.Revalidate:
		s.e.Log.Warn("rendering took longer than the page stays fresh", "key", s.Key.String(), "took", took, "fresh", got.Verdict.Revalidate)
	}
	return stepJudge
}

// learn records what a render says of the section of its page. An answer for an invented URL says
// nothing.
func (s *Fill) learn(got render.Rendering) {
	switch {
	case got.Response != nil && !isNegative(got.Response.Status):
		s.Policy.Cacheable(s.Key)
	case got.Refused != "" && got.Status != http.StatusNotFound && got.Status != http.StatusGone:
		s.Policy.Refused(s.Key, got.Refused)
	}
}

// judge decides what is made of the rendering.
func (s *Fill) judge() step {
	switch got := s.got; {
	case got.Failure != nil:
		return stepFail
	case got.Refused != "" && got.Verdict.Withdraws && s.withdrawable(s.rec):
		return stepWithdraw
	case got.Refused != "":
		return stepRefuse
	}
	next := s.entry(s.got, s.at, s.seq, s.rec)
	s.made = made{entry: next, body: s.got.Response.Body, at: s.at, withdraws: s.got.Verdict.Withdraws, renews: s.got.Renews}
	if s.rejected = s.suspicious(s.rec, s.got); s.rejected != "" {
		return stepReject
	}
	if s.staysInMemory(s.rec, &next) {
		return stepKeep
	}
	return stepStoreBody
}

// fail turns the lock into a back-off row, which all processes respect, and finds the
// best page to serve until it ends.
func (s *Fill) fail(ctx context.Context) step {
	h, got := s.held, s.got
	h.stop() // a refresh would contend with the back-off, and delay the outcome
	pause := s.e.backOff(h.lease.Failures())
	s.e.Log.Warn("rendering failed", "key", s.Key.String(), "error", got.Failure, "took", s.at.took.Round(time.Millisecond),
		"failures", h.lease.Failures()+1, "next", pause.Round(time.Millisecond))
	settle, cancel := settling(ctx)
	defer cancel()
	s.unlistVariant(settle)
	if err := s.e.Meta.BackOff(settle, h.lease, pause); err != nil {
		s.e.Log.Error("failed to store the back-off", "key", s.Key.String(), "error", err)
	}
	if stale := s.f.Stale.Load(); stale != nil {
		stale.NextTry.Put(stale, pause)
		stale.Rejected.Store(errors.Is(got.Failure, ErrRejected))
	}
	o := s.unavailable(ctx, s.rec, got.Failure, FailureDetail(got.Failure))
	o.response, o.Own = got.Failed, got.Own
	if o.Fallback == nil {
		// If there were a page to serve, visitors must not be shown the failure, even
		// if that page has been evicted from memory.
		s.e.Node.Negative.Put(s.Key, &nodecache.NegativeEntry{ReadAt: s.latest.Began, Seq: s.asOf, Until: time.Now().Add(pause), Failed: o.Shown()}, &s.f.State)
	}
	return s.end(o)
}

// refuse ends the fill with a response that must not be stored.
func (s *Fill) refuse(ctx context.Context) step {
	if s.held == nil {
		return s.end(s.refused(s.at.began, s.got.Refused))
	}
	s.release(ctx, s.held.lease)
	return s.end(s.refused(s.latest.Began, s.got.Refused))
}

// withdraw ends the stored copy, and gives up the lease.
// If we crash before the publish, the copy is unchanged, and the next render ends it.
func (s *Fill) withdraw(ctx context.Context) step {
	h, got := s.held, s.got
	h.stop()
	_, err := s.e.Meta.Publish(ctx, h.lease, s.rec, s.withdrawal(*s.rec.Entry, s.at, s.seq), store.PublishOptions{
		Superseded: s.e.Now().Add(s.e.Retention), Unpin: true, Reload: true, Key: s.Key,
	})
	switch {
	case errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved):
		return s.overtaken(ctx, "another writer was faster than a withdrawal", err, Refusal{got.Refused})
	case err != nil:
		s.release(ctx, h.lease)
		s.e.Complaints.Log("failed to store the withdrawal of a page; this process remembers it", "key", s.Key.String(), "error", err)
		s.withdrawHere(s.at, got.Refused)
		return s.end(Refusal{got.Refused})
	}
	s.e.Log.Info("withdrawn", "key", s.Key.String(), "reason", got.Refused)
	s.e.Node.Invalidate(s.Key)
	return s.end(s.refused(time.Now(), got.Refused))
}

// keepNegative gives up the lease and keeps a negative answer in memory. If a purge that was made
// since the render began covers it, the page is rendered again.
func (s *Fill) keepNegative(ctx context.Context) step {
	s.release(ctx, s.held.lease)
	p := s.negativePage()
	if s.mustRenderAgain(p) {
		s.out = nil
		return stepYield
	}
	if s.e.Node.Negative.Put(s.Key, &nodecache.NegativeEntry{ReadAt: s.latest.Began, Seq: s.asOf, Until: time.Now().Add(p.Entry.FreshUntil().Sub(s.e.Now())), Page: p}, &s.f.State) {
		s.e.Node.Drop(s.Key) // the entry is no longer in the store
	}
	return s.end(UnpublishedPage{Page: p, Detail: page.DetailNegative})
}

// negativePage is the page of a negative answer that stays in memory.
func (s *Fill) negativePage() *page.Page {
	next := s.made.entry
	next.BodyKey, next.Stale = "", 0
	next.Revalidate = min(next.Revalidate, maxNegativeWindow)
	p := page.New(s.Key, next, s.f.Known(store.PurgeState{}), s.latest, s.made.body, s.Policy.View)
	p.Negative = true
	return p
}

// render calls the renderer, with conditions if they are not nil, and shows visitors the
// response as it comes. rec is what it replaces, seq a purge sequence from before the render, and
// unpublished the reason for which the response will not be stored; empty if it will.
func (s *Fill) render(ctx context.Context, rec store.Record, seq int64, unpublished string, conditions http.Header) (render.Rendering, timing) {
	at := timing{began: time.Now(), generatedAt: s.e.Now().Truncate(time.Millisecond)}
	fields := s.Forwarded
	if conditions != nil {
		fields = conditions
		maps.Copy(fields, s.Forwarded)
	}
	s.e.Rendering.Add(1)
	got := s.e.render(ctx, s.Policy, s.Key, fields, s.renderTime(), s.nextMemory(), render.Audience{
		Begun: func(r render.Head) {
			if s.streamable(rec, r.Status, r.Header) {
				e := s.draft(r.Status, r.Header, r.Verdict, at, seq)
				s.offerStream(r.Stream, e, at, unpublished, httpcache.DeclaredLength(r.Header))
			}
		},
		Refused: func(r render.Head) bool {
			return !isBlank(r.Verdict.Refused, rec) && s.Own != nil && s.Own.Offer(r, s.f)
		},
	})
	at.took = time.Since(at.began)
	s.noteRender(got, at.took)
	s.Policy.Renders.add(at.took)
	if cause := got.Verdict.Cause; cause != nil {
		s.e.Refusals.Log("a page is not stored", "key", s.Key.String(), "reason", got.Verdict.Refused, "error", cause)
	}
	return got, at
}

// render calls the renderer of a route with the request built from a key and forwarded headers, and reads the
// whole response (see [render.Do]). limit is how long the renderer may take.
func (e *Engine) render(ctx context.Context, p *Policy, k store.Key, forwarded http.Header, limit time.Duration, memory *render.Memory, to render.Audience) render.Rendering {
	req, err := p.Keys.Request(ctx, k)
	if err != nil {
		return render.Rendering{Failure: err}
	}
	maps.Copy(req.Header, forwarded)
	requested := e.Now()
	return render.Do(ctx, render.Call{
		Handler: p.Renderer, Request: req, Tags: p.Tags,
		Judge: func(status int, h http.Header, tags []string) httpcache.Verdict {
			return p.Judge(k, status, h, tags, requested)
		},
		Limit: limit, MaxBody: p.MaxBody, Memory: memory, Pieces: e.Reader.Pieces(), Closing: e.Closing, To: to,
	})
}

// nextMemory returns the memory of the next render of the fill. The last one has ended.
func (s *Fill) nextMemory() *render.Memory {
	s.memory.Release()
	s.memory = render.NewMemory(s.e.Memory)
	return s.memory
}

// releaseMemory ends what the fill has of the last render.
func (s *Fill) releaseMemory() {
	s.memory.Release()
	s.memory = nil
}

// made is a rendering that is about to become the current generation.
type made struct {
	entry     store.Entry
	body      []byte
	at        timing
	withdraws bool // the origin has ended the stored copy by this response
	renews    bool // the entry is the current one, which the origin has validated
}

// forwardStatus is what the renderer has answered.
func (m *made) forwardStatus() int {
	if m.renews {
		return http.StatusNotModified
	}
	return m.entry.Status
}

// storeBody stores the body of what is to become the current generation.
func (s *Fill) storeBody(ctx context.Context) step {
	// Waiting requests get this if storing takes too long.
	unpublished := s.made // a copy: the body's key may change
	s.f.Rendered.Store(new(sync.OnceValue(func() *page.Page {
		return newUnpublishedPage(s.Key, unpublished.entry, unpublished.at, unpublished.body, s.Policy.View)
	})))
	h, m := s.held, &s.made
	if !m.renews {
		if err := s.putBody(h.ctx, s.rec.Entry, &m.entry, m.body); err != nil {
			s.release(ctx, h.lease)
			return s.end(s.notPublished(fmt.Errorf("storing the body of %s: %w", s.Key, err)))
		}
	}
	if err := s.e.Variants.Add(h.ctx, s.Key, m.entry.Expires); err != nil {
		s.release(ctx, h.lease)
		return s.end(s.notPublished(err))
	}
	s.listed = time.Time{} // it stays listed, even if another writer is faster
	// The heartbeat ends before the publish: the lease has two thirds of its duration
	// left, and a refresh would contend with the transaction.
	h.stop()
	return stepPublish
}

// storeTime is what all calls under a lease may take, in addition to the render.
const storeTime = 30 * time.Second

// putBody writes the body of the next generation under a key that was never used; or,
// if the content is the same as before, reuses the current body, after checking
// that it exists. If we crash here, the body is garbage.
func (s *Fill) putBody(ctx context.Context, current *store.Entry, next *store.Entry, body []byte) error {
	unchanged := current != nil && !current.Foreign && current.BodyKey != s.noBody && current.SHA256 == next.SHA256
	if unchanged {
		info, err := s.e.Bodies.Stat(ctx, current.BodyKey)
		if err == nil && info.Length == next.Length {
			next.BodyKey = current.BodyKey
			return nil
		}
	}
	return s.e.Bodies.Put(ctx, next.BodyKey, body)
}

// publish makes the generation current. If we crash before the transaction commits, no
// row refers to the body, which is garbage; after it, everything is in place.
func (s *Fill) publish(ctx context.Context) step {
	m, lease := s.made, s.held.lease
	written := page.Interval{Began: time.Now(), AsOf: s.seqAt}
	how := s.publishOptions(s.rec, &m.entry)
	how.Renew = m.renews
	how.Reload = s.Reload || m.withdraws && s.withdrawable(s.rec)
	published, err := s.e.Meta.Publish(ctx, lease, s.rec, m.entry, how)
	written.Ended = time.Now()
	switch {
	case errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved):
		// The other writer's page is served. The body that was written stays: it may
		// belong to a publish whose reply was lost.
		return s.overtaken(ctx, "another writer was faster", err, Failure{Cause: err, Detail: DetailUnpublished})
	case err != nil:
		s.release(ctx, lease)
		return s.end(s.notPublished(fmt.Errorf("publishing %s: %w", s.Key, err)))
	}
	s.rendering.published(m.renews)
	s.e.log.stored(s.Key, &m.entry, m.renews, m.at.took)
	// The marks in s.rec.Purges may cover only the entry that was replaced.
	p := page.New(s.Key, published, s.f.Known(store.PurgeState{}), written, m.body, s.Policy.View)
	p.Stored = true
	if err := s.keepPublished(ctx, p); err != nil && s.mustRenderAgain(p) {
		s.out = nil
		return stepYield
	}
	if s.rendered {
		s.e.storing.add(time.Since(s.held.since) - m.at.took)
	}
	return s.end(RenderedPage{p, m.forwardStatus()})
}

// overtaken goes on after another writer was faster. A forced fill ends with the outcome forced.
func (s *Fill) overtaken(ctx context.Context, what string, err error, forced Outcome) step {
	s.lost = errors.Is(err, store.ErrLeaseLost)
	s.e.Log.Warn(what, "key", s.Key.String(), "error", err)
	if errors.Is(err, store.ErrMoved) {
		s.release(ctx, s.held.lease)
	}
	s.out = nil
	if s.Force {
		s.out = forced
	}
	return stepYield
}

// keepPublished keeps a page that was just published in memory. ErrPurged: it was purged since it
// was rendered.
func (s *Fill) keepPublished(ctx context.Context, p *page.Page) error {
	m := &s.made
	if st := s.f.Stream.Load(); st != nil && !m.renews && s.e.Reader.Sendable(&p.Entry) {
		e, detached := s.e, page.NewDetached(s.Key, p.Entry, store.PurgeState{}, p.Read, s.Policy.View) // the fill has the body
		st.Move(p.Entry.Length, func(ctx context.Context, w http.ResponseWriter, offset int64) { e.sendRest(ctx, w, detached, offset) })
	}
	if !m.renews && strings.HasSuffix(p.Entry.BodyKey, p.Entry.GenerationID) {
		p.SetCodings(coding.Has{}, true) // the body is new
	}
	if last := s.e.Node.Last(s.Key); last != nil && page.SameBody(&last.Entry, &p.Entry) {
		p.Inherit(last)
	} else if last != nil {
		defer s.e.Encoder.Succeed(p, last, s.Policy.View) // once it is kept
	}
	s.e.Node.Negative.Forget(s.Key)
	s.e.Node.Unpublished.Forget(s.Key)
	since := s.latest.Began
	if m.at.began.Before(since) {
		since = m.at.began // it was rendered before the lease was acquired
	}
	if !s.e.Node.Outdated(&s.f.State, since) {
		return s.keep(p)
	}
	// The page was reloaded after META was read under the lease. A rollback or a
	// pin would have failed the publish, so it was a purge, which may cover what
	// was rendered: waiting requests get the page, unless an operator's purge was hard,
	// and later ones what META says.
	s.e.Node.Invalidate(s.Key)
	if _, err := s.read(ctx); err != nil {
		s.e.Complaints.Log("failed to read how a page was purged while it was rendered", "key", s.Key.String(), "error", err)
	}
	return store.ErrPurged
}

// mustRenderAgain reports whether a page that was purged while it was rendered is of no use: the
// purge was hard, and visitors who wait may not have the page all the same (see overtaken). A
// regeneration that was asked for never ends with such a page.
func (s *Fill) mustRenderAgain(p *page.Page) bool {
	return s.e.Node.State(&s.f.State, p, s.e.Now()) == store.Purged && (s.Force || s.MinSeq > 0 || !s.e.Overtaken(s.f, p))
}

// release gives up the lease. If that fails, the lease expires.
func (s *Fill) release(ctx context.Context, lease store.Lease) {
	settle, cancel := settling(ctx)
	defer cancel()
	s.unlistVariant(settle)
	if err := s.e.Meta.Release(settle, lease); err != nil {
		s.e.Log.Warn("failed to release a lease; it will expire", "key", s.Key.String(), "error", err)
	}
}

const (
	// maxPause bounds how long a page waits for a back-off that another process, whose
	// clock may differ, has stored.
	maxPause = 2 * maxBackOff
)

// noteBusy tells the observer that another process holds the lease.
func (s *Fill) noteBusy() {
	if !s.rec.Lock.IsBackOff() && s.leaseWait == nil {
		s.e.note(EventLease, "busy")
	}
}

// wait handles a lease held by another process, or a back-off: the fill ends, or sleeps until it is
// time to read the store again.
func (s *Fill) wait() step {
	held := &store.HeldError{Lock: *s.rec.Lock}
	switch {
	case s.Force:
		return s.end(Failure{Cause: held, Detail: DetailBackOff})
	case s.rec.Lock.IsBackOff():
		return s.postponed(min(s.rec.Lock.ExpiresAt.Sub(s.e.Now()), maxPause), held, DetailBackOff)
	case s.background():
		return s.postponed(s.e.Jitter(page.RetryPause), nil, "")
	case time.Since(s.since) > s.Policy.Wait:
		s.trouble = Failure{Cause: fmt.Errorf("waited %s: %w", s.Policy.Wait, held), Detail: DetailTimeout}
		return stepUnavailable
	}
	return stepSleep
}

// sleepOnce sleeps until it is time to read the store again.
func (s *Fill) sleepOnce(ctx context.Context) step {
	s.waited = true
	s.storeWait.stop()
	defer s.storeWait.start()
	s.storeWait.reset(s.e.StoreTimeout)
	s.beginLeaseWait(ctx)
	if err := s.sleep(ctx, s.rec); err != nil {
		return s.end(Failure{Cause: err, Detail: DetailClosing})
	}
	return stepLook
}

// postponed ends a fill, and delays the next one. Visitors are served the stale page until
// then, if there is one; after the delay one of their requests starts another one.
func (s *Fill) postponed(wait time.Duration, cause error, detail string) step {
	stale := s.f.Stale.Load()
	switch {
	case s.Early != nil:
		s.Early.NextEarly.Put(s.Early, wait)
	case stale != nil:
		stale.NextTry.Put(stale, wait)
	}
	if s.background() {
		return s.end(StoredPage{Page: stale})
	}
	s.trouble = Failure{Cause: cause, Detail: detail}
	return stepUnavailable
}

// background reports whether no request waits for the fill: a stale page is served until the
// fill ends, or the stale window of the page does.
func (s *Fill) background() bool {
	p := s.f.Stale.Load()
	return p != nil && !s.Force && s.MinSeq == 0 && (s.Early != nil || !s.Policy.AwaitsNew) && s.e.Node.State(&s.f.State, p, s.e.Now()) >= store.Stale
}

// overdue is called when the store has taken too long for the waiting requests. They
// join the unpublished flight, which must not queue behind the turn of a fill that waits
// for the store, so the turn is given up. A forced fill keeps it: it cannot start
// again once its request is claimed.
func (s *Fill) overdue() {
	close(s.f.Overdue)
	if !s.Force {
		s.turn.leave(budget.ErrNoVerdict)
	}
}

// unavailable ends a fill without a new page. The stored page is the fallback, if it
// may be served on errors. A page that a hard purge covers never is.
func (s *Fill) unavailable(ctx context.Context, rec store.Record, cause error, detail string) Failure {
	o := Failure{Cause: cause, Detail: detail}
	if !s.servableOnError(rec) {
		return o
	}
	if p, err := s.load(ctx, rec); err == nil {
		o.Fallback = p
	}
	return o
}

// storeFailed ends a fill that the store did not answer.
func (s *Fill) storeFailed(ctx context.Context, err error) Outcome {
	if ctx.Err() != nil {
		return Failure{Cause: context.Cause(ctx), Detail: DetailClosing}
	}
	s.e.Complaints.Log("the store failed", "key", s.Key.String(), "error", err)
	return Failure{Cause: err, Detail: DetailStoreError}
}

// notPublished ends a fill whose page was rendered and could not be stored: waiting
// requests, and the requests of the next seconds, get it.
func (s *Fill) notPublished(err error) Outcome {
	s.e.Complaints.Log("rendered, but not published", "key", s.Key.String(), "error", err)
	p := (*s.f.Rendered.Load())()
	p.Outage = true
	s.e.Node.Unpublished.Put(p, &s.f.State)
	return UnpublishedPage{Page: p, Detail: DetailUnpublished, cause: err}
}

// runUnpublished executes a fill without the stores: it renders the page for the waiting
// requests, by the same projection and under the same rules as any render.
func (s *Fill) runUnpublished(ctx context.Context) Outcome {
	defer s.releaseMemory()
	defer s.turn.leave(budget.ErrNoVerdict)
	s.unpublished = DetailStoreError
	return s.steps(ctx, stepUnpublished, s.do)
}

// findUnpublished decides whether a page that will not be stored is rendered. unpublished is the reason in
// Cache-Status.
func (s *Fill) findUnpublished() step {
	s.since = time.Now()
	if p := s.e.Node.Unpublished.Get(s.Key); p != nil {
		return s.end(UnpublishedPage{Page: p, Detail: s.unpublished}) // of the previous flight
	}
	if pass := s.passesUnknown(); pass != "" {
		return s.end(Refusal{pass})
	}
	return stepEnterUnpublished
}

// enterUnpublished waits for the turn at the origin.
func (s *Fill) enterUnpublished(ctx context.Context) step {
	switch come, err := s.awaitTurn(ctx, store.Record{}); {
	case err != nil:
		return s.end(Failure{Cause: err, Detail: admissionDetail(err)})
	case !come:
		return stepEnterUnpublished
	}
	return stepRenderUnpublished
}

// renderUnpublished renders a page that will not be stored.
func (s *Fill) renderUnpublished(ctx context.Context) step {
	s.storeWait.stop()                // no store is called
	s.asOf = s.e.Follower.Committed() // before the render: a later purge has a higher number
	_, s.followed = s.e.Follower.Applied()
	ctx = s.beginRender(ctx, triggerUnpublished)
	s.rendered = true
	s.got, s.at = s.render(ctx, store.Record{}, s.asOf, s.unpublished, nil)
	s.learn(s.got)
	s.turn.leave(s.verdict(ctx, 0, s.got))
	if ctx.Err() != nil {
		return s.end(Failure{Cause: context.Cause(ctx), Detail: DetailClosing})
	}
	return stepJudgeUnpublished
}

// judgeUnpublished decides what is made of a rendering that will not be stored.
func (s *Fill) judgeUnpublished() step {
	if s.got.Response != nil {
		if why := s.Policy.Reject.Why(s.got.Response, nil, nil); why != "" {
			s.got = rejection(why)
		}
	}
	switch {
	case s.got.Failure != nil:
		return stepFailUnpublished
	case s.got.Verdict.Withdraws:
		return stepWithdrawHere
	case s.got.Refused != "":
		return stepRefuse
	}
	return stepServeUnpublished
}

// withdrawUnpublished ends the copy that the store may have, and that cannot be updated, in this
// process.
func (s *Fill) withdrawUnpublished() step {
	s.withdrawHere(s.at, s.got.Refused)
	if s.got.Refused != "" {
		return s.end(Refusal{s.got.Refused})
	}
	return stepServeUnpublished
}

// serveUnpublished ends the fill with the page that was rendered.
func (s *Fill) serveUnpublished() step {
	p := s.renderedUnpublished()
	s.e.Node.Unpublished.Put(p, &s.f.State)
	if s.followed {
		s.e.Flights.Each(s.Key, func(f *Flight) { f.unpublished.Store(p) })
	}
	return s.end(UnpublishedPage{Page: p, Detail: s.unpublished})
}

// renderedUnpublished is the page of a rendering that will not be stored.
func (s *Fill) renderedUnpublished() *page.Page {
	p := newUnpublishedPage(s.Key, s.entry(s.got, s.at, s.asOf, store.Record{}), s.at, s.got.Response.Body, s.Policy.View)
	p.Outage = s.unpublished == DetailStoreError
	return p
}

// failedUnpublished remembers a failure in this process, since the back-off cannot be
// stored.
func (s *Fill) failedUnpublished(got render.Rendering, at timing) Outcome {
	o, pause := Failure{Cause: got.Failure, Detail: FailureDetail(got.Failure), response: got.Failed, Own: got.Own}, s.e.backOff(0)
	s.e.Log.Warn("rendering failed", "key", s.Key.String(), "error", got.Failure, "took", at.took.Round(time.Millisecond), "next", pause.Round(time.Millisecond))
	s.e.Node.Negative.Put(s.Key, &nodecache.NegativeEntry{ReadAt: at.began, Seq: s.asOf, Until: time.Now().Add(pause), Failed: o.Shown()}, &s.f.State)
	return o
}

// Overtaken reports whether a page that a flight has rendered is purged hard by unsafe requests
// alone, which arrived at this process while it was rendered. Visitors who came before them may
// have it: otherwise a stranger who posts more often than the page renders could make them
// wait for ever. Later visitors do not get it.
func (e *Engine) Overtaken(f *Flight, p *page.Page) bool {
	since := p.Entry.PurgeSeq
	marks := e.Node.Marks.Covering(p.Key, p.Entry.Tags, e.Now())
	if p.Entry.Foreign || marks.HardSeq > since {
		return false
	}
	return f.PostedAlone(since, p.Purges.HardSeq)
}
