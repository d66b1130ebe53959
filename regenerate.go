package isr

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
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A search is the work of a flight: it finds the page of a key, or renders it. This file
// is the only place that orders its effects:
//
//	read META -> wait for a turn at the origin -> acquire LOCK
//	          -> read META again -> list a variant -> render, or validate, and give up the turn
//	          -> write the body -> list a variant -> publish META and delete LOCK
//
// The turn comes before the lease: a search that waits for its turn does not hold a
// lease that another process, whose origin has capacity, could use. No page is rendered
// twice because of that: META is read again once the turn has come, and once more under
// the lease.
//
// At every step a crash leaves at most a lease, which expires, and a body that no row
// refers to.
type search struct {
	c     *Cache
	route *boundRoute
	key   store.Key
	pk    string
	f     *flight
	force bool // render even if the page is fresh
	unpin bool // render even if the page is pinned
	// unless: a fresh page is not rendered although the search is forced, unless it has this
	// version; nil without.
	unless *freshVersion
	// reload tells all nodes to drop their copies of the page when it is published.
	reload bool
	claim  *store.Claim // the request record that this search completes; may be nil
	early  *page        // render even if this page, the current one, is fresh; may be nil
	// cause is the context of the request that started the search, whose end it outlives.
	cause context.Context //nolint:containedctx // for the observer
	// forwarded are the headers of the request that started the search that a render carries
	// (see Route.Forward).
	forwarded http.Header
	// accept are the codings that the visitor who started the search accepts.
	accept httpcache.Accept
	// own is the claim of the visitor who started the search to a response that must not be
	// shared; nil if there is none.
	own *handover
	// head: the search is for a HEAD request, for which no page is rendered that is not stored.
	head bool
	// light is the request that started the search if its response may need no body; nil if it does.
	light *http.Request
	// memory is what the body of the last render has of the budget; nil without.
	memory *renderMemory
	// skip is the reason for which a page that is not stored is not rendered; empty if it is (see
	// sections).
	skip string
	// onlyStored: nothing is rendered, for a request with only-if-cached.
	onlyStored bool
	// minSeq is the receipt that the page is rendered for, 0 without: a stale page is of no
	// use.
	minSeq int64
	// uncounted are the requests that Config.MinUses has not counted: 1 if one is explained.
	uncounted int

	known     bool       // the page had rendered before, when the turn was requested
	storeWait *countdown // how much longer waiting requests wait for the store; nil: unlimited

	mu   sync.Mutex
	turn *budget.Turn // guarded by mu: the turn at the origin, or the place in its queue; nil without
	// queued ends the wait for a turn in progress; nil without.
	queued func(Result) // guarded by mu
	// clients are the first few clients that wait for the page; empty for a forced
	// render, and if the route does not distinguish clients.
	clients []netip.Prefix // guarded by mu

	ended   bool // this process knows of a withdrawal of the entry, and the store does not
	waited  bool // another process held the lease, or may have while this one queued
	gaveWay bool // this search has waited for an unstored flight
	losses  int  // how often another process was faster
	// queuePolls is how often META was polled while the search queued for the origin.
	queuePolls int
	noBody     string    // the key of a body that was missing or damaged
	unread     bool      // that body exists and could not be read: no pin is lost for that
	since      time.Time // when the search began
	latest     reading   // of the record
	asOf       int64     // a sequence that was committed before that
	seqAt      time.Time // when SEQ was read for the render; zero if it was not
	listed     time.Time // until when this search has listed a variant that is not stored; else zero

	// Of the wait for another process (see schedule.go).
	waitBegan time.Time          // before the first look
	looks     int                // so far
	likely    time.Duration      // when waitsFor has likely stored the page, since waitBegan; 0: unknown
	waitsFor  string             // the holder of the lease; empty if it is not known
	asked     netip.AddrPort     // the holder that was asked to say when it ends its work; invalid: none
	hinted    <-chan struct{}    // closed once it says so; nil: it has, or none was asked
	cancelAsk context.CancelFunc // withdraws the request; nil without

	rendering *observedRender // in progress; nil without
	leaseWait func(Result)    // ends the wait for a lease in progress; nil without
	lost      bool            // the lease that was acquired last was lost
}

// maxLosses bounds how often a search renders a page that another process then replaces.
const maxLosses = 3

// run executes the search. ctx ends when the cache is closed by force.
func (s *search) run(ctx context.Context) outcome {
	defer s.releaseMemory()
	defer s.leave(budget.ErrNoVerdict)
	s.since = time.Now()
	s.storeWait = &countdown{left: s.c.cfg.StoreTimeout, expired: s.overdue}
	defer s.storeWait.stop()
	defer s.stopAsking()
	s.storeWait.start()
	select {
	case <-s.c.follower.Begun():
	case <-ctx.Done():
	}
	if p := s.secondLook(); p != nil {
		return storedPage{page: p}
	}
	if p := s.recall(ctx); p != nil {
		return storedPage{page: p}
	}
	for {
		rec, err := s.lookUp(ctx)
		if err != nil {
			return s.storeFailed(ctx, err)
		}
		if known := s.knownNegative(rec); known != nil {
			return known
		}
		now := s.c.now()
		if state := store.Freshness(rec.Entry, rec.Purges, now); state == store.Fresh || state == store.Stale {
			switch p, err := s.load(ctx, rec); {
			case err == nil && s.suffices(rec, state):
				s.route.noteRenderTime(rec.Entry)
				s.c.unpublished.forget(s.key)
				if !isNegative(rec.Entry.Status) {
					s.c.sections.cacheable(s.route, s.key)
				}
				return storedPage{page: p, waited: s.waited}
			case err == nil:
				s.f.offer(p)
			case errors.Is(err, ErrNoBody):
				s.missBody(rec.Entry.BodyKey, err)
			case errors.Is(err, bodies.ErrTooLarge):
				if state == store.Fresh && !s.wanted(rec) {
					return s.tooLarge(err)
				}
			case errors.Is(err, store.ErrPurged):
				continue // read the store again
			default:
				return s.storeFailed(ctx, err)
			}
		}
		switch next := s.next(rec, now); {
		case next.end != nil:
			return next.end
		case next.unstored != "":
			return s.runUnstored(ctx, next.unstored)
		case next.render && s.delegates():
			if o := s.delegate(ctx, rec); o != nil {
				return o
			}
			fallthrough
		case next.render:
			o, held := s.attempt(ctx, rec)
			switch {
			case o != nil:
				return o
			case held == nil:
				continue // read the store again
			}
			rec.Lock = held
		}
		s.leave(budget.ErrNoVerdict) // other searches can use the turn meanwhile
		if o := s.wait(ctx, rec); o != nil {
			return o
		}
	}
}

// attempt renders the page, unless another process holds the lease, whose lock it
// returns. If both results are nil, the search goes on: another process was faster, or
// may have been while this one waited for its turn.
func (s *search) attempt(ctx context.Context, rec store.Record) (o outcome, held *store.Lock) {
	s.endLeaseWait("ok")
	if s.awaitUnstored(ctx) {
		return nil, nil
	}
	if s.unstored(rec) == nil {
		switch come, err := s.awaitTurn(ctx, rec); {
		case err != nil:
			return s.notAdmitted(ctx, rec, err), nil
		case !come:
			return nil, nil
		}
	}
	acquiredAt := time.Now()
	lease, err := s.c.meta.Acquire(ctx, s.pk, s.leaseTime(), s.claim)
	var holder *store.HeldError
	var earlier *store.RequestError
	switch {
	case errors.As(err, &holder):
		return nil, &holder.Lock
	case errors.As(err, &earlier):
		return failure{cause: earlier}, nil
	case err != nil:
		return s.storeFailed(ctx, err), nil
	}
	release := s.c.hold(s.key, s.route.Label, rec.Lock)
	s.lost = false
	o = s.leased(ctx, lease, acquiredAt)
	release(s.lost)
	s.endRender(o)
	s.conclude(ctx, lease, o)
	if o != nil {
		return o, nil
	}
	if s.losses++; s.losses < maxLosses {
		return nil, nil
	}
	return s.unavailable(ctx, rec, store.ErrLeaseLost, detailTimeout), nil
}

// secondLook returns a page that another flight has put into memory since this flight's
// leader looked there, if a visitor who came now would get it; nil without.
func (s *search) secondLook() *page {
	if s.force || s.early != nil || s.minSeq > 0 || s.claim != nil {
		return nil
	}
	p, now := s.c.memory.get(s.key), s.c.now()
	if p == nil || s.c.late(p, now) || s.c.blind(now) || s.c.state(s.f, p, now) != store.Fresh {
		return nil
	}
	return p
}

// wanted reports whether a fresh page is rendered nevertheless: the search is forced, or
// the page is the one that is refreshed early.
func (s *search) wanted(rec store.Record) bool {
	if s.unless != nil {
		return s.unless.is(rec.Entry)
	}
	return s.force || s.early != nil && sameEntry(&s.early.entry, rec.Entry)
}

// leased renders and publishes the page as the holder of the lease. Nil: the lease was
// lost, or another writer published.
func (s *search) leased(ctx context.Context, lease store.Lease, acquiredAt time.Time) outcome {
	// If a store or the renderer hangs, even one that ignores its context, the lease
	// is not extended for longer than the work may take.
	work, cancel := context.WithTimeoutCause(ctx, s.renderTime()+storeTime, store.ErrLeaseLost)
	defer cancel()
	held, stop := store.KeepLease(work, lease, acquiredAt, s.c.meta.Refresh, s.c.log)
	stop = sync.OnceFunc(stop)
	defer stop()
	rec, seq, found := s.prepare(ctx, held, lease)
	if _, failed := found.(failure); failed && lostLease(held) {
		s.noteLost(time.Since(acquiredAt))
		return nil // the call was cancelled because of that
	}
	if found != nil {
		return found
	}
	if p := s.unstored(rec); p != nil {
		s.leave(budget.ErrNoVerdict)
		return s.store(ctx, held, stop, lease, rec, made{entry: p.entry, body: p.body(), at: timing{began: p.read.began, took: p.entry.RenderTime}})
	}
	s.storeWait.stop()
	if s.currentTurn() == nil { // the store was slow, and overdue gave up the turn
		s.release(ctx, lease)
		return nil
	}
	held = s.beginRender(held, s.trigger(rec))
	got, at := s.produce(held, rec, seq)
	s.learn(got)
	defer s.settleStreams()
	s.leave(s.verdict(held, lease.Failures(), got))
	s.storeWait.start()
	switch took := at.took; {
	case lostLease(held):
		s.noteLost(took)
		return nil
	case held.Err() != nil: // closing
		s.release(ctx, lease)
		return failure{cause: context.Cause(held), detail: detailClosing}
	case got.failure != nil:
		stop() // a refresh would contend with the back-off, and delay the outcome
		return s.failed(ctx, lease, rec, got, took)
	case got.refused != "" && got.verdict.Withdraws && s.withdrawable(rec):
		stop()
		return s.withdraw(ctx, lease, rec, seq, got, at)
	case got.refused != "":
		s.release(ctx, lease)
		return s.refused(s.latest.began, got.refused)
	case took > got.verdict.Revalidate:
		s.c.log.Warn("rendering took longer than the page stays fresh", "key", s.key.String(), "took", took, "fresh", got.verdict.Revalidate)
	}
	next := s.entry(got, at, seq, rec)
	if why := s.suspicious(rec, got); why != "" {
		return s.reject(ctx, held, lease, rec, next, got, why, at.took)
	}
	if s.staysInMemory(rec, &next) {
		return s.keepNegative(ctx, lease, rec, next, got)
	}
	o := s.store(ctx, held, stop, lease, rec, made{entry: next, body: got.response.body, at: at, withdraws: got.verdict.Withdraws, renews: got.renews})
	if _, stored := o.(renderedPage); stored {
		s.c.storing.add(time.Since(acquiredAt) - at.took)
	}
	return o
}

func (s *search) noteLost(after time.Duration) {
	s.lost = true
	s.c.log.Warn("lost the lease while rendering", "key", s.key.String(), "after", after)
}

// prepare reads, under the lease, what the publish will replace, lists the page if it is a
// variant (see listVariant), and then finds the purge sequence: a purge that commits after
// this has a higher number, so that what is rendered is stale at once. found ends the
// search: the page is fresh meanwhile, or the store failed.
func (s *search) prepare(ctx, held context.Context, lease store.Lease) (rec store.Record, seq int64, found outcome) {
	end := func(o outcome) (store.Record, int64, outcome) {
		s.leave(budget.ErrNoVerdict) // the store may hang; other searches can use the turn
		s.release(ctx, lease)
		return store.Record{}, 0, o
	}
	rec, err := s.read(held)
	if err != nil {
		return end(s.storeFailed(held, err))
	}
	if store.Freshness(rec.Entry, rec.Purges, s.c.now()) == store.Fresh && !s.wanted(rec) {
		switch p, err := s.load(held, rec); {
		case err == nil:
			return end(storedPage{page: p, waited: s.waited})
		case errors.Is(err, ErrNoBody):
			s.missBody(rec.Entry.BodyKey, err)
		case errors.Is(err, bodies.ErrTooLarge):
			return end(s.tooLarge(err))
		case errors.Is(err, store.ErrPurged): // meanwhile, so that it is rendered
			rec.Purges = s.purges(rec)
		default:
			return end(s.storeFailed(held, err))
		}
	}
	if s.refusedByPin(rec) {
		return end(failure{cause: pinnedUntil(rec.Entry)})
	}
	if err := s.listVariant(held, rec); err != nil {
		return end(s.storeFailed(held, err))
	}
	switch refused, err := s.admitVariant(held, rec); {
	case err != nil:
		return end(s.storeFailed(held, err))
	case refused:
		return end(refusal{detailVariants})
	}
	if seq, err = s.sequence(held, rec); err != nil {
		return end(s.storeFailed(held, err))
	}
	return rec, seq, nil
}

// sequence returns a sequence that was committed before now, and is not lower than the sequence of
// a purge that covers rec: the one that the log was read up to, or else SEQ. Another process that had
// read more of the log may have rendered the page of rec: with a lower sequence than its own, the page
// would count as purged again.
func (s *search) sequence(ctx context.Context, rec store.Record) (int64, error) {
	known := rec.Purges.Seq
	if rec.Entry != nil {
		known = max(known, rec.Entry.PurgeSeq)
	}
	if seq, ok := s.c.follower.Recent(s.c.now()); ok && seq >= known {
		return seq, nil
	}
	s.seqAt = time.Now()
	sequence, err := s.c.meta.Sequence(ctx)
	// A purge that is being committed may be in the page's rows before it is in SEQ.
	return max(sequence.Seq, rec.Purges.Seq), err
}

// render calls the renderer, with conditions if they are not nil, and shows visitors the
// response as it comes. rec is what it replaces, seq a purge sequence from before the render, and
// unstored the reason for which the response will not be stored; empty if it will.
func (s *search) render(ctx context.Context, rec store.Record, seq int64, unstored string, conditions http.Header) (rendering, timing) {
	at := timing{began: time.Now(), generatedAt: s.c.now().Truncate(time.Millisecond)}
	fields := s.forwarded
	if conditions != nil {
		fields = conditions
		maps.Copy(fields, s.forwarded)
	}
	s.c.rendering.Add(1)
	got := s.c.render(ctx, s.route, s.key, fields, s.renderTime(), s.nextMemory(), audience{
		begun: func(r *recorder) {
			if s.streamable(rec, r.status, r.sent) {
				e := s.draft(r.status, r.sent, r.verdict, at, seq)
				s.offerStream(r.stream, e, at, unstored, httpcache.DeclaredLength(r.sent))
			}
		},
		refused: func(r *recorder) bool { return !isBlank(r.verdict.Refused, rec) && s.own.offer(r, s.f) },
	})
	at.took = time.Since(at.began)
	s.noteRender(got, at.took)
	s.route.renders.add(at.took)
	if cause := got.verdict.Cause; cause != nil {
		s.c.refusals.Log("a page is not stored", "key", s.key.String(), "reason", got.verdict.Refused, "error", cause)
	}
	return got, at
}

// made is a rendering that is about to become the current generation.
type made struct {
	entry     store.Entry
	body      []byte
	at        timing
	withdraws bool // the origin has ended the stored copy by this response
	renews    bool // the entry is the current one, which the origin has validated
}

// store makes a rendering the current generation. stop ends the heartbeat of the lease,
// by which held is cancelled. Nil: another writer was faster.
func (s *search) store(ctx, held context.Context, stop func(), lease store.Lease, rec store.Record, m made) outcome {
	// Waiting requests get this if storing takes too long.
	unpublished := m // a copy: the body's key may change
	s.f.rendered.Store(new(sync.OnceValue(func() *page { return newUnpublishedPage(s.key, unpublished.entry, m.at, m.body, s.route.present) })))
	if !m.renews {
		if err := s.putBody(held, rec.Entry, &m.entry, m.body); err != nil {
			s.release(ctx, lease)
			return s.notPublished(fmt.Errorf("storing the body of %s: %w", s.key, err))
		}
	}
	if err := s.c.listVariant(held, s.key, m.entry.Expires); err != nil {
		s.release(ctx, lease)
		return s.notPublished(err)
	}
	s.listed = time.Time{} // it stays listed, even if another writer is faster
	// The heartbeat ends before the publish: the lease has two thirds of its duration
	// left, and a refresh would contend with the transaction.
	stop()
	return s.publish(ctx, lease, rec, m)
}

// publish makes the generation current. If we crash before the transaction commits, no
// row refers to the body, which is garbage; after it, everything is in place. Nil:
// another writer was faster.
func (s *search) publish(ctx context.Context, lease store.Lease, read store.Record, m made) outcome {
	written := reading{began: time.Now(), asOf: s.seqAt}
	how := s.publishOptions(read, &m.entry)
	how.Renew = m.renews
	how.Reload = s.reload || m.withdraws && s.withdrawable(read)
	published, err := s.c.meta.Publish(ctx, lease, read, m.entry, how)
	written.ended = time.Now()
	switch {
	case errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved):
		// The other writer's page is served. The body that was written stays: it may
		// belong to a publish whose reply was lost.
		s.lost = errors.Is(err, store.ErrLeaseLost)
		s.c.log.Warn("another writer was faster", "key", s.key.String(), "error", err)
		if errors.Is(err, store.ErrMoved) {
			s.release(ctx, lease)
		}
		if s.force {
			return failure{cause: err, detail: detailUnpublished}
		}
		return nil
	case err != nil:
		s.release(ctx, lease)
		return s.notPublished(fmt.Errorf("publishing %s: %w", s.key, err))
	}
	forwardStatus := m.entry.Status
	if m.renews {
		forwardStatus = http.StatusNotModified
	}
	s.rendering.published(m.renews)
	s.c.renderLog.stored(s.key, &m.entry, m.renews, m.at.took)
	// The marks in read.Purges may cover only the entry that was replaced.
	p := newPage(s.key, published, s.f.known(store.PurgeState{}), written, m.body, s.route.present)
	p.stored = true
	if st := s.f.stream.Load(); st != nil && !m.renews && s.c.reader.Sendable(&published) {
		st.move(newDetached(s.key, published, store.PurgeState{}, written, s.route.present))
	}
	if !m.renews && strings.HasSuffix(published.BodyKey, published.GenerationID) {
		p.setCodings(coding.Has{}, true) // the body is new
	}
	if last := s.c.memory.last(s.key); last != nil && sameBody(&last.entry, &published) {
		p.inherit(last)
	} else if last != nil {
		defer s.c.coder.succeed(p, last, s.route.present) // once it is kept
	}
	s.c.negative.forget(s.key)
	s.c.unpublished.forget(s.key)
	since := s.latest.began
	if m.at.began.Before(since) {
		since = m.at.began // it was rendered before the lease was acquired
	}
	if s.c.floor.above(since) || s.f.overtaken(since) {
		// The page was reloaded after META was read under the lease. A rollback or a
		// pin would have failed the publish, so it was a purge, which may cover what
		// was rendered: waiting requests get the page, unless an operator's purge was hard,
		// and later ones what META says.
		s.c.reload(s.key)
		if _, err := s.read(ctx); err != nil {
			s.c.complaints.Log("failed to read how a page was purged while it was rendered", "key", s.key.String(), "error", err)
		}
		if s.mustRenderAgain(p) {
			return nil
		}
		return renderedPage{p, forwardStatus}
	}
	if err := s.keep(p); err != nil && s.mustRenderAgain(p) {
		return nil
	}
	return renderedPage{p, forwardStatus}
}

// mustRenderAgain reports whether a page that was purged while it was rendered is of no use: the
// purge was hard, and visitors who wait may not have the page all the same (see overtaken). A
// regeneration that was asked for never ends with such a page.
func (s *search) mustRenderAgain(p *page) bool {
	return s.c.state(s.f, p, s.c.now()) == store.Purged && (s.force || s.minSeq > 0 || !s.c.overtaken(s.f, p))
}

// release gives up the lease. If that fails, the lease expires.
func (s *search) release(ctx context.Context, lease store.Lease) {
	settle, cancel := s.c.settling(ctx)
	defer cancel()
	s.unlistVariant(settle)
	if err := s.c.meta.Release(settle, lease); err != nil {
		s.c.log.Warn("failed to release a lease; it will expire", "key", s.key.String(), "error", err)
	}
}

// storeTime is what all calls under a lease may take, in addition to the render.
const storeTime = 30 * time.Second

// putBody writes the body of the next generation under a key that was never used; or,
// if the content is that of the current one, reuses the current body, after checking
// that it exists. If we crash here, the body is garbage.
func (s *search) putBody(ctx context.Context, current *store.Entry, next *store.Entry, body []byte) error {
	unchanged := current != nil && !current.Foreign && current.BodyKey != s.noBody && current.SHA256 == next.SHA256
	if unchanged {
		info, err := s.c.bodies.Stat(ctx, current.BodyKey)
		if err == nil && info.Length == next.Length {
			next.BodyKey = current.BodyKey
			return nil
		}
	}
	return s.c.bodies.Put(ctx, next.BodyKey, body)
}
