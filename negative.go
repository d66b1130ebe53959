package isr

import (
	"fmt"
	"net/http"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// The negative cache remembers the outcome of a key's last render if it was no page to
// store: a refusal, a failure, or a negative answer such as 404. Later requests do not
// wait for the same outcome, and the origin does not render it again. Entries are per
// process, and bounded by weight in a share of the memory of their own: requests for
// invented URLs evict each other's entries, never the site's pages.

const (
	// negativeShare is the part of Config.Memory that negative entries may take.
	negativeShare = 16
	// minNegative is what they may take at least, in bytes, also if no pages are kept in memory.
	minNegative = 1 << 20
	// largestNegative is the part of that share that one entry may take. A larger
	// failed response is remembered without its body, a larger negative answer is not
	// remembered.
	largestNegative = 8
	// negativeOverhead is the memory of an entry in addition to its texts and bodies.
	negativeOverhead = 512
)

const (
	// remembered is how long a refusal is remembered.
	remembered = 2 * time.Minute
	// maxNegativeWindow bounds how long a negative answer is kept, whatever the
	// response says: this node does not learn from others that the page has appeared.
	maxNegativeWindow = 5 * time.Minute
)

// A negativeEntry has one of refused, failed and page.
type negativeEntry struct {
	readAt time.Time // when the read that led to it began
	// seq is the sequence that was committed before the read: a mark of the page's
	// prefix, tenant or site with a higher one ends the entry.
	seq     int64
	until   time.Time        // by the monotonic clock, as returned by time.Now
	refused string           // uncacheable, for this reason: requests pass through
	failed  *render.Response // the error response, shown again until then
	page    *page.Page       // a negative answer, such as 404
	// ended may be set with any of them, and counts beyond until: generations from
	// then or before are withdrawn, and the store does not know.
	ended time.Time
}

func (e *negativeEntry) weight(k store.Key) uint32 {
	n := negativeOverhead + len(k.Tenant) + len(k.Text)
	if e.failed != nil {
		n += cap(e.failed.Body)
		for name, values := range e.failed.Header {
			n += page.FieldOverhead + len(name) + page.TextBytes(values)
		}
	}
	if e.page != nil {
		n += int(e.page.Weight())
	}
	return uint32(n)
}

// A negativeCache holds the negative entries of this process. Its methods are safe for
// concurrent use.
type negativeCache struct {
	c       *Cache
	largest uint32
	floor   floor // raised when the routes change
	byKey   *otter.Cache[store.Key, *negativeEntry]
}

func newNegativeCache(bytes int64, c *Cache) (*negativeCache, error) {
	byKey, err := otter.New(&otter.Options[store.Key, *negativeEntry]{
		MaximumWeight: uint64(bytes),
		Weigher:       func(k store.Key, e *negativeEntry) uint32 { return e.weight(k) },
	})
	if err != nil {
		return nil, fmt.Errorf("the negative cache: %w", err)
	}
	return &negativeCache{c: c, largest: uint32(min(bytes/largestNegative, 1<<31)), byKey: byKey}, nil
}

// get returns an entry that has not expired, or nil. now is time.Now(), which has a
// monotonic reading: a wall clock that is set back would prolong entries.
func (n *negativeCache) get(k store.Key, now time.Time) *negativeEntry {
	e, ok := n.byKey.GetIfPresent(k)
	if !ok || !now.Before(e.until) || n.c.floor.above(e.readAt) || n.floor.above(e.readAt) || n.c.marks.Covering(k, nil, n.c.now()).Seq > e.seq {
		return nil
	}
	return e
}

// put remembers the outcome of a flight, unless the page was reloaded since: the entry
// would hide the page after a rollback. It reports whether the entry was kept.
func (n *negativeCache) put(k store.Key, e *negativeEntry, f *flight) (kept bool) {
	if e = n.fitting(k, e); e == nil {
		n.forget(k) // the previous entry is outdated, too
		return false
	}
	n.byKey.Compute(k, func(old *negativeEntry, found bool) (*negativeEntry, otter.ComputeOp) {
		// Checked under the key's lock, which forget takes after the reload was
		// recorded: either this sees the reload, or forget sees the entry.
		if kept = !f.InvalidatedSince(e.readAt); !kept {
			return old, otter.CancelOp
		}
		if found && e.ended.IsZero() {
			e.ended = old.ended
		}
		return e, otter.WriteOp
	})
	return kept
}

// withdrawn reports whether a generation from generatedAt is withdrawn in this process.
func (n *negativeCache) withdrawn(k store.Key, generatedAt time.Time) bool {
	e, ok := n.byKey.GetIfPresent(k)
	return ok && !generatedAt.After(e.ended)
}

// fitting returns e if it is not too large, else a shortened entry, or nil.
func (n *negativeCache) fitting(k store.Key, e *negativeEntry) *negativeEntry {
	if e.weight(k) > n.largest && e.failed != nil {
		short := *e
		short.failed = plainFailure(nil)
		short.failed.Status = e.failed.Status
		e = &short
	}
	if e.weight(k) > n.largest {
		return nil
	}
	return e
}

// renew replaces the entry was, unless a reload has removed it.
func (n *negativeCache) renew(k store.Key, was, e *negativeEntry) {
	e.ended, e.seq = was.ended, was.seq
	n.byKey.Compute(k, func(old *negativeEntry, found bool) (*negativeEntry, otter.ComputeOp) {
		if !found || old != was {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
}

// reweigh accounts for the weight of a page that has changed, if it is still there.
func (n *negativeCache) reweigh(p *page.Page) {
	n.byKey.Compute(p.Key, func(old *negativeEntry, found bool) (*negativeEntry, otter.ComputeOp) {
		if !found || old.page != p {
			return old, otter.CancelOp
		}
		return old, otter.WriteOp
	})
}

func (n *negativeCache) forget(k store.Key) { n.byKey.Invalidate(k) }

// refused ends a fill whose page is not cacheable, and remembers that. readAt is when
// the read of the page began that led to the render.
func (s *fill) refused(readAt time.Time, reason string) outcome {
	s.c.log.Debug("not cacheable", "key", s.key.String(), "reason", reason)
	if reason == detailNoMemory { // which says nothing of the page
		return refusal{reason}
	}
	s.c.negative.put(s.key, &negativeEntry{readAt: readAt, seq: s.asOf, until: time.Now().Add(remembered), refused: reason}, s.f)
	return refusal{reason}
}

// tooLarge ends a fill whose page has a body that other nodes keep and this one does
// not: requests for it pass through. The stored page is good, and may be pinned, so it is
// not rendered over.
func (s *fill) tooLarge(err error) outcome {
	s.c.complaints.Log("requests for a stored page pass through, because its body exceeds this node's limit", "key", s.key.String(), "error", err)
	return s.refused(s.latest.Began, httpcache.RefusedTooLarge)
}

// isNegative reports whether a storable status means that there is no page.
func isNegative(status int) bool { return status >= http.StatusBadRequest }

// staysInMemory reports whether a rendered page is not published. Visitors can request
// any number of invented URLs, and each would become a row and a body. An entry that
// exists, even one that cannot be read, is replaced.
func (s *fill) staysInMemory(rec store.Record, next *store.Entry) bool {
	return isNegative(next.Status) && rec.Entry == nil && rec.Malformed == nil && !s.force && !s.policy.storeNegative
}

// knownNegative returns what another flight of this process has found since this flight's
// leader looked for a negative entry: that the page is not cacheable, or a negative answer;
// nil if there is neither.
func (s *fill) knownNegative(rec store.Record) outcome {
	if s.force {
		return nil
	}
	e := s.c.negative.get(s.key, time.Now())
	if e != nil && e.refused != "" {
		return refusal{e.refused}
	}
	if rec.Entry != nil || e == nil || e.page == nil || store.Freshness(&e.page.Entry, s.c.purges(s.f, e.page, s.c.now()).Merge(rec.Purges), s.c.now()) != store.Fresh {
		return nil
	}
	return storedPage{page: e.page}
}

// FailingKeys returns the keys of pages whose last render in this process failed, by
// partition key. Rows of pages without content do not have the key.
func (c *Cache) FailingKeys() map[string]store.Key {
	keys := make(map[string]store.Key)
	for k, e := range c.negative.byKey.All() {
		if e.failed != nil {
			keys[c.cfg.Partition(k)] = k
		}
	}
	return keys
}

// An origin withdraws a page by a response that says that the page is gone, or must no
// longer be shared. That ends the stored copy: a withdrawn entry counts as missing, on
// every node and after every restart, until a render is published.
//
//	render -> 401, 403, 404, 410, 451, a redirect, private, no-store, no-cache, Set-Cookie,
//	          or a Cache-Control that cannot be parsed
//	       -> publish META as withdrawn, with a reload in the log, and delete LOCK
//
// A withdrawal is a publish like any other: only the holder of the lease can make it, and
// the fence keeps it from undoing a newer publish. A pinned page is not withdrawn,
// because an operator's decision takes precedence. Neither is a page that was never
// stored: requests for invented URLs leave no rows.
//
// A storable 404, 410 or redirect needs no withdrawal, since it replaces the page.
//
// If the store cannot be updated, this process remembers the withdrawal in the negative
// cache, and updates the store at its next render of the page.

// withdrawable reports whether there is an entry to withdraw.
func (s *fill) withdrawable(rec store.Record) bool {
	return rec.Entry != nil && (!rec.Entry.Withdrawn || s.ended) && !s.pinned(rec)
}

// withdrawal describes a withdrawn page. No client serves such an entry, even one that
// does not know Entry.Withdrawn. It keeps the body's key, so that an unchanged page that
// returns is not written again.
func (s *fill) withdrawal(e store.Entry, at timing, seq int64) store.Entry {
	e.GenerationID = s.c.newGenerationID()
	e.GeneratedAt, e.Revalidate, e.Stale = at.generatedAt, 0, 0
	e.Key, e.Route = s.key.Text, s.policy.name
	e.Status, e.ETag, e.Header, e.Tags = http.StatusGone, "", nil, nil
	e.PinnedUntil, e.AssertedAt, e.PurgeSeq, e.Build, e.Withdrawn = time.Time{}, time.Time{}, seq, s.c.build.Load(), true
	e.Expires = expiry(e, s.c.now(), s.c.cfg.Retention)
	return e
}

// withdrawHere withdraws, in this process only, all generations from before a render,
// and remembers the refusal, if there is one.
func (s *fill) withdrawHere(at timing, refused string) {
	if s.c.memory.known(s.key) != nil {
		s.c.reload(s.key)
	}
	e := &negativeEntry{readAt: time.Now(), seq: s.asOf, refused: refused, ended: at.generatedAt}
	if refused != "" {
		e.until = e.readAt.Add(remembered)
	}
	s.c.negative.put(s.key, e, s.f)
}

// withdrawnHere reports whether an entry was withdrawn in this process only. A pin takes
// precedence.
func (s *fill) withdrawnHere(e *store.Entry) bool {
	return e != nil && !e.Withdrawn && !e.PinnedUntil.After(s.c.now()) && s.c.negative.withdrawn(s.key, e.GeneratedAt)
}

func errWithdrawn() error {
	return fmt.Errorf("%w: the page was withdrawn by its origin; roll back to an older generation, or regenerate it", store.ErrNoVersion)
}
