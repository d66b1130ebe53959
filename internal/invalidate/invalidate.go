// Package invalidate purges the pages that unsafe requests, such as POST, have changed (RFC 9111,
// section 4.4).
//
// The problem: anyone may send such requests, as often as they like. Each must have its effect,
// soon, or visitors see pages without their changes. But each purge is a row of the log that all
// nodes read, and makes the origin render the page again.
//
// The model:
//
//	               ┌─ the page was purged within a multiple of its render time, by any node: wait
//	request ──► page ─ all clients whose requests wait for the page have used up their credit: wait
//	               └─ read the record: an entry, or a lease? ──► purge
//
// Requests that wait are merged: one purge of a page, after the last of them, is for all. So
// a page is there for most of the time, however often it is posted to. If there are more pages
// that wait than a client, or the process, may have, further ones are dropped from the memory of
// this process only, and the log says so.
//
// Guarantees:
//   - A request whose page is accepted is followed by a purge of the page and its stored variants
//     that was committed after the request, as long as the process lives and the store answers
//     within ten seconds. If the purge fails, the log says so, and the process itself has dropped
//     the page.
//   - Pages that are not stored and not being rendered cost a read, and write no row.
//   - A pinned page or variant is left as it is: only an operator ends a pin.
//   - Pages, clients, concurrent reads and purges are bounded.
package invalidate

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

const (
	// A page is purged once in invalidateRenders times its render time, so that it is stored
	// for more than nine tenths of the time, but at least once in maxInvalidateEvery and at
	// most once in invalidateEvery.
	invalidateRenders  = 16
	invalidateEvery    = time.Second
	maxInvalidateEvery = time.Minute
	// A purge costs minPurgeCost at least, for the log.
	minPurgeCost = 50 * time.Millisecond
	// maxInvalidations bounds the pages that wait for a purge, or were purged within their
	// interval. A client may have maxClientInvalidations.
	maxInvalidations       = 4096
	maxClientInvalidations = maxInvalidations / 4
	// maxInvalidating bounds the concurrent reads and purges.
	maxInvalidating = 64
	// maxListed bounds the listed variants of a page that one purge covers by their keys, each of
	// which it reads first. A page with more is purged with all of its variants. With the longest
	// keys they are nearly [store.MaxPurgeSize].
	maxListed = 50
	// maxSenders bounds the clients that are considered when a purge is charged to one.
	maxSenders = 8
	// maxSenderVariants bounds the variants that the senders of requests get and that are
	// read in addition, because another service may have stored and not listed them.
	maxSenderVariants = 4
	// invalidateFor is how long a purge that fails is repeated, with exponential backoff
	// from firstInvalidate.
	invalidateFor   = 10 * time.Second
	firstInvalidate = 100 * time.Millisecond
	// attemptTime bounds one attempt.
	attemptTime = 5 * time.Second
)

// Options are what [Purges] need of a cache. All functions must be safe for concurrent use; those
// with a context return soon after it is done.
type Options struct {
	// Variants returns up to limit variants of a page that may be stored, and whether there are
	// more.
	Variants func(ctx context.Context, page store.Key, limit int) (variants []store.Key, more bool, err error)
	// Records reads the records of pages, in their order.
	Records func(ctx context.Context, pages []store.Key) ([]store.Record, error)
	// Pinned reports whether a page is pinned, and no purge has ended that.
	Pinned func(rec store.Record) bool
	// Target returns the target of one page, and Targets the targets of a page and of all its
	// variants, however many there are.
	Target  func(page store.Key) store.PurgeTarget
	Targets func(page store.Key) ([]store.PurgeTarget, error)
	// Commit executes a purge. If it returns no error, the purge has taken effect in this process.
	Commit func(ctx context.Context, p store.Purge) (store.Receipt, error)
	// Drop makes this process read pages again before it serves them, whatever the store does. It
	// does not block.
	Drop func(pages ...store.Key)
	// Down returns an error while the store is known to be unreachable: no purge is attempted.
	Down func() error
	// Begin and End are called when the work of a page begins and ends.
	Begin, End func()
	// Complain logs an error about a single page; it may suppress lines.
	Complain func(msg string, args ...any)

	// Freezes: the process may be frozen when it has nothing to do for a request, so that no purge
	// waits.
	Freezes bool
	Now     func() time.Time // by which records are judged
	Random  func() uint64
}

// A Change is a page that an unsafe request has changed.
type Change struct {
	Page    store.Key // without a variant
	Variant store.Key // the page that the sender of the request gets: Page, or a variant of it
	// Hard: the page is purged hard, and may not be served again.
	Hard bool
	// RenderTime is how long a render of the page is expected to take, if its entry does not say;
	// 0 if that is unknown.
	RenderTime time.Duration
}

// Purges are the purges of this process that unsafe requests have caused. All methods are safe
// for concurrent use.
type Purges struct {
	o   Options
	ctx context.Context //nolint:containedctx // of all reads and purges

	mu     sync.Mutex
	byPage map[store.Key]*invalidation // guarded by mu: by the key without a variant
	// byClient is how many of them a client has caused.
	byClient map[netip.Prefix]int // guarded by mu
	credit   credit               // guarded by mu
	closed   bool                 // guarded by mu

	turns   chan struct{} // has an element for each read or purge in progress
	closing chan struct{} // closed by Shut
	wg      sync.WaitGroup
}

// New returns Purges without any. Reads and purges end with ctx.
func New(ctx context.Context, o Options) *Purges {
	return &Purges{
		o: o, ctx: ctx, byPage: make(map[store.Key]*invalidation), byClient: make(map[netip.Prefix]int), credit: make(credit),
		turns: make(chan struct{}, maxInvalidating), closing: make(chan struct{}),
	}
}

// An invalidation is the work of one page. It ends when the page may be purged again and no
// request waits for that; in a process that freezes, after its purge.
type invalidation struct {
	page       store.Key
	client     netip.Prefix  // that caused it
	renderTime time.Duration // of Change

	changes changes       // guarded by Purges.mu: by the requests that no purge covers yet
	waits   bool          // guarded by Purges.mu: run waits for that
	tried   chan struct{} // closed when the first purge has succeeded, failed once, or must wait
	more    chan struct{} // has an element if another client's credit may allow a purge that waits for credit

	// Only run uses these.
	charged bool      // a client was charged for the next purge, which is due
	due     time.Time // when that client's credit allows it
	seq     int64     // of the last purge, 0 before the first
}

// changes are what one purge of a page covers. The zero value is nothing.
type changes struct {
	// variants are the pages that the senders of requests get, at most maxSenderVariants.
	variants []store.Key
	clients  []netip.Prefix // that sent the requests, at most maxSenders
	hard     bool
}

func (w *changes) add(o changes) {
	for _, k := range o.variants {
		if len(w.variants) < maxSenderVariants && !slices.Contains(w.variants, k) {
			w.variants = append(w.variants, k)
		}
	}
	for _, client := range o.clients {
		if len(w.clients) < maxSenders && !slices.Contains(w.clients, client) {
			w.clients = append(w.clients, client)
		}
	}
	w.hard = w.hard || o.hard
}

// Add causes a purge of a page that a request has changed, and of all its variants. The
// result is closed when that was made, has failed or must wait; it is nil if the purge
// follows later, or cannot be made. client is the sender, not valid if clients are not
// distinguished.
func (i *Purges) Add(changed Change, client netip.Prefix) (tried <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w := changes{variants: []store.Key{changed.Variant}, hard: changed.Hard}
	if client.IsValid() {
		w.clients = []netip.Prefix{client}
	}
	if v := i.byPage[changed.Page]; v != nil {
		if v.waits && !slices.Contains(v.changes.clients, client) {
			select {
			case v.more <- struct{}{}:
			default:
			}
		}
		v.changes.add(w)
		return nil
	}
	if i.closed || len(i.byPage) >= maxInvalidations || client.IsValid() && i.byClient[client] >= maxClientInvalidations {
		i.o.Complain("a page that an unsafe request has changed is dropped by this server only: too many are being purged, or the server is closing",
			"key", changed.Page.String(), "purging", len(i.byPage), "client", client)
		i.o.Drop(changed.Page, changed.Variant)
		return nil
	}
	v := &invalidation{
		page: changed.Page, client: client, renderTime: changed.RenderTime, changes: w,
		tried: make(chan struct{}), more: make(chan struct{}, 1),
	}
	i.byPage[v.page] = v
	i.byClient[client]++
	if due, _ := i.credit.cheapest(w.clients, 0, time.Now()); time.Until(due) <= 0 {
		i.o.Drop(changed.Page, changed.Variant) // however long the store takes
	}
	i.o.Begin()
	i.wg.Go(func() {
		defer i.o.End()
		i.run(v)
	})
	return v.tried
}

// run purges a page, and again as long as requests have arrived since.
func (i *Purges) run(v *invalidation) {
	for tried := v.tried; ; tried = nil {
		w, ok := i.take(v)
		if !ok {
			return
		}
		next := i.purge(v, w, tried)
		if !i.o.Freezes {
			i.pause(v, time.Until(next))
		}
	}
}

// take returns what is to be purged. If there is nothing, the invalidation ends.
func (i *Purges) take(v *invalidation) (w changes, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w, v.changes, v.waits = v.changes, changes{}, false
	select {
	case <-v.more:
	default:
	}
	if len(w.variants) > 0 {
		return w, true
	}
	delete(i.byPage, v.page)
	if i.byClient[v.client]--; i.byClient[v.client] == 0 {
		delete(i.byClient, v.client)
	}
	return changes{}, false
}

// restore puts back what could not be purged yet.
func (i *Purges) restore(v *invalidation, w changes) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.add(v.changes)
	v.changes = w
}

// crowded reports whether the pages are half as many as there may be, of all clients or of
// the one that has caused v.
func (i *Purges) crowded(v *invalidation) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.byPage) > maxInvalidations/2 || v.client.IsValid() && i.byClient[v.client] > maxClientInvalidations/2
}

// pause waits for d, until another client's credit may allow a purge that waits, or until the
// cache closes.
func (i *Purges) pause(v *invalidation, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-v.more:
	case <-i.closing:
	}
}

// purge repeats a purge until it succeeds, for invalidateFor, and closes tried, unless it is
// nil, after the first attempt. While the cache closes, there is one more attempt. It returns
// when the page may be purged next. A purge that must wait until then is restored.
func (i *Purges) purge(v *invalidation, w changes, tried chan struct{}) (next time.Time) {
	began := time.Now()
	for round := 0; ; round++ {
		last := i.isClosing() || time.Since(began) >= invalidateFor
		got, err := i.purgeOnce(v, w)
		if err != nil {
			i.o.Drop(append([]store.Key{v.page}, w.variants...)...) // this process need not wait for the store
		}
		if tried != nil {
			close(tried)
			tried = nil
		}
		switch {
		case err == nil && got.wait > 0:
			i.restore(v, w)
			return time.Now().Add(got.wait)
		case err == nil && !got.made && i.crowded(v):
			return began // in a flood of invented URLs, those that were not purged make room at once
		case err == nil:
			return began.Add(got.every)
		case last:
			i.o.Complain("failed to purge a page that an unsafe request has changed: other servers serve it until it expires",
				"key", v.page.String(), "error", err)
			return began.Add(invalidateEvery)
		}
		i.pause(v, backoff.Jitter(backoff.Exponential(firstInvalidate, time.Second, round), i.o.Random()))
	}
}

// A purgeAttempt is how an attempt to purge a page ended.
type purgeAttempt struct {
	made  bool          // false if there was nothing to purge, or the purge must wait
	wait  time.Duration // until the purge may be made; 0: it was, or there was nothing to purge
	every time.Duration // how often the page may be purged
}

// purgeOnce purges what is stored of a page and its variants, unless the limits make the purge
// wait.
func (i *Purges) purgeOnce(v *invalidation, w changes) (purgeAttempt, error) {
	none := purgeAttempt{every: invalidateEvery}
	if err := i.o.Down(); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(i.ctx, attemptTime)
	defer cancel()
	select {
	case i.turns <- struct{}{}:
		defer func() { <-i.turns }()
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
	found, err := i.find(ctx, v, w)
	if err != nil || len(found.targets) == 0 {
		return none, err
	}
	every := min(max(invalidateRenders*found.slowest, invalidateEvery), maxInvalidateEvery)
	if wait := i.limit(v, w, found, every); wait > 0 {
		return purgeAttempt{wait: wait, every: every}, nil
	}
	receipt, err := i.o.Commit(ctx, store.Purge{Targets: found.targets, Hard: w.hard})
	if err != nil {
		return none, err
	}
	v.seq, v.charged = receipt.Seq, false
	return purgeAttempt{made: true, every: every}, nil
}

// limit returns how long a purge must wait; 0 if it may be made. A process that freezes, or
// ends, cannot wait.
func (i *Purges) limit(v *invalidation, w changes, found found, every time.Duration) time.Duration {
	if i.o.Freezes || i.isClosing() {
		return 0
	}
	// Another node may have purged the page. Its clock may be ahead. The nodes that wait for the
	// same moment must not purge at the same time.
	if wait := min(found.purgedAt.Add(every).Sub(i.o.Now()), every); wait > 0 {
		return wait + backoff.FullJitter(every/8, i.o.Random())
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if due, client := i.credit.cheapest(w.clients, found.cost, time.Now()); !v.charged || due.Before(v.due) {
		i.credit.charge(client, found.cost, time.Now())
		v.charged, v.due = true, due
	}
	wait := max(time.Until(v.due), 0)
	v.waits = wait > 0
	return wait
}

// found is what of a page may be served, and must be purged.
type found struct {
	targets  []store.PurgeTarget // none if there is nothing
	cost     time.Duration       // of rendering it again
	slowest  time.Duration       // of the renders; 0: unknown
	purgedAt time.Time           // when another node purged one of them last, zero if none has
}

// find returns the page and its variants that may be served and are not pinned.
func (i *Purges) find(ctx context.Context, v *invalidation, w changes) (found, error) {
	listed, more, err := i.o.Variants(ctx, v.page, maxListed)
	if err != nil {
		return found{}, err
	}
	pages := []store.Key{v.page}
	for _, k := range append(w.variants, listed...) {
		if !slices.Contains(pages, k) {
			pages = append(pages, k)
		}
	}
	// Read after the list: a variant that is not in it, or has no lease, is rendered after
	// the change.
	served, pinned, err := i.judge(ctx, pages, w.hard)
	if err != nil {
		return found{}, err
	}
	f := v.weigh(served)
	switch {
	case more && len(pinned) == 0:
		f.targets, err = i.o.Targets(v.page)
		return f, err
	case more:
		i.o.Complain("not all variants of a page that an unsafe request has changed are purged: there are too many, and some are pinned",
			"key", v.page.String(), "pinned", pinned[0].String())
	}
	if _, isServed := served[v.page]; len(served) > 0 && !isServed && !slices.Contains(pinned, v.page) {
		served[v.page] = store.Record{} // for the caches in front, which may know no variants
	}
	for _, k := range pages {
		if _, isServed := served[k]; isServed {
			f.targets = append(f.targets, i.o.Target(k))
		}
	}
	return f, nil
}

// weigh returns what a purge of pages costs, and when other nodes have purged them.
func (v *invalidation) weigh(served map[store.Key]store.Record) (f found) {
	for _, rec := range served {
		took := v.renderTime
		if e := rec.Entry; e != nil && e.RenderTime > 0 {
			took = e.RenderTime
		}
		f.cost += max(took, minPurgeCost)
		f.slowest = max(f.slowest, took)
		if rec.Purges.At.After(f.purgedAt) && rec.Purges.Seq != v.seq {
			f.purgedAt = rec.Purges.At
		}
	}
	f.cost = min(f.cost, creditLimit) // otherwise it could never be paid
	return f
}

// judge reads the records of pages, and returns those that are pinned, and of the others
// those that may be served, by their keys.
func (i *Purges) judge(ctx context.Context, pages []store.Key, hard bool) (served map[store.Key]store.Record, pinned []store.Key, err error) {
	records, err := i.o.Records(ctx, pages)
	if err != nil {
		return nil, nil, err
	}
	served = make(map[store.Key]store.Record)
	for n, rec := range records {
		switch now := i.o.Now(); {
		case i.o.Pinned(rec) && store.Freshness(rec.Entry, rec.Purges, now) == store.Fresh:
			pinned = append(pinned, pages[n])
		case i.mayBeServed(rec, hard):
			served[pages[n]] = rec
		}
	}
	return served, pinned, nil
}

// mayBeServed reports whether a page has a generation that may be served, or, unless the purge
// is hard, one that is fresh, or will have one whose rendering has begun: it is published under
// the lease only, which may have expired by our clock and not by its holder's. A render that
// begins after this read is newer than the change.
func (i *Purges) mayBeServed(rec store.Record, hard bool) bool {
	if rec.Lock != nil && !rec.Lock.IsBackOff() {
		return true
	}
	state := store.Freshness(rec.Entry, rec.Purges, i.o.Now())
	if !hard {
		return state == store.Fresh
	}
	return state != store.Missing && state != store.Purged
}

func (i *Purges) isClosing() bool {
	select {
	case <-i.closing:
		return true
	default:
		return false
	}
}

// Shut prevents further purges, and makes those that wait begin.
func (i *Purges) Shut() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.closed = true
		close(i.closing)
	}
}

// Wait waits until all purges have ended, after Shut. The error is the cause of the end of ctx.
func (i *Purges) Wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		i.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
