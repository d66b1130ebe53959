package fill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// A dryRun executes the steps of a fill (see fill.go). It takes the steps that decide from the fill,
// and replaces the steps that change something: its own find what can be known without that, and give
// reasons. No turn is waited for, no lease is acquired, and nothing is stored or remembered.
type dryRun struct {
	s  *Fill
	to Explainer
	// open: the outcome cannot be known.
	open bool
}

// An Explainer is told what the steps of a fill find.
type Explainer interface {
	// Because adds a reason, and the section that says so; empty if there is none.
	Because(text, rfc string)
	// RendersVariant is called before the page of a variant by learned headers is rendered: of the
	// variants that a request would render before this one, the store knows nothing.
	RendersVariant()
	// Fetches reports whether the renderer may be called.
	Fetches() bool
	// Watch returns the renderer to be called instead of h.
	Watch(h http.Handler) http.Handler
	// Fetched describes what the renderer has answered to a request of a moment, and how long it took.
	// rejected is why the page would be rejected; empty if it would not.
	Fetched(k store.Key, got render.Rendering, requested time.Time, took time.Duration, rejected string)
}

// DryRun returns the flight of a fill as it would end, and tells to why. A page that visitors get
// before that, because it may be served while another one is rendered, ends it too; the flight then has
// it as its stale page.
//
// open: the outcome cannot be known. It is a StoredPage, without a page, if the fill waits for another
// process, and nil if the renderer decides.
func (e *Engine) DryRun(ctx context.Context, s *Fill, to Explainer) (f *Flight, open bool) {
	return e.newDryRun(s, to).from(ctx, stepLook)
}

// DryRunUnpublished is DryRun for a fill that calls no store.
func (e *Engine) DryRunUnpublished(ctx context.Context, s *Fill, to Explainer) (f *Flight, open bool) {
	s.unpublished = DetailStoreError
	return e.newDryRun(s, to).from(ctx, stepUnpublished)
}

// DryRender calls the renderer for a fill whose page is not stored, for a reason.
func (e *Engine) DryRender(ctx context.Context, s *Fill, unpublished string, to Explainer) {
	e.newDryRun(s, to).renderUnpublished(ctx, unpublished)
}

// newDryRun gives a fill a flight that no request joins.
func (e *Engine) newDryRun(s *Fill, to Explainer) *dryRun {
	s.e, s.pk = e, e.Partition(s.Key)
	s.f = &Flight{Fill: s, WaitTimes: new(WaitTimes), Streaming: make(chan struct{})}
	s.since = time.Now()
	return &dryRun{s: s, to: to}
}

func (d *dryRun) from(ctx context.Context, at step) (f *Flight, open bool) {
	d.s.f.Outcome = d.s.steps(ctx, at, d.do)
	return d.s.f, d.open
}

// ask calls the renderer by call, a method of the fill, and describes what it answers. rec is
// what the answer would replace.
func (d *dryRun) ask(rec store.Record, call func() (render.Rendering, timing)) {
	s, plain, watching := d.s, d.s.Policy, *d.s.Policy
	watching.Renderer = d.to.Watch(plain.Renderer)
	watching.Renders = new(RecentTimes) // it is not remembered
	s.Policy = &watching
	s.got, s.at = call()
	s.releaseMemory()
	s.Policy = plain
	rejected := ""
	if s.got.Response != nil {
		rejected = s.suspicious(rec, s.got)
	}
	d.to.Fetched(s.Key, s.got, s.at.generatedAt, s.at.took, rejected)
}

// renderUnpublished renders a page that is not stored, for a reason.
func (d *dryRun) renderUnpublished(ctx context.Context, unpublished string) {
	s := d.s
	s.asOf = s.e.Follower.Committed()
	d.ask(store.Record{}, func() (render.Rendering, timing) {
		return s.render(ctx, store.Record{}, s.asOf, unpublished, nil)
	})
}

// do executes a step, and returns the next one.
func (d *dryRun) do(ctx context.Context, at step) step {
	s := d.s
	switch at {
	case stepLook:
		return d.look(ctx)
	case stepConsult:
		return d.consult()
	case stepLoad:
		return d.load(ctx)
	case stepFound:
		return s.end(StoredPage{Page: s.page})
	case stepOffer:
		return d.offer()
	case stepTooLarge:
		return s.end(Refusal{httpcache.RefusedTooLarge})
	case stepChoose, stepUnpublished:
		return d.choose(at)
	case stepEnter:
		if err := s.Policy.Budget.Refusal(); err != nil {
			return s.notAdmitted(err)
		}
		return stepConfirm
	case stepConfirm:
		return d.confirm(ctx)
	case stepRender:
		d.ask(s.rec, func() (render.Rendering, timing) { return s.produce(ctx, s.rec, s.seq) })
		return stepJudge
	case stepReject:
		s.got = rejection(s.rejected)
		return stepFail
	case stepFail:
		o := d.unavailable(ctx, s.got.Failure, FailureDetail(s.got.Failure))
		o.response, o.Own = s.got.Failed, s.got.Own
		return s.end(o)
	case stepUnavailable:
		return s.end(d.unavailable(ctx, s.trouble.Cause, s.trouble.Detail))
	case stepWithdraw, stepRefuse:
		return s.end(Refusal{s.got.Refused})
	case stepKeep:
		return s.end(UnpublishedPage{Page: s.negativePage(), Detail: page.DetailNegative})
	case stepStoreBody:
		m := s.made
		return s.end(RenderedPage{newUnpublishedPage(s.Key, m.entry, m.at, m.body, s.Policy.View), m.forwardStatus()})
	case stepSleep:
		d.to.Because((&store.HeldError{Lock: *s.rec.Lock}).Error()+"; the request waits for its page", "RFC 9211, section 2.6")
		return d.leaveOpen(StoredPage{Waited: true})
	}
	return d.doUnpublished(ctx, at)
}

// doUnpublished is do for the steps of a page that is not stored.
func (d *dryRun) doUnpublished(ctx context.Context, at step) step {
	s := d.s
	switch at {
	case stepEnterUnpublished:
		if err := s.Policy.Budget.Refusal(); err != nil {
			return s.end(Failure{Cause: err, Detail: admissionDetail(err)})
		}
		return stepRenderUnpublished
	case stepRenderUnpublished:
		if !d.to.Fetches() {
			d.to.Because("the page is rendered, and not stored ("+s.unpublished+")", "")
			return d.leaveOpen(nil)
		}
		d.renderUnpublished(ctx, s.unpublished)
		return stepJudgeUnpublished
	case stepFailUnpublished:
		return s.end(Failure{Cause: s.got.Failure, Detail: FailureDetail(s.got.Failure), response: s.got.Failed, Own: s.got.Own})
	case stepWithdrawHere:
		if s.got.Refused != "" {
			return s.end(Refusal{s.got.Refused})
		}
		return stepServeUnpublished
	case stepServeUnpublished:
		return s.end(UnpublishedPage{Page: s.renderedUnpublished(), Detail: s.unpublished})
	}
	return s.decide(at)
}

// leaveOpen ends the fill, whose outcome cannot be known.
func (d *dryRun) leaveOpen(o Outcome) step {
	d.open = true
	return d.s.end(o)
}

// storeFailed ends the fill because the store does not answer.
func (d *dryRun) storeFailed(err error) step {
	d.to.Because("the store does not answer: "+err.Error(), "")
	return d.s.end(Failure{Cause: err, Detail: DetailStoreError})
}

// look reads the record of the page. Nothing that it says is remembered.
func (d *dryRun) look(ctx context.Context) step {
	s := d.s
	s.asOf = s.e.Follower.Committed()
	rec, at, err := s.e.Node.Peek(ctx, s.Key, s.pk)
	if err != nil {
		return d.storeFailed(err)
	}
	s.adapt(&rec)
	s.rec, s.latest = rec, at
	return stepConsult
}

func (d *dryRun) consult() step {
	next := d.s.consult()
	if next != stepEnd {
		d.describe(d.s.rec, d.s.state, d.s.e.Now())
	}
	return next
}

// describe says what the record of a page is worth, which is in a state.
func (d *dryRun) describe(rec store.Record, state store.State, now time.Time) {
	e := rec.Entry
	switch {
	case rec.Malformed != nil:
		d.to.Because("its row in the store cannot be read, and counts as missing: "+rec.Malformed.Error(), "")
	case e == nil:
		d.to.Because("the store has no such page", "RFC 9111, section 4")
	case e.Withdrawn:
		d.to.Because("the origin has withdrawn the page: it said that the page is gone, or must no longer be shared", "RFC 9111, section 4.4")
	default:
		d.to.Because("the page in the store is "+Worth(e, rec.Purges, state, now), "RFC 9111, section 4.2")
	}
	if e != nil && e.Foreign {
		d.to.Because("another service wrote the page, so that the stale window of the route applies to it", "")
	}
}

// Worth says what an entry is worth, and why.
func Worth(e *store.Entry, purges store.PurgeState, state store.State, now time.Time) string {
	switch state {
	case store.Purged:
		return "purged hard, and must not be served"
	case store.Fresh:
		if !now.Before(e.FreshUntil()) {
			return "pinned, so that it does not age"
		}
		return "fresh"
	case store.Missing:
		return "withdrawn"
	}
	switch {
	case e.CoveredBy(purges):
		return state.String() + ", because it was purged"
	case e.Build < purges.Build:
		return state.String() + ", because an older build of the site made it"
	case now.Before(e.FreshUntil()):
		return state.String() + ", because the clock of its writer was ahead, or its purges are not known"
	}
	return state.String() + ": its freshness window has ended " + now.Sub(e.FreshUntil()).Round(time.Second).String() + " ago"
}

// load makes a page of the record, without its body.
func (d *dryRun) load(ctx context.Context) step {
	p, err := d.page(ctx)
	if errors.Is(err, bodies.ErrMissing) {
		d.to.Because("the entry counts as missing: "+err.Error(), "")
	}
	if next, known := d.s.loaded(p, err); known {
		return next
	}
	return d.storeFailed(err)
}

// page returns the page of the record, without its body. Nothing is kept in memory.
func (d *dryRun) page(ctx context.Context) (*page.Page, error) {
	s, e := d.s, *d.s.rec.Entry
	if last := s.e.Node.Last(s.Key); last != nil && page.SameBody(&last.Entry, &e) {
		p := page.New(s.Key, e, s.rec.Purges, s.latest, nil, s.Policy.View)
		p.Rejected.Store(last.Rejected.Load() && !last.Dropped.Load() && page.SameEntry(&last.Entry, &e))
		return p, nil
	}
	info, err := s.e.Bodies.Stat(ctx, e.BodyKey)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey), err == nil && !e.Foreign && info.Length != e.Length:
		return nil, fmt.Errorf("%w: %s", bodies.ErrMissing, e.BodyKey)
	case err == nil && info.Length > s.e.MaxBody:
		return nil, bodies.ErrTooLarge
	case err == nil && e.Foreign:
		err = bodies.Present(&e, info.Presentation)
	}
	if err != nil {
		return nil, err
	}
	return page.New(s.Key, e, s.rec.Purges, s.latest, nil, s.Policy.View), nil
}

// offer ends the fill with a page that its visitor gets without waiting for a new one.
func (d *dryRun) offer() step {
	s := d.s
	s.f.Stale.Store(s.page)
	if !s.Policy.AwaitsNew && s.MinSeq == 0 {
		return s.end(StoredPage{Page: s.page})
	}
	return stepChoose
}

// choose says why the request passes through, if no page is rendered for it.
func (d *dryRun) choose(at step) step {
	next := d.s.decide(at)
	if o, refused := d.s.out.(Refusal); refused {
		if why, ok := details.Of(o.Reason); ok {
			d.to.Because(why.Meaning, why.RFC)
		}
	}
	return next
}

// confirm decides whether the page is rendered.
func (d *dryRun) confirm(ctx context.Context) step {
	s := d.s
	switch _, tooMany, err := s.otherVariants(ctx, s.rec); {
	case err != nil:
		return d.storeFailed(err)
	case tooMany:
		return s.end(Refusal{DetailVariants})
	}
	if len(s.Policy.Keys.Learned(s.Key)) > 0 {
		d.to.RendersVariant()
	}
	d.to.Because("the page is rendered, and stored if the response allows it", "RFC 9111, section 3")
	if !d.to.Fetches() {
		return d.leaveOpen(nil)
	}
	seq, err := s.sequence(ctx, s.rec)
	if err != nil {
		return d.storeFailed(err)
	}
	s.seq = seq
	return stepRender
}

// unavailable is [Fill.unavailable] without the effects of a load.
func (d *dryRun) unavailable(ctx context.Context, cause error, detail string) Failure {
	o := Failure{Cause: cause, Detail: detail}
	if d.s.servableOnError(d.s.rec) {
		if p, err := d.page(ctx); err == nil {
			o.Fallback = p
		}
	}
	return o
}
