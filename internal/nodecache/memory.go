package nodecache

import (
	"iter"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

// Pages in memory affect how fast a response is, never which one.
//
// A dropped page is no longer served, but stays until it is evicted or replaced: its body is immutable,
// and need not be fetched again if the entry that is read next has the same one.

// openMemory makes the maps of pages and stubs, if anything is to be kept.
func (c *Cache) openMemory() (err error) {
	if c.pages, err = newPages(c.limit.Load(), c.o.Evicted, c.evicted); err != nil || c.pages == nil {
		return err
	}
	c.stubs, err = otter.New(&otter.Options[store.Key, *Stub]{
		MaximumWeight:    uint64(stubLimit(c.limit.Load())), //nolint:gosec // it is positive
		Weigher:          func(k store.Key, s *Stub) uint32 { return s.weight(k) },
		OnAtomicDeletion: func(e otter.DeletionEvent[store.Key, *Stub]) { c.stubBytes.Add(-int64(e.Value.weight(e.Key))) },
	})
	return err
}

// newPages returns a map of pages that is bounded by their weight; nil if bytes is not positive. note and
// evicted, which may be nil, are called for what is evicted to make room; evicted is called under the
// lock of its key, and must not call the map.
func newPages(bytes int64, note func(string, int64), evicted func(*page.Page)) (*otter.Cache[store.Key, *page.Page], error) {
	if bytes <= 0 {
		return nil, nil
	}
	options := &otter.Options[store.Key, *page.Page]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(_ store.Key, p *page.Page) uint32 { return p.Weight() },
	}
	if note != nil {
		options.OnDeletion = func(e otter.DeletionEvent[store.Key, *page.Page]) {
			if e.Cause == otter.CauseOverflow {
				note("size", int64(e.Value.Weight()))
			}
		}
	}
	if evicted != nil {
		options.OnAtomicDeletion = func(e otter.DeletionEvent[store.Key, *page.Page]) {
			if e.Cause == otter.CauseOverflow {
				evicted(e.Value)
			}
		}
	}
	return otter.New(options)
}

// Get returns the page of a key if it may be served, or nil.
func (c *Cache) Get(k store.Key) *page.Page {
	if p := c.Last(k); p != nil && !c.IsDropped(p) {
		return p
	}
	return nil
}

// Last returns the page of a key, dropped or not, or nil. Only its body may be used, and only for an
// entry that has the same one.
func (c *Cache) Last(k store.Key) *page.Page {
	if c.pages == nil {
		return nil
	}
	p, _ := c.pages.GetIfPresent(k)
	return p
}

// Known returns the page of a key if it may be served, or nil. It may lack its body.
func (c *Cache) Known(k store.Key) *page.Page {
	if p := c.Get(k); p != nil {
		return p
	}
	if s := c.Stub(k); s != nil {
		return s.page(k)
	}
	return nil
}

// IsDropped reports whether a page must not be served from memory any more.
func (c *Cache) IsDropped(p *page.Page) bool {
	return p.Dropped.Load() || c.flushed.since(p.Read.Began)
}

// Put keeps a page that a flight has read, unless the kept one is newer, or the page was invalidated
// since it was read. It returns false if it cannot decide which one is newer, because the reads overlap
// and differ; the caller then invalidates the page. Versions do not help: they start over when another
// service has replaced the row.
func (c *Cache) Put(p *page.Page, f *singleflight.State) (clear bool) {
	if c.pages == nil {
		return true
	}
	clear = true
	defer c.divide()
	c.pages.Compute(p.Key, func(old *page.Page, found bool) (*page.Page, otter.ComputeOp) {
		last := old
		if s := c.Stub(p.Key); !found && s != nil {
			last = s.page(p.Key)
		}
		var newer bool
		if newer, clear = c.succeeds(p, last, f); newer {
			c.forgetStub(p.Key)
			if p.Detached {
				return old, c.keepStub(p, found)
			}
			return p, otter.WriteOp
		}
		return old, otter.CancelOp
	})
	return clear
}

// succeeds reports whether a page that a flight has read is to replace another one, which is nil if
// there is none. clear is false if that cannot be decided.
func (c *Cache) succeeds(p, last *page.Page, f *singleflight.State) (newer, clear bool) {
	// Checked under the key's lock, which Drop takes after the invalidation was recorded: either this
	// sees the invalidation, or Drop sees the page.
	switch {
	case c.Outdated(f, p.Read.Began):
		return false, !c.OutdatedDuring(f, p.Read)
	case last == nil, c.IsDropped(last), last.Read.Before(p.Read):
		return true, true
	case p.Read.Before(last.Read):
		return false, true
	case page.SameEntry(&last.Entry, &p.Entry):
		return p.Purges.Seq >= last.Purges.Seq, true
	}
	return false, false
}

// Drop prevents that the page of a key is served from memory again. Unlike Invalidate it does not
// prevent that a flight puts one that it has read before.
func (c *Cache) Drop(k store.Key) {
	if c.pages == nil {
		return
	}
	var dropped *page.Page
	// Not ComputeIfPresent, which takes no lock if there is no page: a concurrent Put that has not seen
	// the invalidation may be about to write one.
	c.pages.Compute(k, func(p *page.Page, found bool) (*page.Page, otter.ComputeOp) {
		if found && !p.Dropped.Swap(true) {
			dropped = p
		}
		if s, _ := c.stubs.GetIfPresent(k); s != nil {
			s.dropped.Store(true) // for pages that were made of it
			c.forgetStub(k)
		}
		return p, otter.CancelOp
	})
	if dropped != nil && c.o.Evicted != nil {
		c.o.Evicted("reloaded", int64(dropped.Weight()))
	}
}

// LastUses yields when each page was served last, to a second.
func (c *Cache) LastUses() iter.Seq2[store.Key, time.Time] {
	return func(yield func(store.Key, time.Time) bool) {
		if c.pages == nil {
			return
		}
		for k, p := range c.pages.All() {
			if at, ok := p.LastHit(); ok && !yield(k, at) {
				return
			}
		}
	}
}

// Usage returns what pages and stubs weigh, what they may weigh, and about how many pages there are;
// zeros if nothing is kept. Pages that were dropped count until they are replaced or evicted.
func (c *Cache) Usage() (bytes, limit int64, pages int) {
	if c.pages == nil {
		return 0, 0, 0
	}
	return int64(c.pages.WeightedSize()) + c.stubBytes.Load(), c.limit.Load(), c.pages.EstimatedSize() //nolint:gosec // below the limit
}

// Limit returns what pages and stubs may weigh, in bytes.
func (c *Cache) Limit() int64 { return c.limit.Load() }
