package isr

import (
	"fmt"
	"iter"
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
	pages *otter.Cache[store.Key, *page] // nil: nothing is kept
}

func newMemory(bytes int64, f *floor) (*memory, error) {
	pages, err := newPages(bytes)
	if err != nil {
		return nil, fmt.Errorf("the memory tier: %w", err)
	}
	return &memory{floor: f, pages: pages}, nil
}

// newPages returns a map of pages that is bounded by their weight; nil if bytes is not
// positive.
func newPages(bytes int64) (*otter.Cache[store.Key, *page], error) {
	if bytes <= 0 {
		return nil, nil
	}
	return otter.New(&otter.Options[store.Key, *page]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(_ store.Key, p *page) uint32 { return p.weight() },
	})
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

// lastUses yields when each page was served last, rounded up to whole seconds.
func (m *memory) lastUses() iter.Seq2[store.Key, time.Time] {
	return func(yield func(store.Key, time.Time) bool) {
		if m.pages == nil {
			return
		}
		for k, p := range m.pages.All() {
			if hit := p.stamp.Load(); hit != nil && !yield(k, time.Unix(hit.second+1, 0)) {
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
	m.pages.Compute(p.key, func(old *page, found bool) (*page, otter.ComputeOp) {
		// Checked under the key's lock, which drop takes after the reload was
		// recorded: either this sees the reload, or drop sees the page.
		switch {
		case m.floor.above(p.read.began), f.overtaken(p.read.began):
			clear = !m.floor.crossed(p.read) && !f.crossed(p.read)
		case !found, m.isDropped(old), old.read.before(p.read):
			return p, otter.WriteOp
		case p.read.before(old.read):
		case sameEntry(&old.entry, &p.entry):
			if p.cover.Seq >= old.cover.Seq {
				return p, otter.WriteOp
			}
		default:
			clear = false
		}
		return old, otter.CancelOp
	})
	return clear
}

// drop marks the page of a key as dropped. Raising the floor drops all pages.
func (m *memory) drop(k store.Key) {
	if m.pages == nil {
		return
	}
	// Not ComputeIfPresent, which takes no lock if there is no page: a concurrent put
	// that has not seen the reload may be about to write one.
	m.pages.Compute(k, func(p *page, found bool) (*page, otter.ComputeOp) {
		if found {
			p.dropped.Store(true)
		}
		return p, otter.CancelOp
	})
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
