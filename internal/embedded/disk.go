package embedded

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/pace"
	"github.com/facetheory/isr/store"
)

// A Disk is the bodies of a folder, within a bound: it counts the bytes that are put and
// deleted, and evicts pages when they exceed the bound. All methods are safe for concurrent use;
// Keep must be called once at most.
type Disk struct {
	*dirbody.Store
	dir    string
	opened time.Time
	meta   gc.Forgetter
	pacer  *pace.Pacer // of listings and deletions
	log    *slog.Logger

	bytes    atomic.Int64 // footprints: of the bodies that this process put and deleted, and after count, of all
	counted  atomic.Bool
	bound    atomic.Int64 // 0: fallback
	fallback atomic.Int64 // 0 until the bodies are counted
	held     held
}

var (
	_ store.BodyStore    = (*Disk)(nil)
	_ store.CachedReader = (*Disk)(nil)
)

const (
	// LeastBound is the smallest bound that can be given, in bytes.
	LeastBound = 1 << 20
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

// Put implements [store.BodyStore].
func (d *Disk) Put(ctx context.Context, key string, body []byte) error {
	err := d.Store.Put(ctx, key, body)
	if err == nil {
		d.bytes.Add(gc.BodyFootprint(int64(len(body))))
	}
	return err
}

// List implements [store.BodyStore].
func (d *Disk) List(ctx context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		for info, err := range d.Store.List(ctx, prefix) {
			if !yield(info, err) {
				return
			}
			d.pacer.Step()
		}
	}
}

// Delete implements [store.BodyStore]. While deletions are held, the body is deleted later.
func (d *Disk) Delete(ctx context.Context, key string) error {
	if d.held.add(key) {
		return nil
	}
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

// SetBound sets the bound in bytes, which Keep observes from its next check on. Zero means a tenth
// of the space that is free or used by the bodies when they are counted, and at least 1 GiB.
func (d *Disk) SetBound(bytes int64) { d.bound.Store(bytes) }

// Usage returns the bytes that the bodies use, and the bound, which is zero until Keep has counted
// the bodies.
func (d *Disk) Usage() (bytes, bound int64) {
	bytes = d.bytes.Load()
	if !d.counted.Load() {
		return bytes, 0
	}
	if bound = d.bound.Load(); bound == 0 {
		bound = d.fallback.Load()
	}
	return bytes, bound
}

// Full reports whether the bound is exceeded by an eighth: pages arrive faster than they
// are evicted. The cache should then store no new pages (Config.Full of package isr).
func (d *Disk) Full() bool {
	bytes, bound := d.Usage()
	return bound > 0 && bytes > bound+bound/8
}

// KeepOptions are the options of [Disk.Keep].
type KeepOptions struct {
	// LastUses returns when pages were last used, by partition key, as Cache.LastUses of package isr does.
	LastUses func() map[string]time.Time
	// Evicted is called for each page that was evicted; Collected after each garbage collection,
	// with the bytes that it freed. Nil means not.
	Evicted   func()
	Collected func(bytes int64)
}

// Keep evicts pages whenever the bound is exceeded, until ctx is done.
func (d *Disk) Keep(ctx context.Context, opts KeepOptions) {
	if err := d.count(ctx); err != nil {
		if ctx.Err() == nil {
			d.log.Error("failed to count stored bodies: the bound of the disk is not enforced", "folder", d.dir, "error", err)
		}
		return
	}
	bytes, bound := d.Usage()
	d.log.Debug("disk bound", "folder", d.dir, "bytes", bound, "used", bytes)
	k := keeper{Disk: d, opts: opts}
	for wait := roomEvery; backoff.Wait(ctx, wait) == nil; {
		wait = roomEvery
		if bytes, bound := d.Usage(); bound > 0 && bytes > bound {
			if err := k.makeRoom(ctx, bound); err != nil && ctx.Err() == nil {
				d.log.Error("failed to evict pages from disk, retrying", "folder", d.dir, "error", err, "in", roomPause)
				wait = roomPause
			}
		}
	}
}

// count adds the bodies of earlier processes, and computes the default bound.
func (d *Disk) count(ctx context.Context) error {
	total := int64(0)
	for info, err := range d.List(ctx, "") {
		if err != nil {
			return err
		}
		if info.ModifiedAt.Before(d.opened) { // Put has counted the others
			total += gc.BodyFootprint(info.Length)
		}
	}
	d.bytes.Add(total)
	free, err := freeSpace(d.dir)
	if err != nil {
		d.log.Error("failed to get free disk space: only a bound that is given is enforced", "folder", d.dir, "error", err)
	} else {
		d.fallback.Store(max((free+d.bytes.Load())/10, leastDisk))
	}
	d.counted.Store(true)
	return nil
}

// A keeper is the state of Keep.
type keeper struct {
	*Disk
	opts      KeepOptions
	collected time.Time // last garbage collection
	removed   int       // pages evicted since the last log line
	said      time.Time // last log line
}

// makeRoom frees space down to nine tenths of the bound: garbage first, then the least
// recently used pages.
func (k *keeper) makeRoom(ctx context.Context, bound int64) error {
	goal := bound - bound/10
	if time.Since(k.collected) > garbageEvery {
		k.collected = time.Now()
		collected, err := gc.Collect(ctx, k.meta, k.Disk, gc.CollectOptions{Grace: time.Hour})
		if k.opts.Collected != nil {
			k.opts.Collected(collected.Bytes)
		}
		if err != nil && !errors.Is(err, gc.ErrForeignBodies) {
			return err
		}
	}
	if wanted := k.bytes.Load() - goal; wanted > 0 {
		uses := k.opts.LastUses()
		freed, err := gc.Evict(ctx, k.meta, k.Disk, gc.EvictOptions{
			Free:    wanted,
			LastUse: func(pk string) time.Time { return uses[pk] },
			Report: func(gc.Evicted) {
				if k.opts.Evicted != nil {
					k.opts.Evicted()
				}
				k.progress(1, bound)
			},
		})
		if err == nil && freed < wanted {
			err = fmt.Errorf("freed %d of %d bytes: the rest is in use", freed, wanted)
		}
		if err != nil {
			return err
		}
	}
	k.progress(0, bound)
	return nil
}

// progress counts evicted pages and logs them every progressEvery, as there may be
// thousands a second.
func (k *keeper) progress(pages int, bound int64) {
	if k.removed += pages; k.removed == 0 || time.Since(k.said) < progressEvery {
		return
	}
	k.log.Info("evicted least recently used pages from disk", "pages", k.removed, "used", k.bytes.Load(), "bound", bound)
	k.removed, k.said = 0, time.Now()
}

// freeSpace returns the bytes that this user may still write to a folder's file system.
func freeSpace(folder string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(folder, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Bsize), nil //nolint:unconvert // the types differ between systems
}
