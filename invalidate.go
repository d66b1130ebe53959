package isr

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// invalidations purge the pages that unsafe requests have changed. Anyone may send such
// requests, as often as they like, so what they cost others is limited:
//
//	               ┌─ the page was purged within a multiple of its render time, by any node: wait
//	request ──► page ─ all clients whose requests wait for the page have used up their credit: wait
//	               └─ read the record: an entry, or a lease? ──► purge
//
// Requests that wait are merged: one purge of a page, after the last of them, is for all. So
// a page is there for most of the time, however often it is posted to, and no request is
// lost as long as the process lives. If there are more pages that wait than a client, or the
// process, may have, further ones are dropped from the memory of this process only, and the
// log says so.

const (
	// A page is purged once in invalidateRenders times its render time, so that it is stored
	// for more than nine tenths of the time, but at least once in maxInvalidateEvery and at
	// most once in invalidateEvery.
	invalidateRenders  = 16
	invalidateEvery    = time.Second
	maxInvalidateEvery = time.Minute
	// A client's purges may cost the origin a second of rendering per second, and creditLimit
	// at once. A purge counts as minPurgeCost at least, for the log.
	creditLimit  = 30 * time.Second
	minPurgeCost = 50 * time.Millisecond
	// maxCreditClients bounds the clients whose credit is known. Those beyond it share one.
	maxCreditClients = 4096
	// maxInvalidations bounds the pages that wait for a purge, or were purged within their
	// interval. A client may have maxClientInvalidations.
	maxInvalidations       = 4096
	maxClientInvalidations = maxInvalidations / 4
	// maxInvalidating bounds the concurrent reads and purges.
	maxInvalidating = 64
	// maxSenderVariants bounds the variants that the senders of requests get and that are
	// read in addition, because another service may have stored and not listed them.
	maxSenderVariants = 4
	// invalidateFor is how long a purge that fails is repeated, with exponential backoff
	// from firstInvalidate.
	invalidateFor   = 10 * time.Second
	firstInvalidate = 100 * time.Millisecond
)

// invalidations are the purges of this process that unsafe requests have caused. All
// methods are safe for concurrent use.
type invalidations struct {
	c *Cache

	mu     sync.Mutex
	byPage map[store.Key]*invalidation // guarded by mu: by the key without a variant
	// byClient is how many of them a client has caused.
	byClient map[netip.Prefix]int // guarded by mu
	credit   credit               // guarded by mu
	closed   bool                 // guarded by mu

	turns   chan struct{} // has an element for each read or purge in progress
	closing chan struct{} // closed by shut
	wg      sync.WaitGroup
}

func newInvalidations(c *Cache) *invalidations {
	return &invalidations{
		c: c, byPage: make(map[store.Key]*invalidation), byClient: make(map[netip.Prefix]int), credit: make(credit),
		turns: make(chan struct{}, maxInvalidating), closing: make(chan struct{}),
	}
}

// An invalidation is the work of one page. It ends when the page may be purged again and no
// request waits for that; in a process that freezes, after its purge.
type invalidation struct {
	page   store.Key
	client netip.Prefix // that caused it
	// renderTime is how long a render of the page is expected to take, if its entry does not
	// say; 0: unknown.
	renderTime time.Duration

	changes changes       // guarded by invalidations.mu: by the requests that no purge covers yet
	charged bool          // guarded by invalidations.mu: a client was charged for the next purge, which is due
	due     time.Time     // guarded by invalidations.mu: when that client's credit allows it
	waits   bool          // guarded by invalidations.mu: run waits for that
	seq     int64         // of the last purge, 0 before; only run uses it
	tried   chan struct{} // closed when the first purge has succeeded, failed once, or must wait
	more    chan struct{} // has an element if another client's credit may allow a purge that waits for credit
}

// changes are what one purge of a page covers. The zero value is nothing.
type changes struct {
	// variants are the pages that the senders of requests get, at most maxSenderVariants.
	variants []store.Key
	clients  []netip.Prefix // that sent the requests, at most maxPayers
	hard     bool
}

func (w *changes) add(o changes) {
	for _, k := range o.variants {
		if len(w.variants) < maxSenderVariants && !slices.Contains(w.variants, k) {
			w.variants = append(w.variants, k)
		}
	}
	for _, client := range o.clients {
		if len(w.clients) < maxPayers && !slices.Contains(w.clients, client) {
			w.clients = append(w.clients, client)
		}
	}
	w.hard = w.hard || o.hard
}

// add causes a purge of a page that a request has changed, and of all its variants. The
// result is closed when that was made, has failed or must wait; it is nil if the purge
// follows later, or cannot be made. client is the sender, not valid if clients are not
// distinguished.
func (i *invalidations) add(changed changedPage, client netip.Prefix) (tried <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w := changes{variants: []store.Key{changed.variant}, hard: changed.mode == UnsafeHard}
	if client.IsValid() {
		w.clients = []netip.Prefix{client}
	}
	if v := i.byPage[changed.page]; v != nil {
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
		i.c.complaints.log("a page that an unsafe request has changed is dropped by this server only: too many are being purged, or the server is closing",
			"key", changed.page.String(), "purging", len(i.byPage), "client", client)
		i.c.reload(changed.page, changed.variant)
		return nil
	}
	v := &invalidation{
		page: changed.page, client: client, renderTime: changed.renderTime, changes: w,
		tried: make(chan struct{}), more: make(chan struct{}, 1),
	}
	i.byPage[v.page] = v
	i.byClient[client]++
	if due, _ := i.credit.cheapest(w.clients, 0, time.Now()); time.Until(due) <= 0 {
		i.c.reload(changed.page, changed.variant) // however long the store takes
	}
	i.c.activity.begin()
	i.wg.Go(func() {
		defer i.c.activity.end()
		i.run(v)
	})
	return v.tried
}

// run purges a page, and again as long as requests have arrived since.
func (i *invalidations) run(v *invalidation) {
	for tried := v.tried; ; tried = nil {
		w, ok := i.take(v)
		if !ok {
			return
		}
		next := i.purge(v, w, tried)
		if !i.c.cfg.Freezes {
			i.pause(v, time.Until(next))
		}
	}
}

// take returns what is to be purged. If there is nothing, the invalidation ends.
func (i *invalidations) take(v *invalidation) (w changes, ok bool) {
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
func (i *invalidations) restore(v *invalidation, w changes) {
	i.mu.Lock()
	defer i.mu.Unlock()
	w.add(v.changes)
	v.changes = w
}

// crowded reports whether the pages are half as many as there may be, of all clients or of
// the one that has caused v.
func (i *invalidations) crowded(v *invalidation) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.byPage) > maxInvalidations/2 || v.client.IsValid() && i.byClient[v.client] > maxClientInvalidations/2
}

// pause waits for d, until another client's credit may allow a purge that waits, or until the
// cache closes.
func (i *invalidations) pause(v *invalidation, d time.Duration) {
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
func (i *invalidations) purge(v *invalidation, w changes, tried chan struct{}) (next time.Time) {
	began := time.Now()
	for round := 0; ; round++ {
		last := i.isClosing() || time.Since(began) >= invalidateFor
		got, err := i.purgeOnce(v, w)
		if err != nil {
			i.c.reload(append([]store.Key{v.page}, w.variants...)...) // this process need not wait for the store
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
			i.c.complaints.log("failed to purge a page that an unsafe request has changed: other servers serve it until it expires",
				"key", v.page.String(), "error", err)
			return began.Add(invalidateEvery)
		}
		i.pause(v, i.c.jitter(backoff.Exponential(firstInvalidate, time.Second, round)))
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
func (i *invalidations) purgeOnce(v *invalidation, w changes) (purgeAttempt, error) {
	none := purgeAttempt{every: invalidateEvery}
	if i.c.storeDown() != nil {
		return none, errStoreSlow
	}
	ctx, cancel := context.WithTimeout(i.c.ctx, settleTime)
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
	receipt, err := i.c.commitPurge(ctx, store.Purge{Targets: found.targets, Hard: w.hard}, func(seq int64) { i.note(v, found.targets, seq) })
	if err != nil {
		return none, err
	}
	i.c.log.Info("purged after an unsafe request", "targets", describeTargets(found.targets), "hard", w.hard, "seq", receipt.Seq)
	return purgeAttempt{made: true, every: every}, nil
}

// limit returns how long a purge must wait; 0 if it may be made. A process that freezes, or
// ends, cannot wait.
func (i *invalidations) limit(v *invalidation, w changes, found found, every time.Duration) time.Duration {
	if i.c.cfg.Freezes || i.isClosing() {
		return 0
	}
	// Another node may have purged the page. Its clock may be ahead. The nodes that wait for the
	// same moment must not purge at the same time.
	if wait := min(found.purgedAt.Add(every).Sub(i.c.now()), every); wait > 0 {
		return wait + backoff.FullJitter(every/8, i.c.cfg.Random())
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

// note records that a purge was made.
func (i *invalidations) note(v *invalidation, targets []store.PurgeTarget, seq int64) {
	i.mu.Lock()
	v.charged = false
	i.mu.Unlock()
	v.seq = seq
	for _, t := range targets {
		k := store.Key{Tenant: t.Tenant, Text: t.Value}
		i.c.flights.postedTo(k, seq)
		i.c.unstored.postedTo(k, seq)
	}
}

// A credit is, by client, until when it has paid for its purges: in the past, or absent, if it
// has all its credit.
type credit map[netip.Prefix]time.Time

// cheapest returns when the first of clients can pay a cost, and which one that is. Clients
// that are not distinguished can pay at once.
func (c credit) cheapest(clients []netip.Prefix, cost time.Duration, now time.Time) (due time.Time, client netip.Prefix) {
	for n, candidate := range clients {
		if at := c.paidUntil(candidate, now).Add(cost - creditLimit); n == 0 || at.Before(due) {
			due, client = at, candidate
		}
	}
	return due, client
}

// paidUntil returns until when a client has paid, not before now.
func (c credit) paidUntil(client netip.Prefix, now time.Time) time.Time {
	paid, known := c[client]
	if !known && len(c) >= maxCreditClients {
		paid = c[netip.Prefix{}]
	}
	if paid.Before(now) {
		return now
	}
	return paid
}

// charge makes a client pay.
func (c credit) charge(client netip.Prefix, cost time.Duration, now time.Time) {
	if !client.IsValid() {
		return
	}
	if _, known := c[client]; !known && len(c) >= maxCreditClients {
		for other, paid := range c {
			if paid.Before(now) {
				delete(c, other)
			}
		}
		if len(c) >= maxCreditClients {
			c[netip.Prefix{}] = c.paidUntil(client, now).Add(cost)
			return
		}
	}
	c[client] = c.paidUntil(client, now).Add(cost)
}

// found is what of a page may be served, and must be purged.
type found struct {
	targets  []store.PurgeTarget // none if there is nothing
	cost     time.Duration       // of rendering it again
	slowest  time.Duration       // of the renders; 0: unknown
	purgedAt time.Time           // when another node purged one of them last, zero if none has
}

// find returns the page and its variants that may be served and are not pinned.
func (i *invalidations) find(ctx context.Context, v *invalidation, w changes) (found, error) {
	listed, more, err := i.c.listedVariants(ctx, v.page, maxInvalidatedVariants)
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
		f.targets, err = i.c.purgeTargets([]store.PurgeTarget{PurgeKey(v.page)})
		return f, err
	case more:
		i.c.complaints.log("not all variants of a page that an unsafe request has changed are purged: there are too many, and some are pinned",
			"key", v.page.String(), "pinned", pinned[0].String())
	}
	if _, isServed := served[v.page]; len(served) > 0 && !isServed && !slices.Contains(pinned, v.page) {
		served[v.page] = store.Record{} // for the caches in front, which may know no variants
	}
	for _, k := range pages {
		if _, isServed := served[k]; isServed {
			t := PurgeKey(k)
			t.PK = i.c.cfg.Partition(k)
			f.targets = append(f.targets, t)
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
func (i *invalidations) judge(ctx context.Context, pages []store.Key, hard bool) (served map[store.Key]store.Record, pinned []store.Key, err error) {
	records, err := i.c.readAll(ctx, pages)
	if err != nil {
		return nil, nil, err
	}
	served = make(map[store.Key]store.Record)
	for n, rec := range records {
		switch now := i.c.now(); {
		case i.c.isPinned(rec) && store.Freshness(rec.Entry, rec.Purges, now) == store.Fresh:
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
func (i *invalidations) mayBeServed(rec store.Record, hard bool) bool {
	if isLease(rec.Lock) {
		return true
	}
	state := store.Freshness(rec.Entry, rec.Purges, i.c.now())
	if !hard {
		return state == store.Fresh
	}
	return state != store.Missing && state != store.Purged
}

func (i *invalidations) isClosing() bool {
	select {
	case <-i.closing:
		return true
	default:
		return false
	}
}

// shut prevents further purges, and makes those that wait begin.
func (i *invalidations) shut() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.closed {
		i.closed = true
		close(i.closing)
	}
}

// wait waits until all purges have ended, after shut.
func (i *invalidations) wait(ctx context.Context) error {
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
