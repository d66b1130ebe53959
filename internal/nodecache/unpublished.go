package nodecache

import (
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

const (
	// keepUnpublished bounds how long a page that could not be published is served by this node. It is
	// short because no other node knows the page: if this one cannot read the log, a purge, a rollback
	// or a newer page of another node takes effect only after that time.
	keepUnpublished = 5 * time.Second
	// unpublishedShare is the part of Options.Memory that such pages may take in addition to it, as a
	// divisor.
	unpublishedShare = 8
)

// Unpublished are pages that were rendered for visitors and could not be stored, kept for five seconds
// each. They are not part of the memory tier: no other node knows them, and the store takes precedence.
// While one is served, the store is asked again about once a second. Its methods are safe for concurrent
// use.
type Unpublished struct {
	c     *Cache
	pages *otter.Cache[store.Key, *page.Page] // nil: nothing is kept
}

func newUnpublished(bytes int64, c *Cache) (*Unpublished, error) {
	pages, err := newPages(bytes, nil, nil)
	return &Unpublished{c: c, pages: pages}, err
}

// Get returns a page that may still be served, or nil. A page that is purged is rendered again, even if
// the purge was soft: these pages are not regenerated behind.
func (u *Unpublished) Get(k store.Key) *page.Page {
	if u.pages == nil {
		return nil
	}
	p, _ := u.pages.GetIfPresent(k)
	if p == nil {
		return nil
	}
	if time.Since(p.Read.Ended) >= min(keepUnpublished, p.Entry.Revalidate) || u.c.flushed.since(p.Read.Began) ||
		p.Entry.CoveredBy(u.c.Purges(nil, p, u.c.o.Now())) {
		u.Forget(k)
		return nil
	}
	return p
}

// Put keeps a page that a flight has rendered, unless the page was invalidated or purged since the render
// began.
func (u *Unpublished) Put(p *page.Page, f *singleflight.State) {
	if u.pages == nil {
		return
	}
	u.pages.Compute(p.Key, func(old *page.Page, _ bool) (*page.Page, otter.ComputeOp) {
		// Checked under the key's lock, which Forget takes after the invalidation was recorded.
		if f.InvalidatedSince(p.Read.Began) || p.Entry.CoveredBy(u.c.Purges(f, p, u.c.o.Now())) {
			return old, otter.CancelOp
		}
		return p, otter.WriteOp
	})
}

// Forget removes the page of a key.
func (u *Unpublished) Forget(k store.Key) {
	if u.pages != nil {
		u.pages.Invalidate(k)
	}
}

// Len returns about how many pages there are.
func (u *Unpublished) Len() int {
	if u.pages == nil {
		return 0
	}
	return u.pages.EstimatedSize()
}
