package isr

import (
	"context"
	"errors"
	"time"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// This file is how a cache tells its observer what it does: operations that last, by begin, and
// events, by note. Without an observer both do nothing.

// note tells the observer of an event.
func (c *Cache) note(e Event) {
	if c.cfg.Observer != nil {
		c.cfg.Observer.Note(e)
	}
}

// An operation is work of a fill that takes time (see isr.Operation).
type operation struct {
	Kind    string // of the constants below
	Route   string // label of the route
	Key     store.Key
	Trigger string          // why a page is rendered; empty for other kinds
	Cause   context.Context //nolint:containedctx // of the request that caused it; nil if none did
}

// Kinds of operations.
const (
	operationFlight = "flight"
	operationRender = "render"
	operationQueue  = "queue"
	operationLease  = "lease"
)

// Kinds of events, and their reasons (see isr.EventKind).
const (
	eventLease     = "lease"
	eventPeer      = "peer"
	eventNotStored = "not-stored"
)

// An operationResult is how an operation ended. It has the fields of isr.Result, which documents them.
type operationResult struct {
	Outcome string
	Reason  string
	Took    time.Duration
	Status  int
	Bytes   int64
	Err     error
}

// begin tells the observer that an operation begins, and returns the context of the operation
// and the function to be called once after it.
func (e *engine) begin(ctx context.Context, op operation) (context.Context, func(operationResult)) {
	if e.Begin == nil {
		return ctx, func(operationResult) {}
	}
	return e.Begin(ctx, op)
}

// note tells the observer of an event.
func (e *engine) note(kind, reason string) {
	if e.Note != nil {
		e.Note(kind, reason)
	}
}

// operation returns an operation of the fill.
func (s *fill) operation(kind string) operation {
	return operation{Kind: kind, Route: s.policy.label, Key: s.key, Cause: s.cause}
}

// observed executes the fill by run, as an operation that requests can join.
func (s *fill) observed(ctx context.Context, run func(context.Context) outcome) outcome {
	ctx, end := s.e.begin(ctx, s.operation(operationFlight))
	s.f.work = ctx
	close(s.f.begun)
	o := run(ctx)
	s.turn.endQueue("canceled")
	s.endLeaseWait(leaseOutcome(o))
	end(flightResult(o))
	return o
}

// beginQueue begins the wait for a turn at the origin, and returns what ends it.
func (s *fill) beginQueue(ctx context.Context) func(operationResult) {
	s.e.queued.Add(1)
	_, end := s.e.begin(ctx, s.operation(operationQueue))
	return func(r operationResult) {
		s.e.queued.Add(-1)
		end(r)
	}
}

// beginLeaseWait begins the wait for a lease that another process holds, unless it has begun.
func (s *fill) beginLeaseWait(ctx context.Context) {
	if s.leaseWait != nil {
		return
	}
	_, s.leaseWait = s.e.begin(ctx, s.operation(operationLease))
	began := time.Now()
	if earlier := s.f.leaseWait.Load(); earlier != nil {
		began = earlier.began
	}
	s.f.leaseWait.Store(&period{began: began})
}

// endLeaseWait ends the wait for a lease, if it has begun.
func (s *fill) endLeaseWait(outcome string) {
	if s.leaseWait == nil {
		return
	}
	s.leaseWait(operationResult{Outcome: outcome})
	s.leaseWait = nil
	s.f.leaseWait.Store(&period{began: s.f.leaseWait.Load().began, ended: time.Now()})
}

// leaseOutcome returns the outcome of a wait for a lease that ends with the fill.
func leaseOutcome(o outcome) string {
	switch o := o.(type) {
	case storedPage:
		return "ok"
	case failure:
		if o.detail == detailTimeout {
			return "timeout"
		}
	}
	return "canceled"
}

func flightResult(o outcome) operationResult {
	switch o := o.(type) {
	case storedPage:
		return operationResult{Outcome: "stored"}
	case renderedPage:
		return operationResult{Outcome: "rendered"}
	case unpublishedPage:
		return operationResult{Outcome: "unpublished", Reason: o.detail, Err: o.cause}
	case refusal:
		return operationResult{Outcome: "refused", Reason: o.reason}
	case failure:
		return operationResult{Outcome: "failed", Reason: o.detail, Err: o.cause}
	}
	return operationResult{Outcome: "failed"}
}

// joined tells the observer that a request waits for a flight, unless it has started it. f may
// be nil.
func (e *engine) joined(f *flight, leader bool, request context.Context) {
	if e.Joined == nil || f == nil || leader {
		return
	}
	<-f.begun // the goroutine of the flight has just been started
	e.Joined(f.work, request)
}

// Values of Operation.Trigger.
const (
	triggerMiss     = "miss"
	triggerStale    = "stale"
	triggerEarly    = "early"
	triggerCommand  = "command"
	triggerPurge    = "purge"
	triggerUnstored = "unstored"
)

// trigger returns why the fill renders the page. rec is what it replaces.
func (s *fill) trigger(rec store.Record) string {
	state := store.Freshness(rec.Entry, rec.Purges, s.e.Now())
	switch {
	case s.force && s.unless == nil:
		return triggerCommand
	case s.early != nil, state == store.Fresh:
		return triggerEarly
	case state == store.Missing:
		return triggerMiss
	case state == store.Purged, rec.Entry.CoveredBy(s.e.Node.RecordPurges(&s.f.State, s.key, rec)):
		return triggerPurge
	}
	return triggerStale
}

// An observedRender is an OperationRender in progress. Nil: there is no observer.
type observedRender struct {
	end    func(operationResult)
	result operationResult
}

// beginRender begins an OperationRender, and returns its context. The fill must call
// endRender.
func (s *fill) beginRender(ctx context.Context, trigger string) context.Context {
	if s.e.Begin == nil {
		return ctx
	}
	op := s.operation(operationRender)
	op.Trigger = trigger
	s.rendering = &observedRender{}
	ctx, s.rendering.end = s.e.begin(ctx, op)
	return ctx
}

// noteRender records a call of the renderer.
func (s *fill) noteRender(got render.Rendering, took time.Duration) {
	s.e.rendering.Add(-1)
	s.f.took.Add(int64(took))
	if r := s.rendering; r != nil {
		r.result.Status, r.result.Bytes, r.result.Err = got.Status, got.Size, got.Failure
		r.result.Took += took
	}
}

// published records that the rendering is the current generation.
func (r *observedRender) published(renewed bool) {
	switch {
	case r == nil:
	case renewed:
		r.result.Outcome, r.result.Err = "unchanged", nil
	default:
		r.result.Outcome, r.result.Err = "published", nil
	}
}

// endRender ends the OperationRender, if there is one. o is the outcome of the fill; nil
// means that it goes on.
func (s *fill) endRender(o outcome) {
	r := s.rendering
	if r == nil {
		return
	}
	s.rendering = nil
	if r.result.Outcome == "" {
		r.result.settle(o)
	}
	if r.result.Outcome == "refused" || r.result.Outcome == "unpublished" {
		s.e.note(eventNotStored, r.result.Reason)
	}
	r.end(r.result)
}

// settle completes the result of a render that was not published.
func (r *operationResult) settle(o outcome) {
	switch o := o.(type) {
	case unpublishedPage:
		r.Outcome, r.Reason, r.Err = "unpublished", o.detail, o.cause
	case refusal:
		r.Outcome, r.Reason, r.Err = "refused", o.reason, nil
	case failure:
		r.Outcome, r.Reason, r.Err = failedOutcome(o), failedReason(o.cause), o.cause
	default: // another writer was faster
		r.Outcome = "lost"
	}
}

func failedOutcome(o failure) string {
	switch {
	case errors.Is(o.cause, errRejected):
		return "rejected"
	case errors.Is(o.cause, store.ErrLeaseLost), errors.Is(o.cause, store.ErrMoved):
		return "lost"
	case o.detail == detailClosing:
		return "canceled"
	}
	return "failed"
}

// failedReason returns the reason of a failed render, of a closed set.
func failedReason(cause error) string {
	for _, known := range []struct {
		err    error
		reason string
	}{
		{errRejected, page.DetailRejected},
		{render.ErrUnreached, "unreachable"},
		{render.ErrTimeout, "timeout"},
		{render.ErrStatus, "status"},
		{render.ErrTruncated, "truncated"},
		{errEmpty, "empty"},
		{render.ErrNotModified, "not-modified"},
		{render.ErrPanicked, "panic"},
		{errClosed, detailClosing},
	} {
		if errors.Is(cause, known.err) {
			return known.reason
		}
	}
	return "error"
}

// notePurge tells the observer of a purge by this process.
func (c *Cache) notePurge(p store.Purge) {
	e := Event{Kind: EventPurge, Reason: "soft", Target: string(p.Targets[0].Kind)}
	if p.Hard {
		e.Reason = "hard"
	}
	c.note(e)
}

// notePoll tells the observer of a poll of the log.
func (c *Cache) notePoll(took time.Duration, err error) {
	e := Event{Kind: EventPoll, Reason: "ok", Took: took}
	if err != nil {
		e.Reason = "error"
	}
	c.note(e)
}

// noteApplied tells the observer of a change by another process that has taken effect in this one.
// Only marks have the time of the change, in whole seconds.
func (c *Cache) noteApplied(change store.Change) {
	e := Event{Kind: EventApplied}
	for _, m := range change.Marks {
		e.Took = max(e.Took, c.now().Sub(m.At), 1)
	}
	c.note(e)
}
