package nodecache

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/internal/marks"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

// A Table has the rows of pages. [store.MetaStore] is one.
type Table interface {
	// Read reads the row of a page, which may lack parts of a change that is being committed.
	Read(ctx context.Context, pk string) (store.Record, error)
	// ReadSerializable reads the row of a page with all changes that were committed before.
	ReadSerializable(ctx context.Context, pk string) (store.Record, error)
	// Covering returns the marks that cover a page with these tags.
	Covering(ctx context.Context, k store.Key, tags []string) (store.PurgeState, error)
}

// Options are what a Cache needs of its process. All functions must be safe for concurrent use.
type Options struct {
	// Memory bounds what pages, stubs and negative entries weigh, in bytes. Unpublished pages may take
	// an eighth of it in addition. If it is not positive, neither pages nor stubs nor unpublished pages
	// are kept.
	Memory int64
	Table  Table
	Now    func() time.Time
	// Partition returns the partition key of a page.
	Partition func(store.Key) string
	// FollowsLog reports whether the node has read the log lately: all marks of the table are in
	// Marks then.
	FollowsLog func(now time.Time) bool
	// Learn adds purges that were read to the flights of a page. It is called before the pages in
	// memory are judged by them.
	Learn func(k store.Key, purges store.PurgeState)
	// InvalidateFlights records in all flights of a page that what they have read of it before now is
	// outdated, and returns once each further look at them sees that. Invalidate calls it before it
	// drops what is kept.
	InvalidateFlights func(k store.Key, now time.Time)
	// Evicted, which may be nil, is called for each page that leaves memory: "size", to make room, or
	// "reloaded", because it was invalidated.
	Evicted func(reason string, bytes int64)
}

// A Cache is what one node knows of pages. All methods are safe for concurrent use.
type Cache struct {
	// Marks are the purges of tags, prefixes, tenants and the site that this node knows.
	Marks       marks.Table
	Negative    *Negative
	Unpublished *Unpublished

	o       Options
	build   atomic.Int64 // the sequence of this node's build of the site; 0: none, or not read yet
	flushed flushTime
	changed changedPages

	pages *otter.Cache[store.Key, *page.Page] // nil: nothing is kept
	// stubs are the stubs of evicted pages. They are written under the lock of the key in pages. Nil if
	// pages is.
	stubs     *otter.Cache[store.Key, *Stub]
	stubBytes atomic.Int64                     // what stubs weigh
	given     atomic.Int64                     // what pages have given up of limit for them
	limit     atomic.Int64                     // what both may weigh
	dividing  sync.Mutex                       // held while the maximum of pages changes
	seed      maphash.Seed                     // of the sums of bodies
	last      atomic.Pointer[store.PurgeState] // the purges of the stub that was made last
}

// New returns an empty Cache.
func New(o Options) (*Cache, error) {
	negative := o.Memory / negativeShare
	c := &Cache{o: o, seed: maphash.MakeSeed()}
	c.limit.Store(o.Memory - negative)
	if err := c.openMemory(); err != nil {
		return nil, fmt.Errorf("the memory tier: %w", err)
	}
	var err error
	if c.Unpublished, err = newUnpublished(o.Memory/unpublishedShare, c); err != nil {
		return nil, fmt.Errorf("the memory of unpublished pages: %w", err)
	}
	if c.Negative, err = newNegative(max(negative, minNegative), c); err != nil {
		return nil, fmt.Errorf("the negative cache: %w", err)
	}
	return c, nil
}

// Resize changes Options.Memory while the cache is used, to more than 0. What no longer fits is evicted, the least useful first.
// A cache that keeps nothing stays so.
func (c *Cache) Resize(memory int64) {
	if c.pages == nil || memory <= 0 {
		return
	}
	negative := memory / negativeShare
	c.dividing.Lock()
	c.limit.Store(memory - negative)
	c.stubs.SetMaximum(uint64(stubLimit(memory - negative))) //nolint:gosec // it is positive
	c.given.Store(-1)                                        // of another limit
	c.divideLocked()
	c.dividing.Unlock()
	c.Unpublished.pages.SetMaximum(uint64(memory / unpublishedShare)) //nolint:gosec // it is positive
	c.Negative.resize(max(negative, minNegative))
}

// Read reads the record of a page from the table, and returns when that was. Its Purges include the
// marks that cover the entry. From then on this node serves no page that it knows to be purged.
func (c *Cache) Read(ctx context.Context, k store.Key, pk string) (store.Record, page.Interval, error) {
	rec, at, err := c.readRow(ctx, k, pk)
	if err != nil {
		return store.Record{}, at, err
	}
	// A flight that puts a page into memory checks afterwards what was learned: either it sees this, or
	// this sees its page.
	c.o.Learn(k, rec.Purges)
	withdrawn := rec.Entry != nil && rec.Entry.Withdrawn
	if p, now := c.Known(k), c.o.Now(); p != nil && (withdrawn || store.Freshness(&p.Entry, c.Purges(nil, p, now).Merge(rec.Purges), now) == store.Purged) {
		c.Invalidate(k)
	}
	err = c.addMarks(ctx, k, &rec, &at)
	return rec, at, err
}

// maxReads bounds the concurrent reads of [Cache.ReadEach].
const maxReads = 8

// ReadEach reads the records of pages, several at a time, and calls use with each and its index. It
// ends with the first error.
func (c *Cache) ReadEach(ctx context.Context, pages []store.Key, use func(n int, rec store.Record) error) error {
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(maxReads)
	for n, k := range pages {
		reads.Go(func() error {
			rec, _, err := c.Read(ctx, k, c.o.Partition(k))
			if err != nil {
				return err
			}
			return use(n, rec)
		})
	}
	return reads.Wait()
}

// ReadAll returns the records of pages, in their order.
func (c *Cache) ReadAll(ctx context.Context, pages []store.Key) ([]store.Record, error) {
	records := make([]store.Record, len(pages))
	err := c.ReadEach(ctx, pages, func(n int, rec store.Record) error {
		records[n] = rec
		return nil
	})
	return records, err
}

// Peek is Read without effects: the node learns nothing of it.
func (c *Cache) Peek(ctx context.Context, k store.Key, pk string) (store.Record, page.Interval, error) {
	rec, at, err := c.readRow(ctx, k, pk)
	if err == nil {
		err = c.addMarks(ctx, k, &rec, &at)
	}
	return rec, at, err
}

// readRow reads the record of a page, without the marks that cover the entry.
func (c *Cache) readRow(ctx context.Context, k store.Key, pk string) (store.Record, page.Interval, error) {
	at := page.Interval{Began: time.Now()}
	read := c.o.Table.Read
	if c.changed.lately(k) {
		read = c.o.Table.ReadSerializable
	}
	rec, err := read(ctx, pk)
	at.Ended = time.Now()
	if err != nil {
		return store.Record{}, at, fmt.Errorf("reading %s: %w", k, err)
	}
	rec.Purges = c.Current(rec.Purges)
	return rec, at, nil
}

// addMarks adds the marks that cover the entry to a record that readRow has read.
func (c *Cache) addMarks(ctx context.Context, k store.Key, rec *store.Record, at *page.Interval) error {
	if rec.Entry == nil {
		return nil
	}
	// Marks are not learned by flights: they apply to this entry, and not to one with other tags that a
	// flight may be rendering.
	now := c.o.Now()
	rec.Purges = rec.Purges.Merge(c.Marks.Covering(k, rec.Entry.Tags, now))
	if !c.o.FollowsLog(now) {
		at.AsOf = at.Began
		stored, err := c.o.Table.Covering(ctx, k, rec.Entry.Tags)
		if err != nil {
			return fmt.Errorf("reading the purge marks of %s: %w", k, err)
		}
		rec.Purges = rec.Purges.Merge(stored)
	}
	return nil
}

// A read of the table that began before this node learned of a rollback may have seen the previous
// page, and must not put it into memory, however late it returns. Only fills put pages into memory, and
// a fill runs in a flight, so an invalidation is recorded in the current flights of its page. Nothing
// needs to be recorded for other pages: the cost of a burst of invalidations is bounded by the number of
// flights.

// Invalidate drops all that this node keeps of pages that were rolled back, pinned, unpinned or
// withdrawn. Later requests get what the store has.
func (c *Cache) Invalidate(keys ...store.Key) {
	for _, k := range keys {
		c.Changed(k)
		// First nothing older can be put; then what is kept is removed.
		c.o.InvalidateFlights(k, time.Now())
		c.Drop(k)
		c.Unpublished.Forget(k)
		c.Negative.Forget(k)
	}
}

// Changed records that a page has changed: what is read of it from now on includes that change.
func (c *Cache) Changed(k store.Key) { c.changed.note(k) }

// AllChanged is Changed for all pages.
func (c *Cache) AllChanged() { c.changed.noteAll() }

// Flush drops everything that was read before now.
func (c *Cache) Flush(now time.Time) { c.flushed.set(now) }

// Outdated reports whether what a flight has read of its page since readAt must not be served or kept:
// the page was invalidated since, or everything was flushed.
func (c *Cache) Outdated(f *singleflight.State, readAt time.Time) bool {
	return c.flushed.since(readAt) || f.InvalidatedSince(readAt)
}

// OutdatedDuring reports whether the page was invalidated, or everything was flushed, during a read by a
// flight, which may have seen the state before or after.
func (c *Cache) OutdatedDuring(f *singleflight.State, read page.Interval) bool {
	return c.flushed.during(read) || read.Contains(f.InvalidatedAt())
}

// A flushTime is the instant of the last flush. There is none at first.
type flushTime struct {
	at atomic.Pointer[time.Time]
}

func (f *flushTime) set(now time.Time) { f.at.Store(&now) }

// since reports whether there was a flush after readAt. It is on the hit path: it takes no lock.
func (f *flushTime) since(readAt time.Time) bool {
	at := f.at.Load()
	return at != nil && readAt.Before(*at)
}

// during reports whether the flush happened during a read.
func (f *flushTime) during(read page.Interval) bool { return read.Contains(f.at.Load()) }

// Purges returns all purges that this node knows to cover a page: the purges read with it, the purges
// that the flight f, which may be nil, has learned since, and all marks. It is on the hit path.
func (c *Cache) Purges(f *singleflight.State, p *page.Page, now time.Time) store.PurgeState {
	known := p.Purges
	if f != nil {
		known = f.Known(known)
	}
	// No mark covers most pages: a hit saves the merge.
	if covering := c.Marks.Recall(&p.Marked, p.Key, p.Entry.Tags, now); covering.Seq|covering.HardSeq != 0 || !covering.At.IsZero() {
		known = known.Merge(covering)
	}
	return c.Current(known)
}

// RecordPurges returns all purges that this node knows to cover the entry of a record that the flight f
// has read.
func (c *Cache) RecordPurges(f *singleflight.State, k store.Key, rec store.Record) store.PurgeState {
	known := f.Known(rec.Purges)
	if e := rec.Entry; e != nil {
		known = known.Merge(c.Marks.Covering(k, e.Tags, c.o.Now()))
	}
	return c.Current(known)
}

// Current returns p with the lifetime of marks and the build that are known now. It is on the hit path.
func (c *Cache) Current(p store.PurgeState) store.PurgeState {
	p.MarkLifetime = max(p.MarkLifetime, c.Marks.Lifetime())
	p.Build = c.build.Load()
	return p
}

// Build returns the sequence at which this node's build of the site was deployed; 0 if there is none, or
// it was not read yet.
func (c *Cache) Build() int64 { return c.build.Load() }

// SetBuild sets the sequence of Build.
func (c *Cache) SetBuild(seq int64) { c.build.Store(seq) }

// State is the freshness of a page by Purges.
func (c *Cache) State(f *singleflight.State, p *page.Page, now time.Time) store.State {
	return store.Freshness(&p.Entry, c.Purges(f, p, now), now)
}

// Acceptable reports whether a page satisfies a visitor who must not get anything older than the
// sequence minSeq: it was rendered after that, or nothing that this node knows covers it. The node must
// have applied the log up to minSeq.
func (c *Cache) Acceptable(p *page.Page, minSeq int64) bool {
	return p.Entry.PurgeSeq >= minSeq && !p.Entry.Foreign || !p.Entry.CoveredBy(c.Purges(nil, p, c.o.Now()))
}

// Reweigh accounts for the weight of a page that has changed, wherever it is kept.
func (c *Cache) Reweigh(p *page.Page) {
	reweigh(c.pages, p)
	reweigh(c.Unpublished.pages, p)
	c.Negative.reweigh(p)
}

// reweigh is Reweigh for one map, which may be nil.
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
