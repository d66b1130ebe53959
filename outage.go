package isr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// An outage of a store costs visitors at most Config.StoreTimeout, and the origin
// one render per page and flight:
//
//	visitor -> memory -> unpublished pages -> breaker closed: flight -> the store
//	                           ^                                |
//	                           |              it fails, or takes too long
//	                           |                                v
//	                           +--- render, not stored <- unstored flight
//
// A flight whose store calls have failed, or have taken longer than
// Config.StoreTimeout in all, sends its waiters to the unstored flight of the key,
// which renders once, within the origin's budget, and never asks a store. The
// first flight goes on behind, and publishes what was rendered if the page is not
// stored yet: a store that is slow, and not down, gets its page, by one render.
// Once a store has failed several times in a row its circuit breaker opens, and no
// flight asks it until a probe in the background has had an answer.

const (
	// keepUnpublished bounds how long a page that could not be published is served
	// from this process. It is short because nobody else knows of that page: a
	// purge or rollback that this process cannot hear of leaves it in place for
	// that long, as does a newer page that another process publishes.
	keepUnpublished = 5 * time.Second
	// unpublishedShare is the part of Config.Memory that such pages may take, in
	// addition to it.
	unpublishedShare = 8
	// storeFailures is how many failures in a row, of different pages, open the
	// circuit breaker of a store. One success in between says that it is not down.
	storeFailures = 3
	// Probes begin a quarter of a second apart, with exponential backoff.
	firstProbe   = 250 * time.Millisecond
	maxProbe     = 10 * time.Second
	probeTimeout = 5 * time.Second
)

var errStoreSlow = errors.New("the store did not answer in time")

// A breaker is the circuit breaker of one store: the table, or the bodies. All
// methods are safe for concurrent use.
type breaker struct {
	store string // in the log
	log   *slog.Logger

	isOpen   atomic.Bool
	affected atomic.Int64 // requests that did without the store since it opened

	mu     sync.Mutex
	failed map[string]bool // guarded by mu: what could not be asked about since the last answer
	since  time.Time       // guarded by mu: when it opened
}

// noteAnswer notes that the store answered. It does not close the breaker: the probe
// does.
func (b *breaker) noteAnswer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.failed)
}

// noteFailure notes that the store could not be asked about something, which counts
// once however often it fails in a row: one body that cannot be read is no outage.
// If it says that the breaker opened, the caller begins to probe.
func (b *breaker) noteFailure(about string, err error) (opened bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOpen.Load() {
		return false
	}
	if b.failed == nil {
		b.failed = make(map[string]bool, storeFailures)
	}
	if b.failed[about] = true; len(b.failed) < storeFailures {
		return false
	}
	b.since = time.Now()
	b.affected.Store(0)
	b.isOpen.Store(true)
	b.log.Error("the store does not answer, and its circuit breaker opens: pages are rendered without being stored",
		"store", b.store, "error", err)
	return true
}

// probe asks the store, after first and then with exponential backoff, until it
// answers. Then the breaker closes.
func (b *breaker) probe(ctx context.Context, first time.Duration, ask func(context.Context) error, jitter func(time.Duration) time.Duration) {
	for wait, round := first, 1; ; wait, round = jitter(backoff.Exponential(firstProbe, maxProbe, round)), round+1 {
		if backoff.Wait(ctx, wait) != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, probeTimeout)
		err := ask(call)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if !unreachable(err) {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.failed)
	b.isOpen.Store(false)
	b.log.Info("the store answers, and its circuit breaker closes", "store", b.store,
		"affected", b.affected.Load(), "after", time.Since(b.since).Round(time.Millisecond))
}

// unreachable says that an error means that the store could not be asked. All
// errors of this package are answers, but for [store.ErrDenied]: permissions are those of a
// whole store, and one that denies access to one thing after the other is of no more use
// to visitors than one that is down.
func unreachable(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range []error{
		store.ErrLeaseLost, store.ErrMoved, store.ErrForeignLease, store.ErrPinned, store.ErrPurged, store.ErrNoVersion, ErrNoBody, store.ErrNotFound, store.ErrExists,
		store.ErrInvalidKey, store.ErrInvalidInput, ErrClosed,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	var held *store.HeldError
	var earlier *store.RequestError
	return !errors.As(err, &held) && !errors.As(err, &earlier)
}

// storeDown returns the breaker of a store that is not to be asked, or nil.
func (c *Cache) storeDown() *breaker {
	for _, b := range []*breaker{c.table, c.shelf} {
		if b.isOpen.Load() {
			return b
		}
	}
	return nil
}

// StoresDown returns which stores are not asked at the moment, since they did not
// answer: "table", "bodies". Visitors are served without them.
func (c *Cache) StoresDown() []string {
	var down []string
	for _, b := range []*breaker{c.table, c.shelf} {
		if b.isOpen.Load() {
			down = append(down, b.store)
		}
	}
	return down
}

// A patience is how long the visitors of one flight still wait for the store. It
// runs out only while it runs, which is while a store is being asked.
type patience struct {
	spent func() // called once, when it has run out

	mu    sync.Mutex
	left  time.Duration // guarded by mu
	since time.Time     // guarded by mu: when it began to run; zero while it does not
	timer *time.Timer   // guarded by mu
}

// run has the patience run out while a store is being asked. A nil patience has
// no end.
func (p *patience) run() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() || p.left <= 0 {
		return
	}
	p.since = time.Now()
	p.timer = time.AfterFunc(p.left, p.runOut)
}

func (p *patience) runOut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() || time.Since(p.since) < p.left {
		return // it rested in this very moment
	}
	p.since, p.left = time.Time{}, 0
	p.spent()
}

// rest stops the patience: something else than a store is being waited for.
func (p *patience) rest() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		return
	}
	p.timer.Stop()
	p.left -= time.Since(p.since)
	p.since = time.Time{}
	if p.left <= 0 {
		p.left = 0
		p.spent()
	}
}

// refill begins anew, unless it has run out: the store has answered.
func (p *patience) refill(d time.Duration) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left > 0 {
		p.left = d
	}
}

// unpublishedPages are pages that were rendered for visitors and could not be
// stored, for keepUnpublished each. They are no part of the memory tier: no other
// process knows of them, and what the store has is right.
type unpublishedPages struct {
	floor *floor
	byKey *otter.Cache[store.Key, *page] // nil: nothing is kept
}

func newUnpublishedPages(bytes int64, f *floor) (*unpublishedPages, error) {
	byKey, err := newPages(bytes)
	if err != nil {
		return nil, fmt.Errorf("the memory of unpublished pages: %w", err)
	}
	return &unpublishedPages{floor: f, byKey: byKey}, nil
}

// get returns a page that may still be served, or nil.
func (u *unpublishedPages) get(k store.Key) *page {
	if u.byKey == nil {
		return nil
	}
	p, _ := u.byKey.GetIfPresent(k)
	if p == nil {
		return nil
	}
	if time.Since(p.read.ended) >= min(keepUnpublished, p.entry.Revalidate) || u.floor.above(p.read.began) {
		u.forget(k)
		return nil
	}
	return p
}

// put keeps a page that a flight has rendered, unless the page was reloaded since
// the render began.
func (u *unpublishedPages) put(p *page, f *flight) {
	if u.byKey == nil {
		return
	}
	u.byKey.Compute(p.key, func(old *page, _ bool) (*page, otter.ComputeOp) {
		// Asked under the lock of the key, which forget takes after the reload was
		// recorded.
		if f.overtaken(p.read.began) {
			return old, otter.CancelOp
		}
		return p, otter.WriteOp
	})
}

func (u *unpublishedPages) forget(k store.Key) {
	if u.byKey != nil {
		u.byKey.Invalidate(k)
	}
}

// unpublishedPage makes the page of an entry that the store does not have. It is
// as old as its render.
func unpublishedPage(k store.Key, e store.Entry, at timing, body []byte) *page {
	return newPage(k, e, store.PurgeState{}, reading{at.began, at.began.Add(at.took)}, body)
}

func (s *search) keepUnpublished(p *page) { s.c.unpublished.put(p, s.f) }

// unstoredRun is the whole of a search that asks no store: it renders the page for
// those who wait now, by the same projection and under the same verdict as ever.
func (s *search) unstoredRun(ctx context.Context) outcome {
	defer s.leave(errNoVerdict)
	s.since = time.Now()
	if p := s.c.unpublished.get(s.key); p != nil {
		return outcome{page: p, how: unpublished, detail: detailStoreError} // of the flight before
	}
	for come := false; !come; {
		var err error
		if come, err = s.awaitTurn(ctx, store.Record{}); err != nil {
			return outcome{err: err, detail: detailOf(err)}
		}
	}
	s.patience.rest()                    // no store is waited for
	seq, known := s.c.follower.applied() // before the render: a purge from now on has a higher number
	got, at := s.render(ctx)
	s.leave(s.verdict(ctx, 0, got))
	switch {
	case ctx.Err() != nil:
		return outcome{err: context.Cause(ctx), detail: detailClosing}
	case got.failure != nil:
		return s.failedUnstored(got, at)
	case got.refused != "" && !got.verdict.Withdraws:
		return s.refused(at.began, got.refused)
	}
	if got.verdict.Withdraws { // the store may have a copy, and cannot be told
		s.endHere(at, got.refused)
	}
	if got.refused != "" {
		return outcome{refused: got.refused}
	}
	p := unpublishedPage(s.key, s.entry(got, at, seq), at, got.response.body)
	s.keepUnpublished(p)
	if known {
		s.c.flights.give(s.key, p)
	}
	return outcome{page: p, how: unpublished, detail: detailStoreError}
}

// awaitUnstored waits for the unstored flight of the key, if there is one and the
// store has kept visitors waiting for too long: this search is not to render what is
// being rendered. It does so once. It reports whether it has waited.
func (s *search) awaitUnstored(ctx context.Context) bool {
	if s.force || s.gaveWay || !s.isOverdue() {
		return false
	}
	f := s.c.unstored.current(s.key)
	if f == nil {
		return false
	}
	s.gaveWay = true
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	return true
}

func (s *search) isOverdue() bool {
	select {
	case <-s.f.overdue:
		return true
	default:
		return false
	}
}

// unstored is what was rendered without the store while this search was asking it,
// and may be published by the holder of the lease: nil unless the page is fresh, and
// nothing is stored that it would replace. It has the sequence that was known before
// the render, so that purges made since then cover it.
func (s *search) unstored(rec store.Record) *page {
	p := s.f.unstored.Load()
	if p == nil || s.force || rec.Entry != nil || rec.Malformed != nil ||
		s.c.floor.above(p.read.began) || s.f.overtaken(p.read.began) ||
		store.Freshness(&p.entry, s.f.known(rec.Purges), s.c.now()) != store.Fresh || s.staysInMemory(rec, &p.entry) {
		return nil
	}
	return p
}

// detailOf is the reason for which a turn at the origin did not come.
func detailOf(err error) string {
	var refused *BudgetError
	if errors.As(err, &refused) {
		return refused.detail()
	}
	return detailClosing
}

// failedUnstored remembers a failure in this process, since the table cannot hold
// the back-off.
func (s *search) failedUnstored(got rendering, at timing) outcome {
	res, pause := orPlain(got.failed, got.failure), s.c.backOff(0)
	s.c.log.Warn("rendering failed", "key", s.key.String(), "error", got.failure, "took", at.took.Round(time.Millisecond), "next", pause.Round(time.Millisecond))
	s.c.negative.put(s.key, &negativeEntry{readAt: at.began, until: time.Now().Add(pause), failed: res}, s.f)
	return outcome{err: got.failure, failed: res, detail: detailFailed}
}

// complaints are lines of the log about single pages that a store failed. There
// may be thousands a second: all but one in a while are counted only.
type complaints struct {
	logger *slog.Logger

	mu   sync.Mutex
	next time.Time // guarded by mu: when the next line may be written
	held int       // guarded by mu: lines that were not, since the last one
}

// complaintPause is how far apart such lines are at least.
const complaintPause = 10 * time.Second

func (c *complaints) log(msg string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.next) {
		c.held++
		return
	}
	c.logger.Error(msg, append(args, "more_since_last", c.held)...)
	c.next, c.held = now.Add(complaintPause), 0
}
