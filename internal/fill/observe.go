package fill

import (
	"context"
	"errors"
	"time"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// An Operation is work of a fill that takes time (see isr.Operation).
type Operation struct {
	Kind    OperationKind
	Route   string // label of the route
	Key     store.Key
	Trigger string          // why a page is rendered; empty for other kinds
	Cause   context.Context //nolint:containedctx // of the request that caused it; nil if none did
}

// An OperationKind is a kind of operation, which isr.OperationKind describes and names.
type OperationKind int

// The kinds of operations.
const (
	OperationFlight OperationKind = iota
	OperationRender
	OperationQueue
	OperationLease
)

// An EventKind is a kind of event, which isr.EventKind describes and names, with its reasons.
type EventKind int

// The kinds of events.
const (
	EventLease EventKind = iota
	EventPeer
	EventNotStored
)

// A Result is how an operation ended. It has the fields of isr.Result, which documents them.
type Result struct {
	Outcome string
	Reason  string
	Took    time.Duration
	Status  int
	Bytes   int64
	Err     error
}

// begin tells the observer that an operation begins, and returns the context of the operation
// and the function to be called once after it.
func (e *Engine) begin(ctx context.Context, op Operation) (context.Context, func(Result)) {
	if e.Begin == nil {
		return ctx, func(Result) {}
	}
	return e.Begin(ctx, op)
}

// note tells the observer of an event.
func (e *Engine) note(kind EventKind, reason string) {
	if e.Note != nil {
		e.Note(kind, reason)
	}
}

// operation returns an operation of the fill.
func (s *Fill) operation(kind OperationKind) Operation {
	return Operation{Kind: kind, Route: s.Policy.Label, Key: s.Key, Cause: s.Cause}
}

// observed executes the fill by run, as an operation that requests can join.
func (s *Fill) observed(ctx context.Context, run func(context.Context) Outcome) Outcome {
	ctx, end := s.e.begin(ctx, s.operation(OperationFlight))
	s.f.work = ctx
	close(s.f.begun)
	o := run(ctx)
	s.turn.endQueue("canceled")
	s.endLeaseWait(leaseOutcome(o))
	end(flightResult(o))
	return o
}

// beginQueue begins the wait for a turn at the origin, and returns what ends it.
func (s *Fill) beginQueue(ctx context.Context) func(Result) {
	s.e.Queued.Add(1)
	_, end := s.e.begin(ctx, s.operation(OperationQueue))
	return func(r Result) {
		s.e.Queued.Add(-1)
		end(r)
	}
}

// beginLeaseWait begins the wait for a lease that another process holds, unless it has begun.
func (s *Fill) beginLeaseWait(ctx context.Context) {
	if s.leaseWait != nil {
		return
	}
	_, s.leaseWait = s.e.begin(ctx, s.operation(OperationLease))
	began := time.Now()
	if earlier := s.f.LeaseWait.Load(); earlier != nil {
		began = earlier.began
	}
	s.f.LeaseWait.Store(&period{began: began})
}

// endLeaseWait ends the wait for a lease, if it has begun.
func (s *Fill) endLeaseWait(outcome string) {
	if s.leaseWait == nil {
		return
	}
	s.leaseWait(Result{Outcome: outcome})
	s.leaseWait = nil
	s.f.LeaseWait.Store(&period{began: s.f.LeaseWait.Load().began, ended: time.Now()})
}

// leaseOutcome returns the outcome of a wait for a lease that ends with the fill.
func leaseOutcome(o Outcome) string {
	switch o := o.(type) {
	case StoredPage:
		return "ok"
	case Failure:
		if o.Detail == DetailTimeout {
			return "timeout"
		}
	}
	return "canceled"
}

func flightResult(o Outcome) Result {
	switch o := o.(type) {
	case StoredPage:
		return Result{Outcome: "stored"}
	case RenderedPage:
		return Result{Outcome: "rendered"}
	case UnpublishedPage:
		return Result{Outcome: "unpublished", Reason: o.Detail, Err: o.cause}
	case Refusal:
		return Result{Outcome: "refused", Reason: o.Reason}
	case Failure:
		return Result{Outcome: "failed", Reason: o.Detail, Err: o.Cause}
	}
	return Result{Outcome: "failed"}
}

// joined tells the observer that a request waits for a flight, unless it has started it. f may
// be nil.
func (e *Engine) joined(f *Flight, leader bool, request context.Context) {
	if e.Joined == nil || f == nil || leader {
		return
	}
	<-f.begun // the goroutine of the flight has just been started
	e.Joined(f.work, request)
}

// Values of Operation.Trigger.
const (
	triggerMiss        = "miss"
	triggerStale       = "stale"
	triggerEarly       = "early"
	triggerCommand     = "command"
	triggerPurge       = "purge"
	triggerUnpublished = "unstored"
)

// trigger returns why the fill renders the page. rec is what it replaces.
func (s *Fill) trigger(rec store.Record) string {
	state := store.Freshness(rec.Entry, rec.Purges, s.e.Now())
	switch {
	case s.Force && s.Unless == nil:
		return triggerCommand
	case s.Early != nil, state == store.Fresh:
		return triggerEarly
	case state == store.Missing:
		return triggerMiss
	case state == store.Purged, rec.Entry.CoveredBy(s.e.Node.RecordPurges(&s.f.State, s.Key, rec)):
		return triggerPurge
	}
	return triggerStale
}

// An observedRender is an OperationRender in progress. Nil: there is no observer.
type observedRender struct {
	end    func(Result)
	result Result
}

// beginRender begins an OperationRender, and returns its context. The fill must call
// endRender.
func (s *Fill) beginRender(ctx context.Context, trigger string) context.Context {
	if s.e.Begin == nil {
		return ctx
	}
	op := s.operation(OperationRender)
	op.Trigger = trigger
	s.rendering = &observedRender{}
	ctx, s.rendering.end = s.e.begin(ctx, op)
	return ctx
}

// noteRender records a call of the renderer.
func (s *Fill) noteRender(got render.Rendering, took time.Duration) {
	s.e.Rendering.Add(-1)
	s.f.Took.Add(int64(took))
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
func (s *Fill) endRender(o Outcome) {
	r := s.rendering
	if r == nil {
		return
	}
	s.rendering = nil
	if r.result.Outcome == "" {
		r.result.settle(o)
	}
	if r.result.Outcome == "refused" || r.result.Outcome == "unpublished" {
		s.e.note(EventNotStored, r.result.Reason)
	}
	r.end(r.result)
}

// settle completes the result of a render that was not published.
func (r *Result) settle(o Outcome) {
	switch o := o.(type) {
	case UnpublishedPage:
		r.Outcome, r.Reason, r.Err = "unpublished", o.Detail, o.cause
	case Refusal:
		r.Outcome, r.Reason, r.Err = "refused", o.Reason, nil
	case Failure:
		r.Outcome, r.Reason, r.Err = failedOutcome(o), failedReason(o.Cause), o.Cause
	default: // another writer was faster
		r.Outcome = "lost"
	}
}

func failedOutcome(o Failure) string {
	switch {
	case errors.Is(o.Cause, ErrRejected):
		return "rejected"
	case errors.Is(o.Cause, store.ErrLeaseLost), errors.Is(o.Cause, store.ErrMoved):
		return "lost"
	case o.Detail == DetailClosing:
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
		{ErrRejected, page.DetailRejected},
		{render.ErrUnreached, "unreachable"},
		{render.ErrTimeout, "timeout"},
		{render.ErrStatus, "status"},
		{render.ErrTruncated, "truncated"},
		{errEmpty, "empty"},
		{render.ErrNotModified, "not-modified"},
		{render.ErrPanicked, "panic"},
		{ErrClosed, DetailClosing},
	} {
		if errors.Is(cause, known.err) {
			return known.reason
		}
	}
	return "error"
}
