package isr

import (
	"fmt"
	"hash/maphash"
	"iter"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// A memory is the tier of pages in this process, bounded by their weight in bytes. It
// affects how fast a response is, never which one.
//
// A dropped page is no longer served, but stays until it is evicted or replaced: its body
// is immutable, and need not be fetched again if the entry that is read next has the same
// one.
type memory struct {
	floor *floor
	note  func(Event)                         // of what is evicted and dropped; nil: not wanted
	pages *otter.Cache[store.Key, *page.Page] // nil: nothing is kept

	// outlines are the outlines of evicted pages (see outline). They are written under the lock of the
	// key in pages. Nil if pages is.
	outlines     *otter.Cache[store.Key, *outline]
	outlineBytes atomic.Int64 // what outlines weigh
	given        atomic.Int64 // what pages have given up of limit for them
	limit        int64        // what both may weigh

	seed  maphash.Seed                     // of the sums of bodies
	cover atomic.Pointer[store.PurgeState] // of the last outline
}

func newMemory(bytes int64, f *floor, note func(Event)) (*memory, error) {
	m := &memory{floor: f, note: note, limit: bytes, seed: maphash.MakeSeed()}
	var err error
	if m.pages, err = newPages(bytes, note, m.evicted); err == nil && m.pages != nil {
		m.outlines, err = otter.New(&otter.Options[store.Key, *outline]{
			MaximumWeight:    uint64(max(bytes/outlineShare, 1)), //nolint:gosec // it is positive
			Weigher:          func(k store.Key, o *outline) uint32 { return o.weight(k) },
			OnAtomicDeletion: func(e otter.DeletionEvent[store.Key, *outline]) { m.outlineBytes.Add(-int64(e.Value.weight(e.Key))) },
		})
	}
	if err != nil {
		return nil, fmt.Errorf("the memory tier: %w", err)
	}
	return m, nil
}

// newPages returns a map of pages that is bounded by their weight; nil if bytes is not
// positive. note and evicted, which may be nil, are called for what is evicted to make room;
// evicted is called under the lock of its key, and must not call the map.
func newPages(bytes int64, note func(Event), evicted func(*page.Page)) (*otter.Cache[store.Key, *page.Page], error) {
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
				note(Event{Kind: EventEvicted, Reason: "size", Bytes: int64(e.Value.Weight())})
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

// get returns the page of a key if it may be served, or nil.
func (m *memory) get(k store.Key) *page.Page {
	if p := m.last(k); p != nil && !m.isDropped(p) {
		return p
	}
	return nil
}

// last returns the page of a key, dropped or not, or nil. Only its body may be used, and
// only for an entry that has the same one.
func (m *memory) last(k store.Key) *page.Page {
	if m.pages == nil {
		return nil
	}
	p, _ := m.pages.GetIfPresent(k)
	return p
}

// lastUses yields when each page was served last, to a second.
func (m *memory) lastUses() iter.Seq2[store.Key, time.Time] {
	return func(yield func(store.Key, time.Time) bool) {
		if m.pages == nil {
			return
		}
		for k, p := range m.pages.All() {
			if at, ok := p.LastHit(); ok && !yield(k, at) {
				return
			}
		}
	}
}

func (m *memory) isDropped(p *page.Page) bool {
	return p.Dropped.Load() || m.floor.above(p.Read.Began)
}

// put keeps a page that a flight has read, unless the kept one is newer, or the page was
// reloaded since it was read. It returns false if it cannot decide which one is newer,
// because the readings overlap and differ; the caller then reloads the page. Versions do
// not help: they start over when another service has replaced the row.
func (m *memory) put(p *page.Page, f *flight) (clear bool) {
	if m.pages == nil {
		return true
	}
	clear = true
	defer m.divide()
	m.pages.Compute(p.Key, func(old *page.Page, found bool) (*page.Page, otter.ComputeOp) {
		last := old
		if o := m.outline(p.Key); !found && o != nil {
			last = o.page(p.Key)
		}
		var newer bool
		if newer, clear = m.succeeds(p, last, f); newer {
			m.forgetOutline(p.Key)
			if p.Detached {
				return old, m.keepOutline(p, found)
			}
			return p, otter.WriteOp
		}
		return old, otter.CancelOp
	})
	return clear
}

// keepOutline keeps the outline of a detached page instead of the page, and returns what becomes of the
// page that it replaces, which was found or not. It is called under the lock of its key.
func (m *memory) keepOutline(p *page.Page, found bool) otter.ComputeOp {
	if o := m.newOutline(p); o != nil {
		m.outlineBytes.Add(int64(o.weight(p.Key)))
		m.outlines.Set(p.Key, o)
	}
	if found {
		return otter.InvalidateOp
	}
	return otter.CancelOp
}

// succeeds reports whether a page that a flight has read is to replace another one, which is nil
// if there is none. clear is false if that cannot be decided.
func (m *memory) succeeds(p, last *page.Page, f *flight) (newer, clear bool) {
	// Checked under the key's lock, which drop takes after the reload was recorded: either this
	// sees the reload, or drop sees the page.
	switch {
	case m.floor.above(p.Read.Began), f.InvalidatedSince(p.Read.Began):
		return false, !m.floor.crossed(p.Read) && !f.crossed(p.Read)
	case last == nil, m.isDropped(last), last.Read.Before(p.Read):
		return true, true
	case p.Read.Before(last.Read):
		return false, true
	case page.SameEntry(&last.Entry, &p.Entry):
		return p.Purges.Seq >= last.Purges.Seq, true
	}
	return false, false
}

// drop marks the page of a key as dropped. Raising the floor drops all pages.
func (m *memory) drop(k store.Key) {
	if m.pages == nil {
		return
	}
	var dropped *page.Page
	// Not ComputeIfPresent, which takes no lock if there is no page: a concurrent put
	// that has not seen the reload may be about to write one.
	m.pages.Compute(k, func(p *page.Page, found bool) (*page.Page, otter.ComputeOp) {
		if found && !p.Dropped.Swap(true) {
			dropped = p
		}
		if o, _ := m.outlines.GetIfPresent(k); o != nil {
			o.dropped.Store(true) // for pages that were made of it
			m.forgetOutline(k)
		}
		return p, otter.CancelOp
	})
	if dropped != nil && m.note != nil {
		m.note(Event{Kind: EventEvicted, Reason: "reloaded", Bytes: int64(dropped.Weight())})
	}
}

// reweigh accounts for the weight of a page that got codings, if it is still in memory.
func (c *Cache) reweigh(p *page.Page) {
	reweigh(c.memory.pages, p)
	reweigh(c.unpublished.byKey, p)
	c.negative.reweigh(p)
}

// reweigh accounts for the weight of a page that has changed, if it is still there.
func reweigh(pages *otter.Cache[store.Key, *page.Page], p *page.Page) {
	if pages == nil {
		return
	}
	pages.Compute(p.Key, func(old *page.Page, found bool) (*page.Page, otter.ComputeOp) {
		if !found || old != p {
			return old, otter.CancelOp
		}
		return p, otter.WriteOp
	})
}

// LastUses returns when the pages in memory were last served from there, by partition
// key, rounded up to whole seconds. The stores do not know that (see [gc.EvictOptions]).
func (c *Cache) LastUses() map[string]time.Time {
	uses := make(map[string]time.Time)
	for k, at := range c.memory.lastUses() {
		uses[c.cfg.Partition(k)] = at
	}
	return uses
}
