package gc

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// A body is garbage if no row refers to it: its page was published again, its rows have
// expired, or the process that wrote it never published. Collection has four steps, in
// this order:
//
//	list the bodies ──► scan the rows once ──► list those again ──► check their pages,
//	(16 bytes each)     (keys as digests)      that seem garbage    many at once, and delete
//
// The check of a page takes its lease, reads the references of its rows, and deletes the
// bodies that were listed before the lease was taken and that no row refers to. Pages are
// checked in batches: their leases are acquired at the same time, each page is read under its
// own, the garbage of all of them is deleted together, and then the leases are released. What
// follows is true of each page by itself. A publish
// or a rollback must not be about to refer to a deleted body. A body gets a reference in
// one of five ways, and none of them can happen to a body that is deleted:
//
//  1. The first publish after it was written. It needs the lease under which the body was
//     written, held without interruption. We hold the page's lease when we read the
//     references, and delete only bodies from before we took it: that publish has
//     happened, and we see its row, or it can never happen. This holds for a publisher
//     that was paused between the two for any time. If we are paused and another process
//     holds the lease during our pause, the bodies that it writes are not on our list.
//  2. The publish of an unchanged page, which refers to the body of the current entry
//     again. It reads META under its own lease. If that was before our lease, the publish
//     can no longer happen. If it was after, META referred to the body when we read it:
//     every later reference is copied from an earlier one.
//  3. A rollback, which needs no lease. It requires the version row, and only a publish
//     makes version rows, with a body of case 1 or 2. So the row existed when we read the
//     references, and its body is not deleted as long as the row exists, expired or not.
//  4. The replay of a request. Its row refers to the body as a version row does.
//  5. A quarantined generation. Its row is put under the lease under which the body was
//     written, like in case 1. It is accepted by a publish under a lease that was acquired
//     before the row was read: if ours was earlier, the row exists when we read the
//     references; if ours was later, that publish has happened, or can no longer happen.
//
// The scan decides nothing for a page that has a row. Its result may be outdated when the
// page is checked, which reads again, and digests may collide: either costs a check, or
// leaves garbage for the next collection.
//
// The scan does decide for a page without any row. Only the hash of its partition key is
// known, from the folder of its bodies, so its lease cannot be taken. But no process holds
// that lease either: the scan is strongly consistent, begins after the bodies were listed,
// and sees every row that exists throughout. A process that wrote a listed body and may
// still publish it held LOCK before the listing, and holds it until its publish replaces
// it by META, in one transaction; the scan reads LOCK before META, so it sees one of them.
// So case 1 cannot happen to a listed body, and cases 2 and 3 need a row. This is why the
// bodies are listed before the rows are scanned. The reverse order would not need to keep
// the listing in memory, but would have to trust clocks for these bodies.
//
// All of that presumes that reads of several rows see a transaction as a whole or not at
// all, as the reads of the embedded engine do. DynamoDB's do not: it commits row by row (see
// package dynamostore, serializable.go). A scan may see LOCK deleted and META not yet there,
// and so a page without any row; a query under the lease may see META from before the
// publish that has just deleted LOCK. So on DynamoDB the minimum age of a body is what
// protects a body whose publish is being committed: it was written before that publish, by
// less than a render's store calls take, and so is far younger than an hour. That is
// as good as the clocks by which ages are determined: the ages of objects in a bucket are
// by the bucket's own clock, the Date of its listings; the ages of files by this machine's. A body
// that an entry refers to already, of a version or of a renewed page, does not depend on it:
// rows from before and from after such a transaction refer to it.
//
// Visitors are not affected: a reader that has read META and finds the body deleted reads
// META again.
//
// The codings of a body (see store.CodingsKey) are listed as bodies are, and a row that refers
// to the body refers to them. They are written without a lease, after the publish, so that they
// may appear after their body was deleted: the next collection finds them, without a reference.
// Nothing ever makes a reference to codings without their body.
//
// If we crash, a lease expires, and the next collection finds the rest.

// CollectOptions are the options of [Collect]. The zero value is useful.
type CollectOptions struct {
	// Grace is how old a body must be before it is deleted. At least an hour;
	// zero means DefaultGrace. On DynamoDB, no process may take longer from writing a body
	// to the commit of its publish, and clocks may not be wrong by more.
	Grace time.Duration
	// DryRun deletes nothing and takes no leases: a reported body may turn out to be
	// needed.
	DryRun bool
	// Report is called for every body that was deleted, or would be, by the goroutine
	// that called Collect. Nil means no reports.
	Report func(Garbage)
	// Now is the wall clock that determines the age of bodies of stores that do not state by
	// which clock they were written (see [store.BodyInfo]). Nil means time.Now.
	Now func() time.Time
}

// DefaultGrace is the default age of garbage before it is deleted.
const DefaultGrace = 24 * time.Hour

// releaseTimeout bounds giving up a lease after the caller's context has ended.
const releaseTimeout = 5 * time.Second

// Garbage is a body that no row refers to.
type Garbage struct {
	store.BodyInfo
	// PK is the partition that it belongs to; empty if no row of it exists.
	PK string
}

// Collected is the result of a collection.
// The codings of a body count as a body.
type Collected struct {
	Bodies int   // deleted, or to be deleted
	Bytes  int64 // their total length
	Kept   int   // bodies of sufficient age that a row refers to
	Young  int   // bodies that are too young
	Busy   int   // pages with garbage that were skipped because their lease was held
}

// ErrForeignBodies: none of the bodies belongs to a page of the table.
var ErrForeignBodies = errors.New("the bodies do not belong to this table")

// A Store is the part of a metadata store that [Collect] uses.
type Store interface {
	store.Inventory
	store.LeaseStore
}

// Collect deletes the bodies that no row of their page refers to: no entry, no kept
// version, no result of a request, no generation in quarantine. It considers bodies/<hash>/ only, where a cache stores
// them, and takes the lease of a page before it deletes one of its bodies. It skips pages
// whose lease is held. It may run concurrently with any number of caches and collections.
// Tables must not share bodies: each needs its own folder, or bucket and prefix.
//
// It lists all bodies and then scans the table once, in parallel, with strongly consistent
// reads. Garbage costs a second listing of the bodies, by the first two hex digits of their
// folder: of those that begin as a page with garbage does. A page with garbage also costs a
// read of its rows and a lease; up to 128 pages are checked at the same time. A store that can
// delete several bodies with one call (see [store.DeleteBodies]) gets one for 32 pages.
//
// It keeps 16 bytes in memory for each body of sufficient age, and scans the table again for
// every 32 million of them; some 150 bytes for each of at most a million pages with garbage; and
// the keys of the garbage of a 256th of them. The first error ends the collection; the result
// has what was done.
// [ErrForeignBodies]: none of the bodies belongs to a page of the table, which is probably
// the wrong table. Nothing was deleted.
func Collect(ctx context.Context, meta Store, bodies store.BodyStore, opts CollectOptions) (Collected, error) {
	if opts.Grace == 0 {
		opts.Grace = DefaultGrace
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Grace < time.Hour {
		return Collected{}, fmt.Errorf("collecting garbage: the grace period must be at least 1h (got %s)", opts.Grace)
	}
	c := &collector{meta: meta, bodies: bodies, opts: opts, before: opts.Now().Add(-opts.Grace), suspects: make(map[uint64]string)}
	if err := c.run(ctx); err != nil {
		return c.done, fmt.Errorf("collecting garbage: %w", err)
	}
	return c.done, nil
}

// A collector is one collection. Only the goroutine that called Collect uses it, except for
// meta, bodies, opts and before, which do not change.
type collector struct {
	meta   Store
	bodies store.BodyStore
	opts   CollectOptions
	before time.Time // bodies that were written later are too young; see young
	done   Collected

	known    bool              // a body belongs to a page of the table
	suspects map[uint64]string // partition keys of pages that seem to have garbage, by the digest of their folder
}

const (
	// maxCandidates is how many bodies are kept in memory at once, as digests: half a
	// gigabyte. If there are more, the table is scanned several times.
	maxCandidates = 32 << 20
	// maxSuspects is how many pages with garbage are kept in memory at once. If there are
	// more, the scan waits while they are checked.
	maxSuspects = 1 << 20
	// maxPerPage is how many bodies of a page one collection deletes. The next one finds
	// the rest.
	maxPerPage = 10_000
	// batches is how many batches are checked at once, of batchPages pages each. An embedded
	// table commits their leases together, and on DynamoDB that stays below the 4,000 writes a
	// second that a table serves that was never busier.
	batches    = 4
	batchPages = 32
	// batchBodies ends a batch of fewer pages.
	batchBodies = 1000
)

func (c *collector) run(ctx context.Context) error {
	found := newCandidates()
	for info, err := range c.bodies.List(ctx, store.BodyRoot) {
		if err != nil {
			return err
		}
		_, folder, ok := folderOfBody(info.Key)
		if !ok {
			continue
		}
		if c.young(info) {
			c.done.Young++
			continue
		}
		found.add(folder, info.Key)
		if found.count == maxCandidates {
			if err := c.sweep(ctx, found); err != nil {
				return err
			}
			found = newCandidates()
		}
	}
	return c.sweep(ctx, found)
}

// young reports whether a body is too young to be garbage, by the clock that its time is of.
func (c *collector) young(info store.BodyInfo) bool {
	before := c.before
	if !info.ListedAt.IsZero() {
		before = info.ListedAt.Add(-c.opts.Grace)
	}
	return !info.ModifiedAt.Before(before)
}

// sweep deletes the garbage among the candidates.
func (c *collector) sweep(ctx context.Context, found *candidates) error {
	if found.count == 0 {
		return nil
	}
	found.sort()
	if err := c.scan(ctx, found); err != nil {
		return err
	}
	if !c.known {
		return fmt.Errorf("%w: none of %d bodies belongs to a page; if it is the right table "+
			"and all of its pages have expired, delete the bodies by hand", ErrForeignBodies, found.count)
	}
	return c.clean(ctx, found, found.orphans)
}

// scan finds the pages that seem to have garbage.
func (c *collector) scan(ctx context.Context, found *candidates) error {
	for page, err := range c.meta.ReferencedBodies(ctx) {
		if err != nil {
			return err
		}
		all, unreferenced := found.see(page)
		c.known = c.known || all > 0
		c.done.Kept += all - unreferenced
		if unreferenced == 0 {
			continue
		}
		c.suspects[folderDigest(store.BodyPrefix(page.PK))] = page.PK
		if len(c.suspects) == maxSuspects {
			if err := c.clean(ctx, found, func(int) bool { return false }); err != nil {
				return err
			}
		}
	}
	return nil
}

// clean checks the suspects and forgets them, and deletes the orphans in the buckets for which
// orphans is true.
func (c *collector) clean(ctx context.Context, found *candidates, orphans func(bucket int) bool) error {
	var suspected [256]bool
	for folder := range c.suspects {
		suspected[bucketOf(folder)] = true
	}
	err := c.each(ctx, func(ctx context.Context, check func(batch) error) error {
		for bucket, listed := range suspected {
			if too := orphans(bucket); listed || too {
				if err := c.collectBucket(ctx, found, bucket, too, check); err != nil {
					return err
				}
			}
		}
		return nil
	})
	clear(c.suspects)
	return err
}

// collectBucket lists a bucket again and passes its garbage to check, with orphans also garbage of
// pages without rows.
func (c *collector) collectBucket(ctx context.Context, found *candidates, bucket int, orphans bool, check func(batch) error) error {
	pages := make(map[uint64]*suspect)
	var gone batch
	for info, err := range c.bodies.List(ctx, bucketPrefix(bucket)) {
		if err != nil {
			return err
		}
		_, folder, ok := folderOfBody(info.Key)
		if !ok || c.young(info) {
			continue
		}
		switch found.look(folder, info.Key) {
		case garbage:
			if pk, ok := c.suspects[folder]; ok {
				page := pages[folder]
				if page == nil {
					page = &suspect{pk: pk}
					pages[folder] = page
				}
				page.add(info)
			}
		case orphaned:
			if !orphans {
				continue
			}
			gone.orphans = append(gone.orphans, info)
			if len(gone.orphans) == batchBodies {
				if err := check(gone); err != nil {
					return err
				}
				gone = batch{}
			}
		case needless:
		}
	}
	if err := checkBatches(maps.Values(pages), check); err != nil || len(gone.orphans) == 0 {
		return err
	}
	return check(gone)
}

// checkBatches passes pages to check, in batches.
func checkBatches(pages iter.Seq[*suspect], check func(batch) error) error {
	var next batch
	bodies := 0
	for page := range pages {
		next.pages = append(next.pages, page)
		bodies += len(page.garbage)
		if len(next.pages) < batchPages && bodies < batchBodies {
			continue
		}
		if err := check(next); err != nil {
			return err
		}
		next, bodies = batch{}, 0
	}
	if len(next.pages) == 0 {
		return nil
	}
	return check(next)
}

// A suspect is a page that seems to have garbage.
type suspect struct {
	pk      string
	garbage []store.BodyInfo
}

func (s *suspect) add(info store.BodyInfo) {
	if len(s.garbage) < maxPerPage {
		s.garbage = append(s.garbage, info)
	}
}

// A batch is pages that seem to have garbage, or bodies of pages without rows.
type batch struct {
	pages   []*suspect
	orphans []store.BodyInfo
}

// A checked is the result of checking a batch.
type checked struct {
	deleted []Garbage
	kept    int
	busy    int
	err     error
}

// each checks all batches that find passes to check, several at once, and accounts for
// the results. The first error ends it.
func (c *collector) each(ctx context.Context, find func(ctx context.Context, check func(batch) error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue, results := make(chan batch), make(chan checked)
	var working sync.WaitGroup
	working.Go(func() {
		defer close(queue)
		err := find(ctx, func(b batch) error {
			select {
			case queue <- b:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if err != nil {
			results <- checked{err: err}
		}
	})
	for range batches {
		working.Go(func() {
			for b := range queue {
				results <- c.check(ctx, b)
			}
		})
	}
	go func() {
		working.Wait()
		close(results)
	}()
	var first error
	for r := range results {
		c.account(r)
		if r.err != nil && first == nil {
			first = r.err
			cancel(r.err)
		}
	}
	return first
}

// account adds the result of one check and reports deletions.
func (c *collector) account(r checked) {
	c.done.Kept += r.kept
	c.done.Busy += r.busy
	for _, g := range r.deleted {
		c.done.Bodies++
		c.done.Bytes += g.Length
		if c.opts.Report != nil {
			c.opts.Report(g)
		}
	}
}

// check deletes the garbage of a batch.
func (c *collector) check(ctx context.Context, b batch) (r checked) {
	var found []Garbage
	for _, info := range b.orphans {
		found = append(found, Garbage{BodyInfo: info})
	}
	if c.opts.DryRun {
		for _, page := range b.pages {
			for _, info := range page.garbage {
				found = append(found, Garbage{BodyInfo: info, PK: page.pk})
			}
		}
		r.deleted = found
		return r
	}
	if len(found) > 0 {
		r.err = c.discard(ctx, found, &r)
	}
	if r.err == nil && len(b.pages) > 0 {
		r.err = c.leased(ctx, b.pages, &r)
	}
	return r
}

// A holding is a page whose lease we hold; lease is nil if another process holds it.
type holding struct {
	lease   store.Lease
	garbage []Garbage // no row refers to these
	kept    int       // a row refers to these after all
}

// leased deletes the garbage of pages under their leases.
func (c *collector) leased(ctx context.Context, pages []*suspect, r *checked) error {
	// The deletions end with the first of the leases, so that no visitor waits longer. The next
	// collection continues.
	held, cancel := context.WithTimeout(ctx, store.DefaultLease)
	defer cancel()
	holdings := make([]holding, len(pages))
	acquiring, each := errgroup.WithContext(ctx)
	for i, page := range pages {
		acquiring.Go(func() error {
			if err := c.hold(each, page, &holdings[i]); err != nil {
				return fmt.Errorf("partition %s: %w", page.pk, err)
			}
			return nil
		})
	}
	err := acquiring.Wait()
	if err == nil {
		var found []Garbage
		for _, h := range holdings {
			found = append(found, h.garbage...)
			r.kept += h.kept
			if h.lease == nil {
				r.busy++
			}
		}
		err = c.discard(held, found, r)
		if held.Err() != nil && ctx.Err() == nil {
			err = nil // the leases ended before the deletions
		}
	}
	return errors.Join(err, c.release(ctx, holdings))
}

// hold acquires the lease of a page and then reads which bodies its rows refer to: only what is
// read under the lease counts.
func (c *collector) hold(ctx context.Context, page *suspect, h *holding) error {
	lease, err := c.meta.Acquire(ctx, page.pk, store.DefaultLease, nil)
	if errors.As(err, new(*store.HeldError)) {
		return nil
	}
	if err != nil {
		return err
	}
	h.lease = lease
	keys, err := c.meta.BodyKeys(ctx, page.pk)
	if err != nil {
		return err
	}
	for _, info := range page.garbage {
		if isReferenced(info, keys) {
			h.kept++
			continue
		}
		h.garbage = append(h.garbage, Garbage{BodyInfo: info, PK: page.pk})
	}
	return nil
}

// release gives up leases, at the same time.
func (c *collector) release(ctx context.Context, holdings []holding) error {
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	var releasing errgroup.Group
	for _, h := range holdings {
		if h.lease != nil {
			releasing.Go(func() error { return c.meta.Release(settle, h.lease) })
		}
	}
	return releasing.Wait()
}

// isReferenced reports whether keys contain a body, or the body of codings. Other services may
// refer to a body by a URL that ends in its key.
func isReferenced(info store.BodyInfo, keys []string) bool {
	body, _ := store.CodedBody(info.Key)
	return slices.ContainsFunc(keys, func(key string) bool {
		for _, own := range [...]string{info.Key, body} {
			if key == own || strings.HasSuffix(key, "/"+own) {
				return true
			}
		}
		return false
	})
}

// discard deletes bodies. After an error, those that were certainly deleted are accounted for.
func (c *collector) discard(ctx context.Context, found []Garbage, r *checked) error {
	keys := make([]string, len(found))
	for i, g := range found {
		keys[i] = g.Key
	}
	deleted, err := store.DeleteBodies(ctx, c.bodies, keys)
	r.deleted = append(r.deleted, found[:deleted]...)
	return err
}
