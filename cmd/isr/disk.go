package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/metrics"
	"github.com/facetheory/isr/internal/pace"
	"github.com/facetheory/isr/store"
)

// A disk bounds the bodies of an embedded store: it counts the bytes that are put and
// deleted, and evicts pages when they exceed the bound.
type disk struct {
	*dirbody.Store
	bytes atomic.Int64 // footprints: of the bodies that this process put and deleted, and after count, of all
	limit atomic.Int64 // 0 until keep has set it
	pacer *pace.Pacer  // of listings and deletions
	log   *slog.Logger
	// metrics are set before keep is called.
	metrics *metrics.Metrics

	// Used by keep only.
	collected time.Time // last garbage collection
	removed   int       // pages evicted since the last log line
	said      time.Time // last log line
}

var (
	_ store.BodyStore    = (*disk)(nil)
	_ store.CachedReader = (*disk)(nil)
)

const (
	// leastDisk is the minimum of the default bound.
	leastDisk = 1 << 30
	// roomEvery is the interval between checks of the bound.
	roomEvery = time.Second
	// roomPause is the pause after a failed eviction.
	roomPause = time.Minute
	// garbageEvery is the minimum interval between garbage collections for room.
	garbageEvery  = 10 * time.Minute
	progressEvery = 10 * time.Second
)

func (d *disk) Put(ctx context.Context, key string, body []byte) error {
	err := d.Store.Put(ctx, key, body)
	if err == nil {
		d.bytes.Add(gc.BodyFootprint(int64(len(body))))
	}
	return err
}

func (d *disk) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		for info, err := range d.Store.List(ctx, prefix) {
			if !yield(info, err) {
				return
			}
			d.pacer.Step()
		}
	}
}

func (d *disk) Delete(ctx context.Context, key string) error {
	d.pacer.Step()
	info, err := d.Stat(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := d.Store.Delete(ctx, key); err != nil {
		return err
	}
	d.bytes.Add(-gc.BodyFootprint(info.Length))
	return nil
}

// full reports whether the bound is exceeded by an eighth: pages arrive faster than they
// are evicted. The cache then stores no new pages.
func (d *disk) full() bool {
	limit := d.limit.Load()
	return limit > 0 && d.bytes.Load() > limit+limit/8
}

// keep evicts pages whenever the bound is exceeded, until ctx is done. A bound of 0 means a
// tenth of the space that is free or used by the bodies, and at least leastDisk.
func (d *disk) keep(ctx context.Context, bound int64, folder string, cache *isr.Cache, meta gc.Forgetter) {
	if err := d.count(ctx); err != nil {
		if ctx.Err() == nil {
			d.log.Error("failed to count stored bodies: --disk is not enforced", "error", err)
		}
		return
	}
	if bound == 0 {
		free, err := freeSpace(folder)
		if err != nil {
			d.log.Error("failed to get free disk space: give a bound with --disk", "error", err)
			return
		}
		bound = max((free+d.bytes.Load())/10, leastDisk)
	}
	d.limit.Store(bound)
	d.log.Debug("disk bound", "bytes", bound, "used", d.bytes.Load())
	for wait := roomEvery; backoff.Wait(ctx, wait) == nil; {
		wait = roomEvery
		if d.bytes.Load() > bound {
			if err := d.makeRoom(ctx, cache, meta); err != nil && ctx.Err() == nil {
				d.log.Error("failed to evict pages from disk, retrying", "error", err, "in", roomPause)
				wait = roomPause
			}
		}
	}
}

// count adds the bodies of earlier processes.
func (d *disk) count(ctx context.Context) error {
	total := int64(0)
	for info, err := range d.List(ctx, "") {
		if err != nil {
			return err
		}
		total += gc.BodyFootprint(info.Length)
	}
	// Bodies that are put during the listing may count twice until the next start.
	d.bytes.Add(total)
	return nil
}

// makeRoom frees space down to nine tenths of the bound: garbage first, then the least
// recently used pages.
func (d *disk) makeRoom(ctx context.Context, cache *isr.Cache, meta gc.Forgetter) error {
	limit := d.limit.Load()
	goal := limit - limit/10
	if time.Since(d.collected) > garbageEvery {
		d.collected = time.Now()
		collected, err := gc.Collect(ctx, meta, d, gc.CollectOptions{Grace: time.Hour})
		d.metrics.Note(isr.Event{Kind: isr.EventCollected, Bytes: collected.Bytes})
		if err != nil && !errors.Is(err, gc.ErrForeignBodies) {
			return err
		}
	}
	if d.bytes.Load() > goal {
		uses, wanted := cache.LastUses(), d.bytes.Load()-goal
		freed, err := gc.Evict(ctx, meta, d, gc.EvictOptions{
			Free:    wanted,
			LastUse: func(pk string) time.Time { return uses[pk] },
			Report: func(gc.Evicted) {
				d.metrics.EvictedFromDisk()
				d.progress(1)
			},
		})
		if err == nil && freed < wanted {
			err = fmt.Errorf("freed %s of %s: the rest is in use", bytesText(freed), bytesText(wanted))
		}
		if err != nil {
			return err
		}
	}
	d.progress(0)
	return nil
}

// progress counts evicted pages and logs them every progressEvery, as there may be
// thousands a second.
func (d *disk) progress(pages int) {
	if d.removed += pages; d.removed == 0 || time.Since(d.said) < progressEvery {
		return
	}
	d.log.Info("evicted least recently used pages from disk", "pages", d.removed,
		"used", bytesText(d.bytes.Load()), "bound", bytesText(d.limit.Load()))
	d.removed, d.said = 0, time.Now()
}

// freeSpace returns the bytes that this user may still write to a folder's file system.
func freeSpace(folder string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:unconvert // the types differ between systems
}

// keepDisk keeps the embedded store within its bound until stop is called.
func (c *serveCommand) keepDisk(ctx context.Context, st *stores, cache *isr.Cache, m *metrics.Metrics, log *slog.Logger) (stop func()) {
	if st.disk == nil {
		return func() {}
	}
	st.disk.metrics = m
	bound := int64(0)
	if c.Disk != nil {
		bound = int64(*c.Disk)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { st.disk.keep(ctx, bound, c.Data, cache, st.meta) })
	return func() {
		cancel()
		keeping.Wait()
	}
}
