package isr

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/store"
)

// A request with an unsafe method (POST, PUT, DELETE, …) that succeeds may have changed its
// page: the stored copies of its URI must not be used any more (RFC 9111, section 4.4), nor
// those of Location and Content-Location if they are of the same host. They are purged hard
// before the visitor gets the answer, so that the page that the visitor sees next has the
// change.
//
//	answer 2xx, 3xx ──► drop the copy in memory ──► first purge of the page in a second?
//	                        yes: read the record: an entry, or a lease? ──► purge ──► answer
//	                        no:  answer; purge once more at the end of the second
//
// Visitors can send any number of such requests, for invented URLs too. What they can make
// grow is bounded by what is stored: the purge is of the keys of those variants of the page
// that have an entry or a lease, one PURGE row each (see listVariant). It writes no mark,
// which every process would keep in memory, except for a page with more than
// maxInvalidatedVariants listed variants, which gets one for all of them. A page without an
// entry gets no row, and each page is read and purged once a second at most. A purge that
// fails is repeated for some seconds.
//
// A pinned page or variant is left as it is: only an operator ends a pin.

const (
	// invalidateEvery is the shortest interval between two purges of a page.
	invalidateEvery = time.Second
	// maxInvalidations bounds the pages that are being purged by this process, or were
	// purged within the last invalidateEvery.
	maxInvalidations = 4096
	// maxInvalidating bounds the concurrent reads and purges.
	maxInvalidating = 64
	// maxInvalidatedVariants bounds the listed variants of a page that one purge covers by
	// their keys, each of which it reads first. Those of more are covered by a prefix mark.
	// With the longest keys they are nearly [store.MaxPurgeSize].
	maxInvalidatedVariants = 50
	// maxSenderVariants bounds the variants that the senders of requests get and that are
	// read in addition, because another service may have stored and not listed them.
	maxSenderVariants = 4
	// invalidateFor is how long a purge that fails is repeated, with exponential backoff
	// from firstInvalidate.
	invalidateFor   = 10 * time.Second
	firstInvalidate = 100 * time.Millisecond
)

// isSafe reports whether a method only reads (RFC 9110, section 9.2.1, and the IANA
// registry of methods). An unknown one may change the page.
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "PROPFIND", "QUERY", "REPORT", "SEARCH":
		return true
	}
	return false
}

// An unsafeRequest is what remains to be known of a request when its answer arrives.
type unsafeRequest struct {
	h             *handler
	ctx           context.Context //nolint:containedctx // that of the request
	header        http.Header     // as it arrived
	host          string
	uri           url.URL // absolute
	invalidatable bool    // the host can have stored pages
}

func (h *handler) unsafeRequest(r *http.Request) *unsafeRequest {
	u := &unsafeRequest{h: h, ctx: r.Context(), header: r.Header.Clone()}
	u.host, u.invalidatable = canonical.Host(r.Host)
	u.uri = url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	return u
}

// answered invalidates what a successful answer has changed, and waits for that, for at most
// Config.StoreTimeout.
func (u *unsafeRequest) answered(status int, header http.Header) {
	if status < 200 || status >= 400 || !u.invalidatable {
		return
	}
	var pending []<-chan struct{}
	for _, changed := range u.pages(header) {
		if done := u.h.c.invalidations.add(changed.page, changed.variant); done != nil {
			pending = append(pending, done)
		}
	}
	timer := time.NewTimer(u.h.c.cfg.StoreTimeout)
	defer timer.Stop()
	for _, done := range pending {
		select {
		case <-done:
		case <-timer.C:
			return
		case <-u.ctx.Done():
			return
		}
	}
}

// A changedPage is a page that an answer invalidates: its key without a variant, and the
// variant of it that the visitor gets.
type changedPage struct {
	page, variant store.Key
}

// pages returns the pages of the URIs that an answer invalidates, each once.
func (u *unsafeRequest) pages(header http.Header) []changedPage {
	uris := []*url.URL{&u.uri}
	for _, name := range []string{"Location", "Content-Location"} {
		if text := header.Get(name); text != "" && len(text) <= store.MaxKeyLength {
			if ref, err := url.Parse(text); err == nil {
				uris = append(uris, u.uri.ResolveReference(ref))
			}
		}
	}
	pages := make([]changedPage, 0, len(uris))
	for _, uri := range uris {
		// Keys have no scheme: http and https share their pages.
		if host, ok := canonical.Host(uri.Host); !ok || host != u.host || uri.Scheme != "http" && uri.Scheme != "https" {
			continue
		}
		if uri.Path == "" {
			uri.Path = "/"
		}
		if changed, ok := u.page(uri); ok && !slices.Contains(pages, changed) {
			pages = append(pages, changed)
		}
	}
	return pages
}

// page returns the page of a URI, by the route that its GET requests have, which need not be
// that of this request.
func (u *unsafeRequest) page(uri *url.URL) (changed changedPage, ok bool) {
	path := url.URL{Path: uri.Path, RawPath: uri.RawPath}
	k, bypass, err := u.h.route.keyOf("", u.host, &path, "")
	if err != nil || bypass != "" {
		return changed, false
	}
	route, bound := u.h.c.routeAt(k)
	switch {
	case !bound:
		route = u.h.route
	case route == nil:
		return changed, false
	}
	tenant, _, err := route.tenant(u.header)
	if err != nil {
		return changed, false
	}
	changed.page, bypass, err = route.keyOf(tenant, u.host, uri, "")
	if err != nil || bypass != "" {
		return changed, false
	}
	changed.variant, bypass, err = route.keyOf(tenant, u.host, uri, route.variant(u.header))
	if err != nil || bypass != "" { // the key is too long
		changed.variant = changed.page
	}
	return changed, true
}

// invalidations are the purges of this process that unsafe requests have caused. All
// methods are safe for concurrent use.
type invalidations struct {
	c *Cache

	mu     sync.Mutex
	byPage map[store.Key]*invalidation // guarded by mu: by the key without a variant
	closed bool                        // guarded by mu

	turns   chan struct{} // has an element for each read or purge in progress
	closing chan struct{} // closed by shut
	wg      sync.WaitGroup
}

func newInvalidations(c *Cache) *invalidations {
	return &invalidations{c: c, byPage: make(map[store.Key]*invalidation), turns: make(chan struct{}, maxInvalidating), closing: make(chan struct{})}
}

// An invalidation is the work of one page. It ends invalidateEvery after its last purge; in a
// process that freezes, at once.
type invalidation struct {
	page store.Key
	// variants are the pages that the senders of requests get which no purge has covered
	// yet, at most maxSenderVariants; empty: there are no such requests.
	variants []store.Key   // guarded by invalidations.mu
	tried    chan struct{} // closed when the first purge has succeeded or failed once
}

// add drops a page, and the variant of it that a visitor gets, from memory, and causes a
// purge of all its variants. The result is closed when that was made or has failed; it is
// nil if the purge follows later, or cannot be made.
func (i *invalidations) add(page, variant store.Key) (tried <-chan struct{}) {
	i.c.reload(page)
	if variant != page {
		i.c.reload(variant)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if v := i.byPage[page]; v != nil {
		if len(v.variants) < maxSenderVariants && !slices.Contains(v.variants, variant) {
			v.variants = append(v.variants, variant)
		}
		return nil
	}
	if i.closed || len(i.byPage) >= maxInvalidations {
		i.c.complaints.log("a page that an unsafe request has changed is dropped by this server only: too many are being purged, or the server is closing",
			"key", page.String(), "purging", len(i.byPage))
		return nil
	}
	v := &invalidation{page: page, variants: []store.Key{variant}, tried: make(chan struct{})}
	i.byPage[page] = v
	i.c.activity.begin()
	i.wg.Go(func() {
		defer i.c.activity.end()
		i.run(v)
	})
	return v.tried
}

// run purges a page, and again as long as requests have arrived meanwhile.
func (i *invalidations) run(v *invalidation) {
	for tried := v.tried; ; tried = nil {
		began, variants := time.Now(), i.take(v)
		if len(variants) == 0 {
			return
		}
		// In a flood of invented URLs, those that were not purged make room at once.
		if made := i.purge(v.page, variants, tried); (made || !i.crowded()) && !i.c.cfg.Freezes {
			i.pause(invalidateEvery - time.Since(began))
		}
	}
}

// crowded reports whether the pages are half as many as there may be.
func (i *invalidations) crowded() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.byPage) > maxInvalidations/2
}

// take returns what is to be purged. If there is nothing, the invalidation ends.
func (i *invalidations) take(v *invalidation) (variants []store.Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	variants, v.variants = v.variants, nil
	if len(variants) == 0 {
		delete(i.byPage, v.page)
	}
	return variants
}

// pause waits for d, or until the cache closes.
func (i *invalidations) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-i.closing:
	}
}

// purge repeats a purge until it succeeds, for invalidateFor, and closes tried, unless it is
// nil, after the first attempt. While the cache closes, there is one more attempt. made is
// false if there was nothing to purge.
func (i *invalidations) purge(page store.Key, variants []store.Key, tried chan struct{}) (made bool) {
	began := time.Now()
	for round := 0; ; round++ {
		last := i.isClosing() || time.Since(began) >= invalidateFor
		made, err := i.purgeOnce(page, variants)
		if tried != nil {
			close(tried)
			tried = nil
		}
		switch {
		case err == nil:
			return made
		case last:
			i.c.complaints.log("failed to purge a page that an unsafe request has changed: other servers serve it until it expires",
				"key", page.String(), "error", err)
			return true
		}
		i.pause(i.c.jitter(backoff.Exponential(firstInvalidate, time.Second, round)))
	}
}

// purgeOnce purges what is stored of a page and its variants. made is false if there was
// nothing to purge.
func (i *invalidations) purgeOnce(page store.Key, variants []store.Key) (made bool, err error) {
	if i.c.storeDown() != nil {
		return false, errStoreSlow
	}
	ctx, cancel := context.WithTimeout(i.c.ctx, settleTime)
	defer cancel()
	select {
	case i.turns <- struct{}{}:
		defer func() { <-i.turns }()
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	targets, err := i.targets(ctx, page, variants)
	if err != nil || len(targets) == 0 {
		return false, err
	}
	receipt, err := i.c.commitPurge(ctx, store.Purge{Targets: targets, Hard: true})
	if err != nil {
		return true, err
	}
	i.c.log.Info("purged after an unsafe request", "targets", describeTargets(targets), "seq", receipt.Seq)
	return true, nil
}

// targets returns what an unsafe request purges: the page and its variants that may be
// served and are not pinned; none if there are none. sent are the variants that the senders
// of requests get.
func (i *invalidations) targets(ctx context.Context, page store.Key, sent []store.Key) ([]store.PurgeTarget, error) {
	listed, more, err := i.c.listedVariants(ctx, page, maxInvalidatedVariants)
	if err != nil {
		return nil, err
	}
	pages := []store.Key{page}
	for _, k := range append(sent, listed...) {
		if !slices.Contains(pages, k) {
			pages = append(pages, k)
		}
	}
	// Read after the list: a variant that is not in it, or has no lease, is rendered after
	// the change.
	found, pinned, err := i.judge(ctx, pages)
	switch {
	case err != nil:
		return nil, err
	case more && len(pinned) == 0:
		return i.c.purgeTargets([]store.PurgeTarget{PurgeKey(page)})
	case more:
		i.c.complaints.log("not all variants of a page that an unsafe request has changed are purged: there are too many, and some are pinned",
			"key", page.String(), "pinned", pinned[0].String())
	}
	if len(found) > 0 && !slices.Contains(found, page) && !slices.Contains(pinned, page) {
		found = append(found, page) // for the caches in front, which may know no variants
	}
	var targets []store.PurgeTarget
	for _, k := range found {
		t := PurgeKey(k)
		t.PK = i.c.cfg.Partition(k)
		targets = append(targets, t)
	}
	return targets, nil
}

// judge reads the records of pages, and returns those that are pinned, and of the others
// those that may be served.
func (i *invalidations) judge(ctx context.Context, pages []store.Key) (found, pinned []store.Key, err error) {
	records, err := i.c.readAll(ctx, pages)
	if err != nil {
		return nil, nil, err
	}
	for n, rec := range records {
		switch now := i.c.now(); {
		case i.c.isPinned(rec) && store.Freshness(rec.Entry, rec.Purges, now) == store.Fresh:
			pinned = append(pinned, pages[n])
		case i.mayBeServed(rec):
			found = append(found, pages[n])
		}
	}
	return found, pinned, nil
}

// mayBeServed reports whether a page has a generation that may be served, or will have one
// whose rendering has begun: it is published under the lease only, which may have expired by
// our clock and not by its holder's. A render that begins after this read is newer than the
// change.
func (i *invalidations) mayBeServed(rec store.Record) bool {
	if isLease(rec.Lock) {
		return true
	}
	state := store.Freshness(rec.Entry, rec.Purges, i.c.now())
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
