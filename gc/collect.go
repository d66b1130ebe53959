package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// A body is garbage if no row refers to it: its page was published again, its rows have
// expired, or the process that wrote it never published. Collection has three steps, in
// this order:
//
//	list the bodies ──► scan the rows once ──► check each page that seems
//	(16 bytes each)     (keys as digests)      to have garbage, and delete it
//
// The check of a page takes its lease, reads the references of its rows, and deletes the
// bodies that were listed before the lease was taken and that no row refers to. A publish
// or a rollback must not be about to refer to a deleted body. A body gets a reference in
// one of five ways, and none of them can happen to a body that is deleted:
//
//  1. The first publish after it was written. It needs the lease under which the body was
//     written, held without interruption. We hold the page's lease when we read the
//     references, and delete only bodies from before we took it: that publish has
//     happened, and we see its row, or it can never happen. This holds for a publisher
//     that was paused between the two for any time. If we are paused and another process
//     holds the lease meanwhile, the bodies that it writes are not on our list.
//  2. The publish of an unchanged page, which refers to the body of the current entry
//     again. It reads META under its own lease. If that was before our lease, the publish
//     can no longer happen. If it was after, META referred to the body when we read it:
//     every later reference is copied from an earlier one.
//  3. A rollback, which needs no lease. It requires the version row, and only a publish
//     makes version rows, with a body of case 1 or 2. So the row existed when we read the
//     references, and its body is not deleted as long as the row exists, expired or not.
//  4. The replay of a request. Its row refers to the body as a version row does.
//  5. A quarantined generation. Its row is put under the lease under which the body was
//     written, as in case 1. It is accepted by a publish under a lease that was acquired
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
// The minimum age of a body is a margin for clocks and for mistakes; the argument does not
// depend on it. Visitors are not affected: a reader that has read META and finds the body
// deleted reads META again.
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
	// zero means DefaultGrace.
	Grace time.Duration
	// DryRun deletes nothing and takes no leases: a reported body may turn out to be
	// needed.
	DryRun bool
	// Report is called for every body that was deleted, or would be, by the goroutine
	// that called Collect. Nil means no reports.
	Report func(Garbage)
	// Now is the wall clock that determines the age of bodies. Nil means time.Now.
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
// reads. A page with garbage also costs two reads of its rows, a lease, and a listing of
// its bodies; bodies of pages without rows cost a second listing of all bodies. It keeps 16
// bytes in memory for each body of sufficient age, and scans the table again for every 32
// million of them. The first error ends the collection; the result says what was done.
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
	c := &collector{meta: meta, bodies: bodies, opts: opts, before: opts.Now().Add(-opts.Grace)}
	err := c.run(ctx)
	c.done.Kept += c.kept
	if err != nil {
		return c.done, fmt.Errorf("collecting garbage: %w", err)
	}
	return c.done, nil
}

// A collector is one collection.
type collector struct {
	meta   Store
	bodies store.BodyStore
	opts   CollectOptions
	before time.Time // bodies that were written later are too young
	done   Collected

	// The scan alone uses these; it runs concurrently with the checks.
	known bool // a body belongs to a page of the table
	kept  int  // bodies of pages without garbage
}

const (
	// maxCandidates is how many bodies are kept in memory at once, as digests: half a
	// gigabyte. If there are more, the table is scanned several times.
	maxCandidates = 32 << 20
	// maxPerPage is how many bodies of a page one collection deletes. The next one finds
	// the rest.
	maxPerPage = 10_000
	// concurrency is how many pages are checked at once.
	concurrency = 16
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
		if !info.ModifiedAt.Before(c.before) {
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

// sweep deletes the garbage among the candidates.
func (c *collector) sweep(ctx context.Context, found *candidates) error {
	if found.count == 0 {
		return nil
	}
	found.sort()
	if err := c.each(ctx, func(ctx context.Context, check func(suspect) error) error { return c.scan(ctx, found, check) }); err != nil {
		return err
	}
	if !c.known {
		return fmt.Errorf("%w: none of %d bodies belongs to a page; if it is the right table "+
			"and all of its pages have expired, delete the bodies by hand", ErrForeignBodies, found.count)
	}
	if !found.orphans() {
		return nil
	}
	return c.each(ctx, func(ctx context.Context, check func(suspect) error) error { return c.listOrphans(ctx, found, check) })
}

// A suspect is a page that seems to have garbage, or a body of a page without rows.
type suspect struct {
	pk     string
	orphan store.BodyInfo // if pk is empty
}

// scan finds the pages that seem to have garbage.
func (c *collector) scan(ctx context.Context, found *candidates, check func(suspect) error) error {
	for page, err := range c.meta.ReferencedBodies(ctx) {
		if err != nil {
			return err
		}
		switch all, unreferenced := found.see(page); {
		case all == 0:
			continue
		case unreferenced == 0:
			c.kept += all
		default:
			if err := check(suspect{pk: page.PK}); err != nil {
				return err
			}
		}
		c.known = true
	}
	return nil
}

// listOrphans finds the candidates of pages that have no row.
func (c *collector) listOrphans(ctx context.Context, found *candidates, check func(suspect) error) error {
	for info, err := range c.bodies.List(ctx, store.BodyRoot) {
		if err != nil {
			return err
		}
		if _, folder, ok := folderOfBody(info.Key); ok && found.orphaned(folder, info.Key) {
			if err := check(suspect{orphan: info}); err != nil {
				return err
			}
		}
	}
	return nil
}

// A checked is the result of checking a suspect.
type checked struct {
	pk      string
	deleted []store.BodyInfo
	kept    int
	busy    bool
	err     error
}

// each checks all suspects that find passes to check, several at once, and accounts for
// the results. The first error ends it.
func (c *collector) each(ctx context.Context, find func(ctx context.Context, check func(suspect) error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	suspects, results := make(chan suspect), make(chan checked)
	var working sync.WaitGroup
	working.Go(func() {
		defer close(suspects)
		err := find(ctx, func(s suspect) error {
			select {
			case suspects <- s:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		if err != nil {
			results <- checked{err: err}
		}
	})
	for range concurrency {
		working.Go(func() {
			for s := range suspects {
				results <- c.check(ctx, s)
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
	if r.busy {
		c.done.Busy++
	}
	for _, info := range r.deleted {
		c.done.Bodies++
		c.done.Bytes += info.Length
		if c.opts.Report != nil {
			c.opts.Report(Garbage{BodyInfo: info, PK: r.pk})
		}
	}
}

// check deletes the garbage of a suspect.
func (c *collector) check(ctx context.Context, s suspect) checked {
	r := checked{pk: s.pk}
	if s.pk == "" {
		r.err = c.discard(ctx, []store.BodyInfo{s.orphan}, &r)
		return r
	}
	if r.err = c.partition(ctx, s.pk, &r); r.err != nil {
		r.err = fmt.Errorf("partition %s: %w", s.pk, r.err)
	}
	return r
}

// partition deletes the garbage of a page. It first checks without the lease that there
// is any.
func (c *collector) partition(ctx context.Context, pk string, r *checked) error {
	keys, err := c.meta.BodyKeys(ctx, pk)
	if err != nil {
		return err
	}
	garbage, err := c.list(ctx, pk, keys, r)
	if err != nil {
		return err
	}
	if len(garbage) == 0 {
		return nil
	}
	if c.opts.DryRun {
		return c.discard(ctx, garbage, r)
	}
	// The deletions end with the lease, so that no visitor waits longer. The next
	// collection continues.
	held, cancel := context.WithTimeout(ctx, store.DefaultLease)
	defer cancel()
	lease, err := c.meta.Acquire(ctx, pk, store.DefaultLease, nil)
	if errors.As(err, new(*store.HeldError)) {
		r.busy = true
		return nil
	}
	if err != nil {
		return err
	}
	err = c.leased(held, pk, garbage, r)
	if held.Err() != nil && ctx.Err() == nil {
		err = nil // the lease ended before the deletions
	}
	settle, cancelSettle := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancelSettle()
	return errors.Join(err, c.meta.Release(settle, lease))
}

// list returns the bodies of a page that have sufficient age and are not in keys.
func (c *collector) list(ctx context.Context, pk string, keys []string, r *checked) (garbage []store.BodyInfo, err error) {
	for info, err := range c.bodies.List(ctx, store.BodyPrefix(pk)) {
		if err != nil {
			return nil, err
		}
		switch {
		case !info.ModifiedAt.Before(c.before):
		case isReferenced(info, keys):
			r.kept++
		default:
			garbage = append(garbage, info)
		}
		if len(garbage) == maxPerPage {
			return garbage, nil
		}
	}
	return garbage, nil
}

// leased deletes garbage under the lease of its page. It reads the references again: only
// what is read under the lease counts.
func (c *collector) leased(ctx context.Context, pk string, garbage []store.BodyInfo, r *checked) error {
	keys, err := c.meta.BodyKeys(ctx, pk)
	if err != nil {
		return err
	}
	return c.discard(ctx, slices.DeleteFunc(garbage, func(info store.BodyInfo) bool { return isReferenced(info, keys) }), r)
}

// isReferenced reports whether keys contain a body, or that of codings. Other services may
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

// discard deletes bodies, except in a dry run.
func (c *collector) discard(ctx context.Context, infos []store.BodyInfo, r *checked) error {
	for _, info := range infos {
		if !c.opts.DryRun {
			if err := c.bodies.Delete(ctx, info.Key); err != nil {
				return err
			}
		}
		r.deleted = append(r.deleted, info)
	}
	return nil
}
