package isr

import (
	"fmt"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// During an outage of a store a visitor waits for at most Config.StoreTimeout, and the
// origin renders a page once per flight:
//
//	request -> memory -> unpublished pages -> breaker closed: flight -> the store
//	                           ^                                |
//	                           |              it fails, or takes too long
//	                           |                                v
//	                           +--- render, not stored <- unstored flight
//
// A flight whose store calls have failed, or have taken longer than Config.StoreTimeout
// in all, sends its waiting requests to the unstored flight of the key, which renders
// once, within the origin's budget, and never calls a store. The first flight goes on in
// the background, and publishes what was rendered if the page is not stored yet: a store
// that is slow, but not down, gets its page by the same render. After several failures
// in a row the store's circuit breaker opens (see internal/breaker), and no flight calls the
// store until a probe succeeds.

const (
	// keepUnpublished bounds how long a page that could not be published is served by
	// this process. It is short because no other process knows the page: if this one
	// cannot read the log, a purge, a rollback or a newer page of another process
	// takes effect only after that time.
	keepUnpublished = 5 * time.Second
	// unpublishedShare is the part of Config.Memory that such pages may take, in
	// addition to it.
	unpublishedShare = 8
	// useWindow is how long the uses of a page count for Config.MinUses, at least; up
	// to twice that.
	useWindow = 30 * time.Minute
)

// unpublishedPages are pages that were rendered for visitors and could not be stored,
// kept for keepUnpublished each. They are not part of the memory tier: no other process
// knows them, and the store takes precedence. While one is served, the store is asked again about once a second.
type unpublishedPages struct {
	c     *Cache
	byKey *otter.Cache[store.Key, *page.Page] // nil: nothing is kept
}

func newUnpublishedPages(bytes int64, c *Cache) (*unpublishedPages, error) {
	byKey, err := newPages(bytes, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("the memory of unpublished pages: %w", err)
	}
	return &unpublishedPages{c: c, byKey: byKey}, nil
}

// get returns a page that may still be served, or nil. A page that is purged is rendered
// again, even if the purge was soft: these pages are not regenerated behind.
func (u *unpublishedPages) get(k store.Key) *page.Page {
	if u.byKey == nil {
		return nil
	}
	p, _ := u.byKey.GetIfPresent(k)
	if p == nil {
		return nil
	}
	if time.Since(p.Read.Ended) >= min(keepUnpublished, p.Entry.Revalidate) || u.c.floor.above(p.Read.Began) ||
		p.Entry.CoveredBy(u.c.purges(nil, p, u.c.now())) {
		u.forget(k)
		return nil
	}
	return p
}

// put keeps a page that a flight has rendered, unless the page was reloaded or purged since
// the render began.
func (u *unpublishedPages) put(p *page.Page, f *flight) {
	if u.byKey == nil {
		return
	}
	u.byKey.Compute(p.Key, func(old *page.Page, _ bool) (*page.Page, otter.ComputeOp) {
		// Checked under the key's lock, which forget takes after the reload was
		// recorded.
		if f.InvalidatedSince(p.Read.Began) || p.Entry.CoveredBy(u.c.purges(f, p, u.c.now())) {
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

// newUnpublishedPage makes the page of an entry that is not in the store. It is as old
// as its render.
func newUnpublishedPage(k store.Key, e store.Entry, at timing, body []byte, as *page.View) *page.Page {
	return page.New(k, e, store.PurgeState{}, page.Interval{Began: at.began, Ended: at.began.Add(at.took)}, body, as)
}

// lookForStored looks for the stored page behind a request that gets an unpublished one, of an outage that may be over: the
// store may have had a page all along, which takes precedence, such as one that an operator has rolled back to.
func (h *handler) lookForStored(r *http.Request, p *page.Page) {
	if p.Outage && p.NextTry.Claim(p) && h.c.stores.Down() == nil {
		s := h.fill(r, p.Key)
		s.onlyStored = true
		h.c.start(s)
	}
}

// full reports whether the stores have no room for another page.
func (c *Cache) full() bool { return c.cfg.Full != nil && c.cfg.Full() }
