package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// A disk keeps the bodies of an embedded store within a bound: it counts what is put
// and deleted, and makes room when that is too much.
type disk struct {
	store.BodyStore
	bytes atomic.Int64 // in footprints; of what this process put and deleted, and once it has counted, of all
	limit atomic.Int64 // 0 until it is known
	log   *slog.Logger

	// Of keep alone.
	collected time.Time // when garbage was collected last
	removed   int       // pages, since the last line of the log about them
	said      time.Time // when that was
}

var _ store.BodyStore = (*disk)(nil)

const (
	// leastDisk is the least bound that is chosen by itself.
	leastDisk = 1 << 30
	// roomEvery is how often a disk is looked at.
	roomEvery = time.Second
	// roomPause is how long a disk is left alone that no room could be made on.
	roomPause = time.Minute
	// garbageEvery is how often garbage is looked for when room is needed.
	garbageEvery  = 10 * time.Minute
	progressEvery = 10 * time.Second
)

func (d *disk) Put(ctx context.Context, key string, body []byte) error {
	err := d.BodyStore.Put(ctx, key, body)
	if err == nil {
		d.bytes.Add(gc.BodyFootprint(int64(len(body))))
	}
	return err
}

func (d *disk) Delete(ctx context.Context, key string) error {
	info, err := d.Stat(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := d.BodyStore.Delete(ctx, key); err != nil {
		return err
	}
	d.bytes.Add(-gc.BodyFootprint(info.Length))
	return nil
}

// full says that the bound is exceeded by an eighth: pages come faster than room is made
// for them. No new ones are stored until there is.
func (d *disk) full() bool {
	limit := d.limit.Load()
	return limit > 0 && d.bytes.Load() > limit+limit/8
}

// keep makes room whenever there is too little, until ctx ends. A bound of 0 is a tenth
// of the space in the folder that is free or ours, and at least leastDisk.
func (d *disk) keep(ctx context.Context, bound int64, folder string, cache *isr.Cache, meta gc.Forgetter) {
	if err := d.count(ctx); err != nil {
		if ctx.Err() == nil {
			d.log.Error("the bodies on disk could not be counted: --disk is not kept to", "error", err)
		}
		return
	}
	if bound == 0 {
		free, err := freeSpace(folder)
		if err != nil {
			d.log.Error("the free space on disk is not known: give a bound with --disk", "error", err)
			return
		}
		bound = max((free+d.bytes.Load())/10, leastDisk)
	}
	d.limit.Store(bound)
	d.log.Debug("bound of the disk", "bytes", bound, "used", d.bytes.Load())
	for wait := roomEvery; backoff.Wait(ctx, wait) == nil; {
		wait = roomEvery
		if d.bytes.Load() > bound {
			if err := d.makeRoom(ctx, cache, meta); err != nil && ctx.Err() == nil {
				d.log.Error("no room could be made on disk, trying again later", "error", err)
				wait = roomPause
			}
		}
	}
}

// count adds what was there before.
func (d *disk) count(ctx context.Context) error {
	total := int64(0)
	for info, err := range d.List(ctx, "") {
		if err != nil {
			return err
		}
		total += gc.BodyFootprint(info.Length)
	}
	// What was put meanwhile may count twice, until the next start.
	d.bytes.Add(total)
	return nil
}

// makeRoom frees a tenth of the disk, garbage first.
func (d *disk) makeRoom(ctx context.Context, cache *isr.Cache, meta gc.Forgetter) error {
	limit := d.limit.Load()
	goal := limit - limit/10
	if time.Since(d.collected) > garbageEvery {
		d.collected = time.Now()
		if _, err := gc.Collect(ctx, meta, d, gc.CollectOptions{Grace: time.Hour}); err != nil && !errors.Is(err, gc.ErrForeignBodies) {
			return err
		}
	}
	if d.bytes.Load() > goal {
		uses, wanted := cache.LastUses(), d.bytes.Load()-goal
		freed, err := gc.Evict(ctx, meta, d, gc.EvictOptions{
			Free:    wanted,
			LastUse: func(pk string) time.Time { return uses[pk] },
			Report:  func(gc.Evicted) { d.progress(1) },
		})
		if err == nil && freed < wanted {
			err = fmt.Errorf("%s of %s were freed: the rest is in use", bytesText(freed), bytesText(wanted))
		}
		if err != nil {
			return err
		}
	}
	d.progress(0)
	return nil
}

// progress tells of pages that were removed, in a line now and then: there may be
// thousands a second.
func (d *disk) progress(pages int) {
	if d.removed += pages; d.removed == 0 || time.Since(d.said) < progressEvery {
		return
	}
	d.log.Info("made room on disk: the least recently used pages were removed", "pages", d.removed,
		"used", bytesText(d.bytes.Load()), "bound", bytesText(d.limit.Load()))
	d.removed, d.said = 0, time.Now()
}

// freeSpace is how many bytes this user may still write to the file system of a
// folder.
func freeSpace(folder string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:unconvert // the types differ between systems
}
