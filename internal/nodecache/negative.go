package nodecache

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

const (
	// negativeShare is the part of Options.Memory that negative entries may take, as a divisor.
	negativeShare = 16
	// minNegative is what they may take at least, in bytes, also if no pages are kept in memory.
	minNegative = 1 << 20
	// largestNegative is the part of that share that one entry may take, as a divisor. A larger failed
	// response is remembered without its body, a larger negative answer is not remembered.
	largestNegative = 8
	// negativeOverhead is the memory of an entry in addition to its texts and bodies.
	negativeOverhead = 512
)

// A NegativeEntry is the outcome of a key's last render, which was no page to store. It has one of
// Refused, Failed and Page. It is immutable once it was put.
type NegativeEntry struct {
	ReadAt time.Time // when the read that led to it began
	// Seq is the sequence that was committed before the read: a mark of the page's prefix, tenant or
	// site with a higher one ends the entry.
	Seq     int64
	Until   time.Time        // by the monotonic clock, as returned by time.Now
	Refused string           // uncacheable, for this reason: requests pass through
	Failed  *render.Response // the error response, shown again until then
	Page    *page.Page       // a negative answer, such as 404
	// Ended may be set with any of them, and counts beyond Until: generations from then or before are
	// withdrawn, and the store does not know.
	Ended time.Time
}

func (e *NegativeEntry) weight(k store.Key) uint32 {
	n := negativeOverhead + len(k.Tenant) + len(k.Text)
	if e.Failed != nil {
		n += cap(e.Failed.Body)
		for name, values := range e.Failed.Header {
			n += page.FieldOverhead + len(name) + page.TextBytes(values)
		}
	}
	if e.Page != nil {
		n += int(e.Page.Weight())
	}
	return uint32(n)
}

// Negative is the negative cache of a node. It remembers the outcome of a key's last render if it was no
// page to store: a refusal, a failure, or a negative answer such as 404. Later requests do not wait for
// the same outcome, and the origin does not render it again. Entries are bounded by weight in a share of
// the memory of their own: requests for invented URLs evict each other's entries, never the site's
// pages. Its methods are safe for concurrent use.
type Negative struct {
	c       *Cache
	largest atomic.Uint32 // the weight of the largest entry that is kept
	flushed flushTime
	byKey   *otter.Cache[store.Key, *NegativeEntry]
}

func newNegative(bytes int64, c *Cache) (*Negative, error) {
	byKey, err := otter.New(&otter.Options[store.Key, *NegativeEntry]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(k store.Key, e *NegativeEntry) uint32 { return e.weight(k) },
	})
	n := &Negative{c: c, byKey: byKey}
	n.largest.Store(largestOf(bytes))
	return n, err
}

// largestOf is the weight of the largest entry in a cache of that many bytes.
func largestOf(bytes int64) uint32 { return uint32(min(bytes/largestNegative, 1<<31)) }

// resize changes what the entries may weigh.
func (n *Negative) resize(bytes int64) {
	n.largest.Store(largestOf(bytes))
	n.byKey.SetMaximum(uint64(bytes)) //nolint:gosec // it is positive
}

// Get returns an entry that has not expired, or nil. now is time.Now(), which has a monotonic reading: a
// wall clock that is set back would prolong entries.
func (n *Negative) Get(k store.Key, now time.Time) *NegativeEntry {
	e, ok := n.byKey.GetIfPresent(k)
	if !ok || !now.Before(e.Until) || n.c.flushed.since(e.ReadAt) || n.flushed.since(e.ReadAt) || n.c.Marks.Covering(k, nil, n.c.o.Now()).Seq > e.Seq {
		return nil
	}
	return e
}

// Put remembers the outcome of a flight, unless the page was invalidated since: the entry would hide the
// page after a rollback. It reports whether the entry was kept.
func (n *Negative) Put(k store.Key, e *NegativeEntry, f *singleflight.State) (kept bool) {
	if e = n.fitting(k, e); e == nil {
		n.Forget(k) // the previous entry is outdated, too
		return false
	}
	n.byKey.Compute(k, func(old *NegativeEntry, found bool) (*NegativeEntry, otter.ComputeOp) {
		// Checked under the key's lock, which Forget takes after the invalidation was recorded: either
		// this sees the invalidation, or Forget sees the entry.
		if kept = !f.InvalidatedSince(e.ReadAt); !kept {
			return old, otter.CancelOp
		}
		if found && e.Ended.IsZero() {
			e.Ended = old.Ended
		}
		return e, otter.WriteOp
	})
	return kept
}

// Withdrawn reports whether a generation from generatedAt is withdrawn in this process.
func (n *Negative) Withdrawn(k store.Key, generatedAt time.Time) bool {
	e, ok := n.byKey.GetIfPresent(k)
	return ok && !generatedAt.After(e.Ended)
}

// fitting returns e if it is not too large, else a shortened entry, or nil.
func (n *Negative) fitting(k store.Key, e *NegativeEntry) *NegativeEntry {
	if e.weight(k) > n.largest.Load() && e.Failed != nil {
		short := *e
		short.Failed = render.Plain(e.Failed.Status)
		e = &short
	}
	if e.weight(k) > n.largest.Load() {
		return nil
	}
	return e
}

// Renew replaces the entry was, unless an invalidation has removed it.
func (n *Negative) Renew(k store.Key, was, e *NegativeEntry) {
	e.Ended, e.Seq = was.Ended, was.Seq
	n.byKey.Compute(k, func(old *NegativeEntry, found bool) (*NegativeEntry, otter.ComputeOp) {
		if !found || old != was {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
}

// reweigh accounts for the weight of a page that has changed, if it is still there.
func (n *Negative) reweigh(p *page.Page) {
	n.byKey.Compute(p.Key, func(old *NegativeEntry, found bool) (*NegativeEntry, otter.ComputeOp) {
		if !found || old.Page != p {
			return old, otter.CancelOp
		}
		return old, otter.WriteOp
	})
}

// Forget removes the entry of a key.
func (n *Negative) Forget(k store.Key) { n.byKey.Invalidate(k) }

// Flush ends all entries by reads that began before now.
func (n *Negative) Flush(now time.Time) { n.flushed.set(now) }

// Failing yields the keys of pages whose last render has failed.
func (n *Negative) Failing() iter.Seq[store.Key] {
	return func(yield func(store.Key) bool) {
		for k, e := range n.byKey.All() {
			if e.Failed != nil && !yield(k) {
				return
			}
		}
	}
}

// Len returns about how many entries there are.
func (n *Negative) Len() int { return n.byKey.EstimatedSize() }
