package isr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/pause"
)

// Bodies are garbage once no row names them: their page was published anew, its
// rows have expired, or the process that wrote them never published. What deletes
// them must not delete one that a publish or a rollback is about to name. How a
// body comes to be named, and why that cannot happen to one that is deleted here:
//
//  1. By the first publish after it was written. That needs the lease under which
//     it was written, unbroken. We hold the lease of the page when we ask which
//     bodies its rows name, and delete only what was there before we took it: that
//     publish has happened, and its row is seen, or can never happen. So it is for
//     a publisher that was paused between the two, however long; and if we are the
//     ones that are paused, and others hold the lease meanwhile, what they write is
//     not on our list.
//  2. By the publish of an unchanged page, which names the body of the current entry
//     anew. It reads META under its own lease. If that was before ours, the publish
//     cannot happen any more; if it is after, META named the body when we asked: who
//     names it from then on has it from somebody who did.
//  3. By a rollback, which needs no lease. It demands that its version row is there,
//     and a version row is made by a publish alone, with a body of 1 or 2. So it was
//     there when we asked, and is not deleted as long as it is there, be it past its
//     time.
//  4. By a request that is replayed. Its row names the body, as a version does.
//
// A partition of which no row is left has no name: the folder of its bodies is
// known, by the hash, and its lease cannot be taken. But no lease of it is held
// either, since that would be a row, there throughout the listing of the
// partitions; the listing began after the bodies were seen. So 1 cannot happen, nor
// can 2 and 3, which need a row, to bodies that were seen before.
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
	// Report is called for every body that was deleted, or would be. It may be
	// nil.
	Report func(Garbage)
	// Now is the wall clock, by which bodies are aged. Nil means time.Now.
	Now func() time.Time
}

// DefaultGrace is how old garbage is before it is deleted.
const DefaultGrace = 24 * time.Hour

// Garbage is a body that nothing names.
type Garbage struct {
	BodyInfo
	// PK is the partition that it belongs to; empty if no row of that is left.
	PK string
}

// Collected is what a collection came to.
type Collected struct {
	Bodies int   // deleted, or to be deleted
	Bytes  int64 // their length
	Kept   int   // bodies old enough that are named
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
// It lists all bodies, and then all partitions: on DynamoDB that is paid for as a
// scan of the table. A page with a body that is old enough costs a read of its
// rows; garbage costs a lease. An error ends it, with what was done until then.
// [ErrForeignBodies]: none of the bodies belongs to a page of the table, which is
// then rather the wrong one. Nothing was deleted.
func Collect(ctx context.Context, meta MetaStore, bodies BodyStore, opts CollectOptions) (Collected, error) {
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
	if err := c.run(ctx); err != nil {
		return c.done, fmt.Errorf("collecting garbage: %w", err)
	}
	return c.done, nil
}

// A collector is one collection.
type collector struct {
	meta   MetaStore
	bodies BodyStore
	opts   CollectOptions
	before time.Time // bodies that were made later are too young
	done   Collected
}

// maxCandidates bounds how many bodies are held in memory at once. If there are
// more, the partitions are listed several times.
const maxCandidates = 1 << 20

func (c *collector) run(ctx context.Context) error {
	candidates, n := make(map[string][]BodyInfo), 0
	for info, err := range c.bodies.List(ctx, bodyRoot) {
		if err != nil {
			return err
		}
		folder, ok := bodyFolder(info.Key)
		if !ok || !info.ModifiedAt.Before(c.before) {
			continue
		}
		candidates[folder] = append(candidates[folder], info)
		if n++; n == maxCandidates {
			if err := c.sweep(ctx, candidates); err != nil {
				return err
			}
			clear(candidates)
			n = 0
		}
	}
	return c.sweep(ctx, candidates)
}

// bodyFolder is the folder of a page's bodies, which [bodyPrefix] made.
func bodyFolder(key string) (folder string, ok bool) {
	const hash = 64 // hex digits
	end := len(bodyRoot) + hash
	if len(key) <= end+1 || key[end] != '/' || strings.Trim(key[len(bodyRoot):end], "0123456789abcdef") != "" {
		return "", false
	}
	return key[:end+1], true
}

// sweep deletes the garbage among bodies, which are those of folders.
func (c *collector) sweep(ctx context.Context, candidates map[string][]BodyInfo) error {
	if len(candidates) == 0 {
		return nil
	}
	folders := len(candidates)
	for pk, err := range c.meta.Partitions(ctx) {
		if err != nil {
			return err
		}
		folder := bodyPrefix(pk)
		if infos := candidates[folder]; infos != nil {
			delete(candidates, folder) // a partition may be listed twice
			if err := c.partition(ctx, pk, infos); err != nil {
				return fmt.Errorf("partition %s: %w", pk, err)
			}
		}
	}
	if len(candidates) == folders {
		return fmt.Errorf("%w: of %d folders of bodies none belongs to a page; if the table is the right one, "+
			"and all of its pages have expired, delete the bodies yourself", ErrForeignBodies, folders)
	}
	for _, infos := range candidates {
		if err := c.discard(ctx, "", infos); err != nil {
			return err
		}
	}
	return nil
}

// partition deletes the garbage of a page. Most pages have none: that is seen
// without their lease.
func (c *collector) partition(ctx context.Context, pk string, infos []BodyInfo) error {
	garbage, err := c.unnamed(ctx, pk, infos)
	if err != nil {
		return err
	}
	c.done.Kept += len(infos) - len(garbage)
	if len(garbage) == 0 {
		return nil
	}
	if c.opts.DryRun {
		return c.discard(ctx, pk, garbage)
	}
	// The deletions end with the lease: it is for the next collection to go on,
	// not for a visitor to wait.
	held, cancel := context.WithTimeout(ctx, DefaultLease)
	defer cancel()
	lease, err := c.meta.Acquire(ctx, pk, DefaultLease, nil)
	if errors.As(err, new(*HeldError)) {
		c.done.Busy++
		return nil
	}
	if err != nil {
		return err
	}
	err = c.leased(held, pk, garbage)
	if held.Err() != nil && ctx.Err() == nil {
		err = nil // the lease ended first
	}
	settle, cancelSettle := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancelSettle()
	return errors.Join(err, c.meta.Release(settle, lease))
}

// leased deletes garbage under the lease of its page, of which only what was asked
// under it counts.
func (c *collector) leased(ctx context.Context, pk string, infos []BodyInfo) error {
	garbage, err := c.unnamed(ctx, pk, infos)
	if err != nil {
		return err
	}
	return c.discard(ctx, pk, garbage)
}

// unnamed returns the bodies that no row of their page names. Other services may
// name a body by a URL that ends in its key.
func (c *collector) unnamed(ctx context.Context, pk string, infos []BodyInfo) ([]BodyInfo, error) {
	names, err := c.meta.BodyKeys(ctx, pk)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(infos), func(info BodyInfo) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return name == info.Key || strings.HasSuffix(name, "/"+info.Key)
		})
	}), nil
}

// discard deletes bodies, unless that is only to be tried.
func (c *collector) discard(ctx context.Context, pk string, infos []BodyInfo) error {
	for _, info := range infos {
		if !c.opts.DryRun {
			if err := c.bodies.Delete(ctx, info.Key); err != nil {
				return err
			}
		}
		c.done.Bodies++
		c.done.Bytes += info.Length
		if c.opts.Report != nil {
			c.opts.Report(Garbage{BodyInfo: info, PK: pk})
		}
	}
	return nil
}

// collectNowAndThen deletes garbage at an interval until ctx ends.
func (c *Cache) collectNowAndThen(ctx context.Context) {
	for next := c.cfg.Collect / 10; pause.For(ctx, next) == nil; next = c.jitter(c.cfg.Collect) {
		done, err := Collect(ctx, c.meta, c.bodies, CollectOptions{Now: c.now})
		if err != nil && ctx.Err() == nil {
			c.log.Error("garbage could not be collected, trying again later", "error", err)
		}
		if done.Bodies > 0 {
			c.log.Info("collected garbage", "bodies", done.Bodies, "bytes", done.Bytes, "busy", done.Busy)
		}
	}
}
