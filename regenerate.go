package isr

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A search is one flight's work: it finds the page of a key, or makes it. This
// file is the only place that orders its effects:
//
//	read META -> take a turn at the origin -> acquire LOCK
//	          -> read META again, then SEQ -> render, and give up the turn
//	          -> write the body -> publish META and give up LOCK
//
// The turn comes before the lease: who waits for it holds nothing that another
// process, whose origin has time, could use. Nor is a page rendered twice for
// that, since META is read again once the turn has come, and under the lease.
//
// At every step a crash leaves at most a lease that expires, and a body that
// nothing points at.
type search struct {
	c     *Cache
	route *boundRoute
	key   store.Key
	pk    string
	f     *flight
	force bool         // render even if the page is fresh
	unpin bool         // render even if the page is pinned
	claim *store.Claim // the request that this is for; may be nil
	early *page        // render even if this page, the current one, is fresh; may be nil

	known    bool      // the page had rendered before, when the turn was asked for
	patience *patience // of those who wait, with the store; nil: without end

	mu   sync.Mutex
	turn *turn // guarded by mu: the place in the origin's queue, or the turn; nil without
	// clients are those that wait for the page, the first few; none if it is made for
	// nobody, or clients are not told apart.
	clients []netip.Prefix // guarded by mu

	// ended: this process knows of a withdrawal of the entry that the store does not.
	ended   bool
	waited  bool      // another process was found at work
	gaveWay bool      // an unstored flight was waited for
	polls   int       // how often it was looked for the end of that work
	losses  int       // how often another process was faster
	noBody  string    // the key of a body that was found missing or damaged
	unread  bool      // it is there, and could not be read: no pin is lost for that
	since   time.Time // when the search began
	latest  reading   // of the record
}

// run is the whole of a search. Its context ends when the cache is closed by
// force.
func (s *search) run(ctx context.Context) outcome {
	defer s.leave(errNoVerdict)
	s.since = time.Now()
	s.patience = &patience{left: s.c.cfg.StoreTimeout, spent: s.overdue}
	defer s.patience.rest()
	s.patience.run()
	select {
	case <-s.c.follower.begun:
	case <-ctx.Done():
	}
	for {
		rec, err := s.lookUp(ctx)
		if err != nil {
			return s.storeFailed(ctx, err)
		}
		if p := s.knownNegative(rec); p != nil {
			return outcome{page: p, how: fromStore}
		}
		now := s.c.now()
		if state := store.Freshness(rec.Entry, rec.Purges, now); state == store.Fresh || state == store.Stale {
			switch p, err := s.load(ctx, rec); {
			case err == nil && state == store.Fresh && !s.wanted(rec):
				return outcome{page: p, how: s.foundHow()}
			case err == nil:
				s.f.offer(p)
			case errors.Is(err, ErrNoBody):
				s.missBody(rec.Entry.BodyKey, err)
			case errors.Is(err, errBeyondLimit):
				if state == store.Fresh && !s.wanted(rec) {
					return s.tooLarge(err)
				}
			case errors.Is(err, store.ErrPurged):
				continue // see what there is now
			default:
				return s.storeFailed(ctx, err)
			}
		}
		if s.refusedByPin(rec) {
			return outcome{err: pinnedUntil(rec.Entry)}
		}
		if why := s.notWorthStoring(rec); why != "" {
			o := s.unstoredRun(ctx)
			if o.detail == detailStoreError {
				o.detail = why
			}
			return o
		}
		// The lock row just read spares a conditional write that would fail.
		// Only Acquire decides.
		if lock := rec.Lock; lock == nil || !lock.HeldAt(now) {
			s.f.announce()
			o, held := s.attempt(ctx, rec)
			switch {
			case o != nil:
				return *o
			case held == nil:
				continue // see what there is now
			}
			rec.Lock = held
		}
		s.leave(errNoVerdict) // others can use the turn meanwhile
		if o, over := s.wait(ctx, rec); over {
			return o
		}
	}
}

// attempt makes the page, unless somebody else holds the lease, whose lock is
// returned. Without an outcome the search goes on: another process was faster, or
// may have been while this one waited for its turn.
func (s *search) attempt(ctx context.Context, rec store.Record) (o *outcome, held *store.Lock) {
	end := func(o outcome) (*outcome, *store.Lock) { return &o, nil }
	if s.awaitUnstored(ctx) {
		return nil, nil
	}
	if s.unstored(rec) == nil {
		switch come, err := s.awaitTurn(ctx, rec); {
		case err != nil:
			return end(s.notAdmitted(ctx, rec, err))
		case !come:
			return nil, nil
		}
	}
	acquiredAt := time.Now()
	lease, err := s.c.meta.Acquire(ctx, s.pk, s.c.cfg.Lease, s.claim)
	var holder *store.HeldError
	var earlier *store.RequestError
	switch {
	case errors.As(err, &holder):
		return nil, &holder.Lock
	case errors.As(err, &earlier):
		return end(outcome{err: earlier})
	case err != nil:
		return end(s.storeFailed(ctx, err))
	}
	made, overtaken := s.leased(ctx, lease, acquiredAt)
	s.conclude(ctx, lease, made)
	if !overtaken {
		return &made, nil
	}
	if s.losses++; s.losses < maxLosses {
		return nil, nil
	}
	return end(s.unavailable(ctx, rec, store.ErrLeaseLost, detailTimeout))
}

// missBody notes that a body is missing, damaged or cannot be read.
func (s *search) missBody(key string, err error) {
	s.unread = errors.Is(err, errUnreadable) || s.unread && key == s.noBody
	s.noBody = key
}

// wanted says that a fresh page is to be made anew all the same: somebody asked
// for that, or it is the very one that is to be refreshed early.
func (s *search) wanted(rec store.Record) bool {
	return s.force || s.early != nil && sameEntry(&s.early.entry, rec.Entry)
}

// pinned says that an entry is not to be replaced: its pin holds, no purge covers
// it, and its body is there.
func (s *search) pinned(rec store.Record) bool {
	e, now := rec.Entry, s.c.now()
	return e != nil && e.PinnedUntil.After(now) && (e.BodyKey != s.noBody || s.unread) && store.Freshness(e, rec.Purges, now) == store.Fresh
}

// refusedByPin says, before anything is rendered, that it could not be published.
// Only who renders a fresh page can meet with that.
func (s *search) refusedByPin(rec store.Record) bool {
	return s.force && !s.unpin && s.pinned(rec)
}

func pinnedUntil(e *store.Entry) error {
	if !e.PinnedUntil.Before(store.Forever()) {
		return fmt.Errorf("%w until it is unpinned", store.ErrPinned)
	}
	return fmt.Errorf("%w until %s", store.ErrPinned, e.PinnedUntil.UTC().Format(time.RFC3339))
}

// behind says that nobody waits for what the search makes: whoever wants the page
// is served one meanwhile, for as long as its stale window lasts.
func (s *search) behind() bool {
	p := s.f.stale.Load()
	return p != nil && !s.force && (s.early != nil || s.route.Policy != Wait) && s.f.state(p, s.c.now()) >= store.Stale
}

// wait is the part of somebody who finds another process at work: it says
// whether the search is over, or sleeps until it is worth looking again.
func (s *search) wait(ctx context.Context, rec store.Record) (outcome, bool) {
	switch backOff := rec.Lock.IsBackOff(); {
	case s.force:
		return outcome{err: &store.HeldError{Lock: *rec.Lock}, detail: detailBackOff}, true
	case backOff:
		return s.postponed(ctx, rec, min(rec.Lock.ExpiresAt.Sub(s.c.now()), longestPause), &store.HeldError{Lock: *rec.Lock}, detailBackOff), true
	case s.behind():
		return s.postponed(ctx, rec, s.c.jitter(maxPoll), nil, ""), true
	case s.route.Policy == Fail:
		return outcome{err: &store.HeldError{Lock: *rec.Lock}, detail: detailHeld}, true
	case time.Since(s.since) > s.c.cfg.Wait:
		return s.unavailable(ctx, rec, fmt.Errorf("waited %s: %w", s.c.cfg.Wait, &store.HeldError{Lock: *rec.Lock}), detailTimeout), true
	}
	s.waited = true
	s.patience.rest()
	defer s.patience.run()
	s.patience.refill(s.c.cfg.StoreTimeout)
	if err := backoff.Wait(ctx, s.poll(rec)); err != nil {
		return outcome{err: err, detail: detailClosing}, true
	}
	return outcome{}, false
}

// postponed ends a search that is not to be made again for a while: visitors who are
// served a page are not told of it, and one of their later requests looks again.
func (s *search) postponed(ctx context.Context, rec store.Record, wait time.Duration, cause error, detail string) outcome {
	stale := s.f.stale.Load()
	switch {
	case s.early != nil:
		s.early.nextEarly.put(s.early, wait)
	case stale != nil:
		stale.nextTry.put(stale, wait)
	}
	if s.behind() {
		return outcome{page: stale, how: fromStore}
	}
	return s.unavailable(ctx, rec, cause, detail)
}

// awaitTurn takes a place in the origin's queue, and sleeps until the turn has
// come or it is worth looking at META again: another process may have made the
// page. come: the turn has come, META was just read, and the origin may be asked.
// The error is a *BudgetError, or says that the cache is being closed.
func (s *search) awaitTurn(ctx context.Context, rec store.Record) (come bool, err error) {
	s.patience.rest() // so that the turn is this goroutine's alone
	defer s.patience.run()
	turn := s.currentTurn()
	if turn == nil {
		s.known = s.isKnown(rec)
		if turn, err = s.enter(); err != nil {
			return false, err
		}
	}
	select {
	case <-turn.ready:
		return true, turn.begin()
	default:
	}
	left := s.c.cfg.Wait - time.Since(s.since)
	if left <= 0 {
		return false, errBusy()
	}
	if !s.behind() {
		left = min(left, s.poll(rec))
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-turn.ready:
	case <-timer.C:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	return false, nil
}

// enter takes a turn, or a place in the queue. No client can join between its choice of
// whom to charge and the record of the turn.
func (s *search) enter() (*turn, error) {
	a := asker{known: s.known, yielding: s.behind()}
	s.mu.Lock()
	defer s.mu.Unlock()
	turn, err := s.route.budget.enter(a, s.clients...)
	s.turn = turn
	return turn, err
}

// leave gives up the turn, or the place in the queue, if there is one; verdict is
// what can be said of the origin.
func (s *search) leave(verdict error) {
	s.mu.Lock()
	turn := s.turn
	s.turn = nil
	s.mu.Unlock()
	if turn != nil {
		turn.leave(verdict)
	}
}

func (s *search) currentTurn() *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn
}

// overdue is called when the store has taken too long for those who wait. They
// turn to the unstored flight, which must not wait for a turn that is held by a
// search that is waiting for the store: the turn is given up. A forced search
// keeps it, since it cannot begin again once its request is claimed.
func (s *search) overdue() {
	close(s.f.overdue)
	if !s.force {
		s.leave(errNoVerdict)
	}
}

// notAdmitted ends a search whose page was not asked of the origin. That is no
// failure of the page, which gets no back-off.
func (s *search) notAdmitted(ctx context.Context, rec store.Record, err error) outcome {
	var refused *BudgetError
	if !errors.As(err, &refused) {
		return outcome{err: err, detail: detailOf(err)}
	}
	return s.postponed(ctx, rec, refused.RetryAfter, err, detailOf(err))
}

// poll is how long to sleep before the next look at META: one process, one key,
// one poller. A thousand processes may wait for one cold page, so the first look
// comes when the render is expected to end, and later ones with exponential
// backoff.
func (s *search) poll(rec store.Record) time.Duration {
	n := s.polls
	s.polls++
	expected := s.expected(rec)
	if expected == 0 {
		return s.c.jitter(backoff.Exponential(unknownPoll, maxPoll, n))
	}
	if n > 0 {
		return s.c.jitter(backoff.Exponential(min(max(expected/4, firstPoll), maxPoll), maxPoll, n-1))
	}
	left := expected
	if rec.Lock != nil && !rec.Lock.IsBackOff() {
		// Lease ends are rounded up to seconds: less than one says nothing.
		if elapsed := s.c.now().Sub(rec.Lock.ExpiresAt.Add(-s.c.cfg.Lease)); elapsed >= time.Second {
			left -= elapsed
		}
	}
	left = min(max(left, firstPoll), maxPoll)
	return left + s.c.jitter(max(left/8, firstPoll/2))
}

// expected is how long a render of the page is expected to take: as long as the
// last one, or as the route's renders in this process; 0 if nothing is known.
func (s *search) expected(rec store.Record) time.Duration {
	if rec.Entry != nil && rec.Entry.RenderTime > 0 {
		return rec.Entry.RenderTime
	}
	return time.Duration(s.route.renderTime.Load())
}

const (
	firstPoll   = 50 * time.Millisecond
	unknownPoll = 400 * time.Millisecond
	maxPoll     = time.Second
	// longestPause bounds how long a page is left alone for a back-off that another
	// process, whose clock may be another, has left.
	longestPause = 2 * maxBackOff
)

// maxLosses bounds how often one search renders in vain.
const maxLosses = 3

// leased is the part of the holder of the lease. overtaken: the lease was lost, or
// another writer published.
func (s *search) leased(ctx context.Context, lease store.Lease, acquiredAt time.Time) (o outcome, overtaken bool) {
	// Whatever hangs, and whether it heeds its context or not, the lease is not
	// extended for longer than the work may take.
	work, cancel := context.WithTimeoutCause(ctx, s.c.cfg.RenderTimeout+storeTime, store.ErrLeaseLost)
	defer cancel()
	held, stop := s.c.keepLease(work, lease, acquiredAt)
	stop = sync.OnceFunc(stop)
	defer stop()
	rec, seq, found := s.prepare(ctx, held, lease)
	if found != nil {
		return *found, false
	}
	if p := s.unstored(rec); p != nil {
		s.leave(errNoVerdict)
		return s.store(ctx, held, stop, lease, rec, made{entry: p.entry, body: p.body, at: timing{began: p.read.began, took: p.entry.RenderTime}})
	}
	s.patience.rest()
	if s.currentTurn() == nil { // the store was slow, and the turn was given up
		s.release(ctx, lease)
		return outcome{}, true
	}
	got, at := s.render(held)
	if got.refused == httpcache.RefusedEmpty && rec.Entry != nil && !rec.Entry.Withdrawn {
		got = rendering{failure: errEmpty} // a blank page never replaces a good one
	}
	s.leave(s.verdict(held, lease.Failures(), got))
	s.patience.run()
	switch took := at.took; {
	case held.Err() != nil && errors.Is(context.Cause(held), store.ErrLeaseLost):
		s.c.log.Warn("lost the lease while rendering", "key", s.key.String(), "after", took)
		return outcome{}, true
	case held.Err() != nil: // closing
		s.release(ctx, lease)
		return outcome{err: context.Cause(held), detail: detailClosing}, false
	case got.failure != nil:
		stop() // a refresh would contend with the back-off, and hold the outcome up
		return s.failed(ctx, lease, rec, got, took), false
	case got.refused != "" && got.verdict.Withdraws && s.withdrawable(rec):
		stop()
		return s.withdraw(ctx, lease, rec, seq, got, at)
	case got.refused != "":
		s.release(ctx, lease)
		return s.refused(s.latest.began, got.refused), false
	case took > got.verdict.Revalidate:
		s.c.log.Warn("rendering took longer than the page stays fresh", "key", s.key.String(), "took", took, "fresh", got.verdict.Revalidate)
	}
	next := s.entry(got, at, seq)
	if s.staysInMemory(rec, &next) {
		return s.keepNegative(ctx, lease, rec, next, got)
	}
	return s.store(ctx, held, stop, lease, rec, made{entry: next, body: got.response.body, at: at, withdraws: got.verdict.Withdraws})
}

// made is a rendering that is to become the current generation.
type made struct {
	entry     store.Entry
	body      []byte
	at        timing
	withdraws bool // the origin said that what is stored is not to be served any more
}

// store makes a rendering the current generation. stop ends the heartbeat that held
// stands for.
func (s *search) store(ctx, held context.Context, stop func(), lease store.Lease, rec store.Record, m made) (o outcome, overtaken bool) {
	// Those who wait get this if it takes too long to store it.
	unpublished := m // a copy: the body's key may change
	s.f.rendered.Store(new(sync.OnceValue(func() *page { return unpublishedPage(s.key, unpublished.entry, m.at, m.body) })))
	if err := s.putBody(held, rec.Entry, &m.entry, m.body); err != nil {
		s.release(ctx, lease)
		return s.notPublished(fmt.Errorf("storing the body of %s: %w", s.key, err)), false
	}
	// The heartbeat ends before the publish: the lease has two thirds of its
	// lifetime left, and a refresh would contend with the transaction.
	stop()
	return s.publish(ctx, lease, rec, m)
}

// A timing is when a render took place.
type timing struct {
	began       time.Time // by the monotonic clock
	generatedAt time.Time // by the wall clock, in whole seconds
	took        time.Duration
}

// render calls the renderer.
func (s *search) render(ctx context.Context) (rendering, timing) {
	at := timing{began: time.Now(), generatedAt: s.c.now().Truncate(time.Second)}
	got := s.c.render(ctx, s.route.projector, s.route.renderer, s.key)
	at.took = time.Since(at.began)
	s.route.observe(at.took)
	return got, at
}

// refused remembers that a page is not cacheable, for all that was known at readAt.
func (s *search) refused(readAt time.Time, reason string) outcome {
	s.c.log.Debug("not cacheable", "key", s.key.String(), "reason", reason)
	s.c.negative.put(s.key, &negativeEntry{readAt: readAt, until: time.Now().Add(remembered), refused: reason}, s.f)
	return outcome{refused: reason}
}

// tooLarge has requests for a page pass through whose body others keep, and this node
// does not. The page is there: it is not to be rendered over, least of all a pinned one.
func (s *search) tooLarge(err error) outcome {
	s.c.complaints.log("a page is not kept here that other nodes keep", "key", s.key.String(), "error", err)
	return s.refused(s.latest.began, httpcache.RefusedTooLarge)
}

// Verdict is what a render says of the origin. One that was cut off by us says
// nothing; neither does a page that fails again, which has a back-off of its own,
// unless it is the one that was to try the origin; nor an error answer for a page that
// has never rendered, which may be of a URL that a stranger has made up.
func (s *search) verdict(held context.Context, failures int, got rendering) error {
	switch {
	case held.Err() != nil, errors.Is(got.failure, store.ErrInvalidKey):
		return errNoVerdict
	case got.failure != nil && failures > 0 && !s.currentTurn().probe:
		return errNoVerdict
	case got.failure != nil && !got.outage && !s.known:
		return errNoVerdict
	}
	return got.failure
}

// prepare reads, under the lease, what the publish will replace, and then the
// purge sequence: a purge that lands from now on has a higher number, and what is
// rendered is born stale. found ends the search: the page is fresh meanwhile, or
// the store failed.
func (s *search) prepare(ctx, held context.Context, lease store.Lease) (rec store.Record, seq int64, found *outcome) {
	end := func(o outcome) (store.Record, int64, *outcome) {
		s.leave(errNoVerdict) // the store may hang, and others can use the turn
		s.release(ctx, lease)
		return store.Record{}, 0, &o
	}
	rec, err := s.read(held)
	if err != nil {
		return end(s.storeFailed(ctx, err))
	}
	if store.Freshness(rec.Entry, rec.Purges, s.c.now()) == store.Fresh && !s.wanted(rec) {
		switch p, err := s.load(held, rec); {
		case err == nil:
			return end(outcome{page: p, how: s.foundHow()})
		case errors.Is(err, ErrNoBody):
			s.missBody(rec.Entry.BodyKey, err)
		case errors.Is(err, errBeyondLimit):
			return end(s.tooLarge(err))
		case errors.Is(err, store.ErrPurged): // meanwhile: to be rendered
			rec.Purges = s.f.known(rec.Purges)
		default:
			return end(s.storeFailed(ctx, err))
		}
	}
	if s.refusedByPin(rec) {
		return end(outcome{err: pinnedUntil(rec.Entry)})
	}
	sequence, err := s.c.meta.Sequence(held)
	if err != nil {
		return end(s.storeFailed(ctx, err))
	}
	return rec, sequence.Seq, nil
}

// putBody writes the body of the next generation under a key never used before;
// or, if the content is that of the current one, has it point at the same body,
// which is confirmed to be there. If we crash here, the body is garbage.
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

// publish makes the generation current. If we crash before, the body is garbage
// that nothing points at; after, everything is in place.
func (s *search) publish(ctx context.Context, lease store.Lease, read store.Record, m made) (o outcome, overtaken bool) {
	told := reading{began: time.Now()}
	how := s.publishing(read, &m.entry)
	how.Reload = m.withdraws && s.withdrawable(read)
	published, err := s.c.meta.Publish(ctx, lease, read, m.entry, how)
	told.ended = time.Now()
	switch {
	case errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved):
		// Another writer was there first; the winner is served. The body that
		// was written stays: it may be that of a publish whose reply was lost.
		s.c.log.Warn("overtaken at publish", "key", s.key.String(), "error", err)
		if errors.Is(err, store.ErrMoved) {
			s.release(ctx, lease)
		}
		if s.force {
			return outcome{err: err, detail: detailUnpublished}, false
		}
		return outcome{}, true
	case err != nil:
		s.release(ctx, lease)
		return s.notPublished(fmt.Errorf("publishing %s: %w", s.key, err)), false
	}
	s.c.log.Info("rendered", "key", s.key.String(), "status", m.entry.Status, "bytes", m.entry.Length, "took", m.at.took.Round(time.Millisecond), "fresh", m.entry.Revalidate)
	p := newPage(s.key, published, s.f.known(read.Purges), told, m.body)
	s.c.negative.forget(s.key)
	s.c.unpublished.forget(s.key)
	since := s.latest.began
	if m.at.began.Before(since) {
		since = m.at.began // it was rendered before the lease was acquired
	}
	if s.c.floor.above(since) || s.f.overtaken(since) {
		// The page was reloaded since META was read under the lease. A rollback or a
		// pin would have refused the publish, so this is a purge, and may cover what
		// was rendered: the waiters get that, and the next visitor what META says.
		s.c.reload(s.key)
		return outcome{page: p, how: fromRender}, false
	}
	if err := s.keep(p); err != nil {
		return outcome{}, true // the next one is rendered after the purge
	}
	return outcome{page: p, how: fromRender}, false
}

// publishing says how a generation replaces what was read. A pin that does not
// hold any more, or has nothing to hold, does not count.
func (s *search) publishing(read store.Record, next *store.Entry) store.PublishOptions {
	return store.PublishOptions{
		History:    s.route.History > 0,
		Keep:       s.route.History,
		Superseded: s.c.now().Add(s.c.cfg.Retention),
		Unchanged:  read.Entry != nil && sameContent(read.Entry, next),
		Unpin:      s.unpin || !s.pinned(read),
		Key:        s.key,
	}
}

// sameContent says whether visitors see no difference between two generations.
func sameContent(a, b *store.Entry) bool {
	return !a.Foreign && a.SHA256 == b.SHA256 && a.Length == b.Length && a.Status == b.Status && a.ETag == b.ETag &&
		slices.Equal(a.Tags, b.Tags) && maps.EqualFunc(a.Header, b.Header, slices.Equal)
}

// conclude records what became of a request that this search has claimed, unless
// the publish has done so. A crash before leaves it in progress until the lease
// would have ended. It is harmless after a publish whose outcome is unknown: either
// that has completed the request, and this changes nothing, or it cannot land any
// more, since it demands that the request is in progress.
func (s *search) conclude(ctx context.Context, lease store.Lease, o outcome) {
	if s.claim == nil || o.page != nil && o.err == nil {
		return
	}
	failure := "another writer was faster"
	switch {
	case o.err != nil:
		failure = o.err.Error()
	case o.refused != "":
		failure = uncacheable(o.refused).Error()
	}
	settle, cancel := s.c.settling(ctx)
	defer cancel()
	if err := s.c.meta.EndRequest(settle, lease, store.RequestEnd{Failure: failure}); err != nil {
		s.c.log.Warn("the failure of a request could not be recorded, it counts as in progress for a while",
			"key", s.key.String(), "request", s.claim.Key, "error", err)
	}
}

func uncacheable(reason string) error { return fmt.Errorf("%w: %s", ErrUncacheable, reason) }

// entry describes the generation that a rendering made.
func (s *search) entry(got rendering, at timing, seq int64) store.Entry {
	res := got.response
	sum := sha256.Sum256(res.body)
	digest := hex.EncodeToString(sum[:])
	etag := res.header.Get("Etag")
	if !httpcache.ValidETag(etag) {
		etag = `"` + digest[:32] + `"`
	}
	id := s.c.newGenerationID()
	e := store.Entry{
		BodyKey:      store.BodyPrefix(s.pk) + id,
		GeneratedAt:  at.generatedAt,
		Revalidate:   s.c.shorten(wholeSeconds(got.verdict.Revalidate), s.route.jitter),
		ETag:         etag,
		GenerationID: id,
		Key:          s.key.Text,
		Route:        s.route.Name,
		Status:       res.status,
		Header:       httpcache.StoredHeader(res.header),
		SHA256:       digest,
		Length:       int64(len(res.body)),
		Tags:         httpcache.Tags(res.header),
		Stale:        store.ClampInterval(got.verdict.Stale.Truncate(time.Second)),
		PurgeSeq:     seq,
		RenderTime:   max(at.took.Round(time.Millisecond), time.Millisecond),
	}
	e.Expires = expiry(e, s.c.now(), s.c.cfg.Retention)
	return e
}

// expiry is when the table may forget an entry: garbage collection, a day
// beyond all that could still need it; never, if it is pinned for ever. A negative
// answer is not retained beyond its windows: what made it is not worth it.
func expiry(e store.Entry, now time.Time, retention time.Duration) time.Time {
	if !e.PinnedUntil.Before(store.Forever()) {
		return time.Time{}
	}
	if isNegative(e.Status) {
		retention = 0
	}
	t := now.Add(retention)
	if e.StaleUntil().After(t) {
		t = e.StaleUntil()
	}
	if e.PinnedUntil.After(t) {
		t = e.PinnedUntil
	}
	return t.Add(24 * time.Hour).Truncate(time.Second)
}

// failed leaves the lock behind as a back-off, which the whole fleet respects,
// and finds the best there is to serve meanwhile.
func (s *search) failed(ctx context.Context, lease store.Lease, rec store.Record, got rendering, took time.Duration) outcome {
	pause := s.c.backOff(lease.Failures())
	s.c.log.Warn("rendering failed", "key", s.key.String(), "error", got.failure, "took", took.Round(time.Millisecond),
		"failures", lease.Failures()+1, "next", pause.Round(time.Millisecond))
	settle, cancel := s.c.settling(ctx)
	defer cancel()
	if err := s.c.meta.BackOff(settle, lease, pause); err != nil {
		s.c.log.Error("the back-off could not be stored", "key", s.key.String(), "error", err)
	}
	res := orPlain(got.failed, got.failure)
	if stale := s.f.stale.Load(); stale != nil {
		stale.nextTry.put(stale, pause)
	}
	o := s.unavailable(ctx, rec, got.failure, detailFailed)
	o.failed = res
	if o.page == nil {
		// Where there is a page to serve, visitors must not be shown the failure,
		// though the page may be gone from memory by then.
		s.c.negative.put(s.key, &negativeEntry{readAt: s.latest.began, until: time.Now().Add(pause), failed: res}, s.f)
	}
	return o
}

// unavailable ends a search without a new page: what is stored may be served if
// it allows that while the origin fails. What a hard purge covers never is.
func (s *search) unavailable(ctx context.Context, rec store.Record, cause error, detail string) outcome {
	o := outcome{err: cause, detail: detail}
	if !servable(rec.Entry, rec.Purges, s.c.now()) {
		return o
	}
	p, err := s.load(ctx, rec)
	if err != nil {
		return o
	}
	o.page, o.how = p, fromStore
	return o
}

// servable says whether an entry may be served while the origin, or the store,
// fails. The windows of a pinned entry may end long before its pin does, and nothing
// is rendered meanwhile: it is served until a render succeeds.
func servable(e *store.Entry, c store.PurgeState, now time.Time) bool {
	switch store.Freshness(e, c, now) {
	case store.Fresh, store.Stale:
		return true
	case store.Expired:
		wasPinned := !e.PinnedUntil.IsZero() && !e.OutlivesMarks(c.MarkLifetime, now)
		return wasPinned || now.Before(e.FreshUntil().Add(httpcache.StaleIfError(e.Header)))
	}
	return false
}

// storeFailed ends a search that the store did not answer.
func (s *search) storeFailed(ctx context.Context, err error) outcome {
	if ctx.Err() != nil {
		return outcome{err: context.Cause(ctx), detail: detailClosing}
	}
	s.c.complaints.log("the store failed", "key", s.key.String(), "error", err)
	return outcome{err: err, detail: detailStoreError}
}

// notPublished lets those who waited, and those who come in the next seconds,
// have what was rendered, which may be shared, though it could not be stored.
func (s *search) notPublished(err error) outcome {
	s.c.complaints.log("rendered, but not published", "key", s.key.String(), "error", err)
	p := (*s.f.rendered.Load())()
	s.keepUnpublished(p)
	return outcome{page: p, how: unpublished, err: err, detail: detailUnpublished}
}

// release gives the lease up; that it fails masks nothing, since it expires.
func (s *search) release(ctx context.Context, lease store.Lease) {
	settle, cancel := s.c.settling(ctx)
	defer cancel()
	if err := s.c.meta.Release(settle, lease); err != nil {
		s.c.log.Warn("a lease could not be released and is left to expire", "key", s.key.String(), "error", err)
	}
}

// settling is a context for what must still be said when the flight is over.
func (c *Cache) settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTime)
}

// settleTime bounds the last words of a flight that is cancelled.
const settleTime = 5 * time.Second

func (s *search) foundHow() provenance {
	if s.waited {
		return fromWait
	}
	return fromStore
}

// wholeSeconds rounds a window down to what the table can say, at least one second.
func wholeSeconds(d time.Duration) time.Duration {
	return max(store.ClampInterval(d).Truncate(time.Second), time.Second)
}

// keepLease keeps a lease of the cache's store.
func (c *Cache) keepLease(ctx context.Context, l store.Lease, acquiredAt time.Time) (held context.Context, stop func()) {
	return store.KeepLease(ctx, l, acquiredAt, c.meta.Refresh, c.log)
}
