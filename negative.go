package isr

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/store"
)

// The negative cache remembers what the last regeneration of a key came to, where
// that was no page to be stored: it was refused, it failed, or there is nothing.
// It saves later requests from waiting for the same end, and the origin from
// rendering it. Entries live in this process alone, and are bounded by their weight,
// in a share of the memory of their own: strangers who ask for unknown URLs evict
// each other's entries, and never the site's pages.

const (
	// negativeShare is the part of Config.Memory that negative entries may take.
	negativeShare = 16
	// minNegative is what they may take, in bytes, where pages are not kept at all.
	minNegative = 1 << 20
	// One entry may take this part of all. A failed response that is larger is
	// remembered without its body, a negative answer not at all.
	largestNegative = 8
	// negativeOverhead is what an entry costs in memory beside its texts and bodies.
	negativeOverhead = 512
)

const (
	// remembered is how long a refusal is remembered.
	remembered = 2 * time.Minute
	// maxNegativeWindow bounds how long a negative answer is kept, whatever the
	// response says: no other node tells this one that the page has appeared.
	maxNegativeWindow = 5 * time.Minute
)

// A negativeEntry is what is remembered of one key: one of its cases.
type negativeEntry struct {
	readAt  time.Time // when the read that led to it began
	until   time.Time // by the monotonic clock, as time.Now has it
	refused string    // uncacheable, for this reason: straight through
	failed  *response // the renderer's failure, to be shown again meanwhile
	page    *page     // a negative answer, such as 404
	// ended, beside any of them and beyond until: what was generated then or before
	// is withdrawn, and the store does not know (see withdrawn.go).
	ended time.Time
}

func (e *negativeEntry) weight(k store.Key) uint32 {
	n := negativeOverhead + len(k.Tenant) + len(k.Text)
	if e.failed != nil {
		n += cap(e.failed.body)
		for name, values := range e.failed.header {
			n += fieldOverhead + len(name) + textBytes(values)
		}
	}
	if e.page != nil {
		n += int(e.page.weight())
	}
	return uint32(n)
}

// A negativeCache has the negative entries of this process. Its methods are safe
// for concurrent use.
type negativeCache struct {
	floor   *floor
	largest uint32
	byKey   *otter.Cache[store.Key, *negativeEntry]
}

func newNegativeCache(bytes int64, f *floor) (*negativeCache, error) {
	byKey, err := otter.New(&otter.Options[store.Key, *negativeEntry]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(k store.Key, e *negativeEntry) uint32 { return e.weight(k) },
	})
	if err != nil {
		return nil, fmt.Errorf("the negative cache: %w", err)
	}
	return &negativeCache{floor: f, largest: uint32(min(bytes/largestNegative, 1<<31)), byKey: byKey}, nil
}

// get returns an entry that still holds, or nil. now is time.Now(): a wall clock that
// is set back would keep entries for as much longer.
func (n *negativeCache) get(k store.Key, now time.Time) *negativeEntry {
	e, ok := n.byKey.GetIfPresent(k)
	if !ok || !now.Before(e.until) || n.floor.above(e.readAt) {
		return nil
	}
	return e
}

// put remembers what a flight came to, unless the page was reloaded since: it would
// hide the page that somebody rolled back to. It says whether it did.
func (n *negativeCache) put(k store.Key, e *negativeEntry, f *flight) (kept bool) {
	if e = n.fitting(k, e); e == nil {
		n.forget(k) // what was remembered before is not true any more either
		return false
	}
	n.byKey.Compute(k, func(old *negativeEntry, found bool) (*negativeEntry, otter.ComputeOp) {
		// Asked under the lock of the key, which forget takes after the reload was
		// recorded: either this sees the reload, or forget sees the entry.
		if kept = !f.overtaken(e.readAt); !kept {
			return old, otter.CancelOp
		}
		if found && e.ended.IsZero() {
			e.ended = old.ended
		}
		return e, otter.WriteOp
	})
	return kept
}

// ended says that what was generated at a time is withdrawn, though the store does
// not know.
func (n *negativeCache) ended(k store.Key, generatedAt time.Time) bool {
	e, ok := n.byKey.GetIfPresent(k)
	return ok && !generatedAt.After(e.ended)
}

// fitting is an entry that is not too large, nil if there is none.
func (n *negativeCache) fitting(k store.Key, e *negativeEntry) *negativeEntry {
	if e.weight(k) > n.largest && e.failed != nil {
		short := *e
		short.failed = plainFailure(nil)
		short.failed.status = e.failed.status
		e = &short
	}
	if e.weight(k) > n.largest {
		return nil
	}
	return e
}

// renew replaces an entry, if it is still there: a reload forgets it.
func (n *negativeCache) renew(k store.Key, was, e *negativeEntry) {
	e.ended = was.ended
	n.byKey.Compute(k, func(old *negativeEntry, found bool) (*negativeEntry, otter.ComputeOp) {
		if !found || old != was {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
}

func (n *negativeCache) forget(k store.Key) { n.byKey.Invalidate(k) }

// isNegative says that a status, of those that are stored, means that there is no
// page.
func isNegative(status int) bool { return status >= http.StatusBadRequest }

// staysInMemory says that what was rendered is not published. There is no end of
// URLs that a stranger can ask for, and each would be a row and a body. Where the
// page has an entry already, be it one that cannot be read, that is replaced.
func (s *search) staysInMemory(rec store.Record, next *store.Entry) bool {
	return isNegative(next.Status) && rec.Entry == nil && rec.Malformed == nil && !s.force && !s.route.StoreNegative
}

// keepNegative gives up the lease and keeps a negative answer in memory. overtaken:
// a purge that was made meanwhile covers it.
func (s *search) keepNegative(ctx context.Context, lease store.Lease, rec store.Record, next store.Entry, got rendering) (o outcome, overtaken bool) {
	s.release(ctx, lease)
	next.BodyKey, next.Stale = "", 0
	next.Revalidate = min(next.Revalidate, maxNegativeWindow)
	p := newPage(s.key, next, s.f.known(rec.Purges), s.latest, got.response.body)
	p.negative = true
	if s.f.state(p, s.c.now()) == store.Purged {
		return outcome{}, true
	}
	if s.c.negative.put(s.key, &negativeEntry{readAt: s.latest.began, until: time.Now().Add(next.FreshUntil().Sub(s.c.now())), page: p}, s.f) {
		s.c.memory.drop(s.key) // an entry that has gone from the store
	}
	return outcome{page: p, how: unpublished, detail: detailNegative}, false
}

// knownNegative is a negative answer that another flight of this process has
// brought since the request that began this one looked for it; nil without.
func (s *search) knownNegative(rec store.Record) *page {
	if s.force || rec.Entry != nil {
		return nil
	}
	e := s.c.negative.get(s.key, time.Now())
	if e == nil || e.page == nil || store.Freshness(&e.page.entry, e.page.cover.Merge(rec.Purges), s.c.now()) != store.Fresh {
		return nil
	}
	return e.page
}

// FailingKeys returns the keys of pages that fail, as far as this process knows, by
// partition key. Their rows do not name them: they have no content.
func (c *Cache) FailingKeys() map[string]store.Key {
	keys := make(map[string]store.Key)
	for k, e := range c.negative.byKey.All() {
		if e.failed != nil {
			keys[c.cfg.Partition(k)] = k
		}
	}
	return keys
}
