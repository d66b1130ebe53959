package isr

import (
	"fmt"
	"hash/maphash"
	"iter"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

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
	note  func(Event)                    // of what is evicted and dropped; nil: not wanted
	pages *otter.Cache[store.Key, *page] // nil: nothing is kept

	// outlines are those of evicted pages (see outline). They are written under the lock of the
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
func newPages(bytes int64, note func(Event), evicted func(*page)) (*otter.Cache[store.Key, *page], error) {
	if bytes <= 0 {
		return nil, nil
	}
	options := &otter.Options[store.Key, *page]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(_ store.Key, p *page) uint32 { return p.weight() },
	}
	if note != nil {
		options.OnDeletion = func(e otter.DeletionEvent[store.Key, *page]) {
			if e.Cause == otter.CauseOverflow {
				note(Event{Kind: EventEvicted, Reason: "size", Bytes: int64(e.Value.weight())})
			}
		}
	}
	if evicted != nil {
		options.OnAtomicDeletion = func(e otter.DeletionEvent[store.Key, *page]) {
			if e.Cause == otter.CauseOverflow {
				evicted(e.Value)
			}
		}
	}
	return otter.New(options)
}

// get returns the page of a key if it may be served, or nil.
func (m *memory) get(k store.Key) *page {
	if p := m.last(k); p != nil && !m.isDropped(p) {
		return p
	}
	return nil
}

// last returns the page of a key, dropped or not, or nil. Only its body may be used, and
// only for an entry that has the same one.
func (m *memory) last(k store.Key) *page {
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
			if at, ok := p.lastHit(); ok && !yield(k, at) {
				return
			}
		}
	}
}

func (m *memory) isDropped(p *page) bool {
	return p.dropped.Load() || m.floor.above(p.read.began)
}

// put keeps a page that a flight has read, unless the kept one is newer, or the page was
// reloaded since it was read. It returns false if it cannot decide which one is newer,
// because the readings overlap and differ; the caller then reloads the page. Versions do
// not help: they start over when another service has replaced the row.
func (m *memory) put(p *page, f *flight) (clear bool) {
	if m.pages == nil {
		return true
	}
	clear = true
	defer m.divide()
	m.pages.Compute(p.key, func(old *page, found bool) (*page, otter.ComputeOp) {
		last := old
		if o := m.outline(p.key); !found && o != nil {
			last = o.page(p.key)
		}
		var newer bool
		if newer, clear = m.succeeds(p, last, f); newer {
			m.forgetOutline(p.key)
			if p.detached {
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
func (m *memory) keepOutline(p *page, found bool) otter.ComputeOp {
	if o := m.newOutline(p); o != nil {
		m.outlineBytes.Add(int64(o.weight(p.key)))
		m.outlines.Set(p.key, o)
	}
	if found {
		return otter.InvalidateOp
	}
	return otter.CancelOp
}

// succeeds reports whether a page that a flight has read is to replace another one, which is nil
// if there is none. clear is false if that cannot be decided.
func (m *memory) succeeds(p, last *page, f *flight) (newer, clear bool) {
	// Checked under the key's lock, which drop takes after the reload was recorded: either this
	// sees the reload, or drop sees the page.
	switch {
	case m.floor.above(p.read.began), f.overtaken(p.read.began):
		return false, !m.floor.crossed(p.read) && !f.crossed(p.read)
	case last == nil, m.isDropped(last), last.read.before(p.read):
		return true, true
	case p.read.before(last.read):
		return false, true
	case sameEntry(&last.entry, &p.entry):
		return p.cover.Seq >= last.cover.Seq, true
	}
	return false, false
}

// drop marks the page of a key as dropped. Raising the floor drops all pages.
func (m *memory) drop(k store.Key) {
	if m.pages == nil {
		return
	}
	var dropped *page
	// Not ComputeIfPresent, which takes no lock if there is no page: a concurrent put
	// that has not seen the reload may be about to write one.
	m.pages.Compute(k, func(p *page, found bool) (*page, otter.ComputeOp) {
		if found && !p.dropped.Swap(true) {
			dropped = p
		}
		if o, _ := m.outlines.GetIfPresent(k); o != nil {
			o.dropped.Store(true) // for pages that were made of it
			m.forgetOutline(k)
		}
		return p, otter.CancelOp
	})
	if dropped != nil && m.note != nil {
		m.note(Event{Kind: EventEvicted, Reason: "reloaded", Bytes: int64(dropped.weight())})
	}
}

// A reading is the interval of a read or a write of an entry: at some moment in it the
// entry was current. Both ends are by this process's monotonic clock.
type reading struct {
	began, ended time.Time
	// asOf is when the purge marks that cover the entry were read; zero: they are as old as
	// the last poll of the log.
	asOf time.Time
}

// before reports whether r ended before other began, so that other saw the newer entry.
func (r reading) before(other reading) bool { return !r.ended.After(other.began) }

// contains reports whether a moment, which may be nil, lies within the reading.
func (r reading) contains(t *time.Time) bool {
	return t != nil && r.began.Before(*t) && t.Before(r.ended)
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
