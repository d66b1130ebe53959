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

// Bodies are garbage once no row names them: their page was published again, its
// rows have expired, or the process that wrote them never published. Finding garbage
// has three steps, in this order:
//
//	list the bodies ──► scan the rows, once ──► look closer where there seems
//	(16 bytes each)     (names as digests)      to be garbage, and delete it
//
// The closer look at a page takes its lease, asks which bodies its rows name, and
// deletes those that were there before the lease was taken and that no row names.
// What is deleted must not be what a publish or a rollback is about to name. A body
// comes to be named in four ways, and none of them can happen to one that is deleted:
//
//  1. By the first publish after it was written. That needs the lease under which
//     it was written, unbroken. We hold the lease of the page when we ask which
//     bodies its rows name, and delete only what was there before we took it: that
//     publish has happened, and its row is seen, or can never happen. This holds for
//     a publisher that was paused between the two, however long. If we are paused
//     ourselves, and others hold the lease meanwhile, what they write is not on our
//     list.
//  2. By the publish of an unchanged page, which names the body of the current entry
//     again. It reads META under its own lease. If that was before ours, the publish
//     cannot happen any more. If it is after, META named the body when we asked: every
//     later name is copied from an earlier one.
//  3. By a rollback, which needs no lease. It demands that its version row is there,
//     and a version row is made by a publish alone, with a body of 1 or 2. So it was
//     there when we asked, and its body is not deleted as long as the row is there, be
//     it past its time.
//  4. By a request that is replayed. Its row names the body, as a version does.
//
// The scan decides nothing for a page that has a row. What it read may be old by the
// time of the closer look, which asks again, and digests may collide: either costs a
// look, or leaves garbage for the next collection.
//
// The scan does decide for a page of which no row is left. Only the hash of its
// partition key is known, from the folder of its bodies, so its lease cannot be taken.
// But no lease of it is held either: the scan reads strongly, begins after the bodies
// were listed, and sees every row that is there throughout. A process that wrote a
// listed body and may still publish it held LOCK before the listing, and holds it
// until its publish puts META in its place, in one transaction; the scan reads LOCK
// before META, so it sees one of the two. So 1 cannot happen to a body that was listed,
// nor can 2 and 3, which need a row. That is why the bodies are listed before the rows
// are scanned. The other order, which could scan first and keep nothing of the listing,
// would have to trust the clocks for these bodies.
//
// The age that a body must have is a margin for clocks and for mistakes beyond all
// that, not what the argument rests on. What a visitor is served meanwhile is not
// touched: a reader that has read META and finds the body gone reads META again.
//
// If we crash, a lease expires, and the rest is found next time.

// CollectOptions adjust [Collect]. The zero value is useful.
type CollectOptions struct {
	// Grace is how old a body must be before it is deleted. At least an hour;
	// zero means DefaultGrace.
	Grace time.Duration
	// DryRun deletes nothing, and takes no leases: a body that it reports may
	// turn out to be needed.
	DryRun bool
	// Report is called for every body that was deleted, or would be, by the
	// goroutine that called Collect. It may be nil.
	Report func(Garbage)
	// Now is the wall clock, by which bodies are aged. Nil means time.Now.
	Now func() time.Time
}

// DefaultGrace is how old garbage is before it is deleted.
const DefaultGrace = 24 * time.Hour

// releaseTimeout bounds giving up a lease after the caller's context has ended.
const releaseTimeout = 5 * time.Second

// Garbage is a body that nothing names.
type Garbage struct {
	store.BodyInfo
	// PK is the partition that it belongs to; empty if no row of that is left.
	PK string
}

// Collected is what a collection came to.
type Collected struct {
	Bodies int   // deleted, or to be deleted
	Bytes  int64 // their length
	Kept   int   // bodies old enough that are named
	Young  int   // bodies that are not old enough to be looked at
	Busy   int   // pages with garbage that were left alone, since others had the lease
}

// ErrForeignBodies: the bodies do not belong to the pages.
var ErrForeignBodies = errors.New("the bodies are not those of this table")

// Collect deletes the bodies that no row of their page names: no entry, no kept
// version, no result of a request. It looks at nothing but bodies/<hash>/, where a
// Cache puts them, and takes the lease of a page before it deletes one of its
// bodies; pages whose lease is held are left for the next time. It may run beside
// any number of caches, and of itself. To several tables that share bodies it would
// be fatal: each table needs a folder, or a bucket and prefix, of its own.
//
// It lists all bodies, and then scans the table once, in parallel: on DynamoDB that is
// paid for as a strongly consistent scan. A page with garbage costs two reads of its
// rows, a lease, and a listing of its bodies more; bodies whose pages are forgotten
// cost a second listing of all. It keeps 16 bytes in memory of each body that is old
// enough, and scans the table once more for every 32 million of them. An error ends
// it, with what was done until then. [ErrForeignBodies]: none of the bodies belongs to
// a page of the table, which is then rather the wrong one. Nothing was deleted.
func Collect(ctx context.Context, meta store.MetaStore, bodies store.BodyStore, opts CollectOptions) (Collected, error) {
	if opts.Grace == 0 {
		opts.Grace = DefaultGrace
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Grace < time.Hour {
		return Collected{}, fmt.Errorf("collecting garbage: a grace period of %s is too short, at least an hour is needed", opts.Grace)
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
	meta   store.MetaStore
	bodies store.BodyStore
	opts   CollectOptions
	before time.Time // bodies that were made later are too young
	done   Collected

	// Of the scan alone, which runs beside the closer looks.
	known bool // a body of a page of the table was found
	kept  int  // bodies of pages that have no garbage
}

const (
	// maxCandidates bounds how many bodies are held in memory at once, as digests:
	// half a gigabyte. If there are more, the table is scanned several times.
	maxCandidates = 32 << 20
	// maxLook bounds how much garbage of a page is deleted in one collection. The
	// rest is found next time.
	maxLook = 10_000
	// lookers is how many pages are looked at at once.
	lookers = 16
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
	if err := c.each(ctx, func(ctx context.Context, look func(suspect) error) error { return c.scan(ctx, found, look) }); err != nil {
		return err
	}
	if !c.known {
		return fmt.Errorf("%w: none of %d bodies belongs to a page; if the table is the right one, "+
			"and all of its pages have expired, delete the bodies yourself", ErrForeignBodies, found.count)
	}
	if !found.orphans() {
		return nil
	}
	return c.each(ctx, func(ctx context.Context, look func(suspect) error) error { return c.listOrphans(ctx, found, look) })
}

// A suspect is a page that seems to have garbage, or a body of one that is
// forgotten.
type suspect struct {
	pk     string
	orphan store.BodyInfo // if pk is empty
}

// scan finds the pages that seem to have garbage.
func (c *collector) scan(ctx context.Context, found *candidates, look func(suspect) error) error {
	for page, err := range c.meta.ReferencedBodies(ctx) {
		if err != nil {
			return err
		}
		switch all, unnamed := found.see(page); {
		case all == 0:
			continue
		case unnamed == 0:
			c.kept += all
		default:
			if err := look(suspect{pk: page.PK}); err != nil {
				return err
			}
		}
		c.known = true
	}
	return nil
}

// listOrphans finds the candidates of pages of which the scan saw no row.
func (c *collector) listOrphans(ctx context.Context, found *candidates, look func(suspect) error) error {
	for info, err := range c.bodies.List(ctx, store.BodyRoot) {
		if err != nil {
			return err
		}
		if _, folder, ok := folderOfBody(info.Key); ok && found.orphaned(folder, info.Key) {
			if err := look(suspect{orphan: info}); err != nil {
				return err
			}
		}
	}
	return nil
}

// A looked is what came of a closer look.
type looked struct {
	pk      string
	deleted []store.BodyInfo
	kept    int
	busy    bool
	err     error
}

// each looks closer at all suspects that find hands to look, at several at once, and
// adds up and reports what came of it. The first error ends it.
func (c *collector) each(ctx context.Context, find func(ctx context.Context, look func(suspect) error) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	suspects, results := make(chan suspect), make(chan looked)
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
			results <- looked{err: err}
		}
	})
	for range lookers {
		working.Go(func() {
			for s := range suspects {
				results <- c.look(ctx, s)
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

// account adds up and reports what came of one look.
func (c *collector) account(r looked) {
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

// look deletes the garbage of a suspect.
func (c *collector) look(ctx context.Context, s suspect) looked {
	r := looked{pk: s.pk}
	if s.pk == "" {
		r.err = c.discard(ctx, []store.BodyInfo{s.orphan}, &r)
		return r
	}
	if r.err = c.partition(ctx, s.pk, &r); r.err != nil {
		r.err = fmt.Errorf("partition %s: %w", s.pk, r.err)
	}
	return r
}

// partition deletes the garbage of a page. That there is some is made sure without
// its lease first.
func (c *collector) partition(ctx context.Context, pk string, r *looked) error {
	names, err := c.meta.BodyKeys(ctx, pk)
	if err != nil {
		return err
	}
	garbage, err := c.list(ctx, pk, names, r)
	if err != nil {
		return err
	}
	if len(garbage) == 0 {
		return nil
	}
	if c.opts.DryRun {
		return c.discard(ctx, garbage, r)
	}
	// The deletions end with the lease: it is for the next collection to go on,
	// not for a visitor to wait.
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
		err = nil // the lease ended first
	}
	settle, cancelSettle := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancelSettle()
	return errors.Join(err, c.meta.Release(settle, lease))
}

// list returns the bodies of a page that are old enough and have none of the names.
func (c *collector) list(ctx context.Context, pk string, names []string, r *looked) (garbage []store.BodyInfo, err error) {
	for info, err := range c.bodies.List(ctx, store.BodyPrefix(pk)) {
		if err != nil {
			return nil, err
		}
		switch {
		case !info.ModifiedAt.Before(c.before):
		case isNamed(info, names):
			r.kept++
		default:
			garbage = append(garbage, info)
		}
		if len(garbage) == maxLook {
			return garbage, nil
		}
	}
	return garbage, nil
}

// leased deletes garbage under the lease of its page, of which only what is asked
// under it counts.
func (c *collector) leased(ctx context.Context, pk string, garbage []store.BodyInfo, r *looked) error {
	names, err := c.meta.BodyKeys(ctx, pk)
	if err != nil {
		return err
	}
	return c.discard(ctx, slices.DeleteFunc(garbage, func(info store.BodyInfo) bool { return isNamed(info, names) }), r)
}

// isNamed says whether one of the names is that of a body. Other services may name
// one by a URL that ends in its key.
func isNamed(info store.BodyInfo, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == info.Key || strings.HasSuffix(name, "/"+info.Key)
	})
}

// discard deletes bodies, unless that is only to be tried.
func (c *collector) discard(ctx context.Context, infos []store.BodyInfo, r *looked) error {
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
